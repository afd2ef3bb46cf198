//! The response of a stream, held until its turn comes.

use std::sync::Arc;

use sprat_config::fields::announced_length;
use sprat_filter::ResponseSpec;
use sprat_scheduler::{FlowId, Size, Time};

use super::Step;
use crate::head::{HeadOf, framing_bytes, head_bytes, is_tunnel};
use crate::host::{Fields, Host, Metric};
use crate::link::{Asked, Link};
use crate::timer::Ticking;

/// The progress of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The response has not begun, or has ended.
    Absent,
    /// The response is not scheduled: it is a tunnel, or there is no uplink.
    Unscheduled,
    /// The response goes at once, and is debited: too many are open already, or nothing may be
    /// held.
    Unpaced,
    /// The head is held until the first bytes of the body come.
    Head,
    /// A part of the response is held, and waits for its turn.
    Waiting,
    /// All parts that came have gone.
    Flowing,
}

/// The response of one stream, under the uplink.
pub(super) struct Response {
    uplink: Option<Arc<Ticking<Link>>>,
    phase: Phase,
    flow: Option<FlowId>,
    /// The bytes of the head, while it is held.
    head: u64,
    /// The bytes that the wire adds to each chunk.
    framing: u64,
    /// Whether nothing comes after the parts in hand.
    ended: bool,
    /// Whether the response may be held, because Envoy could release it later.
    pub(super) may_hold: bool,
}

impl Response {
    /// Creates a response under an uplink; without one it is not scheduled.
    pub(super) fn new(uplink: Option<Arc<Ticking<Link>>>) -> Self {
        Self {
            phase: match uplink {
                Some(_) => Phase::Absent,
                None => Phase::Unscheduled,
            },
            uplink,
            flow: None,
            head: 0,
            framing: 0,
            ended: false,
            may_hold: true,
        }
    }

    /// Notes that the request's head has come.
    pub(super) fn on_request(&self, host: &impl Host, now: Time) {
        if let Some(uplink) = &self.uplink
            && let Some(connection) = host.connection()
        {
            uplink.on_request(now, connection);
        }
    }

    /// Takes the head, which is the whole response if `end`. The `spec` is its class and size, as
    /// far as they are known.
    pub(super) fn on_head(
        &mut self,
        host: &impl Host,
        now: Time,
        spec: ResponseSpec,
        end: bool,
    ) -> Step {
        let Some(uplink) = self.uplink.clone() else {
            return Step::Continue;
        };
        // A local reply of Envoy's takes the place of what had begun.
        self.close(now);
        if is_tunnel(host) {
            self.phase = Phase::Unscheduled;
            return Step::Continue;
        }
        let head = head_bytes(host);
        self.ended = end;
        if !self.may_hold {
            return self.pass(now, head);
        }
        if end {
            if uplink.fast_path(now, head) {
                self.phase = Phase::Flowing;
                return Step::Continue;
            }
            let flow = uplink.open_express(now, spec.class, head);
            return match self.enter(host, flow, head) {
                Some(()) => self.ask(host, now, head),
                None => self.pass(now, head),
            };
        }
        self.framing = framing_bytes(host);
        let length = announced_length(&HeadOf(host, Fields::Response));
        let whole = length.map(|bytes| Size::Exact(bytes.saturating_add(head)));
        let size = whole.unwrap_or(spec.size);
        if self
            .open(host, now, ResponseSpec { size, ..spec }, head)
            .is_none()
        {
            return self.pass(now, head);
        }
        match length {
            Some(_) => self.hold_head(host, now),
            // The sooner it goes, the sooner the client can do something.
            None if uplink.fast_path(now, head) => {
                self.head = 0;
                self.phase = Phase::Flowing;
                Step::Continue
            }
            None => self.ask(host, now, head),
        }
    }

    /// Takes a part of the response's body.
    pub(super) fn on_body(&mut self, host: &impl Host, now: Time, end: bool) -> Step {
        let received = host.received_bytes();
        self.ended |= end;
        match self.phase {
            Phase::Absent | Phase::Unscheduled => Step::Continue,
            Phase::Unpaced => self.pass(now, received),
            Phase::Flowing if received == 0 => {
                self.close_if_ended(now);
                Step::Continue
            }
            Phase::Head if received == 0 && !end => Step::Hold,
            Phase::Flowing => self.ask(host, now, received + self.framing),
            Phase::Head | Phase::Waiting => {
                let bytes = self.in_hand(host) + received;
                self.ask(host, now, bytes)
            }
        }
    }

