//! TCP as the paper's simulator has it: one-way Reno in whole packets, without a clock.
//!
//! The paper ran on ns-2, whose connections carry numbered packets in one direction, the
//! first of them an empty one for the handshake. Its defaults of July 2002, when the paper
//! was updated, are in ns-2's own list of changes: a first window of two packets once the
//! handshake is over, a window of 20 at most, limited transmit, no timeout below a second
//! and one of 6 s before a round trip was measured. There is no SACK and no delayed
//! acknowledgement, so several losses in a window often end in a timeout (Fall and Floyd 1996).
//! Until 2003 a fast recovery there had no end of its own: three more duplicates in the same
//! window sent another packet again, and duplicates after a timeout opened the window.

use std::collections::BTreeSet;
use std::time::Duration;

use sprat_scheduler::Time;

/// The most packets on their way (ns-2's `window_`).
const WINDOW_MOST: f64 = 20.0;

/// The window once the handshake is over (`windowInit_`, 2 since May 2001).
const WINDOW_FIRST: f64 = 2.0;

/// The timeout before a round trip was measured (`rtxcur_init_`, 6 s until 2006).
const TIMEOUT_FIRST: Duration = Duration::from_secs(6);

/// The least timeout (`minrto_`, 1 s from May 2001 to 2004).
const TIMEOUT_LEAST: Duration = Duration::from_secs(1);

/// The most times that a timeout is doubled.
const BACKOFFS_MOST: u32 = 6;

/// The number of duplicates that prove a loss.
const DUPLICATES: u32 = 3;

/// A sender of numbered packets.
#[derive(Clone, Debug)]
pub(super) struct RenoSender {
    /// The number of packets, the handshake's included.
    packets: u32,
    /// The number of the next packet to send.
    next: u32,
    /// The number after that of the highest packet sent.
    sent: u32,
    /// The number after that of the highest packet acknowledged, with all before it.
    acked: u32,
    window: f64,
    threshold: f64,
    /// The packets that duplicates add to the window during a fast recovery.
    inflation: f64,
    duplicates: u32,
    /// The end of what had been sent at the last loss. After a timeout, duplicates tell of a loss
    /// once a packet beyond it is acknowledged.
    recover: u32,
    /// Whether duplicates told of the last loss: then the next three tell of another one, in the
    /// same window too.
    told_by_duplicates: bool,
    /// The packet whose round trip is measured, and when it was sent.
    timed: Option<(u32, Time)>,
    /// The smoothed round trip and its variance.
    rtt: Option<(Duration, Duration)>,
    backoffs: u32,
    timer: Option<Time>,
}

impl RenoSender {
    /// Returns the sender of a message of `data` packets with data, and sends its handshake to
    /// `out`.
    pub(super) fn new(now: Time, data: u32, out: &mut Vec<u32>) -> Self {
        let mut sender = Self {
            packets: data + 1,
            next: 0,
            sent: 0,
            acked: 0,
            window: 1.0,
            threshold: WINDOW_MOST,
            inflation: 0.0,
            duplicates: 0,
            recover: 1,
            told_by_duplicates: false,
            timed: None,
            rtt: None,
            backoffs: 0,
            timer: None,
        };
        sender.send(now, out);
        sender
    }

