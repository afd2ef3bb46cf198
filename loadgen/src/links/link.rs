//! One direction of a link: queue, serialisation, loss, delay.

use std::collections::VecDeque;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use sprat_scheduler::Time;

use super::Packet;
use super::counters::{Amount, LinkCounters};
use super::queue::{Queue, QueueSettings, Refused};
use super::schedule::{Cursor, Schedule};

/// The settings with which one direction of a link begins.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSettings {
    /// The rate in bits per second. If `None`, packets take no time, and the queue is always empty.
    pub rate_bits_per_s: Option<u64>,
    /// The time from a packet's last bit on the link to its arrival.
    pub delay: Duration,
    /// The most jitter that is added to a packet's delay, drawn uniformly from 0. A packet that
    /// would overtake the one before it arrives with it.
    pub jitter: Duration,
    /// The share of packets that are lost, each by itself, after they took their time on
    /// the link.
    pub loss: f64,
    /// Bytes that each packet takes on the link beside its own, such as 14 of Ethernet.
    pub overhead_bytes: u32,
    /// The queue of packets that wait for the link.
    pub queue: QueueSettings,
    /// The bytes of a mean packet. By its time on the link RED's average fades while the queue is
    /// empty.
    pub mean_packet_bytes: u32,
    /// The changes of rate and delay over time.
    pub schedule: Schedule,
}

impl Default for LinkSettings {
    /// Makes the settings of a link that passes every packet at once.
    fn default() -> Self {
        Self {
            rate_bits_per_s: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            overhead_bytes: 0,
            queue: QueueSettings::default(),
            mean_packet_bytes: PACKET_BYTES,
            schedule: Schedule::default(),
        }
    }
}

/// The most packets on their way at once: what 1 Gbit/s has under way in 0.7 s.
const FLYING_MAX: usize = 1 << 16;

/// Bytes of a full packet on Ethernet.
const PACKET_BYTES: u32 = 1500;

const NANOS_PER_S: u64 = 1_000_000_000;

/// The packet in transmission on the link.
#[derive(Clone, Debug)]
struct Sending<T> {
    packet: Packet<T>,
    /// The work left, in bits times the nanoseconds of a second: exact whatever rates come.
    work: u64,
    /// The time at which `work` was left.
    since: Time,
}

impl<T> Sending<T> {
    fn end(&self, rate_bits_per_s: Option<u64>) -> Time {
        let nanos = rate_bits_per_s.map_or(0, |rate| self.work.div_ceil(rate.max(1)));
        self.since + Duration::from_nanos(nanos)
    }
}

/// One direction of a link, with the packets that are on it.
#[derive(Clone, Debug)]
pub struct Link<T> {
    settings: LinkSettings,
    rate_bits_per_s: Option<u64>,
    delay: Duration,
    changes: Cursor,
    draws: Pcg64,
    queue: Queue<T>,
    sending: Option<Sending<T>>,
    /// Packets on their way, in the order of their arrival.
    flying: VecDeque<(Time, Packet<T>)>,
    /// The time up to which the link's own events have happened.
    clock: Time,
    delivered: Amount,
    lost: Amount,
    crowded: Amount,
}

impl<T> Link<T> {
    /// Makes an empty link, whose schedule begins at `now`.
    pub fn new(settings: LinkSettings, seed: u64, now: Time) -> Self {
        let rate_bits_per_s = settings.rate_bits_per_s;
        Self {
            rate_bits_per_s,
            delay: settings.delay,
            changes: Cursor::new(settings.schedule.clone(), now),
            draws: Pcg64::seed_from_u64(seed),
            queue: Queue::new(settings.queue, packet_time(&settings, rate_bits_per_s), now),
            sending: None,
            flying: VecDeque::new(),
            clock: now,
            delivered: Amount::default(),
            lost: Amount::default(),
            crowded: Amount::default(),
            settings,
        }
    }

    /// Gives the link a packet at `now`.
    ///
    /// # Errors
    /// Returns the packet that the queue dropped, with the reason.
    pub fn offer(&mut self, now: Time, packet: Packet<T>) -> Result<(), Refused<T>> {
        let now = now.max(self.clock);
        self.advance(now);
        let draw = self.draws.random();
        self.queue.offer(now, packet, draw)?;
        if self.sending.is_none() {
            self.send_next(now);
            self.advance(now);
        }
        Ok(())
    }

