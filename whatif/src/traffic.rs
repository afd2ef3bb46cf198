//! The requests of a log, as a link sees them.

use sprat_measure::wire::{self, Connection, RESPONSE_HEAD_BYTES};
use sprat_scheduler::Time;

use crate::log::{Entry, Format};

/// A response to send, in 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The time at which the response is asked for, counted from the first of the log.
    pub at: Time,
    /// The bytes of the response, head included.
    pub bytes: u64,
}

/// The requests of a log, in the order of their arrival.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The requests by time, one at least.
    pub requests: Vec<Request>,
    /// The notes on the log's times.
    pub notes: Notes,
}

/// The notes on a log's time stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The time at which the first response was asked for: nanoseconds since 1970, UTC.
    pub began_ns: u64,
    /// The largest unit that time stamps are rounded down to, in nanoseconds.
    pub grain_ns: u64,
    /// The number of lines with a stamp before the latest in front of them.
    pub out_of_order: usize,
    /// The time by which the furthest of those is behind that latest stamp, in nanoseconds.
    pub behind_ns: u64,
}

/// The requests of a log, gathered as they are read.
#[derive(Clone, Debug, Default)]
pub struct Gathering {
    requests: Vec<Request>,
    notes: Notes,
    latest_ns: u64,
}

impl Gathering {
    /// Takes in a line of a log. Its time stamp has been rounded down, perhaps to a second: the
    /// request is put at random within that unit, by a draw that its number in the log decides.
    /// Arrivals of a Poisson process of which the second alone is known are spread so; spread
    /// evenly, they would queue less than they do.
    pub fn take(&mut self, format: Format, entry: Entry) {
        let ordinal = self.requests.len() as u64;
        let within_ns = (u128::from(draw(ordinal)) * u128::from(entry.grain_ns)) >> 64;
        let at_ns = entry.stamp_ns.saturating_add(within_ns as u64);
        let head_bytes = match format.counts_heads() {
            true => 0,
            false => RESPONSE_HEAD_BYTES,
        };
        self.requests.push(Request {
            at: Time::from_nanos(at_ns.saturating_sub(entry.before_ns)),
            bytes: entry.bytes.saturating_add(head_bytes).max(1),
        });
        let notes = &mut self.notes;
        notes.grain_ns = notes.grain_ns.max(entry.grain_ns);
        if entry.stamp_ns < self.latest_ns {
            notes.out_of_order += 1;
            notes.behind_ns = notes.behind_ns.max(self.latest_ns - entry.stamp_ns);
        }
        self.latest_ns = self.latest_ns.max(entry.stamp_ns);
    }

    /// Returns the requests in the order of their arrival; `None` if there are none.
    pub fn finish(self) -> Option<Traffic> {
        let Self {
            mut requests,
            mut notes,
            ..
        } = self;
        if !requests.is_sorted_by_key(|request| request.at) {
            requests.sort_by_key(|request| request.at);
        }
        let began = requests.first()?.at;
        notes.began_ns = began.as_nanos();
        for request in &mut requests {
            request.at = Time::ZERO + request.at.since(began);
        }
        Some(Traffic { requests, notes })
    }
}

/// Draws 64 bits that a number decides (SplitMix64, Steele, Lea and Flood 2014, figure 19).
fn draw(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The load that a log puts on a link, in figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The number of responses.
    pub requests: usize,
    /// The seconds from the first arrival to the last, 1 at least.
    pub span_s: f64,
    /// The bytes of all responses with their heads.
    pub bytes: u64,
    /// The size that half of the responses do not exceed.
    pub median_bytes: u64,
    /// The size that 99% of the responses do not exceed.
    pub p99_bytes: u64,
    /// The size of the largest response.
    pub max_bytes: u64,
    /// The part of the link that all responses take while requests arrive: 1 is all of it.
    pub load: f64,
    /// The load of the busiest minute, which begins a whole number of minutes after the first
    /// arrival.
    pub peak_load: f64,
    /// The largest 1% of the requests.
    pub largest: Largest,
}

