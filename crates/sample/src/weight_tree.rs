//! [`WeightTree`]: draws by weight without replacement, from weights that are all known.

use crate::rng::Rng;

/// Items with weights, of which one after the other is drawn with a probability in proportion to its weight among those that are left.
///
/// A binary indexed tree of sums (Fenwick, "A new data structure for cumulative frequency tables", 1994). Holds 24 bytes per item.
///
/// ```
/// use drillcore_sample::{Rng, WeightTree};
///
/// let mut tree = WeightTree::new(vec![3, 0, 5]);
/// let mut rng = Rng::keyed(7, 0);
/// let mut drawn = [tree.draw(&mut rng), tree.draw(&mut rng)];
/// drawn.sort();
/// assert_eq!((drawn, tree.total()), ([0, 2], 0));
/// ```
#[derive(Debug, Clone)]
pub struct WeightTree {
    weights: Vec<u64>,
    /// `sums[i]` covers the items up to the `i`-th, counted from 1, as many as the lowest set bit of `i` says.
    sums: Vec<u128>,
    total: u128,
}

impl WeightTree {
    /// Some items, by their weights. O(items).
    pub fn new(weights: Vec<u64>) -> WeightTree {
        let mut sums = vec![0u128; weights.len() + 1];
        let mut total = 0;
        for (i, weight) in weights.iter().enumerate() {
            total += u128::from(*weight);
            sums[i + 1] += u128::from(*weight);
            let parent = (i + 1) + ((i + 1) & (i + 1).wrapping_neg());
            if parent < sums.len() {
                sums[parent] += sums[i + 1];
            }
        }
        WeightTree { weights, sums, total }
    }

    /// The weight of the items that are left.
    pub fn total(&self) -> u128 {
        self.total
    }

    /// The number of an item, which is taken out. O(log items).
    ///
    /// # Panics
    /// If [`WeightTree::total`] is 0.
    pub fn draw(&mut self, rng: &mut Rng) -> usize {
        let mut unit = rng.below_u128(self.total);
        let mut at = 0;
        let mut step = (self.sums.len() - 1).next_power_of_two();
        while step > 0 {
            if at + step < self.sums.len() && self.sums[at + step] <= unit {
                at += step;
                unit -= self.sums[at];
            }
            step /= 2;
        }
        let weight = u128::from(self.weights[at]);
        let mut node = at + 1;
        while node < self.sums.len() {
            self.sums[node] -= weight;
            node += node & node.wrapping_neg();
        }
        self.total -= weight;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goodness::chi_square_p_value;

    #[test]
    fn each_item_with_a_weight_is_drawn_once() {
        for len in [1, 2, 3, 7, 8, 9, 100] {
            let weights: Vec<u64> = (0..len).map(|item| item * item % 5).collect();
            let with_weight = weights.iter().filter(|weight| **weight > 0).count();
            let mut left: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
            let mut tree = WeightTree::new(weights.clone());
            let mut rng = Rng::keyed(len, 1);
            let mut is_drawn = vec![false; len as usize];
            for _ in 0..with_weight {
                assert_eq!(tree.total(), left);
                let item = tree.draw(&mut rng);
                assert!(weights[item] > 0 && !std::mem::replace(&mut is_drawn[item], true));
                left -= u128::from(weights[item]);
            }
            assert_eq!(tree.total(), 0);
        }
    }

    const WEIGHTS: [u64; 4] = [1, 2, 3, 10];

    /// Whether firsts and seconds come as often as their weights say.
    fn p_value(second: fn(WeightTree, usize, &mut Rng) -> usize) -> f64 {
        const DRAWS: u64 = 60_000;
        let total: u64 = WEIGHTS.iter().sum();
        let mut counts = [[0u64; 4]; 4];
        let mut rng = Rng::keyed(20_261, 2);
        for _ in 0..DRAWS {
            let mut tree = WeightTree::new(WEIGHTS.to_vec());
            let first = tree.draw(&mut rng);
            counts[first][second(tree, first, &mut rng)] += 1;
        }
        let pairs = || (0..4).flat_map(|a| (0..4).map(move |b| (a, b))).filter(|(a, b)| a != b);
        let observed: Vec<u64> = pairs().map(|(a, b)| counts[a][b]).collect();
        let chance = |(a, b): (usize, usize)| {
            let [first, second] = [a, b].map(|item| WEIGHTS[item] as f64);
            first / total as f64 * second / (total as f64 - first)
        };
        let expected: Vec<f64> = pairs().map(|pair| DRAWS as f64 * chance(pair)).collect();
        chi_square_p_value(&observed, &expected)
    }

    #[test]
    fn items_are_drawn_by_their_weight_among_those_that_are_left() {
        assert!(p_value(|mut tree, _, rng| tree.draw(rng)) > 1e-3);
        let without_weights = |_, first, rng: &mut Rng| {
            let mut left = vec![1; WEIGHTS.len()];
            left[first] = 0;
            WeightTree::new(left).draw(rng)
        };
        assert!(p_value(without_weights) < 1e-9);
    }
}