    /// Takes the trailers, with which the response ends.
    pub(super) fn on_trailers(&mut self, host: &impl Host, now: Time) -> Step {
        self.ended = true;
        match self.phase {
            Phase::Absent | Phase::Unscheduled | Phase::Unpaced => Step::Continue,
            Phase::Flowing => {
                self.close(now);
                Step::Continue
            }
            Phase::Head => self.ask(host, now, self.in_hand(host)),
            Phase::Waiting => Step::Hold,
        }
    }

    /// Takes the response's turn after a wake-up, if it has one. [`Step::Continue`] releases
    /// everything that is held.
    pub(super) fn on_woken(&mut self, host: &impl Host, now: Time) -> Step {
        let (Phase::Head | Phase::Waiting, Some(uplink), Some(flow)) =
            (self.phase, &self.uplink, self.flow)
        else {
            return Step::Hold;
        };
        let bytes = self.in_hand(host);
        let Some(seconds) = uplink.take_turn(now, flow, bytes) else {
            return Step::Hold;
        };
        host.count(Metric::Waits, 1);
        host.count(Metric::WaitSeconds, seconds);
        self.let_go(host, now, bytes);
        Step::Continue
    }

    /// Notes that the stream has ended, in whatever way.
    pub(super) fn on_complete(&mut self, now: Time) {
        self.close(now);
        self.phase = Phase::Absent;
    }

    /// Gives up the response after a panic: its stream goes on without pacing.
    pub(super) fn give_up(&mut self, now: Time) {
        self.phase = Phase::Unscheduled;
        self.close(now);
    }

    fn open(&mut self, host: &impl Host, now: Time, spec: ResponseSpec, head: u64) -> Option<()> {
        let flow = self.uplink.as_ref()?.open(now, spec.class, spec.size);
        self.enter(host, flow, head)
    }

    /// Takes over the flow that was opened for the response. Returns none if there was no room for
    /// one.
    fn enter(&mut self, host: &impl Host, flow: Option<FlowId>, head: u64) -> Option<()> {
        self.flow = flow;
        self.head = head;
        let metric = match self.flow {
            Some(_) => Metric::Scheduled,
            None => Metric::AtCapacity,
        };
        host.count(metric, 1);
        self.flow.map(drop)
    }

    /// Debits bytes that belong to no flow, and lets them pass.
    fn pass(&mut self, now: Time, bytes: u64) -> Step {
        if let Some(uplink) = &self.uplink {
            uplink.debit(now, bytes);
        }
        self.head = 0;
        self.phase = Phase::Unpaced;
        Step::Continue
    }

    fn hold_head(&mut self, host: &impl Host, now: Time) -> Step {
        if let (Some(uplink), Some(flow)) = (&self.uplink, self.flow) {
            uplink.arm(uplink.hold_head(now, flow, self.head, host.waker()));
        }
        self.phase = Phase::Head;
        Step::Hold
    }

    fn ask(&mut self, host: &impl Host, now: Time, bytes: u64) -> Step {
        let (Some(uplink), Some(flow)) = (&self.uplink, self.flow) else {
            return Step::Continue;
        };
        let (asked, due) = uplink.ask(now, flow, bytes, || host.waker());
        uplink.arm(due);
        match asked {
            Asked::Go => {
                self.let_go(host, now, bytes);
                Step::Continue
            }
            Asked::Wait => {
                self.phase = Phase::Waiting;
                Step::Hold
            }
        }
    }

    /// Returns the bytes of all that is held, with its framing.
    fn in_hand(&self, host: &impl Host) -> u64 {
        let body = host.held_bytes();
        let framing = if body > 0 || self.phase == Phase::Head {
            self.framing
        } else {
            0
        };
        self.head + body + framing
    }

    fn let_go(&mut self, host: &impl Host, now: Time, bytes: u64) {
        host.count(Metric::ReleasedBytes, bytes);
        self.head = 0;
        self.phase = Phase::Flowing;
        self.close_if_ended(now);
    }

    fn close_if_ended(&mut self, now: Time) {
        if self.ended {
            self.close(now);
        }
    }

    fn close(&mut self, now: Time) {
        if let (Some(uplink), Some(flow)) = (&self.uplink, self.flow.take()) {
            uplink.arm(uplink.close(now, flow));
        }
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        if self.flow.is_some() {
            self.close(crate::timer::now());
        }
    }
}
