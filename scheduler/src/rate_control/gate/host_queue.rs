//! The host's own queue: packets of the sockets that wait in the host for its link.
//!
//! All that leaves the host shares that link, and no client's own line makes packets wait for it.
//! While some wait at every poll, the link is never idle, and carries what it can: its rate is that
//! at which bytes arrive. So the host's own link is known after a quarter of a second, where the
//! bank of hypothetical links sees nothing in a standing queue.
//!
//! Packets are in the host for other reasons, too, which must not be taken for a full link:
//!
//! - A device holds each packet until it has told that the packet is out, some 0.1 ms. So a queue
//!   shorter than [`WORTH_S`] is none.
//! - A client that asks for little waits behind other programs of the host. So sockets count while
//!   they hold unsent bytes back: TCP would have put more into the queue.
//! - The queueing discipline `fq` holds packets until the time that TCP's pacing gives them. Then
//!   they leave as fast as TCP paces them. A link that is full is slower than what TCP's pacing
//!   would have let out of it: Linux paces at 1.2 or 2 times what a socket's window amounts to. BBR
//!   paces at just that, so that its sockets prove nothing here.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Time;

/// The least queue of a full link, in seconds of what the link carries.
const WORTH_S: f64 = 0.0005;

/// The time for which the queue has to be full, and over which the link's rate is measured.
pub(super) const LENGTH: Duration = Duration::from_millis(250);

/// The number of polls after which a queue that none of them found short counts as full.
const FULL_POLLS: u32 = 8;

/// The least that the link carries in that time, in wire bytes: of fewer segments each is more than
/// a hundredth.
const LEAST_BYTES: f64 = 100.0 * SEGMENT_BYTES;

/// The percentage of polls that may find the queue short.
const SHORT_PERCENT: u32 = 5;

/// The part of what TCP's pacing would let out that a full link carries at most.
const OF_PACING: f64 = 0.9;

/// The longest time between two polls: of a longer one nothing is known.
const GAP: Duration = Duration::from_millis(20);

/// The time over which the rate that a poll's queue is compared with is averaged, in seconds.
const SMOOTH_S: f64 = 0.02;

/// The longest time for which one look at a socket says whether its packets wait.
const SEEN_FOR: Duration = Duration::from_millis(10);

/// The most that an arrival is taken to be later than the departure, and the most polls in that
/// time.
const WAY_MOST: Duration = Duration::from_millis(500);
const ON_WAY_MAX: usize = 1024;

/// A full segment on the wire, and its payload, in bytes.
const SEGMENT_BYTES: f64 = 1514.0;
const PAYLOAD_BYTES: f64 = 1448.0;

/// The kernel's memory for each wire byte, at most: a packet of one full segment has 2,728 bytes
/// (1,448, `struct sk_buff`, and a page fragment's head with `struct skb_shared_info`), one of many
/// segments hardly more than their payload.
const MEMORY_OF_WIRE: f64 = 2.0;

/// The least memory of a socket that TCP holds back because of the host's queue, in bytes. Linux
/// lets a socket have two packets there, and a millisecond at its pacing rate (TCP small queues);
/// a packet has two segments or more, and a millisecond, within 64 KB. So what is more than
/// one packet has not been sent for a millisecond at least.
const HELD_MEMORY: f64 = 6000.0;
const HELD_PACKETS: f64 = 1.5;
const PACKETS_PER_S: f64 = 1000.0;
const PACKET_MOST: f64 = 65_536.0;

/// The bytes of a socket that the host holds. All zero stands for a kernel that does not tell, and
/// for packets that the kernel does not count for their socket any more, as on loopback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSample {
    /// The kernel's memory for packets that TCP has sent and that wait in the host, in its queueing
    /// discipline or its device: `SK_MEMINFO_WMEM_ALLOC` of `SO_MEMINFO`. A wire byte has two bytes
    /// of memory at most where there are full segments.
    pub waiting_memory_bytes: u64,
    /// The bytes that TCP has not sent, the kernel's `tcpi_notsent_bytes`.
    pub unsent_bytes: u64,
    /// The rate at which TCP paces the socket where anything does, in bytes of payload, the
    /// kernel's `tcpi_pacing_rate`.
    pub pacing_bytes_per_s: u64,
    /// The bytes that have arrived behind one that has not, the kernel's `tcpi_sacked` times
    /// `tcpi_snd_mss`.
    pub sacked_bytes: u64,
}

