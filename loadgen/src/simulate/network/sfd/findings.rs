//! The paper's findings (SFD02, figures 3, 6, 7 and 8a), and whether they are found here.

use std::collections::BTreeMap;

use sprat_scheduler::marking::Variant;

use super::traffic::{SessionLoad, THRESHOLD_BYTES};
use super::{MeasuredWay, SfdWay};

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
    /// The flows up to the threshold, by their size in KB, rounded up.
    short: BTreeMap<u64, Sums>,
    all_short: Sums,
    /// The flows above the threshold, by eighths of a doubling.
    long: BTreeMap<i64, Sums>,
}

/// Returns the place of a size among eighths of doublings.
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

    /// Returns the spread over all short flows, each counted once.
    pub(super) fn short(&self) -> Spread {
        self.all_short.spread()
    }

    /// Returns the mean of long flows of about this size.
    pub(super) fn around(&self, bytes: u64) -> Option<f64> {
        let sums = self.long.get(&eighth(bytes))?;
        Some(sums.spread().mean)
    }

    /// Returns the mean of flows of this size in KB; above the threshold, of the nearest
    /// size that there is.
    pub(super) fn near(&self, bytes: u64) -> Option<f64> {
        if bytes <= THRESHOLD_BYTES {
            let sums = self.short.get(&bytes.div_ceil(1024).max(1))?;
            return Some(sums.spread().mean);
        }
        let place = eighth(bytes);
        let nearest = self.long.iter().min_by_key(|(own, _)| (*own - place).abs());
        nearest.map(|(_, sums)| sums.spread().mean)
    }

    /// Returns the means by size in KB, of all flows.
    pub(super) fn by_kb(&self) -> Vec<(f64, f64)> {
        let short = self.short.iter();
        let short = short.map(|(kb, sums)| (*kb as f64, sums.spread().mean));
        let long = self.long.iter().map(|(place, sums)| {
            let kb = (*place as f64 / 8.0).exp2() / 1024.0;
            (kb, sums.spread().mean)
        });
        short.chain(long).collect()
    }

    /// Returns the spreads of short flows by size in KB.
    pub(super) fn short_by_kb(&self) -> impl Iterator<Item = (f64, Spread)> {
        let short = self.short.iter();
        short.map(|(kb, sums)| (*kb as f64, sums.spread()))
    }

    /// Returns the share by which the mean is less than in `other`, for each size in KB.
    pub(super) fn reductions(&self, other: &Self) -> Vec<f64> {
        let both = self
            .short
            .iter()
            .filter_map(|(size, own)| Some((own, other.short.get(size)?)));
        let reduction =
            |(own, other): (&Sums, &Sums)| 1.0 - own.spread().mean / other.spread().mean;
        both.map(reduction).collect()
    }
}

/// A claim of the paper, and the value found for it.
#[derive(Clone, Copy)]
struct SfdFinding {
    figure: &'static str,
    what: &'static str,
    paper: &'static str,
    judged: JudgedValue,
}

/// A value that was found, and whether a claim holds by it.
#[derive(Clone, Copy)]
struct JudgedValue {
    found: f64,
    holds: bool,
}

impl JudgedValue {
    fn new(found: f64, holds: bool) -> Self {
        Self { found, holds }
    }
}

/// Returns the largest of some values; NaN if there is none.
pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::max)
}

/// Returns the least of some values; NaN if there is none.
pub(super) fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NAN, f64::min)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Makes a table of the findings. The paper's numbers are those of its medium load.
pub(super) fn findings(measured: &[MeasuredWay], load: SessionLoad) -> Vec<Vec<String>> {
    let head = ["figure", "finding", "paper", "here", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for finding in all(measured) {
        let verdict = match (load, finding.judged.holds) {
            (SessionLoad::Medium, true) => "holds",
            (SessionLoad::Medium, false) => "does not hold",
            // Said of the medium load alone.
            (_, true) => "as at medium load",
            (_, false) => "not as at medium load",
        };
        rows.push(vec![
            finding.figure.to_owned(),
            finding.what.to_owned(),
            finding.paper.to_owned(),
            format!("{:.2}", finding.judged.found),
            verdict.to_owned(),
        ]);
    }
    rows
}

/// The latencies of the ways that the paper compares.
struct Compared<'a> {
    dt: &'a Latencies,
    red: &'a Latencies,
    no_long: &'a Latencies,
    pieces: &'a Latencies,
    sfd: &'a Latencies,
    selective: &'a Latencies,
}

