//! What was drawn, and what it was drawn from.

/// So large that draws without replacement are as good as with.
pub(super) const ENDLESS_POPULATION: u64 = 1 << 60;

/// What the sample is drawn from.
///
/// Drawing without replacement from a finite population leaves less to be uncertain about; when all of it is drawn, the
/// answer is [`Method::Exact`](crate::interval::Method::Exact).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Design {
    /// Size of the population when draws are without replacement; `None` with replacement, or if unknown.
    pub population: Option<u64>,
    /// How many rows were drawn, whether or not they belong to the group or hold a number.
    pub drawn: u64,
}

impl Design {
    pub(super) fn is_exhausted(&self) -> bool {
        self.population == Some(self.drawn)
    }

    /// The share of the population that is left to draw: 1 if it is endless.
    pub(super) fn share_left(&self) -> f64 {
        self.population.map_or(1.0, |all| 1.0 - self.drawn as f64 / all as f64)
    }

    /// How many draws with replacement would give a mean of the same variance: `drawn / (1 - drawn / population)`.
    pub(super) fn effective_draws(&self) -> f64 {
        self.effective_draws_leaving(0.0)
    }

    /// The same, as if at least `rest_min` rows of the population were left to draw.
    pub(super) fn effective_draws_leaving(&self, rest_min: f64) -> f64 {
        let drawn = self.drawn as f64;
        self.population.map_or(drawn, |all| {
            let rest = ((all - self.drawn) as f64).max(rest_min);
            drawn * (all as f64 / rest)
        })
    }

    pub(super) fn check(&self, counted: u64) {
        assert!(
            self.population.is_none_or(|all| self.drawn <= all),
            "more rows drawn than there are: {self:?}"
        );
        assert!(counted <= self.drawn, "{counted} rows counted of {} drawn", self.drawn);
    }
}
