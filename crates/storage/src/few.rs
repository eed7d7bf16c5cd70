//! Lists that are short.

use smallvec::SmallVec;

/// A list that mostly has one element, and then takes no memory of its own: a cached row should cost little else.
pub type Few<T> = SmallVec<[T; 1]>;
