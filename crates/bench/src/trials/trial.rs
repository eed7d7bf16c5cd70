//! Timing: engines take turns, their answers must be the same, and figures are medians.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use crate::error::{Error, Result};
use crate::figures::metric::{Metric, quantile};
use crate::figures::report::{Figure, Report};
use crate::rows::event::Answer;

/// One of those that are compared in a case.
pub struct Contender<'a> {
    pub engine: &'static str,
    pub threads: u32,
    pub role: Role,
    /// Does the case's work once. The number of the round, from 0, may choose keys: in one round all
    /// contenders must choose the same.
    pub run: Box<dyn FnMut(u64) -> Result<Outcome> + 'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Drillcore.
    Subject,
    Peer,
    /// What the machine needs for the bytes alone. It answers nothing.
    Floor,
}

/// What one run of a contender gave.
pub struct Outcome {
    /// The same metrics, in the same order, in every round.
    pub values: Vec<(Metric, f64)>,
    /// What must be the same for all in a round; `None` for floors.
    pub answer: Option<Answer>,
}

/// A bench under way.
pub struct Trial<'a> {
    bench: &'static str,
    repetitions: u32,
    has_peers: bool,
    /// What a case's name contains, or it is left out.
    cases: Option<String>,
    stop: &'a AtomicBool,
    progress: ProgressBar,
    figures: Vec<Figure>,
}

impl Outcome {
    /// Adds a metric.
    pub fn with(mut self, metric: Metric, value: f64) -> Outcome {
        self.values.push((metric, value));
        self
    }
}

impl<'a> Contender<'a> {
    pub fn new(
        engine: &'static str,
        threads: u32,
        role: Role,
        run: impl FnMut(u64) -> Result<Outcome> + 'a,
    ) -> Contender<'a> {
        Contender { engine, threads, role, run: Box::new(run) }
    }
}

impl<'a> Trial<'a> {
    /// `stop` is looked at between runs. Progress is shown if errors go to a terminal.
    pub fn new(bench: &'static str, repetitions: u32, stop: &'a AtomicBool) -> Trial<'a> {
        let style = ProgressStyle::with_template("{spinner} {prefix}: {msg}, {elapsed}");
        let progress =
            ProgressBar::new_spinner().with_prefix(bench).with_finish(ProgressFinish::AndClear);
        progress.set_style(style.expect("the template is sound"));
        progress.enable_steady_tick(Duration::from_millis(200));
        Trial {
            bench,
            repetitions,
            has_peers: true,
            cases: None,
            stop,
            progress,
            figures: Vec::new(),
        }
    }

    /// Leaves peers out of what is compared.
    pub fn without_peers(self) -> Trial<'a> {
        Trial { has_peers: false, ..self }
    }

    pub fn has_peers(&self) -> bool {
        self.has_peers
    }

    /// Leaves out the cases whose name does not contain the text.
    pub fn of_cases(self, cases: Option<String>) -> Trial<'a> {
        Trial { cases, ..self }
    }

    /// Says what goes on outside of a case.
    pub fn announce(&self, what: &str) -> Result<()> {
        self.progress.set_message(what.to_string());
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// Runs all contenders once to warm up and then as often as there are repetitions. They take turns, and
    /// each round another begins.
    ///
    /// # Errors
    /// `Disagreement` unless all who answer in a round answer `expected`, or without one, the same.
    pub fn compare(
        &mut self,
        case: &str,
        expected: Option<Answer>,
        contenders: &mut [Contender],
    ) -> Result<()> {
        if self.cases.as_ref().is_some_and(|cases| !case.contains(cases)) {
            return Ok(());
        }
        let is_compared = |contender: &Contender| contender.role != Role::Peer || self.has_peers;
        let mut contenders: Vec<&mut Contender> =
            contenders.iter_mut().filter(|contender| is_compared(contender)).collect();
        let mut values: Vec<Vec<(Metric, Vec<f64>)>> = vec![Vec::new(); contenders.len()];
        for round in 0..=self.repetitions {
            let mut expected = expected;
            for turn in 0..contenders.len() {
                let number = (turn + round as usize) % contenders.len();
                let contender = &mut contenders[number];
                let (engine, threads) = (contender.engine, contender.threads);
                let rounds = self.repetitions + 1;
                self.announce(&format!("{case}, {engine}, round {} of {rounds}", round + 1))?;
                let outcome = (contender.run)(u64::from(round))?;
                if let Some(found) = outcome.answer {
                    let expected = *expected.get_or_insert(found);
                    self.check(case, engine, found, expected)?;
                }
                let warms_up = round == 0;
                for (place, (metric, value)) in outcome.values.into_iter().enumerate() {
                    if warms_up {
                        values[number].push((metric, Vec::new()));
                    } else {
                        let (known, values) = &mut values[number][place];
                        assert_eq!(*known, metric, "{case}: {engine} with {threads} threads");
                        values.push(value);
                    }
                }
            }
        }
        self.figures.extend(figures(case, &contenders, values));
        Ok(())
    }

    /// The figures, with a line that says what the data was.
    pub fn finish(self, data: String) -> Report {
        self.progress.finish_and_clear();
        Report { bench: self.bench, data, figures: self.figures }
    }

    fn check(
        &self,
        case: &str,
        engine: &'static str,
        found: Answer,
        expected: Answer,
    ) -> Result<()> {
        if found == expected {
            return Ok(());
        }
        let (bench, case) = (self.bench, case.to_string());
        let (found, expected) = (found.to_string(), expected.to_string());
        Err(Error::Disagreement { bench, case, engine, found, expected })
    }
}

