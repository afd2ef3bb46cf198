//! The desk: where writers wait for the uplink. It does what every driver of an [`Egress`] needs,
//! be it a proxy, a filter or a simulator.
//!
//! A writer waits with the bytes that it has in hand ([`Desk::wait`], [`Desk::ask`]). The driver
//! makes the grants that are due ([`Desk::next`]) after each call that may have changed whose
//! turn it is, and when [`Desk::next_wakeup`] says so, and wakes the writers that the desk names.
//! A writer that is woken takes its turn ([`Desk::take`]).

use std::collections::VecDeque;
use std::time::Duration;

use crate::counterfactual::{Compared, LinkEvent};
use crate::{
    AtCapacity, Counterfactual, Egress, EgressPolicy, FlowId, FlowSpec, Grant, GroupId, Time,
};

/// The time that a head waits for the first bytes of its body, so that both go out in one
/// segment. A backend that writes them separately does so within this.
pub const HEAD_WAIT: Duration = Duration::from_millis(2);

/// An uplink, and the writers that wait for it. `W` is what a driver wakes a writer by: a task's
/// waker, or the number of a stream.
#[derive(Clone, Debug)]
pub struct Desk<W> {
    egress: Egress,
    /// The writers, by [`FlowId::index`].
    writers: Vec<Writer<W>>,
    /// The heads held back for the first bytes of their bodies, each with when it is released;
    /// the earliest first. Entries may be out of date.
    heads: VecDeque<(Time, FlowId)>,
    /// The time of the next grant, as the uplink told it when it last had none to make.
    /// [`Egress::next_wakeup`] does not know of all that a class waits for.
    due: Due,
    /// The time of the grant that a writer waits for, or the time up to which the link's time
    /// is settled with the counterfactual if that is later. Unlike `due` it stays until the
    /// grant is made.
    awaited: Option<Time>,
    /// The counterfactual: what `fair` would have given the same writers.
    counterfactual: Option<Compared>,
}

/// The writer of a flow, and what it waits for.
#[derive(Clone, Debug)]
struct Writer<W> {
    /// The writer's flow; none once the flow is closed.
    flow: Option<FlowId>,
    /// The handle by which the driver wakes the writer when it is granted something.
    waker: Option<W>,
    /// Whether the writer has asked and not yet looked ([`Desk::ask`]): it is not woken.
    looks: bool,
    /// The bytes that the writer waits with.
    asked: u64,
    /// The time since which the writer has waited.
    asked_at: Time,
    /// Bytes granted and not yet taken.
    granted: u64,
    /// The bytes taken of which the writer has not said how many it has written.
    taken: u64,
    /// The bytes of a head that is held back; 0 if none is.
    head: u64,
}

/// The time at which the next grant is due.
#[derive(Clone, Copy, Debug)]
enum Due {
    At(Time),
    Never,
    /// The time is to be asked for again, since something has happened.
    Unknown,
}

/// The bytes that a writer may write now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The bytes granted, at least 1.
    pub bytes: u64,
    /// The time for which the writer has waited.
    pub waited: Duration,
}

impl<W> Writer<W> {
    fn new(now: Time, flow: FlowId) -> Self {
        Self {
            flow: Some(flow),
            waker: None,
            looks: false,
            asked: 0,
            asked_at: now,
            granted: 0,
            taken: 0,
            head: 0,
        }
    }
}

impl<W> Desk<W> {
    /// Creates a desk at which no writer waits.
    pub fn new(egress: Egress) -> Self {
        Self {
            egress,
            writers: Vec::new(),
            heads: VecDeque::new(),
            due: Due::Unknown,
            awaited: None,
            counterfactual: None,
        }
    }

    /// Returns the uplink that the desk serves.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Returns the uplink, for calls that concern no writer: debits, announcements, changes.
    /// Grants may be due afterwards.
    pub fn egress_mut(&mut self) -> &mut Egress {
        self.due = Due::Unknown;
        &mut self.egress
    }