/// The largest 1% of requests. Of those that are as large as the smallest among them, the last to
/// arrive belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Largest {
    bytes: u64,
    /// The index of the first request that belongs, of those that have just `bytes`.
    from: usize,
}

impl Largest {
    /// Finds the largest 1% of requests, one at least; `threshold` is their 99th percentile of
    /// size.
    fn of(requests: &[Request], threshold: u64) -> Self {
        let wanted = requests.len() - requests.len() * 99 / 100;
        let larger = requests.iter().filter(|r| r.bytes > threshold).count();
        let equals = requests.iter().enumerate().rev();
        let equals = equals.filter(|(_, request)| request.bytes == threshold);
        let last = equals.take(wanted.saturating_sub(larger)).last();
        Self {
            bytes: threshold,
            from: last.map_or(requests.len(), |(index, _)| index),
        }
    }

    /// Returns whether a request belongs to the largest; `index` is its place in the order of
    /// arrival.
    pub fn has(&self, index: usize, bytes: u64) -> bool {
        bytes > self.bytes || (bytes == self.bytes && index >= self.from)
    }
}

/// The least time that requests are taken to have come in, in nanoseconds: a second, as in formats
/// whose stamps have no more.
const SPAN_NS_MIN: u64 = 1_000_000_000;

/// The nanoseconds of a minute.
const MINUTE_NS: u64 = 60_000_000_000;

impl Traffic {
    /// Sums up the log, for a link of `uplink_bits_per_s`.
    pub fn summary(&self, uplink_bits_per_s: u64, connection: Connection) -> Summary {
        let requests = &self.requests;
        let wire_s = |bytes: u64| {
            let wire_bytes = wire_bytes(bytes, connection);
            wire_bytes as f64 * 8.0 / uplink_bits_per_s as f64
        };
        let mut sizes: Vec<u64> = requests.iter().map(|request| request.bytes).collect();
        let mut quantile = |of: usize| *sizes.select_nth_unstable(of.min(requests.len() - 1)).1;
        let median_bytes = quantile((requests.len() - 1) / 2);
        let p99_bytes = quantile(requests.len() * 99 / 100);
        let max_bytes = sizes.iter().copied().max().unwrap_or(0);
        drop(sizes);
        let span_ns = requests.last().map_or(0, |last| last.at.as_nanos());
        // What comes within less says nothing of a rate: one response alone would be an overload.
        let span_s = span_ns.max(self.notes.grain_ns).max(SPAN_NS_MIN) as f64 / 1e9;
        let (mut busy_s, mut peak_s, mut minute_s, mut minute) = (0.0, 0.0_f64, 0.0, 0);
        for request in requests {
            let number = request.at.as_nanos() / MINUTE_NS;
            if number != minute {
                (minute, minute_s) = (number, 0.0);
            }
            let each_s = wire_s(request.bytes);
            busy_s += each_s;
            minute_s += each_s;
            peak_s = peak_s.max(minute_s);
        }
        Summary {
            requests: requests.len(),
            span_s,
            bytes: requests
                .iter()
                .fold(0, |sum, r| sum.saturating_add(r.bytes)),
            median_bytes,
            p99_bytes,
            max_bytes,
            load: busy_s / span_s,
            peak_load: peak_s / span_s.min(60.0),
            largest: Largest::of(requests, p99_bytes),
        }
    }
}

