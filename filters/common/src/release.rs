//! The order in which the heads of responses are released, for a host that can hold a head but no
//! part of a body.
//!
//! A response that has begun cannot be held again, so the order is that in which responses begin.
//! Responses go in lanes by their size. Those of the first lane are small: they begin in the
//! policy's order as fast as the link carries them, one quantum of the link ahead. In each other
//! lane one response is in progress at a time, the policy's first, and none begins while a response
//! of a smaller lane waits for the link. So the rest of a large response never stands before
//! another large one, and small ones wait for the kernel's buffers alone. A response that is held
//! by its class's own limits stands before none. One whose client takes little keeps no lane: it
//! goes on beside others.
//!
//! The link is a virtual clock that all workers share, and so are the places in the lanes. The
//! policy's order holds within a worker.

use std::collections::BTreeMap;
use std::time::Duration;

use sprat_config::resolved::{Class, FilterUplink};
use sprat_scheduler::{
    Desk, Egress, EgressPolicy, FlowId, FlowSpec, Grants, Pacer, Size, Time, WireCost,
};

use crate::clock::{is_recent, latest};
use crate::host::{Host, StreamId};
use crate::metrics::Counter;
use crate::response::ResponseSpec;

/// The most bytes of a response in each lane but the last.
const LANES: [u64; 2] = [8 << 10, 32 << 10];

/// The lateness of a host's tick.
const LATENESS: Duration = Duration::from_millis(8);

/// The most work that the link may still have before it when a large response begins.
const BEHIND: Duration = Duration::from_millis(3);

/// The time after which a place in a lane is free again if its holder has not renewed it: the
/// worker is gone, or the client takes little.
const LEASE: Duration = Duration::from_secs(2);

/// The divisor of what the link carries: a response keeps its lane while it passes at least that
/// part. One that passes less leaves the link to others.
const KEEPS_PART: u64 = 4;

/// The bytes that a head adds to a response.
const HEAD_BYTES: u64 = 220;

/// The most attempts at one write, while other workers' writes come before it.
const ATTEMPTS: usize = 4;

/// The key that the clock is shared under.
const CLOCK: &str = "sprat.clock";

/// The release of one worker's responses.
#[derive(Debug)]
pub(crate) struct Release {
    clock: Pacer,
    /// The order of the responses that wait in each lane; the times are the clock's.
    lanes: Vec<Desk<StreamId>>,
    responses: BTreeMap<StreamId, LaneResponse>,
    worker: u64,
    /// The number of the last attempt to take a place in a lane.
    attempts: u64,
    held: usize,
    max_flows: usize,
}

#[derive(Clone, Copy, Debug)]
struct LaneResponse {
    lane: usize,
    flow: FlowId,
    bytes: u64,
    held: bool,
    /// The number under which the response has taken its place in the lane.
    number: u64,
    /// The time at which the worker last renewed the place in the lane.
    renewed: Time,
    /// The bytes of the body that have passed since the last renewal.
    passed: u64,
}

/// The outcome of one look at a lane.
enum Turn {
    /// The response begins now.
    Begins(StreamId),
    /// The lane has no response that waits for the link or for another response.
    Empty,
    /// The first response has to wait until the link or the lane is free.
    Waits,
}

impl Release {
    /// Creates the release of one worker's responses at that rate.
    pub(crate) fn new(
        uplink: &FilterUplink,
        rate_bits_per_s: u64,
        classes: &[Class],
        worker: u64,
    ) -> Self {
        let policy = EgressPolicy {
            max_flows: uplink.max_flows,
            floor_percent: uplink.floor_percent,
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
            attempts: 0,
            held: 0,
            max_flows: uplink.max_flows,
        }
    }

    /// Returns the number of responses whose head is held.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns the time that the link needs for the responses released and those held.
    pub(crate) fn backlog(&self, now: Time) -> Duration {
        let held = self.responses.values().filter(|own| own.held);
        let bytes: u64 = held.map(|own| own.bytes).sum();
        let queued = self.clock.time_for(WireCost::ETHERNET_IPV4.bytes(bytes));
        self.clock.free_at().since(now).saturating_add(queued)
    }

