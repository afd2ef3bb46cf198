//! The paper's findings (SFD02, figures 3, 6, 7 and 8a), and whether they are found here.

use std::collections::BTreeMap;

use sprat_scheduler::marking::Variant;

use super::traffic::{Load, THRESHOLD_BYTES};
use super::{Measured, Way};

/// A mean and its standard deviation, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Spread {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

/// Sums of latencies, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Sums {
    fn add(&mut self, seconds: f64) {
        self.count += 1.0;
        self.sum += seconds;
        self.squares += seconds * seconds;
    }

    fn spread(&self) -> Spread {
        let mean = self.sum / self.count.max(1.0);
        let variance = self.squares / self.count.max(1.0) - mean * mean;
        Spread {
            mean,
            deviation: variance.max(0.0).sqrt(),
        }
    }
}

/// Transmission latencies by size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Latencies {
    /// By size in KB, rounded up, of those up to the threshold.
    short: BTreeMap<u64, Sums>,
    all_short: Sums,
    /// By eighths of a doubling, of those above it.
    long: BTreeMap<i64, Sums>,
}

/// The place of a size among eighths of doublings.
fn eighth(bytes: u64) -> i64 {
    ((bytes as f64).log2() * 8.0).round() as i64
}

impl Latencies {
    pub(super) fn add(&mut self, bytes: u64, seconds: f64) {
        if bytes <= THRESHOLD_BYTES {
            self.all_short.add(seconds);
            self.short
                .entry(bytes.div_ceil(1024))
                .or_default()
                .add(seconds);
        } else {
            self.long.entry(eighth(bytes)).or_default().add(seconds);
        }
    }

    /// All short flows, each counted once.
    pub(super) fn short(&self) -> Spread {
        self.all_short.spread()
    }

    /// The mean of long flows of about this size.
    pub(super) fn around(&self, bytes: u64) -> Option<f64> {
        let sums = self.long.get(&eighth(bytes))?;
        Some(sums.spread().mean)
    }

    /// By size in KB: how much less than in `other` the mean is.
    fn reductions(&self, other: &Self) -> Vec<f64> {
        let both = self
            .short
            .iter()
            .filter_map(|(size, own)| Some((own, other.short.get(size)?)));
        let reduction =
            |(own, other): (&Sums, &Sums)| 1.0 - own.spread().mean / other.spread().mean;
        both.map(reduction).collect()
    }
}

/// What the paper says, and what is found.
struct Finding {
    figure: &'static str,
    what: &'static str,
    paper: String,
    found: f64,
    holds: bool,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// A table of the findings. The paper's numbers are those of its medium load.
pub(super) fn findings(measured: &[Measured], load: Load) -> Vec<Vec<String>> {
    let head = ["figure", "finding", "paper", "here", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for finding in all(measured) {
        let verdict = match (load, finding.holds) {
            (Load::Medium, true) => "holds",
            (Load::Medium, false) => "does not hold",
            // Said of the medium load alone.
            (_, true) => "as at medium load",
            (_, false) => "not as at medium load",
        };
        rows.push(vec![
            finding.figure.to_owned(),
            finding.what.to_owned(),
            finding.paper,
            format!("{:.2}", finding.found),
            verdict.to_owned(),
        ]);
    }
    rows
}

fn all(measured: &[Measured]) -> Vec<Finding> {
    let of = |way: Way| {
        let own = measured.iter().find(|own| own.way == way);
        own.map(|own| &own.latencies)
    };
    let (Some(dt), Some(red), Some(nl), Some(l2s), Some(sfd), Some(selective)) = (
        of(Way::Droptail),
        of(Way::Red),
        of(Way::NoLong),
        of(Way::Pieces),
        of(Way::Virtual(Variant::Sfd)),
        of(Way::Virtual(Variant::SSfd)),
    ) else {
        return Vec::new();
    };
    let less = |own: &Latencies| mean(&own.reductions(dt));
    let by_size = sfd.reductions(dt);
    let most = by_size.iter().copied().fold(f64::MIN, f64::max);
    let least = by_size.iter().copied().fold(f64::MAX, f64::min);
    let ratio = |own: &Latencies, kb: u64| {
        own.around(kb << 10)
            .zip(dt.around(kb << 10))
            .map_or(f64::NAN, |(own, dt)| own / dt)
    };
    let deviation = sfd.short().deviation / dt.short().deviation;
    let red_ratio = red.short().mean / dt.short().mean;
    let finding = |figure, what, paper: &str, found: f64, holds| Finding {
        figure,
        what,
        paper: paper.to_owned(),
        found,
        holds,
    };
    // What the paper states to two digits holds within a quarter of it.
    let near = |found: f64, paper: f64| (found / paper - 1.0).abs() <= 0.25;
    let share = less(sfd) / less(nl);
    vec![
        finding(
            "3",
            "NL: mean of short flows less than DT by",
            ">= 0.5",
            less(nl),
            less(nl) >= 0.5,
        ),
        finding(
            "3",
            "L2S: by",
            "0.3 to 0.5",
            less(l2s),
            (0.3..=0.5).contains(&less(l2s)),
        ),
        finding(
            "6, table 4",
            "SFD: by, mean over sizes",
            "0.32",
            less(sfd),
            near(less(sfd), 0.32),
        ),
        finding(
            "table 4",
            "SFD: by, at the best size",
            "0.42",
            most,
            near(most, 0.42),
        ),
        finding(
            "table 4",
            "SFD: by, at the worst size",
            "0.27",
            least,
            near(least, 0.27),
        ),
        finding(
            "6",
            "SFD: standard deviation over DT's",
            "0.5",
            deviation,
            near(deviation, 0.5),
        ),
        finding(
            "6",
            "SFD: reduction over NL's",
            "0.6",
            share,
            near(share, 0.6),
        ),
        finding(
            "6",
            "RED: mean of short flows over DT's",
            ">= 1",
            red_ratio,
            red_ratio >= 0.98,
        ),
        finding(
            "7",
            "SFD: 40 KB over DT",
            "about 1",
            ratio(sfd, 40),
            near(ratio(sfd, 40), 1.0),
        ),
        finding(
            "7",
            "SFD: 300 KB over DT",
            "<= 2",
            ratio(sfd, 300),
            ratio(sfd, 300) <= 2.0,
        ),
        finding(
            "7",
            "SFD: 1,000 KB over DT",
            "<= 2",
            ratio(sfd, 1000),
            ratio(sfd, 1000) <= 2.0,
        ),
        finding(
            "8a",
            "S-SFD: 100 KB over DT",
            "< 1",
            ratio(selective, 100),
            ratio(selective, 100) < 1.0,
        ),
        finding(
            "8a",
            "S-SFD: 300 KB over DT",
            "about 1",
            ratio(selective, 300),
            near(ratio(selective, 300), 1.0),
        ),
        finding(
            "8a",
            "S-SFD: 1,000 KB over basic SFD",
            "< 1",
            ratio(selective, 1000) / ratio(sfd, 1000),
            ratio(selective, 1000) < ratio(sfd, 1000),
        ),
    ]
}
