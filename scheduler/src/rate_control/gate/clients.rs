//! The state of each client's own way: its round trip without queues, and how far that varies.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Time;

/// The most clients that are remembered.
const CAPACITY: usize = 1024;

/// The window of a least round trip, which is believed for one to two windows.
const WINDOW: Duration = Duration::from_secs(10);

/// The occasions, `APART` from each other, on which full segments must be seen without a queue to
/// have a base of their own: a slow link takes longer for them than for a handshake.
const OCCASIONS: u32 = 8;
const APART: Duration = Duration::from_millis(200);

/// The most that noise is taken for, in seconds.
const NOISE_MOST_S: f32 = 0.03;

/// The delays, in seconds, of acknowledgements that the client holds back: 40 ms on Linux, and the
/// time to the next poll. They are not noise of the client's way.
const HELD_BACK_S: std::ops::Range<f32> = 0.036..0.046;

/// The number of acknowledgements after which a client's base is believed, whatever was queued.
const SAMPLES: u32 = 40;

/// The least round trip of the present and the last window.
#[derive(Clone, Copy, Debug)]
struct Least {
    now: Duration,
    before: Duration,
    /// The time of the last occasion counted; `counts` has the occasions of the present and the
    /// last window.
    counted_at: Time,
    counts: (u32, u32),
    since: Time,
}

impl Least {
    fn new(now: Time) -> Self {
        Self {
            now: Duration::MAX,
            before: Duration::MAX,
            counted_at: Time::ZERO,
            counts: (0, 0),
            since: now,
        }
    }

    fn add(&mut self, now: Time, value: Duration) {
        if now.since(self.since) >= WINDOW {
            let old = now.since(self.since) >= 2 * WINDOW;
            self.before = if old { Duration::MAX } else { self.now };
            self.counts = (0, if old { 0 } else { self.counts.0 });
            self.now = Duration::MAX;
            self.since = now;
        }
        self.now = self.now.min(value);
        if self.counts == (0, 0) || now.since(self.counted_at) >= APART {
            self.counted_at = now;
            self.counts.0 += 1;
        }
    }

    fn get(&self) -> Duration {
        self.now.min(self.before)
    }

    fn occasions(&self) -> u32 {
        self.counts.0 + self.counts.1
    }
}

/// A client's least round trips, and how far its delays vary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    any: Least,
    /// The least round trip of bursts of full segments, where no queue was to be expected.
    big: Least,
    /// The noise of a delay: how far it varies without a queue, in seconds.
    pub(super) noise_s: f32,
    /// The last delay where no queue was to be expected, in seconds.
    last_s: Option<f32>,
    /// The bytes under way to the client.
    pub(super) unacked_bytes: u64,
    samples: u32,
    trusted: bool,
    heard_at: Option<Time>,
    used_at: Time,
}

impl Client {
    /// Takes in a probe's round trip `rtt`, and returns its delay over the base, in seconds.
    /// `min_rtt` is the least that TCP has seen. `big` is given for a burst of full segments, and
    /// says whether no queue was to be expected before it. Only then does the burst count for the
    /// base, for a standing queue would be part of it.
    pub(super) fn delay_s(
        &mut self,
        now: Time,
        rtt: Duration,
        min_rtt: Duration,
        big: Option<bool>,
    ) -> f32 {
        self.heard_at = Some(now);
        self.samples = self.samples.saturating_add(1);
        self.any.add(now, rtt.min(min_rtt));
        let mut base = self.any.get();
        if let Some(idle) = big {
            if idle {
                self.big.add(now, rtt);
            }
            if self.big.occasions() >= OCCASIONS {
                base = base.max(self.big.get());
            }
        }
        rtt.saturating_sub(base).as_secs_f32()
    }

    /// Takes in a delay where no queue was to be expected. How far such delays differ from
    /// one to the next is noise, as in RFC 3550 6.4.1: a link that has got slower makes all
    /// of them longer, and is no noise.
    pub(super) fn vary(&mut self, delay_s: f32) {
        if HELD_BACK_S.contains(&delay_s) {
            return;
        }
        let last_s = self.last_s.replace(delay_s).unwrap_or(delay_s);
        // Delays that vary evenly up to some most differ by a third of it, and are half
        // of it on average.
        let noise_s = (1.5 * (delay_s - last_s).abs()).min(NOISE_MOST_S);
        self.noise_s += (noise_s - self.noise_s) / 8.0;
    }

    /// Returns whether the client's base is believed, as it is from the first `idle` link or enough
    /// samples on: if the base holds a queue, delays tell nothing.
    pub(super) fn trust(&mut self, idle: bool) -> bool {
        self.trusted |= idle || self.samples >= SAMPLES;
        self.trusted
    }
}

/// The clients that the gate has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Clients {
    clients: BTreeMap<u64, Client>,
}

impl Clients {
    /// Returns the state of a client, which may be new.
    pub(super) fn get(&mut self, now: Time, client: u64) -> &mut Client {
        if self.clients.len() >= CAPACITY && !self.clients.contains_key(&client) {
            let oldest = self.clients.iter().min_by_key(|(_, client)| client.used_at);
            if let Some((&oldest, _)) = oldest {
                self.clients.remove(&oldest);
            }
        }
        let known = self.clients.entry(client).or_insert_with(|| Client {
            any: Least::new(now),
            big: Least::new(now),
            noise_s: 0.0,
            last_s: None,
            unacked_bytes: 0,
            samples: 0,
            trusted: false,
            heard_at: None,
            used_at: now,
        });
        known.used_at = now;
        known
    }

