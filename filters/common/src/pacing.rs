//! The release of bodies chunk by chunk, in the policy's order and as fast as the link carries
//! them, for a host that can hold a part of a body.
//!
//! The core's `Desk` has the order of one worker's responses. A record that all workers share says
//! which worker is next, and when ([`link`]). The head of a response waits for its turn too, and
//! goes with the part of the body that is there. All that is in hand goes at once, so a grant is
//! extended to it. A part of a body that comes while its response waits joins the parts before it.

mod link;

use std::collections::BTreeMap;
use std::time::Duration;

use sprat_config::resolved::{Class, FilterUplink};
use sprat_scheduler::{
    Desk, Egress, EgressPolicy, FlowId, FlowSpec, Grants, Pacer, Size, Time, WireCost,
};

use crate::connections::Connections;
use crate::host::{Host, StreamId};
use crate::metrics::Counter;
use crate::response::ResponseSpec;
use link::Link;

const COST: WireCost = WireCost::ETHERNET_IPV4;

/// The bytes that a head adds to a response.
const HEAD_BYTES: u64 = 220;

/// The most bytes of a body that are assumed to follow the head at once.
const FOLLOWING_BYTES: u64 = 4096;

/// The client connections that are remembered, so that the opening of each is debited once.
const CONNECTIONS_REMEMBERED: usize = 4096;

/// The pacing of one worker's responses.
#[derive(Debug)]
pub(crate) struct Pacing {
    link: Link,
    /// The order of the responses; the times are the link's.
    order: Desk<StreamId>,
    responses: BTreeMap<StreamId, PacedResponse>,
    connections: Connections,
    held: usize,
}

#[derive(Clone, Copy, Debug)]
struct PacedResponse {
    flow: FlowId,
    /// The bytes that are held, the head's among them.
    in_hand: u64,
    is_held: bool,
    /// The bytes that are debited already and may pass.
    prepaid: u64,
    /// Whether nothing comes after the bytes in hand.
    has_ended: bool,
}

impl Pacing {
    /// Creates the pacing of one worker's responses at that rate. The number `bell` is the one by
    /// which the host calls this worker.
    pub(crate) fn new(
        uplink: &FilterUplink,
        rate_bits_per_s: u64,
        classes: &[Class],
        worker: u64,
        bell: Option<u32>,
    ) -> Self {
        let policy = EgressPolicy {
            max_flows: uplink.max_flows,
            floor_percent: uplink.floor_percent,
            guard_factor: f64::MAX,
            classes: classes.iter().map(|class| class.spec.clone()).collect(),
            grants: Grants::Whole,
            ..EgressPolicy::new(uplink.policy.clone())
        };
        Self {
            link: Link::new(rate_bits_per_s, worker, bell),
            order: Desk::new(Egress::new(Pacer::exact(u64::MAX), policy)),
            responses: BTreeMap::new(),
            connections: Connections::new(CONNECTIONS_REMEMBERED),
            held: 0,
        }
    }

    /// Returns the number of responses with held parts.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns the time that the link needs for the bytes released and those still to go.
    pub(crate) fn backlog(&self, now: Time) -> Duration {
        let left = self.order.egress().unsent_bytes();
        let queued = self.link.clock().time_for(COST.bytes(left));
        self.link
            .clock()
            .free_at()
            .since(now)
            .saturating_add(queued)
    }

    /// Takes a response's head, and returns whether the host must hold it.
    pub(crate) fn open(
        &mut self,
        now: Time,
        id: StreamId,
        spec: ResponseSpec,
        host: &mut dyn Host,
    ) -> bool {
        let opening = self.opening(id, host);
        let size = spec.size;
        let flow_spec = FlowSpec::new(spec.class, with_head(size), COST);
        let flow = match size {
            Size::Exact(0) => None,
            _ => self.order.open(now, flow_spec).ok(),
        };
        let Some(flow) = flow else {
            if size != Size::Exact(0) {
                host.count(Counter::Unscheduled, 1);
            }
            let wire_bytes = opening + COST.bytes(HEAD_BYTES);
            self.link
                .send(now, wire_bytes, self.order.egress().urgency(now), host);
            return false;
        };
        if opening > 0 {
            self.link
                .send(now, opening, self.order.egress().urgency(now), host);
        }
        self.order.set_waker(flow, id);
        let following = match size {
            Size::Exact(bytes) => bytes.min(FOLLOWING_BYTES),
            Size::Estimate { .. } | Size::Unknown => 0,
        };
        let response = PacedResponse {
            flow,
            in_hand: HEAD_BYTES,
            is_held: true,
            prepaid: following,
            has_ended: false,
        };
        self.responses.insert(id, response);
        self.held += 1;
        self.order.wait(now, flow, HEAD_BYTES + following);
        let goes = self.pump(now, Some(id), host);
        if !goes {
            host.count(Counter::Held, 1);
        }
        !goes
    }

    /// Returns the wire bytes of opening the client's connection, if it is new.
    fn opening(&mut self, id: StreamId, host: &mut dyn Host) -> u64 {
        let Some(connection) = host.connection(id) else {
            return 0;
        };
        if !self.connections.is_new(connection) {
            return 0;
        }
        u64::from(COST.connection_overhead)
    }