    /// Returns whether all packets are acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.acked >= self.packets
    }

    /// Returns when [`RenoSender::on_timer`] is due.
    pub(super) fn timer_at(&self) -> Option<Time> {
        self.timer
    }

    /// Takes an acknowledgement of all packets below `upto`.
    pub(super) fn on_ack(&mut self, now: Time, upto: u32, out: &mut Vec<u32>) {
        if upto < self.acked || self.is_done() {
            return;
        }
        if upto == self.acked {
            self.on_duplicate(now, out);
            return;
        }
        self.inflation = 0.0;
        self.duplicates = 0;
        let is_handshake = self.acked == 0;
        self.acked = upto;
        self.next = self.next.max(upto);
        if let Some((number, at)) = self.timed
            && number < upto
        {
            self.timed = None;
            self.backoffs = 0;
            self.sample(now.since(at));
        }
        match self.sent > upto {
            true => self.arm(now),
            false => self.timer = None,
        }
        if is_handshake {
            self.window = WINDOW_FIRST;
        } else if self.window < self.threshold {
            self.window += 1.0;
        } else {
            self.window += 1.0 / self.window;
        }
        self.send(now, out);
    }

    fn on_duplicate(&mut self, now: Time, out: &mut Vec<u32>) {
        self.duplicates += 1;
        if self.duplicates < DUPLICATES {
            // Limited transmit (RFC 3042).
            let may = f64::from(self.acked) + self.window + f64::from(self.duplicates);
            if self.next < self.packets && f64::from(self.next) < may {
                self.emit(now, out);
            }
            return;
        }
        let is_new = self.told_by_duplicates || self.acked > self.recover;
        if self.duplicates == DUPLICATES && is_new {
            self.recover = self.sent;
            self.told_by_duplicates = true;
            let half = (self.open() / 2.0).floor();
            self.threshold = half.max(2.0);
            self.window = half.max(1.0);
            self.timed = None;
            self.arm(now);
            out.push(self.acked);
        }
        // Duplicates open the window from the third on, also where no packet was sent again.
        self.inflation = f64::from(self.duplicates);
        self.send(now, out);
    }

    /// Acts on the timer if it is due: sends all from the first hole on again, from a
    /// window of one.
    pub(super) fn on_timer(&mut self, now: Time, out: &mut Vec<u32>) {
        if self.timer.is_none_or(|at| at > now) || self.is_done() {
            return;
        }
        self.recover = self.sent;
        self.told_by_duplicates = false;
        self.inflation = 0.0;
        self.duplicates = 0;
        self.threshold = (self.open() / 2.0).floor().max(2.0);
        self.window = 1.0;
        self.backoffs = (self.backoffs + 1).min(BACKOFFS_MOST);
        self.timed = None;
        self.next = self.acked;
        self.arm(now);
        self.send(now, out);
    }

    /// Returns the number of packets that may be on their way.
    fn open(&self) -> f64 {
        (self.window.floor() + self.inflation).min(WINDOW_MOST)
    }

    fn send(&mut self, now: Time, out: &mut Vec<u32>) {
        let end = (self.acked + self.open() as u32).min(self.packets);
        while self.next < end {
            self.emit(now, out);
        }
    }

    fn emit(&mut self, now: Time, out: &mut Vec<u32>) {
        let number = self.next;
        self.next += 1;
        if number >= self.sent {
            self.sent = number + 1;
            self.timed.get_or_insert((number, now));
        }
        if self.timer.is_none() {
            self.arm(now);
        }
        out.push(number);
    }

    fn arm(&mut self, now: Time) {
        let timeout = self.rtt.map_or(TIMEOUT_FIRST, |(mean, variance)| {
            (mean + 4 * variance).max(TIMEOUT_LEAST)
        });
        self.timer = Some(now + timeout * (1 << self.backoffs));
    }

    fn sample(&mut self, rtt: Duration) {
        self.rtt = Some(match self.rtt {
            None => (rtt, rtt / 2),
            Some((mean, variance)) => {
                let off = rtt.abs_diff(mean);
                ((7 * mean + rtt) / 8, (3 * variance + off) / 4)
            }
        });
    }
}

/// The receiving end, which acknowledges each packet at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Sink {
    next: u32,
    beyond: BTreeSet<u32>,
}

