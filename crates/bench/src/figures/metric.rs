//! What is measured.

/// A kind of figure. Its name and unit are what JSON lines say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    pub name: &'static str,
    pub unit: &'static str,
    pub better: Better,
}

/// Which of two figures is the better one, if any is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
    Neither,
}

impl Metric {
    pub const fn rate(name: &'static str, unit: &'static str) -> Metric {
        Metric { name, unit, better: Better::Higher }
    }

    pub const fn time(name: &'static str) -> Metric {
        Metric { name, unit: "µs", better: Better::Lower }
    }

    pub const fn count(name: &'static str, unit: &'static str) -> Metric {
        Metric { name, unit, better: Better::Neither }
    }

    /// How many times better `value` is than `peer`.
    pub fn ratio(&self, value: f64, peer: f64) -> Option<f64> {
        match self.better {
            Better::Higher => Some(value / peer),
            Better::Lower => Some(peer / value),
            Better::Neither => None,
        }
    }
}

/// The unit of [`Metric::time`].
pub fn micros(seconds: f64) -> f64 {
    seconds * 1e6
}

/// The value below which a share of the values lies, at least one; sorts them.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share).round() as usize]
}
