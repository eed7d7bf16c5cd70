//! [`Interval`]: how far an estimate can be from the truth.
//!
//! Two families, which differ in how the drawing stops. [`mean_t`] and [`share_exact`] hold for a number of draws fixed
//! beforehand, looked at once. [`mean_sequence_bounded`], [`mean_sequence`] and [`share_sequence`] hold at *all* looks together,
//! so drawing may stop when the interval is small enough, at the price of half again the width or more.
//! For intervals that hold together with others, [`Confidence::spending`] divides what may go wrong, and [`group_share`] and
//! [`group_share_sequence`] do it for groups that were not known before they were drawn; [`NewGroups`] says how many rows may lie in
//! groups not met. All take uniform draws and know the finite population they come from.
//! Those for means lean on the central limit theorem, unless bounds of the numbers are known: heavy tails want many draws.
//! Those for shares are exact. When all of a population is drawn, the answer is a number
//! without error (NaN if there is no row to take a mean or share of).
//! What the numbers mean, and which rows count as drawn, is left to the caller.

mod beta_binomial;
mod bounded;
mod confidence;
mod design;
mod error_bars;
mod hypergeometric;
mod quantile;
mod tuning;

mod mean;
mod share;

mod betting;
mod new_groups;

mod order_statistics;
mod ratio;
mod total;
mod variance;

#[cfg(test)]
mod tests;

pub use self::betting::{mean_sequence_bounded, variance_sequence_bounded};
pub use self::bounded::{BoundedNumbers, Bounds};
pub use self::confidence::{Confidence, ConfidenceError};
pub use self::design::Design;
pub use self::error_bars::{Interval, Method};
pub use self::mean::{
    SEQUENCE_COUNT_MIN, is_heavy_tailed, mean_sequence, mean_t, mean_t_or_bounded,
};
pub use self::new_groups::NewGroups;
pub use self::order_statistics::{
    quantile_of, quantile_of_repeated, quantile_of_unsorted, quantile_ranked, quantile_sequence,
};
pub use self::ratio::{ratio_sequence, ratio_sequence_bounded, ratio_t, ratio_t_or_bounded};
pub use self::share::{group_share, group_share_sequence, share_exact, share_sequence};
pub use self::total::{sum_sequence, sum_sequence_bounded, sum_t};
pub use self::variance::{variance_sequence, variance_t};
