//! A client's side of a connection: the bytes that have come, and when it acknowledges them.

use std::time::Duration;

use sprat_scheduler::Time;

use super::wire::MSS;

/// The time that an acknowledgement waits for a second segment (Linux's least).
pub(super) const DELAYED_ACK: Duration = Duration::from_millis(40);

/// The most pieces beyond a hole that are kept; more are dropped, and sent again.
const PIECES_MAX: usize = 1024;

/// A piece of the stream: the bytes `from..to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// A client's acknowledgement of what has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    /// All bytes before this one have come.
    pub(super) upto: u64,
    /// The segment beyond a hole that has just come, if there is one.
    pub(super) selected: Option<Piece>,
    /// The time at which the earliest segment that this acknowledges was sent (RFC 7323 4.3).
    pub(super) echo: Time,
}

/// A client's side of a connection.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    received: u64,
    /// The pieces of the stream beyond a hole, in order and apart.
    pieces: Vec<Piece>,
    segments: u32,
    /// Segments acknowledged at once before acknowledgements are delayed.
    quick_acks: u32,
    unacked_bytes: u64,
    echo: Option<Time>,
    due_at: Option<Time>,
}

impl Receiver {
    /// Makes the client's side of a connection on which nothing has come.
    pub(super) fn new(quick_acks: u32) -> Self {
        Self {
            received: 0,
            pieces: Vec::new(),
            segments: 0,
            quick_acks,
            unacked_bytes: 0,
            echo: None,
            due_at: None,
        }
    }

    /// Returns the number of bytes that have come without a hole.
    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// Returns when the acknowledgement is due that waits for a second segment.
    pub(super) fn due_at(&self) -> Option<Time> {
        self.due_at
    }

    /// Takes the bytes `from..to`, sent at `sent_at`; returns the
    /// acknowledgement if that goes out at once.
    pub(super) fn receive(&mut self, now: Time, from: u64, to: u64, sent_at: Time) -> Option<Ack> {
        self.segments = self.segments.saturating_add(1);
        let in_order = from == self.received && self.pieces.is_empty();
        if to <= self.received {
            // Sent twice: said again.
            return Some(self.ack(None));
        }
        if from > self.received {
            let kept = self.keep(from, to);
            return Some(self.ack(kept.then_some(Piece { from, to })));
        }
        self.unacked_bytes += to - self.received;
        self.received = to;
        self.join();
        self.echo.get_or_insert(sent_at);
        let enough = self.unacked_bytes > MSS;
        if !in_order || self.segments <= self.quick_acks || enough {
            return Some(self.ack(None));
        }
        self.due_at.get_or_insert(now + DELAYED_ACK);
        None
    }

    /// Returns the acknowledgement that is due, if one is.
    pub(super) fn on_timer(&mut self, now: Time) -> Option<Ack> {
        self.due_at
            .is_some_and(|at| at <= now)
            .then(|| self.ack(None))
    }

    /// Acknowledges the end of the stream, and all before it.
    pub(super) fn on_end(&mut self) -> Ack {
        self.ack(None)
    }

    fn ack(&mut self, selected: Option<Piece>) -> Ack {
        self.unacked_bytes = 0;
        self.due_at = None;
        Ack {
            upto: self.received,
            selected,
            echo: self.echo.take().unwrap_or(Time::ZERO),
        }
    }

    /// Keeps the bytes `from..to` beyond a hole; returns whether there was room.
    fn keep(&mut self, from: u64, to: u64) -> bool {
        let place = self.pieces.partition_point(|piece| piece.to < from);
        let touched = self.pieces[place..]
            .iter()
            .take_while(|piece| piece.from <= to)
            .count();
        if touched == 0 {
            let room = self.pieces.len() < PIECES_MAX;
            if room {
                self.pieces.insert(place, Piece { from, to });
            }
            return room;
        }
        let last = self.pieces[place + touched - 1];
        let piece = &mut self.pieces[place];
        piece.from = piece.from.min(from);
        piece.to = last.to.max(to);
        self.pieces.drain(place + 1..place + touched);
        true
    }

    fn join(&mut self) {
        let joined = self
            .pieces
            .iter()
            .take_while(|piece| piece.from <= self.received)
            .count();
        for piece in self.pieces.drain(..joined) {
            self.received = self.received.max(piece.to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn upto(ack: Option<Ack>) -> Option<u64> {
        ack.map(|ack| ack.upto)
    }

    #[test]
    fn every_second_segment_or_after_40_ms() {
        let mut client = Receiver::new(0);
        assert_eq!(client.receive(at(1), 0, MSS, at(0)), None);
        assert_eq!(client.due_at(), Some(at(41)));
        let ack = client.receive(at(2), MSS, 2 * MSS, at(1)).unwrap();
        assert_eq!((ack.upto, ack.echo), (2 * MSS, at(0)));
        assert_eq!(client.due_at(), None);
        assert_eq!(client.receive(at(3), 2 * MSS, 2 * MSS + 9, at(2)), None);
        assert_eq!(client.on_timer(at(42)), None);
        assert_eq!(upto(client.on_timer(at(43))), Some(2 * MSS + 9));
        assert_eq!(client.on_timer(at(44)), None);
    }

    #[test]
    fn the_first_segments_are_acknowledged_at_once() {
        let mut client = Receiver::new(2);
        assert_eq!(upto(client.receive(at(1), 0, 10, at(0))), Some(10));
        assert_eq!(upto(client.receive(at(1), 10, 20, at(0))), Some(20));
        assert_eq!(upto(client.receive(at(1), 20, 30, at(0))), None);
    }

    #[test]
    fn what_comes_beyond_a_hole_is_said_at_once_and_kept() {
        let mut client = Receiver::new(0);
        for (from, to) in [(10, 20), (40, 50), (20, 30)] {
            let ack = client.receive(at(1), from, to, at(0)).unwrap();
            assert_eq!((ack.upto, ack.selected), (0, Some(Piece { from, to })));
        }
        let kept = [(10, 30), (40, 50)].map(|(from, to)| Piece { from, to });
        assert_eq!(client.pieces, kept);
        assert_eq!(upto(client.receive(at(2), 0, 10, at(1))), Some(30));
        assert_eq!(upto(client.receive(at(2), 0, 10, at(1))), Some(30), "twice");
        assert_eq!(upto(client.receive(at(2), 30, 40, at(1))), Some(50));
        assert!(client.pieces.is_empty());
    }
}
