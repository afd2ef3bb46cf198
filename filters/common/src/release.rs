//! The order in which the heads of responses are released, where the host can
//! hold a head and not a part of a body.
//!
//! A response that has begun cannot be held again, so the order has to be made
//! by what is let begin. Responses go in lanes by their size. In the first lane
//! they are small: they begin in the policy's order as fast as the link
//! carries them, one quantum of the link ahead. In each other lane one is in
//! progress at a time, the policy's first, and none begins while a response of
//! a smaller lane waits: what is left of a large one never stands before
//! another large one, and small ones wait for the kernel's buffers alone.
//!
//! The link is a virtual clock that all workers share; so are the places in
//! the lanes. The policy's order holds within a worker.

use std::collections::BTreeMap;
use std::time::Duration;

use sprat_config::resolved::{Class, FilterUplink};
use sprat_scheduler::{
    Desk, Egress, EgressPolicy, FlowId, FlowSpec, Grants, Pacer, Size, Time, WireCost,
};

use crate::clock::{is_recent, latest};
use crate::host::{Host, StreamId};
use crate::metrics::Counter;

/// The largest response of each lane but the last.
const LANES: [u64; 2] = [8 << 10, 32 << 10];

/// The lateness of a host's tick.
const LATENESS: Duration = Duration::from_millis(8);

/// A large response begins when the link has no more than this before it.
const BEHIND: Duration = Duration::from_millis(3);

/// A place in a lane is free again when nothing was heard of who has it for so
/// long: its worker is gone, or its client takes nothing.
const LEASE: Duration = Duration::from_secs(2);

/// The bytes that a head adds to a response.
const HEAD_BYTES: u64 = 220;

/// Attempts at a write that other workers come before.
const ATTEMPTS: usize = 4;

/// The key that the clock is shared under.
const CLOCK: &str = "sprat.clock";

/// The responses of one worker.
#[derive(Debug)]
pub(crate) struct Release {
    clock: Pacer,
    /// The responses that wait in each lane; the order alone, the clock is above.
    lanes: Vec<Desk<StreamId>>,
    responses: BTreeMap<StreamId, Response>,
    worker: u64,
    held: usize,
    max_flows: usize,
}

#[derive(Clone, Copy, Debug)]
struct Response {
    lane: usize,
    flow: FlowId,
    bytes: u64,
    held: bool,
    /// The time at which the worker last said that the place in the lane is in use.
    renewed: Time,
}

impl Release {
    /// Makes a release that lets bodies go at that rate.
    pub(crate) fn new(
        (uplink, rate_bits_per_s): (&FilterUplink, u64),
        classes: &[Class],
        worker: u64,
    ) -> Self {
        let policy = EgressPolicy {
            max_flows: uplink.max_flows,
            guard_factor: f64::MAX,
            classes: classes.iter().map(|class| class.spec.clone()).collect(),
            grants: Grants::Whole,
            ..EgressPolicy::new(uplink.policy.clone())
        };
        let lane = |_| Desk::new(Egress::new(Pacer::exact(u64::MAX), policy.clone()));
        let lanes = LANES.len() + 1;
        Self {
            clock: Pacer::new(rate_bits_per_s).with_lateness(LATENESS),
            lanes: (0..lanes).map(lane).collect(),
            responses: BTreeMap::new(),
            worker,
            held: 0,
            max_flows: uplink.max_flows,
        }
    }

    /// Returns the number of responses whose head is held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns how long the link needs for what was released and for what is held.
    pub(crate) fn backlog(&self, now: Time) -> Duration {
        let held = self.responses.values().filter(|own| own.held);
        let bytes: u64 = held.map(|own| own.bytes).sum();
        let queued = self.clock.time_for(WireCost::ETHERNET_IPV4.bytes(bytes));
        self.clock.free_at().since(now).saturating_add(queued)
    }

    /// Takes a response's head; returns whether it is to be held.
    pub(crate) fn open(
        &mut self,
        now: Time,
        id: StreamId,
        (class, size): (usize, Size),
        host: &mut dyn Host,
    ) -> bool {
        if size == Size::Exact(0) || self.responses.len() >= self.max_flows {
            if size != Size::Exact(0) {
                host.count(Counter::Unscheduled, 1);
            }
            self.debit(now, WireCost::ETHERNET_IPV4.bytes(HEAD_BYTES), host);
            return false;
        }
        // Of an unknown size: neither before the small nor behind the largest.
        let bytes = size.bytes().unwrap_or(LANES[0] + 1);
        let lane = LANES.partition_point(|largest| *largest < bytes);
        let spec = FlowSpec::new(class, size, WireCost::ETHERNET_IPV4);
        let Ok(flow) = self.lanes[lane].open(now, spec) else {
            host.count(Counter::Unscheduled, 1);
            return false;
        };
        let response = Response {
            lane,
            flow,
            bytes,
            held: true,
            renewed: now,
        };
        self.responses.insert(id, response);
        self.held += 1;
        let order = &mut self.lanes[lane];
        order.set_waker(flow, id);
        order.wait(now, flow, bytes.max(1));
        let own = self.pump(now, Some(id), host);
        if !own {
            host.count(Counter::Held, 1);
        }
        !own
    }

