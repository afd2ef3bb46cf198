//! Curves: a setup at many rates, and the values that are read off it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::model::{TaskFate, simulate};
use super::setup::{CLASSES, Setup};
use crate::simulate::statistics::percentile;

/// The results of the tasks of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ClassOutcome {
    /// The mean response time of the tasks served, in seconds.
    pub(super) mean_s: f64,
    pub(super) p95_s: f64,
    /// The share of all tasks of the class that was rejected.
    pub(super) rejected: f64,
    pub(super) aborted: f64,
    /// The share of all tasks of the class that was served within two seconds.
    pub(super) in_time: f64,
}

/// The divisor that gives the part of the tasks, at the start, that is left out.
const WARMUP: usize = 10;

/// The response time up to which a task is in time: SDIS02's bound for high-priority tasks.
const IN_TIME: Duration = Duration::from_secs(2);

impl ClassOutcome {
    fn of(fates: impl Iterator<Item = TaskFate>) -> Self {
        let mut times_s = Vec::new();
        let mut outcome = Self::default();
        let mut count = 0.0;
        for fate in fates {
            count += 1.0;
            match fate {
                TaskFate::Served(time) => {
                    times_s.push(time.as_secs_f64());
                    outcome.in_time += f64::from(u8::from(time <= IN_TIME));
                }
                TaskFate::Rejected => outcome.rejected += 1.0,
                TaskFate::Aborted => outcome.aborted += 1.0,
            }
        }
        Self {
            mean_s: times_s.iter().sum::<f64>() / times_s.len() as f64,
            rejected: outcome.rejected / count,
            aborted: outcome.aborted / count,
            in_time: outcome.in_time / count,
            p95_s: percentile(times_s, 0.95),
        }
    }
}

/// The results of a setup at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RatePoint {
    /// The requests in a second.
    pub(super) rate: f64,
    pub(super) high: ClassOutcome,
    pub(super) low: ClassOutcome,
    pub(super) all: ClassOutcome,
}

/// The tasks whose outcome at a point is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    High,
    Low,
    All,
}

impl RatePoint {
    pub(super) fn of(&self, who: Who) -> &ClassOutcome {
        match who {
            Who::High => &self.high,
            Who::Low => &self.low,
            Who::All => &self.all,
        }
    }
}

/// The results of a setup at all rates.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) setup: Setup,
    pub(super) points: Vec<RatePoint>,
}

/// The mean response time, in seconds, that a curve passes at its knee.
const KNEE_S: f64 = 1.0;

impl Curve {
    /// Returns the rate at which the mean response time passes a second,
    /// between two points in proportion; `None` if it does not.
    pub(super) fn knee(&self, who: Who) -> Option<f64> {
        let slow = |point: &RatePoint| point.of(who).mean_s >= KNEE_S;
        let at = self.points.iter().position(slow)?;
        let after = &self.points[at];
        let Some(before) = at.checked_sub(1).map(|at| &self.points[at]) else {
            return Some(after.rate);
        };
        let (low, high) = (before.of(who).mean_s, after.of(who).mean_s);
        let part = (KNEE_S - low) / (high - low);
        Some(before.rate + part * (after.rate - before.rate))
    }

    /// Returns the most that a measure comes to, up to a rate.
    pub(super) fn most(&self, up_to: f64, measure: impl Fn(&RatePoint) -> f64) -> f64 {
        let points = self.points.iter().filter(|point| point.rate <= up_to);
        points.map(measure).fold(0.0, f64::max)
    }

    /// Returns the mean of a measure over the points up to a rate.
    pub(super) fn mean(&self, up_to: f64, measure: impl Fn(&RatePoint) -> f64) -> f64 {
        let points = self.points.iter().filter(|point| point.rate <= up_to);
        let values: Vec<f64> = points.map(measure).collect();
        values.iter().sum::<f64>() / values.len() as f64
    }
}

fn point(setup: &Setup) -> anyhow::Result<RatePoint> {
    let fates = simulate(setup)?;
    let fates = &fates[fates.len() / WARMUP..];
    let of = |class| {
        let of_class = fates.iter().filter(move |fate| fate.0 == class);
        ClassOutcome::of(of_class.map(|fate| fate.1))
    };
    let [high, low]: [ClassOutcome; CLASSES] = [of(0), of(1)];
    Ok(RatePoint {
        rate: setup.rate,
        high,
        low,
        all: ClassOutcome::of(fates.iter().map(|fate| fate.1)),
    })
}

/// Runs every setup at every rate, on all processors; each run depends on
/// nothing but its setup.
pub(super) fn run(setups: Vec<(String, Setup)>, rates: &[f64]) -> anyhow::Result<Vec<Curve>> {
    let runs: Vec<Setup> = setups
        .iter()
        .flat_map(|(_, setup)| {
            let at = |&rate: &f64| Setup {
                rate,
                ..setup.clone()
            };
            rates.iter().map(at).collect::<Vec<_>>()
        })
        .collect();
    let next = AtomicUsize::new(0);
    let points = Mutex::new(vec![None; runs.len()]);
    let work = || {
        while let Some(setup) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let index = runs.iter().position(|run| std::ptr::eq(run, setup));
            let found = point(setup);
            let mut points = points.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = index.and_then(|index| points.get_mut(index)) {
                *place = Some(found.map_err(|error| error.to_string()));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let points = points.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut points = points.into_iter().flatten();
    let mut curves = Vec::new();
    for (name, setup) in setups {
        let of_curve: Result<Vec<RatePoint>, String> = points.by_ref().take(rates.len()).collect();
        curves.push(Curve {
            points: of_curve
                .map_err(|error| anyhow::anyhow!("{name}, seed {}: {error}", setup.seed))?,
            name,
            setup,
        });
    }
    Ok(curves)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(ms: u64) -> TaskFate {
        TaskFate::Served(Duration::from_millis(ms))
    }

    #[test]
    fn outcomes_are_shares_of_all_and_times_of_those_served() {
        let fates = [
            served(1000),
            served(3000),
            TaskFate::Rejected,
            TaskFate::Aborted,
            served(2000),
        ];
        let outcome = ClassOutcome::of(fates.into_iter());
        assert!((outcome.mean_s - 2.0).abs() < 1e-9);
        assert_eq!(outcome.p95_s, 3.0);
        assert_eq!(outcome.rejected, 0.2);
        assert_eq!(outcome.aborted, 0.2);
        assert_eq!(outcome.in_time, 0.4);
    }
}
