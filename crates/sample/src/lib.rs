//! Chance: which ordinals a sample takes, and how far an estimate from it can be trusted.
//!
//! The crate knows populations, ordinals, counts and numbers. It knows no rows, files or columns: the engine
//! turns a question into a population of `n` selected rows, draws numbers from it here, and maps them back
//! to pieces with [`PrefixSums`]. All chance comes from an [`Rng`] that the caller passes in, so one seed gives
//! one run, and nothing here reads a clock or the operating system.
//!
//! From the ground up:
//!
//! - [`rng`]: a keyed 64-bit generator, exactly uniform integers
//! - [`choose`]: ordinals with and without replacement
//! - [`weight_tree`]: items by weight, without replacement
//! - [`prefix_sums`]: from a position in the whole selection to a piece and an ordinal inside it
//! - [`moments`]: running mean and variance
//! - [`pair_moments`]: the same of pairs of numbers
//! - [`interval`]: error bars for means, shares, sums, ratios, variances and quantiles, for a fixed number of draws or for all looks together
//! - [`goodness`]: tests that tell a fair sampler from a biased one

#![forbid(unsafe_code)]

pub mod rng;

pub mod choose;
pub mod weight_tree;
pub mod prefix_sums;

pub mod moments;
pub mod pair_moments;

pub mod interval;

pub mod goodness;

pub use choose::{WithReplacement, WithoutReplacement};
pub use goodness::{chi_square_p_value, never_drawn_p_value};
pub use interval::{
    Confidence, ConfidenceError, Design, Interval, Method, mean_sequence, mean_sequence_bounded,
    mean_t, share_exact, share_sequence,
};
pub use moments::Moments;
pub use prefix_sums::PrefixSums;
pub use rng::Rng;
pub use weight_tree::WeightTree;
