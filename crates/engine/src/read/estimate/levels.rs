//! How sure each interval of an estimate must be.
//!
//! By itself each has the confidence asked for. *Together* they share the chance to be wrong: first the things
//! that are estimated, then the groups of each. That is Bonferroni's division, valid whatever depends on
//! what, as long as the division is by a number that does not depend on the draws. The number of groups that the draws
//! found does, so there:
//!
//! - counts are judged by [`group_share`](drillcore_sample::interval::group_share), which needs no number of groups;
//! - averages, and what else is made of the numbers of a group, are divided by the groups met. Given which draw belongs to which group, the numbers drawn of each are a
//!   uniform sample of its rows: what they show cannot have changed the division. Over many looks the
//!   number grows, so there each look spends what the earlier ones left, and a group keeps what it got.
//!
//! `docs/sampling.md` has the argument at length.

use drillcore_sample::interval::{Confidence, SEQUENCE_COUNT_MIN};

use crate::error::{Error, Result};
use crate::read::estimate::plan::{EstimatePlan, Measure};
use crate::read::estimate::request::EstimateRequest;
use crate::read::estimate::tally::Tally;

/// Whether an interval will be looked at once, after a number of draws that did not depend on it.
#[derive(Clone, Copy, PartialEq)]
pub enum Look {
    /// One of several: it must hold together with all others.
    Running,
    Last,
}

/// The numbers that a t interval needs.
const T_COUNT_MIN: u64 = 2;

/// What each interval may spend of the chance to be wrong.
pub struct Levels {
    confidence: Confidence,
    /// How many things are estimated, if their intervals are to hold together.
    together: Option<usize>,
    /// One per aggregate.
    spent: Vec<Spent>,
}

/// What looks so far have spent on the groups of one measure.
#[derive(Clone, Default)]
struct Spent {
    looks: u64,
    /// Of each group; 0 as long as it has no interval.
    share_of: Vec<f64>,
}

impl Levels {
    pub fn new(request: &EstimateRequest, plan: &EstimatePlan, tally: &Tally) -> Result<Levels> {
        let confidence =
            Confidence::new(request.confidence).map_err(|e| Error::invalid(e.to_string()))?;
        // Asked twice, a thing is estimated once.
        let is_new = |at: usize| {
            let measure = plan.aggregates[at].1;
            let is_known = measure == Measure::Count && tally.knows_counts();
            !is_known && plan.aggregates[..at].iter().all(|(_, other)| *other != measure)
        };
        let things = (0..plan.aggregates.len()).filter(|&at| is_new(at)).count();
        let together = request.simultaneous.then_some(things.max(1));
        Ok(Levels { confidence, together, spent: vec![Spent::default(); plan.aggregates.len()] })
    }

    pub fn confidence(&self) -> Confidence {
        self.confidence
    }

    pub fn are_together(&self) -> bool {
        self.together.is_some()
    }

    /// Of a count; of the counts of all groups, where these are found by drawing.
    pub fn of_count(&self) -> Confidence {
        match self.together {
            None => self.confidence,
            Some(things) => self.confidence.spending(1.0 / things as f64),
        }
    }

    /// Of what an aggregate makes of the values of each group, by the number of the group.
    pub fn of_values(
        &mut self,
        tally: &Tally,
        aggregate: usize,
        slot: usize,
        groups: usize,
        look: Look,
    ) -> Vec<Confidence> {
        let Some(things) = self.together else { return vec![self.confidence; groups] };
        let all_alike = |count: usize| vec![1.0 / count.max(1) as f64; groups];
        let shares = match (tally.known_groups(), look) {
            (Some(count), _) => all_alike(count),
            (None, Look::Last) => all_alike(tally.groups_with(slot, T_COUNT_MIN).count()),
            (None, Look::Running) => self.spent[aggregate].shares(tally, slot, groups),
        };
        let of_share = |share: f64| self.confidence.spending(share / things as f64);
        shares.into_iter().map(of_share).collect()
    }
}

impl Spent {
    /// A group has an interval from a number of draws on: the `k`-th look that finds such groups shares
    /// `1 / k (k + 1)` among them, and that adds up to 1.
    fn shares(&mut self, tally: &Tally, slot: usize, groups: usize) -> Vec<f64> {
        self.share_of.resize(groups, 0.0);
        let is_new = |group: &usize| self.share_of[*group] == 0.0;
        let new: Vec<usize> = tally.groups_with(slot, SEQUENCE_COUNT_MIN).filter(is_new).collect();
        if !new.is_empty() {
            self.looks += 1;
            let share = 1.0 / (self.looks * (self.looks + 1)) as f64 / new.len() as f64;
            new.into_iter().for_each(|group| self.share_of[group] = share);
        }
        self.share_of.clone()
    }
}