impl Sink {
    /// Takes a packet; returns the number to acknowledge, below which all packets have come.
    pub(super) fn receive(&mut self, number: u32) -> u32 {
        if number >= self.next {
            self.beyond.insert(number);
        }
        while self.beyond.remove(&self.next) {
            self.next += 1;
        }
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// Returns the timeouts of a sender of `data` packets, and what it sent in each round
    /// trip of 80 ms. The network loses those in `lost` the first time.
    fn rounds(data: u32, lost: &[u32]) -> (usize, Vec<Vec<u32>>) {
        let mut out = Vec::new();
        let mut lost = lost.to_vec();
        let mut sender = RenoSender::new(at(0), data, &mut out);
        let (mut sink, mut rounds, mut now) = (Sink::default(), Vec::new(), 0);
        let mut timeouts = 0;
        while !sender.is_done() {
            let sent = std::mem::take(&mut out);
            now += 80;
            for &number in &sent {
                match lost.iter().position(|own| *own == number) {
                    Some(place) => drop(lost.remove(place)),
                    None => sender.on_ack(at(now), sink.receive(number), &mut out),
                }
            }
            rounds.push(sent);
            if out.is_empty()
                && let Some(due) = sender.timer_at()
            {
                now = due.as_nanos() / 1_000_000;
                timeouts += 1;
                sender.on_timer(due, &mut out);
            }
        }
        (timeouts, rounds)
    }

    #[test]
    fn the_handshake_comes_first_and_the_window_doubles() {
        let (_, rounds) = rounds(14, &[]);
        let counts: Vec<usize> = rounds.iter().map(Vec::len).collect();
        assert_eq!(counts, [1, 2, 4, 8]);
        let all: Vec<u32> = rounds.concat();
        assert_eq!(all, (0..15).collect::<Vec<_>>());
    }

    #[test]
    fn no_more_than_twenty_are_on_their_way() {
        let (_, rounds) = rounds(200, &[]);
        assert_eq!(rounds.iter().map(Vec::len).max(), Some(20));
    }

    #[test]
    fn a_handshake_that_is_lost_costs_six_seconds() {
        let mut out = Vec::new();
        let mut sender = RenoSender::new(at(0), 1, &mut out);
        assert_eq!(sender.timer_at(), Some(at(6_000)));
        out.clear();
        sender.on_timer(at(5_999), &mut out);
        assert!(out.is_empty());
        sender.on_timer(at(6_000), &mut out);
        assert_eq!((out, sender.timer_at()), (vec![0], Some(at(18_000))));
    }

    #[test]
    fn three_duplicates_repair_one_loss_and_a_last_one_waits_for_a_second() {
        let mut out = Vec::new();
        let mut sender = RenoSender::new(at(0), 30, &mut out);
        sender.on_ack(at(80), 1, &mut out);
        for upto in [2, 3] {
            sender.on_ack(at(160), upto, &mut out);
        }
        out.clear();
        // Packet 3 is lost, 4 to 6 arrive: two are let go by limited transmit.
        sender.on_ack(at(240), 3, &mut out);
        sender.on_ack(at(240), 3, &mut out);
        assert_eq!(out, [7, 8]);
        sender.on_ack(at(240), 3, &mut out);
        assert_eq!(out[2], 3);
        // The end of a message has nothing behind it that could tell.
        let (_, rounds) = rounds(3, &[3]);
        assert_eq!(rounds.last(), Some(&vec![3]));
    }

    #[test]
    fn losses_in_a_window_are_repaired_while_three_duplicates_follow_each() {
        assert_eq!(rounds(40, &[9]).0, 0);
        let (timeouts, two) = rounds(40, &[9, 11]);
        assert_eq!(timeouts, 0, "{two:?}");
        assert!(two.contains(&vec![11]), "{two:?}");
        // Near the end of a message nothing follows that could tell of the second.
        let (timeouts, late) = rounds(14, &[9, 13]);
        assert_eq!(timeouts, 1, "{late:?}");
    }

    /// Returns a sender of 40 packets whose packets 1 to 8 were lost, after its timeout.
    fn timed_out() -> RenoSender {
        let mut out = Vec::new();
        let mut sender = RenoSender::new(at(0), 40, &mut out);
        sender.on_ack(at(80), 1, &mut out);
        for upto in 2..=8 {
            sender.on_ack(at(160), upto, &mut out);
        }
        let due = sender.timer_at().unwrap();
        sender.on_timer(due, &mut out);
        sender
    }

    #[test]
    fn duplicates_after_a_timeout_open_the_window_and_send_nothing_again() {
        let (mut sender, mut out) = (timed_out(), Vec::new());
        for _ in 0..2 {
            sender.on_ack(at(1_300), 8, &mut out);
        }
        out.clear();
        // The window is 1, and 3 by duplicates.
        sender.on_ack(at(1_300), 8, &mut out);
        assert_eq!(out, [11]);
        assert_eq!(sender.window, 1.0);
    }

    #[test]
    fn a_timeout_is_a_second_at_least() {
        let mut out = Vec::new();
        let mut sender = RenoSender::new(at(0), 5, &mut out);
        sender.on_ack(at(80), 1, &mut out);
        assert_eq!(sender.timer_at(), Some(at(1_080)));
    }
}
