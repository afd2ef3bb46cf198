//! A link in virtual time: the core's egress, driven at the times of a trace.
//!
//! A response has all of its bytes ready when it arrives, and is over when its last byte
//! has left. The egress decides all else. A grant is what it is in the proxy: a quantum,
//! which an arrival waits for. As long as the next grant would be the same flow's again,
//! the driver lets it write on, in a *run* of quanta, and cuts the run at the end of a
//! quantum when a response arrives. So an event costs what it changes, and the order is
//! that of quantum after quantum.

use std::time::Duration;

use sprat_scheduler::{
    AtCapacity, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, Grants, Pacer, Size,
    Time, WireCost,
};

/// The most quanta of a run while another flow waits under a floor, which then gives its part in
/// runs as long.
const RUN_BESIDE_FLOOR: u64 = 16;

/// A link in virtual time, and the responses on it. `T` is what a driver knows a response by.
#[derive(Clone, Debug)]
pub struct VirtualLink<T> {
    egress: Egress,
    cost: WireCost,
    /// The payload bytes of a quantum; `quantum_wire_bytes` is what they cost on the wire.
    quantum_bytes: u64,
    quantum_wire_bytes: u64,
    /// The most payload bytes of a run while another flow waits.
    run_bytes: u64,
    /// Whether flows take turns, which may change who is first while it is served.
    takes_turns: bool,
    sending: Option<Sending>,
    /// The flow that waits, alone, with more than `run_bytes`, if there is one.
    whole: Option<FlowId>,
    /// The open responses, by the flows' index.
    open: Vec<Open<T>>,
}

/// A response that is on the link, or waits for it.
#[derive(Clone, Copy, Debug)]
struct Open<T> {
    left_bytes: u64,
    arrived: Time,
    response: T,
}

/// The run that was granted, and is leaving.
#[derive(Clone, Copy, Debug)]
struct Sending {
    flow: FlowId,
    /// The payload bytes of the run; `wire_bytes` is what they cost on the wire.
    bytes: u64,
    wire_bytes: u64,
    /// The time at which the last byte leaves.
    ends_at: Time,
}

/// A response that has been sent whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent<T> {
    /// The response, as the driver knows it.
    pub response: T,
    /// The time from the arrival until the last byte had left.
    pub took: Duration,
}

impl<T: Copy> VirtualLink<T> {
    /// Returns a link of `rate_bits_per_s` on which nothing is sent. All responses have the wire
    /// cost `cost`. The policy's `grants` are ignored.
    pub fn new(rate_bits_per_s: u64, policy: EgressPolicy, cost: WireCost) -> Self {
        let run_quanta = match keeps_on(&policy.discipline) {
            true if policy.floor_percent == 0 => u64::MAX,
            true if policy.discipline == Discipline::Fcfs => u64::MAX,
            true => RUN_BESIDE_FLOOR,
            false => 1,
        };
        let policy = EgressPolicy {
            grants: Grants::Whole,
            ..policy
        };
        let egress = Egress::new(Pacer::exact(rate_bits_per_s), policy);
        let quantum_bytes = egress.quantum_bytes(0, cost);
        Self {
            quantum_wire_bytes: cost.bytes(quantum_bytes).max(1),
            run_bytes: quantum_bytes.saturating_mul(run_quanta),
            quantum_bytes,
            egress,
            cost,
            takes_turns: run_quanta == 1,
            sending: None,
            whole: None,
            open: Vec::new(),
        }
    }

    /// Returns the core's uplink, which the link drives.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Returns when to call [`VirtualLink::step`]; `None` while nothing is to be sent. `now` is the
    /// time of the last event.
    pub fn next_step(&self, now: Time) -> Option<Time> {
        match &self.sending {
            Some(sending) => Some(sending.ends_at),
            None => Some(self.egress.next_wakeup()?.max(now)),
        }
    }

    /// Lets a response of `bytes`, head included, arrive on a connection whose set-up
    /// takes `set_up_bytes` of the wire. All steps before `now` must have been made.
    ///
    /// # Errors
    /// As many responses are open as the policy allows.
    pub fn arrive(
        &mut self,
        now: Time,
        bytes: u64,
        set_up_bytes: u64,
        response: T,
    ) -> Result<(), AtCapacity> {
        self.arrive_in(now, 0, bytes, set_up_bytes, response)
    }

