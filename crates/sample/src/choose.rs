//! Which ordinals a sample takes: [`WithReplacement`] and [`WithoutReplacement`].
//!
//! Both draw uniformly from `[0, population)`, one number at a time or many, and can always be continued:
//! every prefix of the numbers drawn is itself a sample of its size. A run depends on the generator alone,
//! not on how the draws were split over calls. What the numbers stand for is left to the caller.

mod displaced;
#[cfg(test)]
mod tests;

use self::displaced::Displaced;
use crate::rng::Rng;

/// Endless independent draws: each is uniform, whatever was drawn before.
#[derive(Debug, Clone, Copy)]
pub struct WithReplacement {
    population: u64,
}

impl WithReplacement {
    /// Draws from `[0, population)`.
    ///
    /// # Panics
    /// If the population is empty: the caller reports an empty selection before it draws.
    pub fn new(population: u64) -> WithReplacement {
        assert!(population > 0, "nothing to draw from");
        WithReplacement { population }
    }

    /// One more number, which may have come before. Allocates nothing.
    #[inline]
    pub fn draw(&mut self, rng: &mut Rng) -> u64 {
        rng.below(self.population)
    }

    /// Appends `n` more numbers to `out`, in draw order.
    pub fn draw_into(&mut self, rng: &mut Rng, n: usize, out: &mut Vec<u64>) {
        out.extend((0..n).map(|_| rng.below(self.population)));
    }
}

/// Draws of distinct numbers in uniformly random order, until the population is exhausted.
///
/// The incremental shuffle of Fisher and Yates (Durstenfeld 1964), done on an array that holds each number at its
/// own place and is stored only where it no longer does. Memory: none on the heap for the first
/// sixteen draws, then a hash table over the drawn, and one array of the rest once a quarter of the population
/// is drawn or asked for, which takes no more bytes and less time.
#[derive(Debug, Clone)]
pub struct WithoutReplacement {
    population: u64,
    /// How many numbers are drawn; also the place where the undrawn part of the shuffled array begins.
    drawn: u64,
    displaced: Displaced,
}

impl WithoutReplacement {
    /// Draws from `[0, population)`, which may be empty. Allocates nothing.
    pub fn new(population: u64) -> WithoutReplacement {
        WithoutReplacement { population, drawn: 0, displaced: Displaced::none() }
    }

    /// How many numbers are not drawn yet.
    pub fn remaining(&self) -> u64 {
        self.population - self.drawn
    }

    /// One more number, uniform among those not drawn yet; `None` when all are drawn.
    #[inline]
    pub fn draw(&mut self, rng: &mut Rng) -> Option<u64> {
        let remaining = self.remaining();
        if remaining == 0 {
            return None;
        }
        Some(self.take(rng.below(remaining)))
    }

    /// Appends up to `n` more numbers to `out`, in draw order, and says how many: fewer than `n` only when the
    /// population is exhausted.
    ///
    /// Gives the same numbers as `n` calls of [`WithoutReplacement::draw`], with memory taken in one step.
    pub fn draw_into(&mut self, rng: &mut Rng, n: usize, out: &mut Vec<u64>) -> usize {
        let n = usize::try_from(self.remaining()).map_or(n, |remaining| n.min(remaining));
        self.displaced.reserve(self.drawn, n, self.population);
        out.reserve(n);
        for _ in 0..n {
            let offset = rng.below(self.remaining());
            out.push(self.take(offset));
        }
        n
    }

    /// Takes the number at `offset` places past the drawn part, and closes the gap with the number at its front.
    fn take(&mut self, offset: u64) -> u64 {
        debug_assert!(offset < self.remaining());
        self.displaced.make_room(self.drawn, self.population);
        let number = self.displaced.replace_by_front(self.drawn, self.drawn + offset);
        self.drawn += 1;
        number
    }
}