/// A look at a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) host: HostSample,
    /// The least round trip; [`Duration::MAX`] if there is none.
    pub(super) min_rtt: Duration,
    /// The payload under way to the client, in the host or beyond.
    pub(super) unacked_bytes: u64,
    /// The time since the socket was last looked at.
    pub(super) since_last: Duration,
}

/// A link of the host that has been full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FullLink {
    /// The rate that the link carries, in bits per second.
    pub(super) rate_bits_per_s: f64,
    /// The rate of the pacer in that time, on average, in bits per second.
    pub(super) paced_bits_per_s: f64,
}

/// The sums of one poll.
#[derive(Clone, Copy, Debug, Default)]
struct PollSums {
    /// The wire bytes, at least, that wait in the host while their sockets hold more back.
    waiting_bytes: f64,
    /// The payload that has arrived.
    arrived_bytes: f64,
    /// The payload that TCP's pacing would have let out of the host's queue.
    let_out_bytes: f64,
    /// The longest way of what is under way.
    way: Duration,
}

/// The host's queue, as polls see it.
#[derive(Clone, Debug, Default)]
pub(super) struct HostQueue {
    /// The wire bytes that are known to have arrived, and those of the last poll.
    carried_bytes: f64,
    carried_before: f64,
    /// The rate at which bytes arrive, on average over [`SMOOTH_S`], in bytes per second.
    rate_bytes_per_s: f64,
    heard: PollSums,
    span: Option<FullSpan>,
    /// Whether what waited in the last measurement left as fast as TCP paces it: then it waits for
    /// its time rather than for a link.
    is_paced_out: bool,
    polled_at: Time,
}

/// A time in which the queue was full at nearly every poll.
#[derive(Clone, Debug)]
struct FullSpan {
    since: Time,
    way: Duration,
    polls: u32,
    short: u32,
    arrived_bytes: f64,
    /// The payload that TCP's pacing would have let out of the queue, as far as it would have
    /// arrived by now; `on_way` has what would not have, by poll.
    let_out_bytes: f64,
    on_way: VecDeque<(Time, f64)>,
    /// The bits that the pacer would have let go.
    paced_bits: f64,
    course: Course,
}

impl FullSpan {
    fn new(now: Time, way: Duration) -> Self {
        Self {
            since: now,
            way,
            polls: 0,
            short: 0,
            arrived_bytes: 0.0,
            let_out_bytes: 0.0,
            on_way: VecDeque::new(),
            paced_bits: 0.0,
            course: Course::default(),
        }
    }

    /// Takes a poll's sums into account.
    fn add(&mut self, now: Time, heard: &PollSums, carried_bytes: f64, paced_bits: f64) {
        self.on_way.push_back((now, heard.let_out_bytes));
        if self.on_way.len() > ON_WAY_MAX {
            self.on_way.pop_front();
        }
        while let Some(&(at, bytes)) = self.on_way.front()
            && at + self.way <= now
        {
            self.let_out_bytes += bytes;
            self.on_way.pop_front();
        }
        if now.since(self.since) < self.way {
            return;
        }
        if self.course.is_empty() {
            self.let_out_bytes = 0.0;
        } else {
            self.arrived_bytes += heard.arrived_bytes;
            self.paced_bits += paced_bits;
        }
        self.course.add(now, carried_bytes);
    }

    /// Ends a measurement that has lasted for `least`, and begins the next. Returns what was
    /// carried, and whether that is less than TCP's pacing lets out.
    fn measured(&mut self, least: Duration) -> Option<(FullLink, bool)> {
        let (took, bytes) = self.course.extent()?;
        if took < least || bytes < LEAST_BYTES {
            return None;
        }
        let next = Self {
            polls: FULL_POLLS,
            on_way: std::mem::take(&mut self.on_way),
            ..Self::new(self.since, self.way)
        };
        let past = std::mem::replace(self, next);
        let rate = past.course.bytes_per_s()?;
        let is_slower = past.arrived_bytes < OF_PACING * past.let_out_bytes;
        let full = FullLink {
            rate_bits_per_s: 8.0 * rate,
            paced_bits_per_s: past.paced_bits / took.as_secs_f64(),
        };
        Some((full, is_slower))
    }
}

