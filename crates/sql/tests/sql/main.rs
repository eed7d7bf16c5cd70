//! Conditions and queries, a theme each. One program, as linking one takes longer than running it.

mod fixtures;
mod arithmetic;
mod columns;
mod condition;
mod deletes;
mod files;
mod floats;
mod groupings;
mod joins;
mod keys;
mod long_texts;
mod lists;
mod memberships;
mod moments;
mod optimizers;
mod panics;
mod parameters;
mod percentiles;
mod query;
mod refusals;
mod windows;