fn all(measured: &[MeasuredWay]) -> Vec<SfdFinding> {
    let of = |way: SfdWay| {
        let own = measured.iter().find(|own| own.way == way);
        own.map(|own| &own.latencies)
    };
    let compared = || {
        Some(Compared {
            dt: of(SfdWay::Droptail)?,
            red: of(SfdWay::Red)?,
            no_long: of(SfdWay::NoLong)?,
            pieces: of(SfdWay::Pieces)?,
            sfd: of(SfdWay::Virtual(Variant::Sfd))?,
            selective: of(SfdWay::Virtual(Variant::SSfd))?,
        })
    };
    let compared = compared();
    let all = compared.map(|own| [own.figure3(), own.figure6(), own.long()].concat());
    all.unwrap_or_default()
}

fn finding(
    figure: &'static str,
    what: &'static str,
    paper: &'static str,
    judged: JudgedValue,
) -> SfdFinding {
    SfdFinding {
        figure,
        what,
        paper,
        judged,
    }
}

/// Judges what the paper states to two digits: a value within a quarter of it holds.
fn near(found: f64, paper: f64) -> JudgedValue {
    JudgedValue::new(found, (found / paper - 1.0).abs() <= 0.25)
}

fn at_most(found: f64, most: f64) -> JudgedValue {
    JudgedValue::new(found, found <= most)
}

fn at_least(found: f64, least: f64) -> JudgedValue {
    JudgedValue::new(found, found >= least)
}

impl Compared<'_> {
    /// Returns the share by which short flows take less than under drop-tail, as a mean over their
    /// sizes.
    fn less(&self, own: &Latencies) -> f64 {
        mean(&own.reductions(self.dt))
    }

    /// Returns the mean of flows of about `kb` KB in `own`, over that in `other`.
    fn ratio(own: &Latencies, other: &Latencies, kb: u64) -> f64 {
        let both = own.around(kb << 10).zip(other.around(kb << 10));
        both.map_or(f64::NAN, |(own, other)| own / other)
    }

    fn figure3(&self) -> Vec<SfdFinding> {
        let no_long = at_least(self.less(self.no_long), 0.5);
        let pieces = self.less(self.pieces);
        let pieces = JudgedValue::new(pieces, (0.3..=0.5).contains(&pieces));
        vec![
            finding("3", "NL: short flows less than DT by", ">= 0.5", no_long),
            finding("3", "L2S: by", "0.3 to 0.5", pieces),
        ]
    }

    fn figure6(&self) -> Vec<SfdFinding> {
        let by_size = self.sfd.reductions(self.dt);
        let (most, least) = (largest(&by_size), least(&by_size));
        let less = self.less(self.sfd);
        let deviation = self.sfd.short().deviation / self.dt.short().deviation;
        let red = self.red.short().mean / self.dt.short().mean;
        let part = less / self.less(self.no_long);
        vec![
            finding(
                "6, table 4",
                "SFD: by, mean over sizes",
                "0.32",
                near(less, 0.32),
            ),
            finding(
                "table 4",
                "SFD: by, at the best size",
                "0.42",
                near(most, 0.42),
            ),
            finding(
                "table 4",
                "SFD: by, at the worst size",
                "0.27",
                near(least, 0.27),
            ),
            finding("6", "SFD: deviation over DT's", "0.5", near(deviation, 0.5)),
            finding("6", "SFD: reduction over NL's", "0.6", near(part, 0.6)),
            finding(
                "6",
                "RED: short flows over DT's",
                ">= 1",
                at_least(red, 1.0),
            ),
        ]
    }

    fn long(&self) -> Vec<SfdFinding> {
        let sfd = |kb| Self::ratio(self.sfd, self.dt, kb);
        let selective = |kb| Self::ratio(self.selective, self.dt, kb);
        let largest = Self::ratio(self.selective, self.sfd, 1_000);
        vec![
            finding("7", "SFD: 40 KB over DT", "about 1", near(sfd(40), 1.0)),
            finding("7", "SFD: 300 KB over DT", "<= 2", at_most(sfd(300), 2.0)),
            finding(
                "7",
                "SFD: 1,000 KB over DT",
                "<= 2",
                at_most(sfd(1_000), 2.0),
            ),
            finding(
                "8a",
                "S-SFD: 100 KB over DT",
                "<= 1",
                at_most(selective(100), 1.0),
            ),
            finding(
                "8a",
                "S-SFD: 300 KB over DT",
                "about 1",
                near(selective(300), 1.0),
            ),
            finding(
                "8a",
                "S-SFD: 1,000 KB over SFD",
                "<= 1",
                at_most(largest, 1.0),
            ),
        ]
    }
}