/// Returns what a response of `bytes`, head included, costs on the wire.
pub fn wire_bytes(bytes: u64, connection: Connection) -> u64 {
    let exchange = wire::exchange_cost(connection).bytes(bytes);
    exchange.saturating_add(wire::set_up_bytes(connection))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn entry(stamp_s: u64, before_ns: u64, bytes: u64) -> Entry {
        Entry {
            stamp_ns: stamp_s * S,
            grain_ns: S,
            before_ns,
            bytes,
        }
    }

    fn gathered(format: Format, entries: impl IntoIterator<Item = Entry>) -> Traffic {
        let mut gathering = Gathering::default();
        entries
            .into_iter()
            .for_each(|entry| gathering.take(format, entry));
        gathering.finish().unwrap()
    }

    #[test]
    fn a_second_is_spread_evenly_and_at_random() {
        let traffic = gathered(Format::Clf, (0..10_000).map(|_| entry(5, 0, 1)));
        let again = gathered(Format::Clf, (0..10_000).map(|_| entry(5, 0, 1)));
        assert_eq!(traffic.requests, again.requests);
        let times = traffic.requests.iter().map(|request| request.at.as_nanos());
        let times: Vec<u64> = times.collect();
        assert!(times.is_sorted() && times[0] == 0 && times[9_999] < S);
        let tenth = |n: usize| times.partition_point(|at| *at < n as u64 * S / 10);
        for n in 1..10 {
            assert!(tenth(n).abs_diff(n * 1000) < 150, "{n}: {}", tenth(n));
        }
        // Gaps of a Poisson process: more than a third are under 0.45 of their mean.
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        let short = gaps.filter(|gap| *gap < 45 * S / 100 / 10_000).count();
        assert!((3_400..3_850).contains(&short), "{short}");
    }

    #[test]
    fn responses_come_before_their_end_and_in_order() {
        let entries = [entry(10, 5 * S, 7), entry(8, 0, 9), entry(9, 0, 8)];
        let traffic = gathered(Format::NginxTimed, entries);
        let bytes = traffic.requests.iter().map(|request| request.bytes - 220);
        assert_eq!(bytes.collect::<Vec<_>>(), [7, 9, 8]);
        assert_eq!(traffic.notes.out_of_order, 2);
        assert_eq!(traffic.notes.behind_ns, 2 * S);
        assert_eq!(traffic.notes.began_ns / S, 5);
        let haproxy = gathered(Format::Haproxy, [entry(1, 0, 300)]);
        assert_eq!(haproxy.requests[0].bytes, 300);
    }

    #[test]
    fn the_largest_are_one_in_a_hundred_whatever_their_sizes() {
        let of = |sizes: &[u64]| {
            let entries = sizes.iter().enumerate();
            let entries = entries.map(|(at, bytes)| entry(at as u64 * 10, 0, *bytes));
            let traffic = gathered(Format::Clf, entries);
            let largest = traffic.summary(1_000_000, Connection::New).largest;
            let requests = traffic.requests.iter().enumerate();
            let found = requests.filter(|(index, request)| largest.has(*index, request.bytes));
            found.map(|(index, _)| index).collect::<Vec<_>>()
        };
        assert_eq!(of(&[5]), [0]);
        assert_eq!(of(&[1; 200]), [198, 199]);
        let mut sizes = vec![1; 300];
        (sizes[10], sizes[20], sizes[30], sizes[40]) = (9, 8, 8, 8);
        assert_eq!(of(&sizes), [10, 30, 40]);
    }

    #[test]
    fn the_load_counts_the_wire() {
        // 1,008 bytes cost 1,624 on the wire; 60 of them in 59 s and a part of a second.
        let traffic = gathered(Format::Clf, (0..60).map(|at| entry(at, 0, 1008)));
        let summary = traffic.summary(1_000_000, Connection::New);
        let busy_s = 60.0 * 1624.0 * 8.0 / 1e6;
        assert!((summary.load - busy_s / summary.span_s).abs() < 1e-9);
        assert!((58.0..60.0).contains(&summary.span_s));
        assert_eq!((summary.median_bytes, summary.max_bytes), (1228, 1228));
        // All in one second: that is how long they took to come.
        let traffic = gathered(Format::Clf, [entry(3, 0, 1008)]);
        assert_eq!(traffic.summary(1_000_000, Connection::New).span_s, 1.0);
        // Nor does a finer stamp make one response an overload.
        let fine = Entry {
            grain_ns: 1_000_000,
            ..entry(3, 0, 1008)
        };
        let summary = gathered(Format::Sprat, [fine]).summary(1_000_000, Connection::New);
        assert!((summary.load - 1624.0 * 8.0 / 1e6).abs() < 1e-9);
        assert_eq!(summary.span_s, 1.0);
    }
}
