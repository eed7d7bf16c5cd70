//! What is drawn is drawn fairly, and intervals hold what they promise; each with a biased twin that fails.

mod events;
mod figures;
mod intervals;
mod intervals_at_a_width;
mod statistics;