    /// Takes a response's head, and returns whether the host must hold it.
    pub(crate) fn open(
        &mut self,
        now: Time,
        id: StreamId,
        spec: ResponseSpec,
        host: &mut dyn Host,
    ) -> bool {
        let size = spec.size;
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
        let flow_spec = FlowSpec::new(spec.class, size, WireCost::ETHERNET_IPV4);
        let Ok(flow) = self.lanes[lane].open(now, flow_spec) else {
            host.count(Counter::Unscheduled, 1);
            return false;
        };
        let response = LaneResponse {
            lane,
            flow,
            bytes,
            held: true,
            number: 0,
            renewed: now,
            passed: 0,
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

    /// Releases the responses whose turn it is. Returns whether `own` is one of them, for which the
    /// host is not called.
    pub(crate) fn pump(&mut self, now: Time, own: Option<StreamId>, host: &mut dyn Host) -> bool {
        let mut found = false;
        if self.held == 0 {
            return found;
        }
        self.read_clock(now, host);
        for lane in 0..self.lanes.len() {
            loop {
                let id = match self.begin(now, lane, host) {
                    Turn::Begins(id) => id,
                    Turn::Empty => break,
                    // The smaller response goes first.
                    Turn::Waits => return found,
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

    /// Returns the holder of a place for this worker's response of that number.
    fn holder(&self, response: u64) -> Holder {
        let worker = self.worker;
        Holder { worker, response }
    }

    /// Lets the first response of a lane begin, if link and lane are free.
    fn begin(&mut self, now: Time, lane: usize, host: &mut dyn Host) -> Turn {
        if self.lanes[lane].egress().urgency(now).is_none() {
            return Turn::Empty;
        }
        self.attempts += 1;
        let holder = self.holder(self.attempts);
        let open = match lane {
            0 => self.clock.next_grant_at() <= now,
            _ => self.clock.free_at().since(now) <= BEHIND && take(&place(lane), holder, now, host),
        };
        if !open {
            return Turn::Waits;
        }
        // When, is for the clock to say; also if time has been set back.
        self.lanes[lane].egress_mut().resume_at(Time::ZERO);
        let Some(&id) = self.lanes[lane].next(now) else {
            // The first takes what others leave, and these are about to send.
            if lane > 0 {
                leave(&place(lane), holder, host);
            }
            return Turn::Empty;
        };
        let Some(response) = self.responses.get_mut(&id) else {
            return Turn::Empty;
        };
        response.held = false;
        response.number = holder.response;
        response.renewed = now;
        self.held -= 1;
        // All of it counts as sent, or its end would give its class's rate back.
        self.lanes[lane].take(now, response.flow);
        if lane == 0 {
            let bytes = response.bytes + HEAD_BYTES;
            self.debit(now, WireCost::ETHERNET_IPV4.bytes(bytes), host);
        }
        Turn::Begins(id)
    }

    /// Notes that `bytes` of a response's body have passed. The response keeps its lane if it uses
    /// the link, but not if it trickles.
    pub(crate) fn passed(&mut self, now: Time, id: StreamId, bytes: u64, host: &mut dyn Host) {
        let Some(response) = self.responses.get_mut(&id) else {
            return;
        };
        if response.lane == 0 {
            return;
        }
        response.passed = response.passed.saturating_add(bytes);
        if is_recent(now, response.renewed, LEASE / 4) {
            return;
        }
        let carried = self.clock.bytes_in(now.since(response.renewed));
        if response.passed >= carried / KEEPS_PART {
            response.renewed = now;
            response.passed = 0;
            let (lane, number) = (response.lane, response.number);
            renew(&place(lane), self.holder(number), now, host);
        }
    }

    /// Removes a response that has ended, or whose client has gone.
    pub(crate) fn close(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        let Some(response) = self.responses.remove(&id) else {
            return;
        };
        self.lanes[response.lane].close(now, response.flow);
        if response.held {
            self.held -= 1;
        } else if response.lane > 0 {
            let holder = self.holder(response.number);
            leave(&place(response.lane), holder, host);
        }
        self.pump(now, None, host);
    }

    /// Returns the time of the next [`Release::pump`].
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        (self.held > 0).then(|| self.clock.next_grant_at())
    }

    /// Takes over the debits of all workers, and returns the record's version. A record from a
    /// clock that was set back since is not believed.
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

/// The holder of a lane's place.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Holder {
    /// The worker's number; 0 if the place is free.
    worker: u64,
    /// The number of the worker's response.
    response: u64,
}

impl Holder {
    /// The holder of a free place.
    const NONE: Self = Self {
        worker: 0,
        response: 0,
    };
}

/// Returns the key that a lane's place is shared under. The value has a worker's number, the time
/// of its last renewal, and the number of the response.
fn place(lane: usize) -> String {
    format!("sprat.lane.{lane}")
}

/// Reads the holder of a place, and the time of its last renewal.
fn read(value: Option<Vec<u8>>) -> (Holder, Time) {
    let value = value.unwrap_or_default();
    let [worker, since, response] =
        [0_usize, 8, 16].map(|at| number(value.get(at..).unwrap_or_default()).unwrap_or(0));
    (Holder { worker, response }, Time::from_nanos(since))
}

/// Takes a lane's place. Returns false if another response has it.
fn take(key: &str, holder: Holder, now: Time, host: &mut dyn Host) -> bool {
    let (value, version) = host.shared(key);
    let (present, since) = read(value);
    let taken = present.worker != 0 && is_recent(now, since, LEASE);
    !taken && write(key, holder, now, version, host)
}

fn write(key: &str, holder: Holder, now: Time, version: u32, host: &mut dyn Host) -> bool {
    let value = [holder.worker, now.as_nanos(), holder.response].map(u64::to_le_bytes);
    host.set_shared(key, &value.concat(), version)
}

/// Renews a place, if this holder has it.
fn renew(key: &str, holder: Holder, now: Time, host: &mut dyn Host) {
    let (value, version) = host.shared(key);
    if read(value).0 == holder {
        write(key, holder, now, version, host);
    }
}

/// Frees a place, if this holder has it.
fn leave(key: &str, holder: Holder, host: &mut dyn Host) {
    for _ in 0..ATTEMPTS {
        let (value, version) = host.shared(key);
        let own = read(value).0 == holder;
        if !own || write(key, Holder::NONE, Time::ZERO, version, host) {
            return;
        }
    }
}
