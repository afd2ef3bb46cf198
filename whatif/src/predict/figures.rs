//! The figures that one run comes to.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The bounds of the size classes, in bytes with the head; the last has no end.
pub const CLASS_BOUNDS: [u64; 4] = [1 << 10, 10 << 10, 100 << 10, 1 << 20];

/// The number of size classes.
const CLASSES: usize = CLASS_BOUNDS.len() + 1;

/// The significant digits of a percentile, which is off by half a hundredth at most.
const DIGITS: u8 = 2;

/// The number of units in a slowdown of 1: slowdowns are counted in thousandths.
const SLOWDOWN_UNIT: f64 = 1e3;

/// The largest value that percentiles count, which stands for all larger ones: 115 days in
/// nanoseconds, and as a slowdown ten million millions.
const COUNTED_MAX: u64 = 10_000_000_000_000_000;

/// The outcome of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Every response was served.
    Served(Box<Served>),
    /// More is asked of the link than it carries: times grow for as long as that lasts.
    Overloaded,
    /// More responses waited at a time than may, after this number of requests.
    Flooded(u64),
}

/// The figures of a run in which everything was served.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The figures of all responses.
    pub all: Figures,
    /// The figures of the largest 1% of responses.
    pub largest: Figures,
    /// The figures by size, see [`CLASS_BOUNDS`].
    pub classes: [Figures; CLASSES],
}

/// The times of some responses. Times are NaN if there were none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// The number of these responses.
    pub responses: u64,
    /// The response times in seconds: from the moment that all of a response is ready until its
    /// last byte has left.
    pub response_s: Spread,
    /// The response times over the times that each response alone would take on the link.
    pub slowdown: Spread,
}

/// The spread of values. The mean is exact, percentiles are within 0.5%.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The mean of all.
    pub mean: f64,
    /// The median of all.
    pub p50: f64,
    /// The 95th percentile, by rank.
    pub p95: f64,
    /// The 99th percentile, by rank.
    pub p99: f64,
}

impl Outcome {
    /// Returns the figures, if everything was served.
    pub fn served(&self) -> Option<&Served> {
        match self {
            Self::Served(served) => Some(served),
            Self::Overloaded | Self::Flooded(_) => None,
        }
    }

    /// Returns the mean response time in seconds, if everything was served.
    pub fn mean_s(&self) -> Option<f64> {
        self.served().map(|served| served.all.response_s.mean)
    }

    /// Returns how many requests were simulated for the outcome.
    pub fn simulated(&self) -> u64 {
        match self {
            Self::Served(served) => served.all.responses,
            Self::Overloaded => 0,
            Self::Flooded(requests) => *requests,
        }
    }
}

/// The figures of a run, as they are gathered.
pub(super) struct Gathered {
    classes: [Tally; CLASSES],
    largest: Tally,
}

/// The sums and histograms of some responses' times.
struct Tally {
    response_s: f64,
    slowdown: f64,
    response_ns: Histogram<u32>,
    slowdowns: Histogram<u32>,
}

impl Gathered {
    pub(super) fn new() -> Self {
        Self {
            classes: std::array::from_fn(|_| Tally::new()),
            largest: Tally::new(),
        }
    }

    pub(super) fn take(&mut self, bytes: u64, took: Duration, alone_s: f64, is_largest: bool) {
        let class = CLASS_BOUNDS.partition_point(|bound| *bound < bytes);
        self.classes[class].take(took, alone_s);
        if is_largest {
            self.largest.take(took, alone_s);
        }
    }

    pub(super) fn finish(self) -> Served {
        let mut all = Tally::new();
        for class in &self.classes {
            all.add(class);
        }
        Served {
            all: all.figures(),
            largest: self.largest.figures(),
            classes: self.classes.map(|class| class.figures()),
        }
    }
}

impl Tally {
    fn new() -> Self {
        let histogram = || {
            let histogram = Histogram::new_with_max(COUNTED_MAX, DIGITS);
            histogram.expect("a histogram may have such a maximum and two digits")
        };
        Self {
            response_s: 0.0,
            slowdown: 0.0,
            response_ns: histogram(),
            slowdowns: histogram(),
        }
    }

    fn take(&mut self, took: Duration, alone_s: f64) {
        let response_s = took.as_secs_f64();
        let slowdown = response_s / alone_s;
        self.response_s += response_s;
        self.slowdown += slowdown;
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.response_ns.saturating_record(ns);
        self.slowdowns
            .saturating_record((slowdown * SLOWDOWN_UNIT) as u64);
    }

    fn add(&mut self, other: &Self) {
        self.response_s += other.response_s;
        self.slowdown += other.slowdown;
        let added = self.response_ns.add(&other.response_ns);
        let added = added.and(self.slowdowns.add(&other.slowdowns));
        added.expect("all histograms have the same maximum");
    }

    fn figures(&self) -> Figures {
        Figures {
            responses: self.response_ns.len(),
            response_s: spread(self.response_s, &self.response_ns, 1e9),
            slowdown: spread(self.slowdown, &self.slowdowns, SLOWDOWN_UNIT),
        }
    }
}

fn spread(sum: f64, histogram: &Histogram<u32>, unit: f64) -> Spread {
    let count = histogram.len();
    let at = |quantile: f64| match count {
        0 => f64::NAN,
        _ => {
            let value = histogram.value_at_quantile(quantile);
            histogram.median_equivalent(value) as f64 / unit
        }
    };
    Spread {
        mean: sum / count as f64,
        p50: at(0.50),
        p95: at(0.95),
        p99: at(0.99),
    }
}
