//! One connection: sender at the server, receiver at the client.

use std::collections::BTreeSet;
use std::time::Duration;

use sprat_scheduler::{FlowId, Time};

use super::{COST, HEAD, Request};

/// Bytes [from, to) of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Segment {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Segment {
    pub(super) fn len(self) -> u64 {
        self.to - self.from
    }
}

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) asked_at: Duration,
    pub(super) syn_at: Duration,
    pub(super) rtt: Duration,
    pub(super) network: u64,
    pub(super) new_connection: bool,
    pub(super) connected: bool,
    pub(super) flow: Option<FlowId>,
    /// Bytes of the response, head included.
    pub(super) total: u64,
    pub(super) written: u64,
    sent: u64,
    pub(super) acked: u64,
    pub(super) min_rtt: Duration,
    cwnd: u64,
    ssthresh: u64,
    recover: u64,
    // The client.
    pub(super) received: u64,
    holes: BTreeSet<Segment>,
    segments: u64,
    unacked_segments: u64,
    // What lies between the uplink and the client.
    path_bits_per_s: Option<u64>,
    path_free_at: Time,
}

const MSS: u64 = COST.mss as u64;

impl Connection {
    pub(super) fn new(request: &Request) -> Self {
        Self {
            asked_at: request.at,
            syn_at: request.at + request.rtt / 2,
            rtt: request.rtt,
            network: request.network,
            new_connection: true,
            connected: false,
            flow: None,
            total: request.bytes + HEAD,
            written: 0,
            sent: 0,
            acked: 0,
            min_rtt: Duration::MAX,
            cwnd: 10 * MSS,
            ssthresh: u64::MAX,
            recover: 0,
            received: 0,
            holes: BTreeSet::new(),
            segments: 0,
            unacked_segments: 0,
            path_bits_per_s: request.path_bits_per_s,
            path_free_at: Time::ZERO,
        }
    }

    pub(super) fn write(&mut self, bytes: u64) {
        self.written += bytes;
    }

    pub(super) fn not_sent(&self) -> u64 {
        self.written - self.sent
    }

    pub(super) fn next_segment(&mut self) -> Option<Segment> {
        let room = (self.acked + self.cwnd).saturating_sub(self.sent);
        let len = self.not_sent().min(MSS);
        if len == 0 || room < len {
            return None;
        }
        let segment = Segment {
            from: self.sent,
            to: self.sent + len,
        };
        self.sent = segment.to;
        Some(segment)
    }

    /// Returns when a packet that left the uplink at `now` has left the slowest
    /// link behind it.
    pub(super) fn through_path(&mut self, now: Time, wire_bytes: u64) -> Time {
        if let Some(rate) = self.path_bits_per_s {
            let nanos = wire_bytes * 8_000_000_000 / rate;
            self.path_free_at = self.path_free_at.max(now) + Duration::from_nanos(nanos);
            return self.path_free_at;
        }
        now
    }

    /// True if an acknowledgement goes out at once.
    pub(super) fn receive(&mut self, segment: Segment, quick_acks: u64) -> bool {
        self.segments += 1;
        self.unacked_segments += 1;
        let in_order = segment.from <= self.received;
        self.holes.insert(segment);
        while let Some(&first) = self.holes.first() {
            if first.from > self.received {
                break;
            }
            self.received = self.received.max(first.to);
            self.holes.remove(&first);
        }
        !in_order || self.segments <= quick_acks || self.unacked_segments >= 2
    }

    pub(super) fn delayed_ack_due(&self) -> bool {
        self.unacked_segments > 0
    }

    pub(super) fn ack_now(&mut self) -> u64 {
        self.unacked_segments = 0;
        self.received
    }

    pub(super) fn acked(&mut self, upto: u64) {
        if upto <= self.acked {
            return;
        }
        let newly = upto - self.acked;
        self.acked = upto;
        self.cwnd += if self.cwnd < self.ssthresh {
            newly
        } else {
            newly * MSS / self.cwnd
        };
    }

    pub(super) fn sample_rtt(&mut self, now: Duration, since: Duration) {
        self.min_rtt = self.min_rtt.min(now - since + self.rtt);
    }

    /// Halves the window, once for each window of data.
    pub(super) fn on_loss(&mut self) {
        if self.acked >= self.recover {
            self.cwnd = (self.cwnd / 2).max(2 * MSS);
            self.ssthresh = self.cwnd;
            self.recover = self.sent;
        }
    }
}