    /// Counts the clients that were heard of since `since`.
    pub(super) fn heard_since(&self, since: Time) -> usize {
        let heard = |client: &&Client| client.heard_at.is_some_and(|at| at >= since);
        self.clients.values().filter(heard).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn full_segments_have_a_base_of_their_own_once_seen_often_enough() {
        let mut clients = Clients::default();
        let client = clients.get(at(0), 1);
        assert_eq!(client.delay_s(at(0), 40 * MS, Duration::MAX, None), 0.0);
        // A segment takes 6 ms at 2 Mbit/s.
        for occasion in 1..8 {
            let delay_s = client.delay_s(at(250 * occasion), 46 * MS, Duration::MAX, Some(true));
            assert!((delay_s - 0.006).abs() < 1e-6, "{occasion}");
        }
        let delay_s = client.delay_s(at(2000), 46 * MS, Duration::MAX, Some(true));
        assert_eq!(delay_s, 0.0);
        let delay_s = client.delay_s(at(2001), 46 * MS, Duration::MAX, None);
        assert!((delay_s - 0.006).abs() < 1e-6);
    }

    #[test]
    fn full_segments_that_met_a_queue_say_nothing_of_their_base() {
        let mut clients = Clients::default();
        let client = clients.get(at(0), 1);
        client.delay_s(at(0), 40 * MS, Duration::MAX, None);
        for occasion in 1..=2 * u64::from(OCCASIONS) {
            let delay_s = client.delay_s(at(250 * occasion), 90 * MS, Duration::MAX, Some(false));
            assert!((delay_s - 0.050).abs() < 1e-6, "{occasion}");
        }
    }

    #[test]
    fn noise_is_what_differs_from_one_delay_to_the_next() {
        let mut clients = Clients::default();
        let client = clients.get(at(0), 1);
        for _ in 0..100 {
            client.vary(0.050);
        }
        assert_eq!(client.noise_s, 0.0, "a standing queue is none");
        for turn in 0..100u8 {
            client.vary(f32::from(turn % 2) * 0.004);
        }
        assert!((client.noise_s - 0.006).abs() < 1e-3, "{}", client.noise_s);
        for turn in 0..100u8 {
            client.vary(f32::from(turn % 2));
        }
        assert!(client.noise_s <= NOISE_MOST_S);
    }

    #[test]
    fn a_base_is_believed_after_idleness_or_many_samples_and_from_then_on() {
        let mut clients = Clients::default();
        let client = clients.get(at(0), 1);
        for ms in 1..SAMPLES {
            client.delay_s(at(u64::from(ms)), MS, Duration::MAX, None);
            assert!(!client.trust(false));
        }
        client.delay_s(at(u64::from(SAMPLES)), MS, Duration::MAX, None);
        assert!(client.trust(false));
        let other = clients.get(at(0), 2);
        assert_eq!(
            [other.trust(false), other.trust(true), other.trust(false)],
            [false, true, true]
        );
    }

    #[test]
    fn a_base_is_forgotten_after_two_windows() {
        let mut clients = Clients::default();
        let client = clients.get(at(0), 1);
        client.delay_s(at(0), 10 * MS, Duration::MAX, None);
        assert!(client.delay_s(at(11_000), 30 * MS, Duration::MAX, None) > 0.019);
        assert_eq!(
            client.delay_s(at(22_000), 30 * MS, Duration::MAX, None),
            0.0
        );
    }

    #[test]
    fn the_table_is_bounded_and_the_longest_silent_goes() {
        let mut clients = Clients::default();
        for client in 0..3000 {
            clients.get(at(client), client);
        }
        assert_eq!(clients.clients.len(), CAPACITY);
        assert!(clients.clients.contains_key(&2999) && !clients.clients.contains_key(&0));
    }

    #[test]
    fn occasions_are_some_time_apart() {
        let mut least = Least::new(at(0));
        for (ms, occasions) in [(0, 1), (1, 1), (199, 1), (200, 2), (399, 2), (400, 3)] {
            least.add(at(ms), MS);
            assert_eq!(least.occasions(), occasions, "{ms}");
        }
    }

    #[test]
    fn noise_follows_by_an_eighth() {
        let mut clients = Clients::default();
        let client = clients.get(at(0), 1);
        client.vary(0.0);
        client.vary(0.004);
        assert!((client.noise_s - 0.006 / 8.0).abs() < 1e-7);
    }

    #[test]
    fn an_acknowledgement_held_back_is_no_noise() {
        let mut clients = Clients::default();
        let client = clients.get(at(0), 1);
        for delay_s in [0.0, 0.036_1, 0.0, 0.040_8, 0.0, 0.045_9, 0.0] {
            client.vary(delay_s);
        }
        assert_eq!(client.noise_s, 0.0);
        client.vary(0.035);
        assert_eq!(client.noise_s, NOISE_MOST_S / 8.0);
    }

    #[test]
    fn clients_that_were_heard_of_are_counted() {
        let mut clients = Clients::default();
        for ms in 1..=3 {
            clients
                .get(at(ms), ms)
                .delay_s(at(ms), MS, Duration::MAX, None);
        }
        clients.get(at(4), 4);
        for (ms, heard) in [(0, 3), (1, 3), (2, 2), (3, 1), (4, 0)] {
            assert_eq!(clients.heard_since(at(ms)), heard, "{ms}");
        }
    }
}
