//! The share of a population that lies in groups of which no draw was met, from above.
//!
//! A draw meets a new group with the chance `u` that the rows left in groups not met have among all rows left. Let `v` be the
//! share of *all* rows that lie in groups not met at the end. It is at most `u` at every earlier draw: groups not met only become
//! fewer, and so do the rows left. So bets that a candidate share is too large, which gain where a draw meets a known group, gain
//! less against `v` than they would against each `u`; and these are fair. By Ville's inequality the candidates
//! that are not refuted hold `v` at all looks together, with an exact chance, whatever the groups. (Bets as in
//! [`betting`](super::betting). The estimate that belongs to it is that of Good 1953; what is known of its error, as in
//! McAllester and Schapire 2000, wants many more draws.)
//!
//! Early draws meet many new groups and say little of the end. So wealth is also shared among the rounds of drawing: each has
//! a part that stays aside until it begins.

use crate::interval::betting::{STAKES, log_of_shared};
use crate::interval::confidence::Confidence;

/// Finds the end to one part in a billion of all rows; it is rounded outwards.
const BISECTIONS: u32 = 30;

/// How many draws of each round met a group for the first time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewGroups {
    rounds: Vec<Round>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Round {
    draws: u64,
    new: u64,
}

impl NewGroups {
    /// Takes a round of draws, of which some met a group for the first time. Draws that belong to no group are left out.
    ///
    /// # Panics
    /// If more draws met new groups than there are.
    pub fn push(&mut self, draws: u64, new: u64) {
        assert!(new <= draws, "{new} new groups in {draws} draws");
        self.rounds.push(Round { draws, new });
    }

    /// The upper end for the share of rows in groups not met; at all looks together.
    pub fn unmet_share_max(&self, confidence: Confidence) -> f64 {
        let log_wealth_max = -confidence.alpha().ln();
        let (mut refuted, mut standing) = (1.0f64, 0.0);
        for _ in 0..BISECTIONS {
            let middle = refuted.midpoint(standing);
            if self.log_wealth(middle) >= log_wealth_max {
                refuted = middle;
            } else {
                standing = middle;
            }
        }
        refuted
    }

    /// Logarithm of what bets against a share of `share` or more, which is below 1, have made of 1.
    fn log_wealth(&self, share: f64) -> f64 {
        let of_known = STAKES.map(|stake| (stake * (share / (1.0 - share))).ln_1p());
        let of_new = STAKES.map(|stake| (-stake).ln_1p());
        let (mut draws, mut new) = (0.0, 0.0);
        let mut wealth = 0.0;
        // From the last round back, each as if bets had begun with it.
        for (number, round) in self.rounds.iter().enumerate().rev() {
            draws += round.draws as f64;
            new += round.new as f64;
            let mut logarithms = [0.0; STAKES.len()];
            for (stake, logarithm) in logarithms.iter_mut().enumerate() {
                *logarithm = (draws - new) * of_known[stake];
                if new > 0.0 {
                    *logarithm += new * of_new[stake];
                }
            }
            let part = 1.0 / ((number + 1) * (number + 2)) as f64;
            wealth += part * log_of_shared(&logarithms).exp();
        }
        wealth.ln()
    }
}
