//! The prediction: each policy, at each rate, over the whole log in virtual time.

mod figures;
mod run;
mod worth;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use sprat_config::resolved::Uplink;
use sprat_measure::wire::Connection;

pub use figures::{CLASS_BOUNDS, Figures, Outcome, Served, Spread};
pub use worth::Worth;

use crate::traffic::{Summary, Traffic};
use worth::Tried;

/// A policy to try.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The name of the policy, as the configuration has it.
    pub name: String,
    /// The uplink that it makes.
    pub uplink: Uplink,
}

/// The runs that are to be predicted.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The link's rate on the wire.
    pub uplink_bits_per_s: u64,
    /// Whether each response pays for a connection of its own.
    pub connection: Connection,
    /// The rates to try, as multiples of the log's own; 1 is among them.
    pub rates: Vec<f64>,
    /// The policies; `fair` is among them.
    pub policies: Vec<Policy>,
    /// The index of the policy that stands for what a server does today.
    pub baseline: usize,
    /// The number of runs at a time, each on a thread of its own.
    pub threads: usize,
}

/// The outcome of a plan.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The outcomes by policy, then by rate, in the plan's order.
    pub outcomes: Vec<Vec<Outcome>>,
    /// The worth of each policy: how many times as many clients it serves as well as the baseline
    /// serves those of today; `None` if the baseline has no figures.
    pub worths: Vec<Option<Worth>>,
    /// The number of requests that were simulated.
    pub simulated: u64,
}

impl Plan {
    /// Returns the place of the log's own rate among the rates.
    pub fn today(&self) -> usize {
        let today = self.rates.iter().position(|rate| *rate == 1.0);
        today.expect("the command adds the log's own rate")
    }

    /// Runs the plan, and returns the outcomes and the worth of each policy.
    ///
    /// # Panics
    /// If a run breaks an invariant of the core.
    pub fn predict(&self, traffic: &Traffic, summary: &Summary) -> Prediction {
        let jobs = (0..self.policies.len()).flat_map(|policy| {
            let rates = self.rates.iter();
            rates.map(move |&rate| (policy, rate))
        });
        let jobs: Vec<(usize, f64)> = jobs.collect();
        let done = self.run_all(&jobs, traffic, summary);
        let mut simulated = done.iter().map(Outcome::simulated).sum::<u64>();
        let outcomes: Vec<Vec<Outcome>> = done
            .chunks(self.rates.len())
            .map(<[Outcome]>::to_vec)
            .collect();
        let baseline_s = outcomes[self.baseline][self.today()].mean_s();
        let worths = self.spread(self.policies.len(), |policy| {
            let means = |rate| {
                let outcome = run::run(self, &self.policies[policy], rate, traffic, summary);
                (outcome.mean_s(), outcome.simulated())
            };
            let known = self.rates.iter().zip(&outcomes[policy]);
            let tried = |(&rate, outcome): (&f64, &Outcome)| {
                let mean_s = outcome.mean_s()?;
                Some(Tried { rate, mean_s })
            };
            let mut known: Vec<Tried> = known.filter_map(tried).collect();
            worth::find(baseline_s?, summary.load, &mut known, means)
        });
        simulated += worths.iter().flatten().map(|(_, more)| more).sum::<u64>();
        Prediction {
            outcomes,
            worths: worths
                .into_iter()
                .map(|w| w.map(|(worth, _)| worth))
                .collect(),
            simulated,
        }
    }

    fn run_all(&self, jobs: &[(usize, f64)], traffic: &Traffic, summary: &Summary) -> Vec<Outcome> {
        self.spread(jobs.len(), |job| {
            let (policy, rate) = jobs[job];
            run::run(self, &self.policies[policy], rate, traffic, summary)
        })
    }

    /// Does `count` pieces of work on the plan's threads, and returns their results in order. The
    /// last goes first: those of the highest rates take longest.
    fn spread<R: Send>(&self, count: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::with_capacity(count));
        std::thread::scope(|scope| {
            for _ in 0..self.threads.clamp(1, count.max(1)) {
                scope.spawn(|| {
                    loop {
                        let taken = next.fetch_add(1, Ordering::Relaxed);
                        let Some(piece) = count.checked_sub(taken + 1) else {
                            break;
                        };
                        let result = work(piece);
                        done.lock().expect("no holder panics").push((piece, result));
                    }
                });
            }
        });
        let mut done = done.into_inner().expect("no holder panics");
        done.sort_by_key(|(piece, _)| *piece);
        done.into_iter().map(|(_, result)| result).collect()
    }
}
