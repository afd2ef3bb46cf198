//! The health of a cluster's endpoints: by their answers (outlier detection), and by active checks.
//!
//! A driver reports the outcomes of requests ([`Health::observe`]) and of checks
//! ([`Health::checked`]), calls [`Health::expire`] when [`Health::next_wakeup`] says so, and passes
//! what [`Health::poll`] returns to the cluster's [`Station`](crate::station::Station).
//!
//! An endpoint is named by its slot at the station.

mod backoff;
mod checks;
mod outliers;

use std::collections::VecDeque;

pub use backoff::{Backoff, jittered, lengthened};
use checks::Streak;
pub use checks::Thresholds;
pub use outliers::{Ejection, Offence, Outcome, OutlierConfig, SuccessRate};
use outliers::{Outliers, Record};

use crate::Time;

/// A change of an endpoint's health: the station is to take the endpoint out of use, or back in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The slot of the endpoint.
    pub endpoint: usize,
    /// Whether the endpoint is out of use.
    pub out: bool,
}

/// The reason why an endpoint is out of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The endpoint's answers have ejected it, until this time.
    Ejected(Offence, Time),
    /// The endpoint fails its active checks.
    Unhealthy,
}

/// The health of an endpoint, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointHealth {
    /// The end of the endpoint's ejection, if its answers have ejected it.
    pub ejected_until: Option<Time>,
    /// Whether the endpoint passes its checks; `None` before the first.
    pub passes_checks: Option<bool>,
}

impl EndpointHealth {
    /// Returns whether an ejection or failed checks keep the endpoint out of use.
    pub fn is_out(&self) -> bool {
        self.ejected_until.is_some() || self.passes_checks == Some(false)
    }
}

/// The health of a cluster's endpoints; the module says how a driver uses it.
#[derive(Clone, Debug)]
pub struct Health {
    outliers: Option<Outliers>,
    thresholds: Option<Thresholds>,
    members: Vec<MemberHealth>,
    changes: VecDeque<Change>,
}

#[derive(Clone, Debug, Default)]
struct MemberHealth {
    present: bool,
    record: Record,
    streak: Streak,
    told_out: bool,
}

impl Health {
    /// Creates the health of endpoints of which nothing is known, in the slots from 0 to
    /// `endpoints` - 1. A rule that is `None` takes no endpoint out of use.
    pub fn new(
        outliers: Option<OutlierConfig>,
        thresholds: Option<Thresholds>,
        endpoints: usize,
    ) -> Self {
        let present = MemberHealth {
            present: true,
            ..MemberHealth::default()
        };
        Self {
            outliers: outliers.map(Outliers::new),
            thresholds,
            members: vec![present; endpoints],
            changes: VecDeque::new(),
        }
    }

    /// Sets the slots that endpoints are in now, and forgets what was known of the others.
    pub fn set_endpoints(&mut self, slots: &[usize]) {
        for (slot, member) in self.members.iter_mut().enumerate() {
            if !slots.contains(&slot) {
                *member = MemberHealth::default();
            }
        }
        for &slot in slots {
            if self.members.len() <= slot {
                self.members.resize_with(slot + 1, MemberHealth::default);
            }
            self.members[slot].present = true;
        }
    }

    /// Takes over what `before` knew of the same endpoints. `slots` has, for each slot here, the
    /// endpoint's slot there. What no rule here looks at is forgotten; the counts of ejections go
    /// on.
    pub fn take_over(&mut self, before: &Self, slots: &[Option<usize>]) {
        for (slot, known) in slots.iter().enumerate() {
            let known = known.and_then(|slot| before.members.get(slot));
            let (Some(own), Some(known)) = (self.members.get_mut(slot), known) else {
                continue;
            };
            if self.outliers.is_some() {
                own.record = known.record.clone();
            }
            if self.thresholds.is_some() {
                own.streak = known.streak;
            }
            self.tell(slot);
        }
        if let (Some(own), Some(before)) = (&mut self.outliers, &before.outliers) {
            own.take_over(before);
        }
    }

    /// Takes in the outcome of a request at an endpoint. `random` decides the jitter of an
    /// ejection.
    pub fn observe(&mut self, now: Time, endpoint: usize, outcome: Outcome, random: u64) {
        let Some(outliers) = &mut self.outliers else {
            return;
        };
        let Some(member) = self.members.get_mut(endpoint).filter(|m| m.present) else {
            return;
        };
        if let Some(offence) = member.record.observe(outliers.config(), outcome) {
            self.eject(now, endpoint, offence, random);
        }
    }

