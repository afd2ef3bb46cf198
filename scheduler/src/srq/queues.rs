//! The queues, their quanta, and how both are adapted to what passes (SRQ06 III-C, adaptive queue
//! management).

use std::time::Duration;

use super::{Config, MAX_QUEUES};
use crate::Time;

/// A request's place: the queue that it is in, and how much service it had before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    queue: u8,
    /// The queue that the request was in when the interval `epoch` began, or in which it came.
    began: u8,
    epoch: u32,
    /// The service that the request had attained when it entered the queue.
    entered: u64,
}

impl Progress {
    /// Returns the index of the queue.
    pub fn queue(&self) -> usize {
        usize::from(self.queue)
    }
}

/// The departures from a queue since the last adaptation.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    done: u64,
    failed: u64,
    /// The sum of what was measured of the requests done; `squares` is that of the squares. Both
    /// are whole numbers, so that what is at a threshold is not above it by a rounding.
    sum: u128,
    squares: u128,
    /// The sum of the service that the requests done had in this queue.
    used: u128,
}

impl Sample {
    fn add(&mut self, measured: u64, used: u64) {
        let measured = u128::from(measured);
        self.done += 1;
        self.sum += measured;
        self.squares = self.squares.saturating_add(measured * measured);
        self.used += u128::from(used);
    }

    fn mean(&self) -> f64 {
        self.sum as f64 / self.done.max(1) as f64
    }

    fn mean_used(&self) -> u64 {
        // No more than the largest of them.
        (self.used / u128::from(self.done.max(1))) as u64
    }

    fn left(&self) -> u64 {
        self.done + self.failed
    }

    /// Returns the share of departures that went on to the next queue.
    fn fail_share(&self) -> f64 {
        self.failed as f64 / self.left().max(1) as f64
    }

    /// Returns whether deviation over mean is above a threshold. Both sides are squared and
    /// multiplied, so that nothing is divided.
    fn deviates(&self, threshold: f64) -> bool {
        let (done, sum, squares) = (self.done as f64, self.sum as f64, self.squares as f64);
        done * squares - sum * sum > threshold * threshold * sum * sum
    }
}

/// The counts of what happened in the queues so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of requests in each queue now.
    pub members: [u64; MAX_QUEUES],
    /// The number of requests that ended in each queue.
    pub done: [u64; MAX_QUEUES],
    /// The number of requests that went from each queue to the next, also of those that were
    /// cancelled later.
    pub moved: [u64; MAX_QUEUES],
    /// The number of times that the last queue was split.
    pub splits: u64,
    /// The number of times that the last queue was merged into the one before it.
    pub merges: u64,
    /// The number of times that a quantum was increased.
    pub grown: u64,
    /// The number of times that a quantum was decreased.
    pub shrunk: u64,
}

/// The queues of SRQ: their quanta and counts, without the order of their members.
#[derive(Clone, Debug)]
pub struct Queues {
    config: Config,
    /// The quanta of all queues but the last, which has none.
    quanta: Vec<u64>,
    samples: [Sample; MAX_QUEUES],
    /// The end of the present interval; `None` before the first call of [`Queues::is_due`].
    until: Option<Time>,
    epoch: u32,
    stats: Stats,
}

impl Queues {
    /// Returns queues with the quanta that the parameters begin with.
    pub fn new(config: Config) -> Self {
        let config = config.bounded();
        Self {
            quanta: config.quanta.clone(),
            config,
            samples: [Sample::default(); MAX_QUEUES],
            until: None,
            epoch: 0,
            stats: Stats::default(),
        }
    }

    /// Goes on with the quanta that other queues with the same parameters have come to. Queues that
    /// have members stay as they are.
    pub fn inherit(&mut self, before: &Self) {
        let is_empty = self.stats.members.iter().all(|&members| members == 0);
        if is_empty && self.config == before.config {
            self.quanta.clone_from(&before.quanta);
        }
    }

    /// Returns the parameters, brought within their bounds.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the number of queues at present.
    pub fn count(&self) -> usize {
        self.quanta.len() + 1
    }

    /// Returns the quanta of all queues but the last, which has none.
    pub fn quanta(&self) -> &[u64] {
        &self.quanta
    }

    /// Returns the counts of what happened so far.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Takes in a request, which begins in the first queue.
    pub fn arrive(&mut self) -> Progress {
        self.stats.members[0] += 1;
        Progress {
            epoch: self.epoch,
            ..Progress::default()
        }
    }

    /// Takes in a request that begins in the second queue, and has all of that queue's quantum.
    pub fn arrive_in_second(&mut self) -> Progress {
        // There are two queues at least.
        self.stats.members[1] += 1;
        Progress {
            queue: 1,
            began: 1,
            epoch: self.epoch,
            entered: 0,
        }
    }

    /// Takes in a request that has had, or is known to need, the service `attained`, and puts it
    /// into the queue that it would have come to. No statistics count the queues before that.
    pub fn place(&mut self, attained: u64) -> Progress {
        let mut entered = 0;
        let mut queue = 0;
        for &quantum in &self.quanta {
            if attained - entered < quantum {
                break;
            }
            entered += quantum;
            queue += 1;
        }
        self.stats.members[usize::from(queue)] += 1;
        Progress {
            queue,
            began: queue,
            epoch: self.epoch,
            entered,
        }
    }

