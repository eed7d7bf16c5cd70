//! Rules that change a plan where DataFusion's own answer would be wrong, or take memory without a bound.

pub mod plan_schema;
pub mod clock_times;
pub mod one_nan;
pub mod constants;
pub mod finer_times;
pub mod compared_literals;
pub mod compared_decimals;
pub mod computed_lists;
pub mod exact_lists;
pub mod null_safe_joins;
pub mod correlated_subqueries;
pub mod subquery_names;
pub mod unknown_memberships;
pub mod computed_keys;
pub mod window_frames;
pub mod union_names;
pub mod optimizers;
