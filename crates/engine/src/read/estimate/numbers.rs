//! What some rows make of a figure when all of them count: [`Whole`], of rows that were read or drawn to the last.

use drillcore_sample::interval::{quantile_of_repeated, quantile_of_unsorted};
use drillcore_sample::moments::{Moments, sum_in_lanes};

use crate::read::estimate::distinct::Distinct;
use crate::read::estimate::plan::{Figure, Slot};
use crate::schema::number::Number;

/// A sum of floats that loses less than adding them one by one does (Neumaier 1974).
#[derive(Debug, Clone, Copy, Default)]
struct CompensatedSum {
    sum: f64,
    /// What rounding lost of it so far.
    lost: f64,
}

impl CompensatedSum {
    #[inline]
    fn add(&mut self, number: f64) {
        let sum = self.sum + number;
        self.lost += if self.sum.abs() >= number.abs() {
            (self.sum - sum) + number
        } else {
            (number - sum) + self.sum
        };
        self.sum = sum;
    }

    fn merge(&mut self, other: &CompensatedSum) {
        self.add(other.sum);
        self.lost += other.lost;
    }
}

/// A sum that loses nothing of integers, and little of floats.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExactSum {
    whole: i128,
    float: CompensatedSum,
}

impl ExactSum {
    /// Adds a number several times.
    #[inline]
    pub fn add(&mut self, number: Number, times: u64) {
        match number {
            Number::Signed(number) => self.whole += i128::from(number) * i128::from(times),
            Number::Unsigned(number) => self.whole += i128::from(number) * i128::from(times),
            Number::Float(number) => self.add_float(number * times as f64),
        }
    }

    #[inline]
    pub fn add_float(&mut self, number: f64) {
        self.float.add(number);
    }

    fn merge(&mut self, other: &ExactSum) {
        self.whole += other.whole;
        self.float.merge(&other.float);
    }

    /// The sum as a float, rounded once; NaN or infinite if a number was.
    pub fn get(&self) -> f64 {
        let CompensatedSum { sum, lost } = self.float;
        self.whole as f64 + if sum.is_finite() { sum + lost } else { sum }
    }
}

/// Numbers of a column: all of those that a figure needs.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    pub count: u64,
    pub sum: ExactSum,
    /// Left out where no extremes are asked for.
    extremes: Option<(Number, Number)>,
    /// Left out where no variance is asked for.
    pub moments: Moments,
    /// Left out where nothing needs single numbers. Apart, so that what every row of every group touches is small.
    kept: Option<Box<Kept>>,
}

/// Single numbers, in the order in which they came.
#[derive(Debug, Clone, Default)]
struct Kept {
    numbers: Vec<f64>,
    /// How often each of them counts; empty where each does once.
    times: Vec<u64>,
}

impl Numbers {
    /// Counts a number and adds it up.
    #[inline]
    pub fn push(&mut self, number: Number) {
        self.count += 1;
        self.sum.add(number, 1);
    }

    /// Takes a number that counts several times, and for what else a slot needs.
    pub fn push_repeated(&mut self, number: Number, times: u64, slot: &Slot) {
        self.count += times;
        self.sum.add(number, times);
        if slot.extremes {
            self.widen(number);
        }
        let number = number.as_f64();
        if slot.squares {
            self.moments.push_repeated(number, times);
        }
        if slot.keeps_read {
            let kept = self.kept.get_or_insert_default();
            kept.numbers.push(number);
            kept.times.push(times);
        }
    }

    /// Takes floats as [`Numbers::push`] takes each, and for what else a slot needs.
    pub fn push_floats(&mut self, numbers: &[f64], slot: &Slot) {
        if numbers.is_empty() {
            return;
        }
        self.count += numbers.len() as u64;
        match sum_in_lanes(numbers) {
            sum if sum.is_finite() => self.sum.add_float(sum),
            // The order decides.
            _ => numbers.iter().for_each(|&number| self.sum.add_float(number)),
        }
        if slot.extremes {
            numbers.iter().for_each(|&x| self.widen(Number::Float(x)));
        }
        if slot.squares {
            self.moments.merge(&Moments::of_all(numbers));
        }
        if slot.keeps_read {
            self.kept.get_or_insert_default().numbers.extend(numbers);
        }
    }

    /// Takes a number for the extremes.
    #[inline]
    pub fn widen(&mut self, number: Number) {
        self.extremes = Some(match self.extremes {
            None => (number, number),
            Some((least, most)) => (least.least(number), most.most(number)),
        });
    }

    pub fn merge(&mut self, other: Numbers) {
        self.count += other.count;
        self.sum.merge(&other.sum);
        self.extremes = match (self.extremes, other.extremes) {
            (None, some) | (some, None) => some,
            (Some(ours), Some(theirs)) => Some((ours.0.least(theirs.0), ours.1.most(theirs.1))),
        };
        self.moments.merge(&other.moments);
        if let Some(theirs) = other.kept {
            let kept = self.kept.get_or_insert_default();
            kept.numbers.extend(theirs.numbers);
            kept.times.extend(theirs.times);
        }
    }