    /// Takes in the result of an active check of an endpoint.
    pub fn checked(&mut self, endpoint: usize, passed: bool) {
        let Some(thresholds) = self.thresholds else {
            return;
        };
        if let Some(member) = self.members.get_mut(endpoint).filter(|m| m.present) {
            member.streak.observe(thresholds, passed);
            self.tell(endpoint);
        }
    }

    /// Ends ejections that are over, and compares success rates at the end of an interval. `random`
    /// decides the jitter of ejections.
    pub fn expire(&mut self, now: Time, random: u64) {
        for endpoint in 0..self.members.len() {
            if self.members[endpoint].record.is_over(now) {
                self.members[endpoint].record.readmit();
                self.tell(endpoint);
            }
        }
        let Some(outliers) = &mut self.outliers else {
            return;
        };
        if outliers.sweep_due(now) {
            let members = self.members.iter_mut().filter(|member| member.present);
            let low = outliers.low_success_rates(members.map(|member| &member.record));
            let low: Vec<usize> = (0..self.members.len())
                .filter(|&slot| self.members[slot].present)
                .zip(low)
                .filter_map(|(slot, low)| low.then_some(slot))
                .collect();
            for endpoint in low {
                let offence = Offence {
                    cause: Ejection::SuccessRate,
                    in_a_row: None,
                };
                self.eject(now, endpoint, offence, random);
            }
            for member in &mut self.members {
                member.record.begin_interval();
            }
        }
    }

    /// Returns when to call [`Health::expire`] next.
    pub fn next_wakeup(&self) -> Option<Time> {
        let outliers = self.outliers.as_ref()?;
        let ends = self.members.iter().filter_map(|m| m.record.ejected_until());
        ends.chain([outliers.next_sweep()]).min()
    }

    /// Returns the next change, if any. A driver calls it after each other call, until it returns
    /// `None`.
    pub fn poll(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    /// Returns the health of the endpoint in a slot; the default for a slot never used.
    pub fn endpoint(&self, endpoint: usize) -> EndpointHealth {
        let Some(member) = self.members.get(endpoint) else {
            return EndpointHealth::default();
        };
        EndpointHealth {
            ejected_until: member.record.ejected_until(),
            passes_checks: member.streak.passes(),
        }
    }

    /// Returns why an endpoint is out of use, if it is.
    pub fn cause(&self, endpoint: usize) -> Option<Cause> {
        let member = self.members.get(endpoint)?;
        let ejection = member.record.ejection();
        let ejected = ejection.map(|(until, offence)| Cause::Ejected(offence, until));
        let unhealthy = (member.streak.passes() == Some(false)).then_some(Cause::Unhealthy);
        ejected.or(unhealthy)
    }

    /// Returns the number of ejections so far, by [`Ejection::index`].
    pub fn ejections(&self) -> [u64; Ejection::ALL.len()] {
        self.outliers
            .as_ref()
            .map_or_else(Default::default, Outliers::ejections)
    }

    /// Returns the number of ejections so far that the bound on them has prevented.
    pub fn ejections_prevented(&self) -> u64 {
        self.outliers.as_ref().map_or(0, Outliers::prevented)
    }

    fn eject(&mut self, now: Time, endpoint: usize, offence: Offence, random: u64) {
        let Some(outliers) = &mut self.outliers else {
            return;
        };
        let present = self.members.iter().filter(|member| member.present);
        let ejected = present
            .clone()
            .filter(|m| m.record.ejected_until().is_some());
        let (present, ejected) = (present.count(), ejected.count());
        let record = &mut self.members[endpoint].record;
        if record.ejected_until().is_none() && outliers.allows(offence.cause, ejected, present) {
            record.eject(now, outliers.config(), offence, random);
            self.tell(endpoint);
        }
    }

    fn tell(&mut self, endpoint: usize) {
        let out = self.endpoint(endpoint).is_out();
        let member = &mut self.members[endpoint];
        if std::mem::replace(&mut member.told_out, out) != out {
            self.changes.push_back(Change { endpoint, out });
        }
    }
}

#[cfg(test)]
mod tests;