    /// Lets a response of one of the policy's classes arrive, as [`VirtualLink::arrive`] does.
    ///
    /// # Errors
    /// As many responses are open as the policy allows.
    pub fn arrive_in(
        &mut self,
        now: Time,
        class: usize,
        bytes: u64,
        set_up_bytes: u64,
        response: T,
    ) -> Result<(), AtCapacity> {
        self.cut(now);
        if set_up_bytes > 0 {
            self.egress.connect(now, set_up_bytes);
        }
        let bytes = bytes.max(1);
        let spec = FlowSpec::new(class, Size::Exact(bytes), self.cost);
        let flow = self.egress.open(now, spec)?;
        let open = Open {
            left_bytes: bytes,
            arrived: now,
            response,
        };
        match self.open.get_mut(flow.index()) {
            Some(place) => *place = open,
            None => self.open.push(open),
        }
        self.offer(now, flow, bytes, u64::MAX);
        Ok(())
    }

    /// Ends the run that was granted, if it has left, and grants to the flow whose turn it is.
    /// Returns the response that is over, if one is.
    pub fn step(&mut self, now: Time) -> Option<Sent<T>> {
        let sending = self.sending.take();
        let sent = sending.and_then(|it| self.settle(now, it, it.bytes, u64::MAX));
        if let Grant::Send { flow, bytes } = self.egress.grant(now) {
            self.send(flow, bytes);
        }
        sent
    }

    /// Begins a run of the `bytes` that a flow was granted.
    fn send(&mut self, flow: FlowId, bytes: u64) {
        self.whole = None;
        self.sending = Some(Sending {
            flow,
            bytes,
            wire_bytes: self.cost.bytes(bytes),
            ends_at: self.egress.pacer().next_grant_at(),
        });
    }

    /// Cuts the run at the end of the quantum that is leaving, for a response arrives.
    fn cut(&mut self, now: Time) {
        if let Some(flow) = self.whole.take() {
            self.egress.offer(now, flow, self.run_bytes);
        }
        let Some(mut sending) = self.sending else {
            return;
        };
        let unsent = (self.egress.pacer()).bytes_in(sending.ends_at.since(now));
        let gone = sending.wire_bytes.saturating_sub(unsent);
        // One that ends just now has the next one follow.
        let mut quanta = gone / self.quantum_wire_bytes + 1;
        if quanta.saturating_mul(self.quantum_bytes) >= sending.bytes {
            return;
        }
        if quanta > 1 && self.takes_turns {
            // The turn that newcomers come after is that of the last quantum.
            sending = self.renew(sending, quanta - 1);
            quanta = 1;
        }
        self.sending = None;
        self.settle(now, sending, quanta * self.quantum_bytes, self.run_bytes);
    }

    /// Ends a run after some quanta, when the last of them left, and begins another, which
    /// is the same flow's: no other waits.
    fn renew(&mut self, sending: Sending, quanta: u64) -> Sending {
        let bytes = quanta * self.quantum_bytes;
        let rest = sending.wire_bytes - self.cost.bytes(bytes);
        let at = sending.ends_at - self.egress.pacer().time_for(rest);
        self.settle(at, sending, bytes, u64::MAX);
        match self.egress.grant(at) {
            Grant::Send { flow, bytes } => Sending {
                flow,
                bytes,
                wire_bytes: self.cost.bytes(bytes),
                ends_at: self.egress.pacer().next_grant_at(),
            },
            Grant::Wait { .. } | Grant::Idle => sending,
        }
    }

    /// Settles a run of which `bytes` have been written: its flow waits for more, `most`
    /// at once, or ends.
    fn settle(&mut self, now: Time, sending: Sending, bytes: u64, most: u64) -> Option<Sent<T>> {
        let flow = sending.flow;
        let open = &mut self.open[flow.index()];
        open.left_bytes -= bytes;
        let left_bytes = open.left_bytes;
        if bytes < sending.bytes || left_bytes == 0 {
            self.egress.written(now, flow, bytes);
        }
        if left_bytes > 0 {
            self.offer(now, flow, left_bytes, most);
            return None;
        }
        self.egress.close(now, flow);
        let open = &self.open[flow.index()];
        Some(Sent {
            response: open.response,
            took: sending.ends_at.since(open.arrived),
        })
    }

    /// Makes a flow wait with as much as it may write in one run, `most` at most.
    fn offer(&mut self, now: Time, flow: FlowId, left_bytes: u64, most: u64) {
        let is_alone = self.egress.open_flows() == 1;
        let run_bytes = if is_alone { u64::MAX } else { self.run_bytes };
        let bytes = left_bytes.min(run_bytes).min(most);
        self.whole = (bytes > self.run_bytes).then_some(flow);
        self.egress.offer(now, flow, bytes);
    }
}

/// Returns whether the flow that is first stays first while it is served and none arrives. Under
/// the disciplines that are not named here, flows may take turns.
fn keeps_on(discipline: &Discipline) -> bool {
    matches!(
        discipline,
        Discipline::Fcfs | Discipline::Srpt | Discipline::SrptAged { .. }
    )
}

#[cfg(test)]
#[path = "link/tests.rs"]
mod tests;
