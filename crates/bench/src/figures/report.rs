//! Figures as a table for people and as JSON lines for programs.

use std::fmt::Write;

use serde_json::json;

use crate::figures::metric::Metric;

/// The figures of one bench.
pub struct Report {
    pub bench: &'static str,
    /// What the data was, for people.
    pub data: String,
    pub figures: Vec<Figure>,
}

/// One metric of one engine in one case: the median of the repetitions, with the lowest and the highest.
#[derive(Debug, Clone)]
pub struct Figure {
    pub case: String,
    pub engine: &'static str,
    pub threads: u32,
    pub metric: Metric,
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// How many times better than the peer, the better one where there are two.
    pub ratio: Option<f64>,
}

/// What every JSON line repeats, so that each stands by itself.
pub struct Circumstances {
    pub machine: String,
    pub rows: u64,
    pub repetitions: u32,
    pub seed: u64,
}

const HEADINGS: [&str; 7] =
    ["case", "engine", "threads", "metric", "median", "lowest .. highest", "times better"];

impl Report {
    pub fn table(&self) -> String {
        let mut lines = vec![HEADINGS.map(str::to_string)];
        let mut case_before = None;
        for figure in &self.figures {
            let case = if case_before == Some(&figure.case) { "" } else { &figure.case };
            case_before = Some(&figure.case);
            lines.push([
                case.to_string(),
                figure.engine.to_string(),
                figure.threads.to_string(),
                figure.metric.name.to_string(),
                format!("{} {}", readable(figure.median), figure.metric.unit),
                format!("{} .. {}", readable(figure.low), readable(figure.high)),
                figure.ratio.map_or(String::new(), readable),
            ]);
        }
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        let widths: Vec<usize> = (0..HEADINGS.len()).filter_map(width).collect();
        let mut table = format!("{}: {}\n", self.bench, self.data);
        for line in &lines {
            let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                // Words begin where they stand, numbers end there.
                match column {
                    0 | 1 | 3 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            let _ = writeln!(table, "{}", line.trim_end());
        }
        table
    }

    /// One line a figure.
    pub fn json_lines(&self, of: &Circumstances) -> String {
        let line = |figure: &Figure| {
            let value = json!({
                "bench": self.bench,
                "case": figure.case,
                "engine": figure.engine,
                "threads": figure.threads,
                "metric": figure.metric.name,
                "value": figure.median,
                "unit": figure.metric.unit,
                "low": figure.low,
                "high": figure.high,
                "ratio": figure.ratio,
                "rows": of.rows,
                "repetitions": of.repetitions,
                "seed": of.seed,
                "machine": of.machine,
            });
            format!("{value}\n")
        };
        self.figures.iter().map(line).collect()
    }
}

/// Three digits, or all before the point.
fn readable(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_string(),
        tiny if tiny < 0.009_95 => format!("{value:.2e}"),
        small if small < 9.995 => format!("{value:.2}"),
        middle if middle < 99.95 => format!("{value:.1}"),
        _ => grouped(value.round() as u64),
    }
}

/// A number with commas between the thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

pub fn megabytes(bytes: u64) -> String {
    format!("{} MB", readable(bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_or_all_before_the_point() {
        let cases =
            [(0.0, "0"), (0.000_31, "3.10e-4"), (9.99, "9.99"), (9.999, "10.0"), (99.97, "100")];
        for (value, text) in [&cases[..], &[(1234.4, "1,234"), (1e6, "1,000,000")]].concat() {
            assert_eq!(readable(value), text);
        }
        assert_eq!(
            [0, 10, 999, 1_000, 123_456].map(grouped),
            ["0", "10", "999", "1,000", "123,456"]
        );
    }
}