    /// Opens a flow; see [`Egress::open`].
    ///
    /// # Errors
    ///
    /// As many flows are open as may be.
    pub fn open(&mut self, now: Time, spec: FlowSpec) -> Result<FlowId, AtCapacity> {
        self.settle(now);
        let flow = self.egress.open(now, spec)?;
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Open(now, flow, spec));
        }
        let writer = Writer::new(now, flow);
        match self.writers.get_mut(flow.index()) {
            Some(place) => *place = writer,
            None => self.writers.push(writer),
        }
        Ok(flow)
    }

    /// Serves a response at once if it needs no flow, and returns whether it did; see
    /// [`Egress::serve_at_once`].
    pub fn serve_at_once(&mut self, now: Time, spec: FlowSpec, bytes: u64) -> bool {
        self.settle(now);
        let is_served = self.egress.serve_at_once(now, &spec, bytes);
        if let Some(own) = self.counterfactual.as_mut().filter(|_| is_served) {
            let free_at = self.egress.pacer().free_at();
            own.tell(LinkEvent::AtOnce(now, spec, bytes, free_at));
        }
        is_served
    }

    /// Returns whether a flow is open.
    pub fn is_open(&self, flow: FlowId) -> bool {
        let writer = self.writers.get(flow.index());
        writer.is_some_and(|writer| writer.flow == Some(flow))
    }

    /// Makes a writer wait with the bytes that it has in hand, all together. What it has taken
    /// before counts as written. Returns whether grants may be due now.
    pub fn wait(&mut self, now: Time, flow: FlowId, bytes: u64) -> bool {
        let Some(writer) = self.writer(flow) else {
            return false;
        };
        if writer.granted > 0 || (writer.asked == bytes && writer.head == 0) {
            return false;
        }
        if writer.asked == 0 && writer.head == 0 {
            writer.asked_at = now;
        }
        writer.head = 0;
        writer.asked = bytes;
        writer.taken = 0;
        self.offer(now, flow, bytes);
        true
    }

    fn offer(&mut self, now: Time, flow: FlowId, bytes: u64) {
        self.settle(now);
        self.egress_mut().offer(now, flow, bytes);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Offer(now, flow, bytes));
        }
    }

    /// Makes a writer wait as [`Desk::wait`] does, if it will look at once whether it is its turn
    /// ([`Desk::take`]): a grant before that does not wake it.
    pub fn ask(&mut self, now: Time, flow: FlowId, bytes: u64) -> bool {
        if let Some(writer) = self.writer(flow) {
            writer.looks = true;
        }
        self.wait(now, flow, bytes)
    }

    /// Holds back a head of so many bytes for [`HEAD_WAIT`], in which its body may come. After
    /// that the desk offers the head by itself.
    pub fn hold(&mut self, now: Time, flow: FlowId, bytes: u64) {
        let Some(writer) = self.writer(flow) else {
            return;
        };
        writer.head = bytes;
        writer.asked_at = now;
        self.heads.push_back((now + HEAD_WAIT, flow));
    }

    /// Takes a writer's grant, if it has one. All of it counts as written, unless
    /// [`Desk::written`] says otherwise.
    pub fn take(&mut self, now: Time, flow: FlowId) -> Option<Turn> {
        let writer = self.writer(flow)?;
        writer.looks = false;
        let bytes = std::mem::take(&mut writer.granted);
        if bytes == 0 {
            return None;
        }
        writer.taken = bytes;
        let waited = now.since(writer.asked_at);
        Some(Turn { bytes, waited })
    }

    /// Settles what a writer has taken, of which it has written `bytes`; see [`Egress::written`].
    pub fn written(&mut self, now: Time, flow: FlowId, bytes: u64) {
        self.settle(now);
        if let Some(writer) = self.writer(flow) {
            let taken = std::mem::take(&mut writer.taken);
            self.egress_mut().written(now, flow, bytes);
            if let Some(own) = &mut self.counterfactual {
                own.tell(LinkEvent::Written(now, flow, taken, bytes));
            }
        }
    }

    /// Notes that a writer has asked for all that it has; see [`Egress::complete`].
    pub fn complete(&mut self, flow: FlowId) {
        if self.is_open(flow) {
            self.egress.complete(flow);
            if let Some(own) = &mut self.counterfactual {
                own.tell(LinkEvent::Complete(flow));
            }
        }
    }

    /// Ends a flow. What it was granted and has not taken is given back, so that grants may
    /// be due.
    pub fn close(&mut self, now: Time, flow: FlowId) {
        self.settle(now);
        let Some(writer) = self.writer(flow) else {
            return;
        };
        writer.flow = None;
        writer.waker = None;
        let taken = std::mem::take(&mut writer.taken);
        let unused = writer.granted;
        if taken > 0 {
            self.egress_mut().written(now, flow, taken);
        }
        self.egress_mut().close(now, flow);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Close(now, flow, unused));
        }
    }

    /// Makes the next grant that is due, and returns the waker of its writer. Call this until it
    /// returns none.
    pub fn next(&mut self, now: Time) -> Option<&W> {
        self.release_heads(now);
        loop {
            self.settle(now);
            let (flow, bytes) = match self.egress.grant(now) {
                Grant::Send { flow, bytes } => (flow, bytes),
                Grant::Wait { until } => {
                    self.due = Due::At(until);
                    self.awaited = Some(until);
                    return None;
                }
                Grant::Idle => {
                    self.due = Due::Never;
                    self.awaited = None;
                    return None;
                }
            };
            self.awaited = None;
            if let Some(own) = &mut self.counterfactual {
                let free_at = self.egress.pacer().free_at();
                own.tell(LinkEvent::Grant(now, flow, bytes, free_at));
            }
            let index = flow.index();
            let writer = &mut self.writers[index];
            writer.granted = bytes;
            writer.asked = 0;
            if !writer.looks && writer.waker.is_some() {
                return self.writers[index].waker.as_ref();
            }
        }
    }

    /// Offers the heads that have waited for long enough.
    fn release_heads(&mut self, now: Time) {
        while let Some(&(until, flow)) = self.heads.front() {
            if until > now {
                break;
            }
            self.heads.pop_front();
            // Its body has come, or its client has left.
            let Some(writer) = self.writer(flow).filter(|writer| writer.head > 0) else {
                continue;
            };
            let head = std::mem::take(&mut writer.head);
            writer.asked = head;
            self.offer(now, flow, head);
        }
    }

    /// Notes that a writer's source has nothing for now; see [`Egress::pause`].
    pub fn pause(&mut self, now: Time, flow: FlowId) {
        self.settle(now);
        self.egress.pause(now, flow);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Pause(now, flow));
        }
    }

    /// Returns when to call [`Desk::next`] if nothing else happens.
    pub fn next_wakeup(&mut self) -> Option<Time> {
        while let Some(&(_, flow)) = self.heads.front() {
            if self.writer(flow).is_some_and(|writer| writer.head > 0) {
                break;
            }
            self.heads.pop_front();
        }
        let head = self.heads.front().map(|&(until, _)| until);
        let grant = match self.due {
            Due::At(at) => Some(at),
            Due::Never => None,
            Due::Unknown => self.egress.next_wakeup(),
        };
        [head, grant].into_iter().flatten().min()
    }

    /// Returns the handle by which a writer is woken, if it has set one.
    pub fn waker(&self, flow: FlowId) -> Option<&W> {
        let writer = self.writers.get(flow.index())?;
        writer.waker.as_ref().filter(|_| self.is_open(flow))
    }

    /// Sets the handle by which a writer is woken from now on.
    pub fn set_waker(&mut self, flow: FlowId, waker: W) {
        if let Some(writer) = self.writer(flow) {
            writer.waker = Some(waker);
        }
    }

    /// Iterates over the handles of the writers that wait.
    pub fn waiting(&self) -> impl Iterator<Item = &W> {
        let waiting = self.writers.iter().filter(|writer| writer.asked > 0);
        waiting.filter_map(|writer| writer.waker.as_ref())
    }

    fn writer(&mut self, flow: FlowId) -> Option<&mut Writer<W>> {
        let writer = self.writers.get_mut(flow.index())?;
        (writer.flow == Some(flow)).then_some(writer)
    }
}

