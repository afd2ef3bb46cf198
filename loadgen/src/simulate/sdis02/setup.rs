//! The parameters of a run, and the stations that they make.

use std::time::Duration;

use sprat_scheduler::ClassSpec;
use sprat_scheduler::dispatch::Dispatch;
use sprat_scheduler::station::{Admission, Order, Scope, StationConfig};

use super::workload::Tasks;
use crate::simulate::farm::endpoint;

/// The number of task servers (SDIS02, table 1).
pub(super) const SERVERS: usize = 4;
/// The places in the dispatcher's queue (SDIS02 4.1).
const DISPATCH_QUEUE: usize = 1024;
/// The part of the service time that watching the servers' load costs (SDIS02 5.4).
const MONITORING: f64 = 0.1;

/// The number of classes: high and low.
pub(super) const CLASSES: usize = 2;

/// The parameters of a run of the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setup {
    pub(super) dispatch: Dispatch,
    /// Places in each server's queue.
    pub(super) queue: usize,
    /// The share of high-priority tasks.
    pub(super) high_ratio: f64,
    /// Whether the servers know of priorities.
    pub(super) prioritized: bool,
    /// Shares of the queues between which low-priority tasks are discarded
    /// early.
    pub(super) thresholds: Option<(f64, f64)>,
    /// The time over which the queues' length is averaged for early discard.
    pub(super) averaging: Duration,
    /// The time after which a task is aborted, and all that it occupies is freed.
    pub(super) timeout: Duration,
    /// Whether a high-priority task takes the place of a low-priority one in a full queue, which is
    /// not in the paper.
    pub(super) displace: bool,
    pub(super) tasks: Tasks,
    /// The rate of each server's channel, in bits per second.
    pub(super) channel_bits_per_s: u64,
    /// The requests in a second.
    pub(super) rate: f64,
    pub(super) requests: usize,
    pub(super) seed: u64,
}

impl Setup {
    /// Returns the factor by which watching the servers' load lengthens a service time.
    pub(super) fn watching(&self) -> f64 {
        match self.dispatch {
            Dispatch::RoundRobin => 1.0,
            _ => 1.0 + MONITORING,
        }
    }

    /// Returns the tasks per second that the servers can do.
    pub(super) fn capacity(&self) -> f64 {
        SERVERS as f64 / (self.tasks.mean_service_s() * self.watching())
    }

    /// Returns the priority of a class where it matters.
    fn level(&self, class: usize) -> u8 {
        if self.prioritized { class as u8 } else { 0 }
    }

    /// Returns the classes, high and low, for the servers and their channels.
    pub(super) fn classes(&self) -> Vec<ClassSpec> {
        (0..CLASSES).map(|class| self.class(class)).collect()
    }

    fn class(&self, class: usize) -> ClassSpec {
        let discarded = self.thresholds.filter(|_| class > 0);
        ClassSpec {
            level: self.level(class),
            drop_thresholds: discarded.unwrap_or((1.0, 1.0)),
            ..ClassSpec::default()
        }
    }

    fn station(&self) -> StationConfig {
        StationConfig {
            max_requests: 1,
            order: Order::Fcfs,
            scope: Scope::Endpoint,
            admission: Admission {
                averaging: self.averaging,
                displace: self.displace,
                ..Admission::default()
            },
            ..StationConfig::new(
                Dispatch::RoundRobin,
                vec![endpoint(0)],
                vec![ClassSpec::default(); CLASSES],
                DISPATCH_QUEUE,
            )
        }
    }

    /// Configures the dispatcher, which takes tasks as they come: their
    /// priorities become known there.
    pub(super) fn dispatcher(&self) -> StationConfig {
        self.station()
    }

    /// Configures the servers: non-preemptive, strict between priorities, and
    /// first come, first served within one (3.3).
    pub(super) fn servers(&self) -> StationConfig {
        StationConfig {
            dispatch: self.dispatch.clone(),
            endpoints: (0..SERVERS).map(endpoint).collect(),
            classes: self.classes(),
            max_waiting: self.queue,
            ..self.station()
        }
    }
}