/// Medians, and their ratios to the better peer.
fn figures(
    case: &str,
    contenders: &[&mut Contender],
    values: Vec<Vec<(Metric, Vec<f64>)>>,
) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut of_peers = Vec::new();
    for (contender, values) in contenders.iter().zip(values) {
        for (metric, mut values) in values {
            let figure = Figure {
                case: case.to_string(),
                engine: contender.engine,
                threads: contender.threads,
                metric,
                median: quantile(&mut values, 0.5),
                low: quantile(&mut values, 0.0),
                high: quantile(&mut values, 1.0),
                ratio: None,
            };
            if contender.role == Role::Peer {
                of_peers.push((metric, figure.median));
            }
            figures.push(figure);
        }
    }
    for figure in &mut figures {
        let to_peers = of_peers.iter().filter(|(metric, _)| *metric == figure.metric);
        let ratios = to_peers.filter_map(|&(metric, peer)| metric.ratio(figure.median, peer));
        figure.ratio = ratios.min_by(f64::total_cmp);
    }
    figures
}

/// Seconds of each call: of one, and of more until some milliseconds are spent.
pub fn time_calls<T>(mut call: impl FnMut() -> Result<T>) -> Result<(Vec<f64>, T)> {
    const BUDGET: Duration = Duration::from_millis(20);
    let started = Instant::now();
    let mut seconds = Vec::new();
    loop {
        let began = Instant::now();
        let result = call()?;
        seconds.push(began.elapsed().as_secs_f64());
        if started.elapsed() >= BUDGET {
            return Ok((seconds, result));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::event::{Event, batch};

    const RATE: Metric = Metric::rate("rows_per_s", "rows/s");
    const TIME: Metric = Metric::time("time");

    fn answer(ids: std::ops::Range<i64>) -> Answer {
        let event = |id| Event { id, at: 0, city: "", units: 0, price: 0.0, note: "" };
        let mut answer = Answer::default();
        answer.add_batch(&batch(&ids.map(event).collect::<Vec<_>>()));
        answer
    }

    fn gives<'a>(role: Role, values: &'a [(Metric, f64)], rows: i64) -> Contender<'a> {
        let answer = (role != Role::Floor).then(|| answer(0..rows));
        Contender::new("engine", 1, role, move |_| Ok(Outcome { values: values.to_vec(), answer }))
    }

    #[test]
    fn ratios_are_against_the_better_peer_whichever_way_is_better() {
        let stop = AtomicBool::new(false);
        let mut trial = Trial::new("bench", 3, &stop);
        let mut contenders = [
            gives(Role::Subject, &[(RATE, 600.0), (TIME, 2.0)], 1),
            gives(Role::Peer, &[(RATE, 100.0), (TIME, 8.0)], 1),
            gives(Role::Peer, &[(RATE, 200.0), (TIME, 10.0)], 1),
            gives(Role::Floor, &[(TIME, 1.0)], 0),
        ];
        trial.compare("case", None, &mut contenders).unwrap();
        let ratios: Vec<f64> =
            trial.finish(String::new()).figures.iter().filter_map(|figure| figure.ratio).collect();
        assert_eq!(ratios, [3.0, 4.0, 0.5, 1.0, 1.0, 0.8, 8.0]);
    }

    #[test]
    fn the_first_round_is_not_counted_and_each_begins_with_another() {
        let stop = AtomicBool::new(false);
        let mut trial = Trial::new("bench", 2, &stop);
        let order = std::cell::RefCell::new(Vec::new());
        let contender = |engine| {
            let order = &order;
            Contender::new(engine, 1, Role::Subject, move |round| {
                order.borrow_mut().push(engine);
                Ok(Outcome { values: vec![(RATE, 10.0 + round as f64)], answer: None })
            })
        };
        trial.compare("case", None, &mut [contender("a"), contender("b")]).unwrap();
        let figures = trial.finish(String::new()).figures;
        assert_eq!((figures[0].low, figures[0].high), (11.0, 12.0));
        assert_eq!(*order.borrow(), ["a", "b", "b", "a", "a", "b"]);
    }

    #[test]
    fn answers_that_differ_are_an_error() {
        let stop = AtomicBool::new(false);
        let mut trial = Trial::new("bench", 1, &stop);
        let mut pair = [gives(Role::Subject, &[], 1), gives(Role::Peer, &[], 2)];
        let error = trial.compare("case", None, &mut pair).unwrap_err();
        assert!(matches!(error, Error::Disagreement { .. }), "{error}");
        let mut alone = [gives(Role::Subject, &[], 1)];
        assert!(trial.compare("case", Some(answer(0..2)), &mut alone).is_err());
        trial.compare("case", Some(answer(0..1)), &mut alone).unwrap();
    }

    #[test]
    fn a_stopped_trial_ends_before_the_next_run() {
        let stop = AtomicBool::new(true);
        let mut trial = Trial::new("bench", 1, &stop);
        let mut alone = [gives(Role::Subject, &[], 1)];
        let error = trial.compare("case", None, &mut alone).unwrap_err();
        assert!(matches!(error, Error::Interrupted));
    }
}