    /// Lets go what may go. True if `own` is among it, for which the host is
    /// not called.
    pub(crate) fn pump(&mut self, now: Time, own: Option<StreamId>, host: &mut dyn Host) -> bool {
        let mut found = false;
        if self.held == 0 {
            return found;
        }
        self.read_clock(now, host);
        for lane in 0..self.lanes.len() {
            while self.lanes[lane].egress().waiting_flows() > 0 {
                let Some(id) = self.begin(now, lane, host) else {
                    // The smaller response goes first.
                    return found;
                };
                match own == Some(id) {
                    true => found = true,
                    false => host.resume_response(id),
                }
                if lane > 0 {
                    break;
                }
            }
        }
        found
    }

    /// Lets the first response of a lane begin, if it may now, and returns it.
    fn begin(&mut self, now: Time, lane: usize, host: &mut dyn Host) -> Option<StreamId> {
        let open = match lane {
            0 => self.clock.next_grant_at() <= now,
            _ => {
                self.clock.free_at().since(now) <= BEHIND
                    && take(&place(lane), self.worker, now, host)
            }
        };
        if !open {
            return None;
        }
        // When, is for the clock to say; also if time has been set back.
        self.lanes[lane].egress_mut().resume_at(Time::ZERO);
        let id = *self.lanes[lane].next(now)?;
        let response = self.responses.get_mut(&id)?;
        response.held = false;
        response.renewed = now;
        self.held -= 1;
        if lane == 0 {
            let bytes = response.bytes + HEAD_BYTES;
            self.debit(now, WireCost::ETHERNET_IPV4.bytes(bytes), host);
        }
        Some(id)
    }

    /// Notes that a part of a response's body has passed.
    pub(crate) fn passed(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        let Some(response) = self.responses.get_mut(&id) else {
            return;
        };
        if response.lane == 0 {
            return;
        }
        if !is_recent(now, response.renewed, LEASE / 4) {
            response.renewed = now;
            renew(&place(response.lane), self.worker, now, host);
        }
    }

    /// Forgets a response that is over, or whose client has gone.
    pub(crate) fn close(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        let Some(response) = self.responses.remove(&id) else {
            return;
        };
        self.lanes[response.lane].close(now, response.flow);
        if response.held {
            self.held -= 1;
        } else if response.lane > 0 {
            leave(&place(response.lane), self.worker, host);
        }
        self.pump(now, None, host);
    }

    /// Returns when to call [`Release::pump`] next.
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        (self.held > 0).then(|| self.clock.next_grant_at())
    }

    /// Takes over what all have debited, and answers the record's version. What
    /// a clock has written that was set back since says nothing.
    fn read_clock(&mut self, now: Time, host: &mut dyn Host) -> u32 {
        let (value, version) = host.shared(CLOCK);
        let shared = value.as_deref().and_then(number).map(Time::from_nanos);
        let free_at = shared.unwrap_or_else(|| self.clock.free_at());
        let known = free_at <= latest(&self.clock, now);
        self.clock.resume_at(if known { free_at } else { now });
        version
    }

    fn debit(&mut self, now: Time, wire_bytes: u64, host: &mut dyn Host) {
        for _ in 0..ATTEMPTS {
            let version = self.read_clock(now, host);
            self.clock.debit(now, wire_bytes);
            let free_at = self.clock.free_at().as_nanos().to_le_bytes();
            if host.set_shared(CLOCK, &free_at, version) {
                return;
            }
            host.count(Counter::Conflicts, 1);
        }
    }
}

fn number(value: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(value.get(..8)?.try_into().ok()?))
}

/// Returns the key that a lane's place is shared under: a worker's number, and when it last said
/// that it has it.
fn place(lane: usize) -> String {
    format!("sprat.lane.{lane}")
}

/// Takes a lane's place; false if another has it.
fn take(key: &str, worker: u64, now: Time, host: &mut dyn Host) -> bool {
    let (value, version) = host.shared(key);
    let value = value.unwrap_or_default();
    let owner = number(&value).unwrap_or(0);
    let since = number(value.get(8..).unwrap_or_default()).unwrap_or(0);
    let taken = owner != 0 && is_recent(now, Time::from_nanos(since), LEASE);
    !taken && write(key, worker, now, version, host)
}

fn write(key: &str, worker: u64, now: Time, version: u32, host: &mut dyn Host) -> bool {
    let value = [worker.to_le_bytes(), now.as_nanos().to_le_bytes()].concat();
    host.set_shared(key, &value, version)
}

/// Says that a place is still in use, if it is one's own.
fn renew(key: &str, worker: u64, now: Time, host: &mut dyn Host) {
    let (value, version) = host.shared(key);
    if value.as_deref().and_then(number) == Some(worker) {
        write(key, worker, now, version, host);
    }
}

/// Gives a place back, if it is one's own.
fn leave(key: &str, worker: u64, host: &mut dyn Host) {
    for _ in 0..ATTEMPTS {
        let (value, version) = host.shared(key);
        let own = value.as_deref().and_then(number) == Some(worker);
        if !own || write(key, 0, Time::ZERO, version, host) {
            return;
        }
    }
}