impl HostQueue {
    /// Notes that wire bytes have left TCP.
    pub(super) fn send(&mut self, wire_bytes: u64) {
        self.carried_bytes += wire_bytes as f64;
    }

    /// Notes that `payload_bytes` of what has left TCP were sent for the first time, and will be
    /// acknowledged.
    pub(super) fn begin(&mut self, payload_bytes: u64) {
        self.carried_bytes -= payload_bytes as f64 * SEGMENT_BYTES / PAYLOAD_BYTES;
    }

    /// Notes that `payload_bytes` have arrived. Those behind a lost segment count at once: the
    /// acknowledgement that follows its repetition tells of all of them in a moment.
    pub(super) fn arrive(&mut self, payload_bytes: u64) {
        self.carried_bytes += payload_bytes as f64 * SEGMENT_BYTES / PAYLOAD_BYTES;
        self.heard.arrived_bytes += payload_bytes as f64;
    }

    /// Takes a look at a socket into account.
    pub(super) fn look(&mut self, look: &Look) {
        let HostSample {
            waiting_memory_bytes: memory,
            unsent_bytes,
            pacing_bytes_per_s,
            sacked_bytes: _,
        } = look.host;
        if memory == 0 || unsent_bytes == 0 {
            return;
        }
        // Packets of a few bytes have more memory for each of them.
        let unacked_bytes = look.unacked_bytes as f64 * SEGMENT_BYTES / PAYLOAD_BYTES;
        self.heard.waiting_bytes += (memory as f64 / MEMORY_OF_WIRE).min(unacked_bytes);
        let pacing = pacing_bytes_per_s as f64;
        let packet = (pacing / PACKETS_PER_S).min(PACKET_MOST);
        if memory as f64 >= (HELD_PACKETS * packet).max(HELD_MEMORY) {
            let seen_s = look.since_last.min(SEEN_FOR).as_secs_f64();
            self.heard.let_out_bytes += pacing * seen_s;
        }
        if look.min_rtt < Duration::MAX {
            self.heard.way = self.heard.way.max(look.min_rtt);
        }
    }

    /// Notes a poll, after all looks of it. `paced_bits_per_s` is the pacer's rate since the last
    /// one. Returns the link, if it has been full for `lengths` times [`LENGTH`]; after that a new
    /// measurement begins.
    pub(super) fn on_poll(
        &mut self,
        now: Time,
        paced_bits_per_s: u64,
        lengths: u32,
    ) -> Option<FullLink> {
        let heard = std::mem::take(&mut self.heard);
        let way = heard.way.min(WAY_MOST);
        let passed = now.since(self.polled_at);
        self.polled_at = now;
        let carried_bytes = self.carried_bytes - self.carried_before;
        self.carried_before = self.carried_bytes;
        if passed.is_zero() || passed >= GAP {
            self.span = None;
            return None;
        }
        let passed_s = passed.as_secs_f64();
        let off = carried_bytes / passed_s - self.rate_bytes_per_s;
        self.rate_bytes_per_s += off * (passed_s / SMOOTH_S).min(1.0);
        let waiting_bytes = heard.waiting_bytes;
        let is_full = waiting_bytes > 0.0 && waiting_bytes >= WORTH_S * self.rate_bytes_per_s;
        if self.span.is_none() && is_full {
            self.span = Some(FullSpan::new(now, way));
            return None;
        }
        let span = self.span.as_mut()?;
        span.polls += 1;
        span.short += u32::from(!is_full);
        if span.short * 100 > span.polls * SHORT_PERCENT {
            self.span = None;
            return None;
        }
        // What arrives may have left before the queue was full.
        span.way = span.way.max(way);
        let paced_bits = paced_bits_per_s as f64 * passed_s;
        span.add(now, &heard, self.carried_bytes, paced_bits);
        let (full, is_slower) = span.measured(LENGTH * lengths)?;
        self.is_paced_out = !is_slower;
        is_slower.then_some(full)
    }

    /// Returns whether the queue has been full for a while, and is the link's as far as known. On a
    /// host whose queueing discipline paces, packets wait at nearly every poll, and delays tell as
    /// much as elsewhere.
    pub(super) fn is_full(&self) -> bool {
        let span = self.span.as_ref();
        !self.is_paced_out && span.is_some_and(|span| span.polls >= FULL_POLLS)
    }
}

