//! How many standard errors an estimate stays within.

use std::cell::Cell;

use statrs::distribution::{Continuous, ContinuousCDF, Normal, StudentsT};

use crate::interval::confidence::Confidence;

/// From this many degrees of freedom on, the t quantile is taken from its expansion around the normal one, whose error
/// is then below 1e-6 of the quantile up to a confidence of 1 - 1e-9.
pub(super) const T_EXPANSION_FREEDOM_MIN: f64 = 1000.0;

/// From this many on, steps from that expansion lead to the quantile.
const T_EXPANSION_NEAR_FREEDOM_MIN: f64 = 8.0;

/// How many standard errors a normal estimate stays within, with the given confidence.
pub(super) fn normal_quantile(confidence: Confidence) -> f64 {
    // Taken in the lower tail, where a confidence near 1 keeps its digits.
    -Normal::standard().inverse_cdf(confidence.alpha() / 2.0)
}

/// Newton's steps from a quantile of the lower tail, which comes out too small where many intervals together leave next to
/// nothing for it. On logarithms of both sides, where the far tail is a straight line.
fn refine_quantile(t: &StudentsT, mut quantile: f64, tail: f64) -> f64 {
    for _ in 0..50 {
        let found = t.cdf(-quantile);
        let off = (found / tail).ln();
        if off.abs() < 1e-9 {
            break;
        }
        quantile *= (off * found / (t.pdf(-quantile) * quantile)).exp();
    }
    quantile
}

/// How many estimated standard errors a mean stays within, with the given confidence.
pub(super) fn t_quantile(freedom: f64, confidence: Confidence) -> f64 {
    if freedom >= T_EXPANSION_FREEDOM_MIN {
        return t_expansion(freedom, confidence);
    }
    // The interval of a ratio is found by a hundred intervals of as many numbers.
    thread_local! {
        static LAST: Cell<Option<(f64, Confidence, f64)>> = const { Cell::new(None) };
    }
    match LAST.get() {
        Some((of, with, quantile)) if of == freedom && with == confidence => quantile,
        _ => {
            let quantile = t_search(freedom, confidence);
            LAST.set(Some((freedom, confidence, quantile)));
            quantile
        }
    }
}

fn t_search(freedom: f64, confidence: Confidence) -> f64 {
    let t = StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are positive");
    let tail = confidence.alpha() / 2.0;
    // Steps from the expansion, where it comes near, take a tenth of the time of a search.
    let near = match freedom < T_EXPANSION_NEAR_FREEDOM_MIN {
        true => -t.inverse_cdf(tail),
        false => t_expansion(freedom, confidence),
    };
    refine_quantile(&t, near, tail)
}

/// Abramowitz and Stegun 26.7.5, two terms.
fn t_expansion(freedom: f64, confidence: Confidence) -> f64 {
    let z = normal_quantile(confidence);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    z + first / freedom + second / (freedom * freedom)
}