    /// The least and the greatest number.
    pub fn extremes(&self) -> Option<(Number, Number)> {
        self.extremes
    }

    /// Keeps a number for what needs single ones.
    #[inline]
    pub fn keep(&mut self, number: f64) {
        self.kept.get_or_insert_default().numbers.push(number);
    }

    /// The numbers that were kept, in the order in which they came.
    pub fn kept(&self) -> &[f64] {
        self.kept.as_ref().map_or(&[], |kept| &kept.numbers)
    }

    /// The kept numbers in order; NaN, whatever its sign, comes last.
    pub fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.with_one_nan();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }

    fn with_one_nan(&self) -> Vec<f64> {
        self.kept().iter().map(|&number| if number.is_nan() { f64::NAN } else { number }).collect()
    }

    /// Whether a figure of exactly these numbers exists.
    fn has(&self, figure: Figure) -> bool {
        match figure {
            Figure::Values => true,
            Figure::Variance | Figure::StdDev => self.count > 1,
            _ => self.count > 0,
        }
    }

    /// A figure of exactly these numbers; `None` where it does not exist.
    fn figure(&self, figure: Figure) -> Option<f64> {
        match figure {
            Figure::Values => Some(self.count as f64),
            _ if !self.has(figure) => None,
            Figure::Sum => Some(self.sum.get()),
            Figure::Avg => Some(self.sum.get() / self.count as f64),
            Figure::Variance => Some(self.moments.variance()),
            Figure::StdDev => Some(self.moments.variance().sqrt()),
            Figure::Quantile(share) => Some(match &self.kept {
                Some(kept) if !kept.times.is_empty() => {
                    quantile_of_repeated(&self.with_one_nan(), &kept.times, share)
                }
                _ => quantile_of_unsorted(&mut self.with_one_nan(), share),
            }),
            Figure::Min | Figure::Max => unreachable!("extremes are looked at as they are"),
            Figure::Ratio | Figure::Distinct => unreachable!("of pairs, or of values"),
        }
    }
}

/// What the rows of a group make of the input of a figure.
#[derive(Debug, Clone)]
pub enum Whole {
    Numbers(Numbers),
    /// The upper and the lower numbers of a ratio.
    Pair(Box<[Numbers; 2]>),
    Values(Distinct),
}

impl Whole {
    pub fn merge(&mut self, other: Whole) {
        match (self, other) {
            (Whole::Numbers(ours), Whole::Numbers(theirs)) => ours.merge(theirs),
            (Whole::Pair(ours), Whole::Pair(theirs)) => {
                ours.iter_mut().zip(*theirs).for_each(|(ours, theirs)| ours.merge(theirs));
            }
            (Whole::Values(ours), Whole::Values(theirs)) => ours.merge(theirs),
            _ => unreachable!("one slot has one input"),
        }
    }

    /// Whether a figure of exactly these rows exists.
    pub fn has(&self, figure: Figure) -> bool {
        match self {
            Whole::Numbers(numbers) => numbers.has(figure),
            Whole::Values(_) => true,
            Whole::Pair(_) => self.figure(figure).is_some(),
        }
    }

    /// A figure of exactly these rows; `None` where it does not exist.
    pub fn figure(&self, figure: Figure) -> Option<f64> {
        match self {
            Whole::Numbers(numbers) => numbers.figure(figure),
            Whole::Values(values) if figure == Figure::Values => Some(values.count as f64),
            Whole::Values(values) => Some(values.len() as f64),
            Whole::Pair(pair) => {
                let [upper, lower] = &**pair;
                let (upper, lower) = (upper.figure(Figure::Sum)?, lower.figure(Figure::Sum)?);
                (lower != 0.0).then_some(upper / lower)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::DataType;

    use super::*;
    use crate::read::estimate::plan::Input;

    #[test]
    fn sums_lose_nothing_of_integers_and_little_of_floats() {
        let mut sum = ExactSum::default();
        for number in [i64::MAX, 1, i64::MIN] {
            sum.add(Number::Signed(number), 1);
        }
        assert_eq!(sum.get(), 0.0);
        let mut sum = ExactSum::default();
        [1.0, 1e100, 1.0, -1e100].into_iter().for_each(|number| sum.add_float(number));
        assert_eq!(sum.get(), 2.0);
        sum.add_float(f64::INFINITY);
        assert_eq!(sum.get(), f64::INFINITY);
    }

    #[test]
    fn finite_numbers_whose_sums_in_lanes_are_not_finite_are_added_one_by_one() {
        let sum = Slot {
            input: Input::Numbers(0),
            keeps_drawn: false,
            keeps_read: false,
            squares: false,
            extremes: false,
            may_lack: false,
            is_stored: false,
            data_type: DataType::Float64,
        };
        let numbers = [1e308, -1e308, 0.0, 0.0].repeat(2_000);
        let mut all = Numbers::default();
        all.push_floats(&numbers, &sum);
        assert_eq!((all.count, all.sum.get()), (8_000, 0.0));
        all.push_floats(&[f64::INFINITY], &sum);
        assert_eq!(all.sum.get(), f64::INFINITY);
    }
}