/// The course of what has arrived over time: sums, from which the line through all points follows.
/// The first and the last point alone would be wrong by what one acknowledgement tells of.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    first: Option<(Time, f64)>,
    last: Option<(Time, f64)>,
    points: f64,
    /// The sums of times, bytes, times squared, and times with bytes, from the first point.
    s: f64,
    bytes: f64,
    s_s: f64,
    s_bytes: f64,
}

impl Course {
    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds a point: by `now`, so many bytes have arrived since some beginning.
    fn add(&mut self, now: Time, carried_bytes: f64) {
        let (from, bytes) = *self.first.get_or_insert((now, carried_bytes));
        self.last = Some((now, carried_bytes));
        let (s, bytes) = (now.since(from).as_secs_f64(), carried_bytes - bytes);
        self.points += 1.0;
        self.s += s;
        self.bytes += bytes;
        self.s_s += s * s;
        self.s_bytes += s * bytes;
    }

    /// Returns the time from the first point to the last, and the bytes that arrived in it.
    fn extent(&self) -> Option<(Duration, f64)> {
        let ((from, before), (to, after)) = (self.first?, self.last?);
        Some((to.since(from), after - before))
    }

    /// Returns the slope of the line with the least squared distances from the points.
    fn bytes_per_s(&self) -> Option<f64> {
        let spread = self.points * self.s_s - self.s * self.s;
        let slope = (self.points * self.s_bytes - self.s * self.bytes) / spread;
        (spread > 0.0 && slope > 0.0).then_some(slope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    /// A socket of a host whose link carries a full segment in a millisecond, and paces what it
    /// sends at twice that.
    const HELD: Look = Look {
        host: HostSample {
            waiting_memory_bytes: 6000,
            unsent_bytes: 1,
            pacing_bytes_per_s: 2_896_000,
            sacked_bytes: 0,
        },
        min_rtt: Duration::MAX,
        unacked_bytes: 10_000,
        since_last: MS,
    };

    /// Carries a segment and polls at each millisecond in `ms`, each time after a look as `look`
    /// says. Returns the first full link, and the millisecond of it.
    fn polled(
        queue: &mut HostQueue,
        ms: std::ops::RangeInclusive<u64>,
        look: impl Fn(u64) -> Look,
    ) -> Option<(u64, FullLink)> {
        ms.into_iter().find_map(|ms| {
            queue.send(1514);
            queue.begin(1448);
            queue.arrive(1448);
            queue.look(&look(ms));
            let full = queue.on_poll(at(ms), 20_000_000, 1)?;
            Some((ms, full))
        })
    }

    fn full(look: impl Fn(u64) -> Look) -> Option<(u64, FullLink)> {
        polled(&mut HostQueue::default(), 1..=1000, look)
    }

    #[test]
    fn a_full_link_is_measured_over_a_quarter_of_a_second() {
        let (ms, full) = full(|_| HELD).unwrap();
        // The first poll begins the time, and the second the measurement.
        assert_eq!(ms, 252);
        assert!((full.rate_bits_per_s - 12_112_000.0).abs() < 1e-3);
        assert!((full.paced_bits_per_s - 20_000_000.0).abs() < 1e-3);
    }

    #[test]
    fn the_next_measurement_begins_with_the_next_poll() {
        let mut queue = HostQueue::default();
        let (first, _) = polled(&mut queue, 1..=1000, |_| HELD).unwrap();
        let (second, _) = polled(&mut queue, first + 1..=1000, |_| HELD).unwrap();
        assert_eq!([first, second], [252, 503]);
    }

    #[test]
    fn mistakes_make_it_wait_longer() {
        let mut queue = HostQueue::default();
        let mut at_ms = None;
        for ms in 1..=2000 {
            queue.send(1514);
            queue.begin(1448);
            queue.arrive(1448);
            queue.look(&HELD);
            if at_ms.is_none() && queue.on_poll(at(ms), 0, 4).is_some() {
                at_ms = Some(ms);
            }
        }
        assert_eq!(at_ms, Some(1002));
    }

    #[test]
    fn a_link_that_carries_little_is_measured_over_a_hundred_segments() {
        let mut queue = HostQueue::default();
        let mut found = None;
        for ms in 1..=1000 {
            if ms % 5 == 0 {
                queue.send(1514);
                queue.begin(1448);
                queue.arrive(1448);
            }
            queue.look(&HELD);
            let full = queue.on_poll(at(ms), 0, 1);
            found = found.or(full.map(|full| (ms, full.rate_bits_per_s)));
        }
        let (ms, rate) = found.unwrap();
        // From the second poll on, the hundredth segment comes at 500 ms.
        assert_eq!(ms, 500);
        assert!((rate / 2_422_400.0 - 1.0).abs() < 0.001, "{rate}");
    }

    #[test]
    fn a_queue_is_worth_half_a_millisecond_of_what_is_carried() {
        // A segment has 3,028 bytes of memory at most, but no more waits than is under way: 724
        // bytes of payload are 757 on the wire.
        let with = |memory: u64, unacked_bytes: u64| {
            let look = |ms| {
                let mut look = HELD;
                look.host.waiting_memory_bytes = 60_000;
                if ms > 150 {
                    look.host.waiting_memory_bytes = memory;
                    look.unacked_bytes = unacked_bytes;
                }
                look
            };
            full(look).map(|(ms, _)| ms)
        };
        assert_eq!(with(1514, 10_000), Some(252));
        assert_eq!(with(1512, 10_000), None);
        assert_eq!(with(60_000, 724), Some(252));
        assert_eq!(with(60_000, 723), None);
    }

    #[test]
    fn one_poll_in_twenty_may_find_the_queue_short() {
        let short_each = |each: u64| {
            full(|ms| match ms % each {
                0 => Look {
                    host: HostSample::default(),
                    ..HELD
                },
                _ => HELD,
            })
            .map(|(ms, _)| ms)
        };
        // Before the twentieth poll none may.
        assert_eq!(short_each(22), Some(252));
        assert_eq!(short_each(19), None);
    }

    #[test]
    fn sockets_that_hold_nothing_back_and_kernels_that_do_not_tell_prove_nothing() {
        let change = |change: fn(&mut HostSample)| {
            full(|_| {
                let mut look = HELD;
                change(&mut look.host);
                look
            })
        };
        assert!(change(|_| ()).is_some());
        assert_eq!(change(|host| host.unsent_bytes = 0), None);
        assert_eq!(change(|host| host.waiting_memory_bytes = 0), None);
        assert_eq!(change(|host| host.pacing_bytes_per_s = 0), None);
    }

    #[test]
    fn packets_that_leave_as_fast_as_tcp_paces_them_wait_for_no_link() {
        // The link carries 1,448,000 bytes of payload a second: 0.9 of 1,608,889.
        for (pacing_bytes_per_s, is_full) in [
            (1_448_000, false),
            (1_608_000, false),
            (1_610_000, true),
            (1_737_600, true),
        ] {
            let found = full(|_| {
                let mut look = HELD;
                look.host.pacing_bytes_per_s = pacing_bytes_per_s;
                look
            });
            assert_eq!(found.is_some(), is_full, "{pacing_bytes_per_s}");
        }
    }

    #[test]
    fn what_tcp_lets_out_arrives_a_round_trip_later() {
        // What TCP lets out doubles each 40 ms, up to 256 segments a millisecond.
        let segments = |ms: u64| 1_u64 << (ms / 40).min(8);
        let mut queue = HostQueue::default();
        let mut found = None;
        for ms in 1..=1000_u64 {
            let arrives = segments(ms.saturating_sub(40));
            queue.send(1514 * segments(ms));
            queue.begin(1448 * segments(ms));
            queue.arrive(1448 * arrives);
            let mut look = HELD;
            look.min_rtt = 40 * MS;
            look.host.waiting_memory_bytes = 1_000_000;
            look.host.pacing_bytes_per_s = 1_448_000 * segments(ms);
            look.unacked_bytes = 1_000_000;
            queue.look(&look);
            found = found.or(queue.on_poll(at(ms), 0, 1));
        }
        assert_eq!(found, None);
    }

    #[test]
    fn one_packet_of_a_socket_may_wait_for_its_time() {
        let held = |memory: u64, pacing_bytes_per_s: u64| {
            full(|_| {
                let mut look = HELD;
                look.host.waiting_memory_bytes = memory;
                look.host.pacing_bytes_per_s = pacing_bytes_per_s;
                look
            })
            .is_some()
        };
        assert!(held(6000, 2_896_000) && !held(5999, 2_896_000));
        // A millisecond and a half.
        assert!(held(15_000, 10_000_000) && !held(14_999, 10_000_000));
        // A packet has 64 KB at most.
        assert!(held(98_304, 100_000_000) && !held(98_303, 100_000_000));
    }

    #[test]
    fn a_look_counts_for_ten_milliseconds_at_most() {
        let found = |since_last: Duration, pacing_bytes_per_s: u64| {
            full(|ms| {
                let mut look = HELD;
                look.host.pacing_bytes_per_s = pacing_bytes_per_s;
                look.since_last = since_last;
                if ms % 10 != 0 {
                    // Another socket, whose pacing is not known.
                    look.host.pacing_bytes_per_s = 0;
                }
                look
            })
            .is_some()
        };
        assert!(found(10 * MS, 1_700_000));
        assert!(!found(9 * MS, 1_700_000));
        assert!(!found(20 * MS, 1_500_000));
    }

    #[test]
    fn what_arrives_is_measured_once_it_left_a_full_queue() {
        let found_ms = |min_rtt: Duration| full(|_| Look { min_rtt, ..HELD }).unwrap().0;
        // From the poll on that comes so much later than the first.
        assert_eq!(found_ms(MS), 252);
        assert_eq!(found_ms(40 * MS), 291);
        assert_eq!(found_ms(Duration::from_secs(3)), 751);
    }

    #[test]
    fn a_queue_is_full_after_nine_polls() {
        let mut queue = HostQueue::default();
        assert_eq!(polled(&mut queue, 1..=8, |_| HELD), None);
        assert!(!queue.is_full());
        assert_eq!(polled(&mut queue, 9..=9, |_| HELD), None);
        assert!(queue.is_full());
    }

    #[test]
    fn what_leaves_as_fast_as_tcp_paces_it_is_no_full_queue_until_it_does_not() {
        let mut queue = HostQueue::default();
        let mut paced = HELD;
        paced.host.pacing_bytes_per_s = 1_448_000;
        // Until the first measurement it may be one.
        assert_eq!(polled(&mut queue, 1..=251, |_| paced), None);
        assert!(queue.is_full());
        assert_eq!(polled(&mut queue, 252..=252, |_| paced), None);
        assert!(!queue.is_full());
        // Another time without a queue in between.
        assert_eq!(polled(&mut queue, 300..=400, |_| paced), None);
        assert!(!queue.is_full());
        let (ms, _) = polled(&mut queue, 420..=1000, |_| HELD).unwrap();
        assert_eq!(ms, 672);
        assert!(queue.is_full());
    }

    #[test]
    fn a_gap_between_polls_begins_anew() {
        let mut queue = HostQueue::default();
        assert_eq!(polled(&mut queue, 1..=200, |_| HELD), None);
        assert!(queue.is_full());
        assert_eq!(polled(&mut queue, 220..=220, |_| HELD), None);
        assert!(!queue.is_full());
        let (ms, _) = polled(&mut queue, 221..=1000, |_| HELD).unwrap();
        assert_eq!(ms, 472);
    }

    #[test]
    fn acknowledgements_of_many_segments_do_not_make_the_rate_wrong() {
        let mut queue = HostQueue::default();
        let mut rate = None;
        for ms in 1..=1000 {
            queue.send(1514);
            queue.begin(1448);
            if ms % 20 == 7 {
                queue.arrive(20 * 1448);
            }
            queue.look(&HELD);
            rate = rate.or(queue.on_poll(at(ms), 0, 1));
        }
        // The first and the last point differ by 12 x 20 or 13 x 20 segments: 4%.
        let of_true = rate.unwrap().rate_bits_per_s / 12_112_000.0;
        assert!((of_true - 1.0).abs() < 0.015, "{of_true}");
    }

    #[test]
    fn what_has_no_payload_and_what_is_sent_again_is_carried_too() {
        let mut queue = HostQueue::default();
        let mut rate = None;
        for ms in 1..=1000 {
            queue.send(3 * 1514);
            queue.begin(1448);
            queue.arrive(1448);
            queue.look(&HELD);
            rate = rate.or(queue.on_poll(at(ms), 0, 1));
        }
        let rate = rate.unwrap().rate_bits_per_s;
        assert!((rate - 3.0 * 12_112_000.0).abs() < 1e-2, "{rate}");
    }
}
