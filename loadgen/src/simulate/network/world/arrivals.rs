//! Connections that arrive and wait, and packets that the server does not get.

use sprat_scheduler::Time;

use super::super::connection::Upward;
use super::super::events::Event;
use super::super::listen::ListenQueue;
use super::World;

impl World<'_> {
    /// Takes a client's SYN, unless the server's listen queue is full: then the SYN is dropped.
    pub(super) fn take_syn(&mut self, c: u32) {
        if self.listen.as_mut().is_none_or(ListenQueue::take_syn) {
            self.answer_syn(c, 0);
        } else {
            let sent_at = self.connections[c as usize].syn_at;
            self.miss(c, Upward::Syn, sent_at);
        }
    }

    /// Notes that the server has closed a connection: its process takes the one that waits longest.
    pub(super) fn closed(&mut self) {
        self.counted.open.close(self.now);
        if let Some(next) = self.listen.as_mut().and_then(ListenQueue::close) {
            self.serve(next, true);
        }
    }

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