    /// Returns when to call [`Self::take_due`] next; `None` while the link is empty. A change of
    /// the schedule is an event only while a packet is queued or sent.
    pub fn next_event(&self) -> Option<Time> {
        let arrival = self.flying.front().map(|(due, _)| *due);
        let own = self.sending.as_ref().map(|sending| {
            let end = sending.end(self.rate_bits_per_s);
            self.changes.due().map_or(end, |change| end.min(change))
        });
        match (arrival, own) {
            (Some(arrival), Some(own)) => Some(arrival.min(own)),
            (arrival, own) => arrival.or(own),
        }
    }

    /// Takes the next packet that has arrived at the far end by `now`, with the time when it did.
    pub fn take_due(&mut self, now: Time) -> Option<(Time, Packet<T>)> {
        self.advance(now);
        let (due, _) = self.flying.front()?;
        if *due > now {
            return None;
        }
        let (due, packet) = self.flying.pop_front()?;
        self.delivered.add(packet.bytes);
        Some((due, packet))
    }

    /// Returns the counters of the packets so far.
    pub fn counters(&self) -> LinkCounters {
        LinkCounters {
            marks: self.queue.marks(),
            length: self.queue.length(),
            delivered: self.delivered,
            lost: self.lost,
            crowded: self.crowded,
        }
    }

    /// Returns the present rate, in bits per second.
    pub fn rate_bits_per_s(&self) -> Option<u64> {
        self.rate_bits_per_s
    }

    /// Returns the number of packets that have left the queue and wait for the end of their
    /// transmission or for their arrival.
    pub fn under_way(&self) -> usize {
        self.flying.len() + usize::from(self.sending.is_some())
    }

    /// Carries out the link's own events up to `now`, each at its own time.
    fn advance(&mut self, now: Time) {
        loop {
            let end = self.sending.as_ref().map(|s| s.end(self.rate_bits_per_s));
            let change = self.changes.due();
            match (end, change) {
                (Some(end), change) if end <= now && change.is_none_or(|change| end <= change) => {
                    self.sent(end);
                }
                (_, Some(change)) if change <= now => self.change(change),
                _ => break,
            }
        }
        self.clock = self.clock.max(now);
    }

    fn send_next(&mut self, now: Time) {
        self.sending = self.queue.take(now).map(|packet| Sending {
            work: (u64::from(packet.bytes) + u64::from(self.settings.overhead_bytes))
                .saturating_mul(8 * NANOS_PER_S),
            packet,
            since: now,
        });
    }

    /// Notes that a packet's last bit has left at `now`.
    fn sent(&mut self, now: Time) {
        if let Some(Sending { packet, .. }) = self.sending.take() {
            self.fly(now, packet);
        }
        self.send_next(now);
    }

    fn fly(&mut self, now: Time, packet: Packet<T>) {
        if self.settings.loss > 0.0 && self.draws.random::<f64>() < self.settings.loss {
            self.lost.add(packet.bytes);
            return;
        }
        if self.flying.len() >= FLYING_MAX {
            self.crowded.add(packet.bytes);
            return;
        }
        let jitter = if self.settings.jitter.is_zero() {
            Duration::ZERO
        } else {
            self.settings.jitter.mul_f64(self.draws.random())
        };
        let before = self.flying.back().map_or(now, |(due, _)| *due);
        let due = (now + self.delay + jitter).max(before);
        self.flying.push_back((due, packet));
    }

    fn change(&mut self, now: Time) {
        let Some(change) = self.changes.take() else {
            return;
        };
        self.delay = change.delay.unwrap_or(self.delay);
        if change.rate_bits_per_s.is_none() || change.rate_bits_per_s == self.rate_bits_per_s {
            return;
        }
        if let Some(sending) = &mut self.sending {
            let passed = now.since(sending.since).as_nanos();
            let done = passed * u128::from(self.rate_bits_per_s.unwrap_or(u64::MAX));
            sending.work = sending
                .work
                .saturating_sub(u64::try_from(done).unwrap_or(u64::MAX));
            sending.since = now;
        }
        self.rate_bits_per_s = change.rate_bits_per_s;
        let packet_time = packet_time(&self.settings, self.rate_bits_per_s);
        self.queue.set_packet_time(packet_time);
    }
}

/// Returns the time that a link's mean packet takes at a rate.
fn packet_time(settings: &LinkSettings, rate_bits_per_s: Option<u64>) -> Duration {
    let bits = u64::from(settings.mean_packet_bytes) * 8;
    rate_bits_per_s.map_or(Duration::ZERO, |rate| {
        Duration::from_nanos(bits * NANOS_PER_S / rate.max(1))
    })
}

#[cfg(test)]
mod tests;