    /// Notes the service that a request has `attained` in all if it goes on. Returns whether it has
    /// thereby used up its queue's quantum and is in the next queue, where what it had beyond the
    /// quantum does not count. A request that ends has not moved: [`Queues::done`] alone is called
    /// for it.
    pub fn served(&mut self, progress: &mut Progress, attained: u64) -> bool {
        self.renew(progress);
        let queue = progress.queue();
        let used = attained.saturating_sub(progress.entered);
        match self.quanta.get(queue) {
            Some(&quantum) if used >= quantum => {}
            _ => return false,
        }
        self.samples[queue].failed += 1;
        self.stats.moved[queue] += 1;
        self.stats.members[queue] -= 1;
        self.stats.members[queue + 1] += 1;
        progress.queue += 1;
        progress.entered = attained;
        true
    }

    /// Returns the service in all at which a request has used up its queue's quantum; `None` in the
    /// last queue.
    pub fn moves_at(&self, progress: &Progress) -> Option<u64> {
        let quantum = self.quanta.get(progress.queue())?;
        Some(progress.entered.saturating_add(*quantum))
    }

    /// Ends a request that has had the service `attained` in all. `measured` is the value that its
    /// queue's statistics take: the same, which brings like sizes together, or the time since its
    /// arrival, as the paper has it.
    pub fn done(&mut self, mut progress: Progress, attained: u64, measured: u64) {
        self.renew(&mut progress);
        let queue = progress.queue();
        let used = attained.saturating_sub(progress.entered);
        self.samples[queue].add(measured, used);
        self.stats.done[queue] += 1;
        self.stats.members[queue] -= 1;
    }

    /// Ends a request whose client has gone, which no statistics of this interval count.
    pub fn cancel(&mut self, mut progress: Progress) {
        self.renew(&mut progress);
        for queue in usize::from(progress.began)..progress.queue() {
            self.samples[queue].failed -= 1;
        }
        self.stats.members[progress.queue()] -= 1;
    }

    /// Brings a request's place up to the present interval: queues may have been merged.
    pub fn renew(&self, progress: &mut Progress) {
        if progress.epoch != self.epoch {
            // There are few queues.
            progress.queue = progress.queue.min(self.quanta.len() as u8);
            progress.began = progress.queue;
            progress.epoch = self.epoch;
        }
    }

    /// Returns when the present interval ends.
    pub fn adapts_at(&self) -> Option<Time> {
        self.until
    }

    /// Returns whether an interval has ended, and begins the next one if so: the caller then calls
    /// [`Queues::adapt`]. The first call begins the first interval.
    pub fn is_due(&mut self, now: Time) -> bool {
        let interval = self.config.interval;
        let until = *self.until.get_or_insert(now + interval);
        if now < until {
            return false;
        }
        let late = now.since(until).as_nanos() % interval.as_nanos();
        let late = Duration::from_nanos(u64::try_from(late).unwrap_or(0));
        self.until = Some(now + (interval - late));
        true
    }

    /// Adapts the queues to what has passed in an interval, and begins the statistics of the next.
    /// No quantum comes below `least`. Returns whether the last two queues have become one: then
    /// the caller renews each request's place ([`Queues::renew`]) before the next adaptation.
    ///
    /// An interval in which nothing left any queue changes nothing, or a quiet night would
    /// merge all of them.
    pub fn adapt(&mut self, least: u64) -> bool {
        let before = self.count();
        if self.samples.iter().any(|sample| sample.left() > 0) {
            self.fit_quanta(least);
            self.fit_number(least);
        }
        self.samples = [Sample::default(); MAX_QUEUES];
        self.epoch = self.epoch.wrapping_add(1);
        self.count() < before
    }

    fn fit_quanta(&mut self, least: u64) {
        let Config {
            t_fail,
            t_desc,
            adj_i,
            adj_d,
            samples_min,
            quantum_bounds,
            ..
        } = self.config;
        let (low, high) = (quantum_bounds.0.max(least), quantum_bounds.1);
        for (quantum, sample) in self.quanta.iter_mut().zip(&self.samples) {
            if sample.left() < samples_min {
                continue;
            }
            let before = *quantum;
            if sample.fail_share() > t_fail {
                // Saturates; so below.
                *quantum = (before as f64 * adj_i) as u64;
            } else if sample.done >= samples_min && sample.deviates(t_desc) {
                *quantum = (before as f64 - adj_d * sample.mean()) as u64;
            }
            if *quantum != before {
                *quantum = (*quantum).min(high).max(low.min(high));
            }
            self.stats.grown += u64::from(*quantum > before);
            self.stats.shrunk += u64::from(*quantum < before);
        }
    }

    fn fit_number(&mut self, least: u64) {
        let (fewest, most) = self.config.queues;
        let last = self.quanta.len();
        let sample = self.samples[last];
        if sample.done == 0 {
            if self.count() > fewest {
                self.quanta.pop();
                self.stats.merges += 1;
                let members = std::mem::take(&mut self.stats.members[last]);
                self.stats.members[last - 1] += members;
            }
        } else if sample.done >= self.config.samples_min
            && sample.deviates(self.config.t_split)
            && self.count() < most
        {
            let (low, high) = self.config.quantum_bounds;
            let quantum = sample.mean_used().max(least).max(low).min(high);
            self.quanta.push(quantum);
            self.stats.splits += 1;
        }
    }
}

#[cfg(test)]
#[path = "queues/tests.rs"]
mod tests;
