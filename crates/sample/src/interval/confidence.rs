//! How often an interval holds the truth.

/// How often an interval has to contain the truth: strictly between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Confidence(f64);

/// A confidence that is no probability strictly between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("confidence must be between 0 and 1, such as 0.95; got {found}")]
pub struct ConfidenceError {
    /// The number given.
    pub found: f64,
}

impl Confidence {
    /// Checks that `confidence` lies strictly between 0 and 1; NaN does not.
    pub fn new(confidence: f64) -> Result<Confidence, ConfidenceError> {
        if confidence > 0.0 && confidence < 1.0 {
            Ok(Confidence(confidence))
        } else {
            Err(ConfidenceError { found: confidence })
        }
    }

    /// The confidence as a number.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The confidence that leaves only a share of the chance for the truth to lie outside: `1 / k` for each of `k`
    /// intervals that have to hold together (Bonferroni). Below 1, however small the share.
    ///
    /// # Panics
    /// If `share` lies outside of 0 to 1.
    pub fn spending(self, share: f64) -> Confidence {
        assert!((0.0..=1.0).contains(&share), "{share} is no share");
        Confidence((1.0 - self.alpha() * share).min(1.0 - f64::EPSILON))
    }

    /// The chance left for the truth to lie outside.
    pub(super) fn alpha(self) -> f64 {
        1.0 - self.0
    }
}
