//! Endpoints that come and go while requests are served.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, MutexGuard};
use std::task::Waker;

use sprat_scheduler::Time;
use tokio::sync::futures::Notified;

use super::condition::tell_panic;
use super::members::Member;
use super::station::{Decisions, SharedStation};
use crate::dns::{Follow, Name};

/// A station's endpoints at a moment.
pub(super) struct Snapshot {
    pub(super) version: u64,
    /// The members by slot; those that are gone may still have requests.
    pub(super) by_slot: Vec<Arc<Member>>,
    /// The slots of the members that are present, in order.
    pub(super) present: Vec<usize>,
}

impl Snapshot {
    /// Returns the members that are present, with their slots.
    pub(super) fn present(&self) -> impl Iterator<Item = (usize, &Arc<Member>)> {
        let slots = self.present.iter();
        slots.map(|&slot| (slot, &self.by_slot[slot]))
    }
}

impl SharedStation {
    /// Follows the changes of the endpoints' names, and takes in those that there were
    /// meanwhile.
    pub(super) fn follow_names(self: &Arc<Self>) {
        let names = self.source.names();
        for name in &names {
            let own: Arc<dyn Follow> = Arc::<Self>::clone(self);
            name.follow(Arc::downgrade(&own));
        }
        if !names.is_empty() {
            self.names_changed();
        }
    }

    /// Returns the names among the station's endpoints.
    pub fn names(&self) -> Vec<&Arc<Name>> {
        self.source.names()
    }

    /// Returns the version of the endpoints, which grows with every change of them. A request
    /// that was given a slot sees the version that the slot belongs to, or a later one.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// Returns the endpoints at present.
    pub(super) fn members(&self) -> Snapshot {
        let decisions = self.lock();
        Snapshot {
            version: self.version(),
            by_slot: decisions.members.by_slot.clone(),
            present: decisions.members.present.clone(),
        }
    }

    /// Returns the first slot whose endpoint is in use, from the one that `number` falls to on.
    pub(super) fn in_use(&self, number: u64) -> Option<usize> {
        let decisions = self.lock();
        let present = &decisions.members.present;
        let first = number.checked_rem(present.len() as u64)? as usize;
        let (before, after) = present.split_at(first);
        let mut slots = after.iter().chain(before).copied();
        slots.find(|&slot| decisions.station.is_usable(slot))
    }

    /// Returns the slots of endpoints that get no requests at present.
    pub(super) fn out_of_use(&self) -> Vec<usize> {
        let decisions = self.lock();
        let slots = decisions.members.present.iter().copied();
        let out = slots.filter(|&slot| !decisions.station.is_usable(slot));
        out.collect()
    }

    /// Waits until the endpoints change after this call.
    pub(super) fn replaced(&self) -> Notified<'_> {
        self.replaced.notified()
    }
}

impl Decisions {
    /// Replaces the endpoints by those that the source has now, if they differ.
    fn replace(&mut self, now: Time, own: &SharedStation) -> Replaced {
        let mut found = own.source.members(&self.members.by_slot);
        self.weights.apply(&mut found);
        let there = self.members.present().map(|(_, member)| member);
        let same = there
            .map(Arc::as_ptr)
            .eq(found.iter().map(|(member, _)| Arc::as_ptr(member)));
        let (members, specs): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        if same && specs == self.specs {
            return Replaced::Nothing;
        }
        let slots = self.station.set_endpoints(now, &specs);
        self.specs = specs;
        if same {
            return Replaced::Shares;
        }
        let kept = self.members.set(slots.clone(), members);
        // First without those that have come, so that nothing is left in their
        // slots of those who had them before.
        self.health.set_endpoints(&kept);
        self.health.set_endpoints(&slots);
        Replaced::Endpoints
    }
}

/// The kind of a change of a station's endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    Nothing,
    /// The endpoints are the same, and their shares of the requests are others.
    Shares,
    /// Some endpoints have come, or are gone.
    Endpoints,
}

impl Follow for SharedStation {
    fn names_changed(&self) {
        self.renew(self.lock());
    }
}

impl SharedStation {
    /// Replaces the endpoints by the present ones, and carries out what follows from that.
    pub(super) fn renew(&self, mut decisions: MutexGuard<'_, Decisions>) {
        let now = Time::ZERO + self.epoch.elapsed();
        let panicked = decisions.station.panics();
        let replaced = decisions.replace(now, self);
        if replaced == Replaced::Nothing {
            return;
        }
        let panics = decisions.station.panics();
        let wakers = decisions.settle();
        // Within the lock: slots are handed out under it.
        self.version.fetch_add(1, Release);
        let count = decisions.members.present.len();
        drop(decisions);
        wakers.into_iter().for_each(Waker::wake);
        self.replaced.notify_waiters();
        self.absence.end();
        if replaced == Replaced::Endpoints {
            tracing::info!(
                cluster = self.name,
                endpoints = count,
                "a cluster has other endpoints"
            );
        }
        tell_panic(&self.name, panicked, panics);
    }

    /// Gives the endpoint with this label another share of the requests; returns false if there
    /// is none. The share stays as long as the endpoint does and has the same weight in the
    /// configuration, over reloads and changes of the others.
    pub fn set_weight(&self, endpoint: &str, weight: u32) -> bool {
        let mut decisions = self.lock();
        let configured = self.source.members(&decisions.members.by_slot);
        let found = configured.iter().find(|(own, _)| own.label == endpoint);
        let Some((_, spec)) = found else {
            return false;
        };
        decisions.weights.give(endpoint, weight, spec.weight);
        self.renew(decisions);
        tracing::info!(cluster = %self.name, %endpoint, weight, "an endpoint has another weight");
        true
    }
}
