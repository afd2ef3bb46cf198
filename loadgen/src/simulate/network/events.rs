//! The events to come, in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sprat_scheduler::Time;

/// An event of a run, which names what is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The shared link, which has a packet for its far end or an event of its own.
    Shared,
    /// A client's own link, which has a packet for the client or an event of its own.
    Down(u32),
    /// A packet from a client that reaches the server.
    Up(u32),
    /// A SYN or a request that a client sends again.
    Again(u32),
    /// A connection's timer at the server.
    Sender(u32),
    /// A connection's delayed acknowledgement.
    DelayedAck(u32),
    /// The timer of a pacer.
    Wake(u32),
    /// The poll of the kernel about the connections of a pacer.
    Poll(u32),
}

/// Events in the order of their times; those of one time in the order of their scheduling.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<(Time, u32, Event)>>,
    next: u32,
    /// The number of events that have happened so far.
    pub(super) count: u64,
}

impl Events {
    /// Schedules `event` at `at`.
    pub(super) fn at(&mut self, at: Time, event: Event) {
        // Numbers come round after 4 billion events; at one time there are few.
        self.next = self.next.wrapping_add(1);
        self.heap.push(Reverse((at, self.next, event)));
    }

    /// Returns the time of the next event.
    pub(super) fn due(&self) -> Option<Time> {
        self.heap.peek().map(|event| event.0.0)
    }

    /// Takes the next event.
    pub(super) fn take(&mut self) -> Option<(Time, Event)> {
        let Reverse((at, _, event)) = self.heap.pop()?;
        self.count += 1;
        Some((at, event))
    }
}

/// A timer of which one event at most counts; later ones that it was set to before do not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Alarm(Option<Time>);

impl Alarm {
    /// Schedules `event` at `due`, unless it comes earlier already.
    pub(super) fn set(&mut self, events: &mut Events, due: Option<Time>, event: Event) {
        let Some(due) = due else { return };
        if self.0.is_none_or(|at| due < at) {
            self.0 = Some(due);
            events.at(due, event);
        }
    }

    /// Returns whether the event at `now` is the one that counts, and not one that an earlier event
    /// replaced.
    pub(super) fn rings(&mut self, now: Time) -> bool {
        let rings = self.0 == Some(now);
        if rings {
            self.0 = None;
        }
        rings
    }
}
