//! Packets of a client that the server does not get, and those that it sends again.

use sprat_scheduler::Time;

use super::super::connection::Upward;
use super::super::events::Event;
use super::World;

impl World<'_> {
    /// Notes that the server did not get what a client sent. A SYN or a request is sent again; an
    /// acknowledgement is not, and the next one has what it had.
    ///
    /// A client whose packet did arrive sends it no second time, though it may wait for an answer:
    /// the server repeats its SYN-ACK, and a request's answer is the response.
    pub(super) fn miss(&mut self, c: u32, what: Upward, sent_at: Time) {
        match what {
            Upward::Syn | Upward::Request => {}
            Upward::Ack(_) | Upward::Fin => return,
        }
        let repeats = &mut self.connections[c as usize].repeats;
        let due = repeats.miss(what, sent_at);
        self.events.at(due, Event::Again(c));
    }

    /// Sends again what the server did not get.
    pub(super) fn repeat(&mut self, c: u32) {
        if let Some(what) = self.connections[c as usize].repeats.take() {
            self.send_up(c, what);
        }
    }
}