    /// Takes a part of a body, the last if `end`. Returns whether the host must hold it, with the
    /// parts held before.
    pub(crate) fn body(
        &mut self,
        now: Time,
        id: StreamId,
        bytes: u64,
        end: bool,
        host: &mut dyn Host,
    ) -> bool {
        let Some(response) = self.responses.get_mut(&id) else {
            return false;
        };
        response.has_ended |= end;
        if !response.is_held {
            let prepaid = bytes.min(response.prepaid);
            response.prepaid -= prepaid;
            if prepaid > 0 || bytes == 0 || host.resumes(id) {
                // It is this response's turn still.
                let flow = response.flow;
                self.extend(now, flow, bytes - prepaid, host);
                self.close_if_ended(now, id);
                self.pump(now, None, host);
                return false;
            }
            response.is_held = true;
            self.held += 1;
        }
        response.in_hand += bytes;
        let (flow, in_hand) = (response.flow, response.in_hand);
        self.order.wait(now, flow, in_hand);
        let goes = self.pump(now, Some(id), host);
        if !goes {
            host.count(Counter::HeldChunks, 1);
        }
        !goes
    }

    /// Takes the trailers, and returns whether the host must hold them, with the parts held before.
    ///
    /// Trailers are also held behind a part that was released and has not gone yet, even if a
    /// further part of a body would take that along. The reason: Envoy releases a held head, and
    /// hands over the body and the trailers behind it in one go. If the trailers passed where the
    /// body was held, Envoy would begin with the body again, find that the filter has had the end,
    /// and drop the body.
    pub(crate) fn trailers(&mut self, now: Time, id: StreamId, host: &dyn Host) -> bool {
        if let Some(response) = self.responses.get_mut(&id) {
            response.has_ended = true;
            if response.is_held {
                return true;
            }
            self.close_if_ended(now, id);
        }
        host.resumes(id)
    }

    /// Removes a response that has ended, or whose client has gone.
    pub(crate) fn close(&mut self, now: Time, id: StreamId, host: &mut dyn Host) {
        if let Some(response) = self.responses.remove(&id) {
            self.order.close(now, response.flow);
            self.held -= usize::from(response.is_held);
        }
        self.pump(now, None, host);
    }

    /// Releases the responses whose turn it is. Returns whether `own` is one of them, for which the
    /// host is not called.
    pub(crate) fn pump(&mut self, now: Time, own: Option<StreamId>, host: &mut dyn Host) -> bool {
        let mut found = false;
        if self.order.egress().waiting_flows() > 0 && self.link.may_be_free(now) {
            self.link.look(now, host);
            // When, is for the link to say; also if time has been set back.
            self.order.egress_mut().resume_at(Time::ZERO);
            while let Some(id) = self.next(now, host) {
                match own == Some(id) {
                    true => found = true,
                    false => host.resume_response(id),
                }
            }
        }
        let first = self.order.egress().urgency(now);
        self.link.tell(now, first, host);
        found
    }

    /// Returns the time of the next [`Pacing::pump`].
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        (self.held > 0).then(|| self.link.clock().next_grant_at())
    }

    /// Takes the next response whose turn it is, and debits its bytes.
    fn next(&mut self, now: Time, host: &mut dyn Host) -> Option<StreamId> {
        let urgency = self.order.egress().urgency(now)?;
        if !self.link.may_be_free(now) || self.link.yields(now, urgency, host) {
            return None;
        }
        let id = *self.order.next(now)?;
        let response = self.responses.get_mut(&id)?;
        response.is_held = false;
        self.held -= 1;
        // With a head goes what follows it.
        let whole = std::mem::take(&mut response.in_hand) + response.prepaid;
        self.order.take(now, response.flow);
        self.order.written(now, response.flow, whole);
        let next = self.order.egress().urgency(now);
        self.link.send(now, COST.bytes(whole), next, host);
        self.close_if_ended(now, id);
        Some(id)
    }

    /// Extends a grant by `bytes`, and debits them.
    fn extend(&mut self, now: Time, flow: FlowId, bytes: u64, host: &mut dyn Host) {
        if bytes == 0 {
            return;
        }
        self.order.written(now, flow, bytes);
        let first = self.order.egress().urgency(now);
        self.link.send(now, COST.bytes(bytes), first, host);
    }

    /// Removes a response if nothing comes after the bytes that went.
    fn close_if_ended(&mut self, now: Time, id: StreamId) {
        if let Some(response) = self.responses.get(&id)
            && response.has_ended
        {
            self.order.close(now, response.flow);
            self.responses.remove(&id);
        }
    }
}

/// Returns the size of a response including its head.
fn with_head(size: Size) -> Size {
    match size {
        Size::Exact(bytes) => Size::Exact(bytes.saturating_add(HEAD_BYTES)),
        Size::Estimate { bytes, confidence } => Size::Estimate {
            bytes: bytes.saturating_add(HEAD_BYTES),
            confidence,
        },
        Size::Unknown => Size::Unknown,
    }
}