/// Events of the uplink itself, which the desk passes on to its counterfactual. Grants may
/// be due afterwards.
impl<W> Desk<W> {
    /// Sets the counterfactual that the desk passes events on to from now on, if any. The
    /// counterfactual knows nothing of the writers that have a flow already.
    pub fn set_counterfactual(&mut self, counterfactual: Option<Counterfactual>) {
        self.counterfactual = counterfactual.map(Compared::new);
    }

    /// Returns the counterfactual, if the desk has one.
    pub fn counterfactual(&mut self) -> Option<&mut Counterfactual> {
        self.counterfactual.as_mut().map(Compared::link)
    }

    /// Takes off the virtual link the time that the real one has lost up to now because its
    /// driver was late while a writer waited.
    fn settle(&mut self, now: Time) {
        let (Some(own), Some(at)) = (&mut self.counterfactual, &mut self.awaited) else {
            return;
        };
        let from = self.egress.loses_from().max(*at);
        if now > from {
            own.tell(LinkEvent::Lose(now, from));
            *at = now;
        }
    }

    /// Asks whether something small of `wire_bytes` may go ahead of all flows; see
    /// [`Egress::fast_path`].
    pub fn fast_path(&mut self, now: Time, wire_bytes: u64) -> bool {
        self.settle(now);
        let ahead = self.egress_mut().fast_path(now, wire_bytes);
        // It goes ahead on both links.
        if let Some(own) = self.counterfactual.as_mut().filter(|_| ahead) {
            own.tell(LinkEvent::Debit(now, wire_bytes));
        }
        ahead
    }

    /// Debits the set-up of a connection; see [`Egress::connect`].
    pub fn connect(&mut self, now: Time, wire_bytes: u64) {
        self.settle(now);
        self.egress_mut().connect(now, wire_bytes);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Debit(now, wire_bytes));
        }
    }

    /// Debits bytes that no grant covers; see [`Egress::debit`].
    pub fn debit(&mut self, now: Time, wire_bytes: u64) {
        self.settle(now);
        self.egress_mut().debit(now, wire_bytes);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Debit(now, wire_bytes));
        }
    }

    /// Gives back bytes that were debited and did not go out; see [`Egress::refund`].
    pub fn refund(&mut self, now: Time, wire_bytes: u64) {
        self.settle(now);
        self.egress_mut().refund(now, wire_bytes);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Refund(now, wire_bytes));
        }
    }

    /// Announces a response that others wait for; see [`Egress::announce`].
    pub fn announce(&mut self, now: Time) {
        self.settle(now);
        self.egress_mut().announce(now);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Announce(now));
        }
    }

    /// Retracts the announcement of a response; see [`Egress::retract`].
    pub fn retract(&mut self, now: Time) {
        self.settle(now);
        self.egress_mut().retract();
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Retract(now));
        }
    }

    /// Ends a group of flows; see [`Egress::close_group`].
    pub fn close_group(&mut self, now: Time, group: GroupId) {
        self.settle(now);
        self.egress_mut().close_group(now, group);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::CloseGroup(now, group));
        }
    }

    /// Changes the link's rate; see [`Egress::set_rate`].
    pub fn set_rate(&mut self, now: Time, rate_bits_per_s: u64) {
        self.settle(now);
        self.egress_mut().set_rate(now, rate_bits_per_s);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::SetRate(now, rate_bits_per_s));
        }
    }

    /// Orders by another policy from now on; see [`Egress::reconfigure`].
    pub fn reconfigure(&mut self, now: Time, policy: EgressPolicy) {
        self.settle(now);
        if let Some(own) = &mut self.counterfactual {
            own.tell(LinkEvent::Reconfigure(now, &policy));
        }
        self.egress_mut().reconfigure(now, policy);
    }
}
