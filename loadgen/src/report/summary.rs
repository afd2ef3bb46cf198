//! The report's table: one row for each system at each load.

use std::io::{self, Write};

use serde::Serialize;
use sprat_measure::text::{rate_text, significant};

use super::measure::Measures;
use super::runs::{Comparison, LoadGroup, Run};

/// The name of the bound that means are compared with.
pub(crate) const IDEAL: &str = "ideal-srpt";

/// The figures of one system at one load, beside the baseline and the ideal.
#[derive(Clone, Debug)]
pub(crate) struct SummaryRow {
    /// The name of the system.
    pub(crate) system: String,
    /// The figures of the system.
    pub(crate) measures: Measures,
    /// The comparison with the baseline, if it was run at this load.
    pub(crate) against: Option<Against>,
    /// Mean response time over ideal SRPT's at this load, if it was given.
    pub(crate) of_ideal: Option<f64>,
}

/// The comparison of a system with the baseline. A *gain* is the baseline's value over the
/// system's: 2 is half the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Against {
    /// Goodput as a share of the baseline's.
    pub(crate) goodput: f64,
    /// Gain in mean response time.
    pub(crate) mean: f64,
    /// Gain in mean slowdown.
    pub(crate) slowdown: f64,
    /// Gain in the mean response time of the smallest 80%.
    pub(crate) smallest80: f64,
    /// Gain in the mean response time of the largest 1%.
    pub(crate) largest1: f64,
    /// The number of half-percentiles of size in which the system is faster.
    pub(crate) buckets_faster: usize,
    /// The number of half-percentiles of size that could be compared.
    pub(crate) buckets: usize,
}

impl Against {
    fn new(ours: &Measures, baseline: &Measures) -> Self {
        let (buckets_faster, buckets) = ours.buckets_faster_than(baseline);
        Self {
            goodput: ours.goodput_bytes_per_s / baseline.goodput_bytes_per_s,
            mean: baseline.mean_ms / ours.mean_ms,
            slowdown: baseline.slowdown / ours.slowdown,
            smallest80: baseline.smallest80_ms / ours.smallest80_ms,
            largest1: baseline.largest1_ms / ours.largest1_ms,
            buckets_faster,
            buckets,
        }
    }
}

/// The rows of one load.
#[derive(Clone, Debug)]
pub(crate) struct LoadRows {
    /// Load on the wire in per cent of the link, if known.
    pub(crate) load_percent: Option<u32>,
    /// The rows, in the order of the runs.
    pub(crate) rows: Vec<SummaryRow>,
}

impl LoadRows {
    fn new(group: &LoadGroup, comparison: &Comparison) -> Self {
        let measure = |run: &Run| Measures::of(run, group, comparison.uplink_bits_per_s);
        let baseline = group.run(&comparison.baseline).map(measure);
        let ideal_ms = group.run(IDEAL).map(|run| measure(run).mean_ms);
        let row = |run: &Run| {
            let measures = measure(run);
            SummaryRow {
                system: run.info.name.clone(),
                against: baseline.as_ref().map(|b| Against::new(&measures, b)),
                of_ideal: ideal_ms.map(|ideal_ms| measures.mean_ms / ideal_ms),
                measures,
            }
        };
        Self {
            load_percent: group.load_percent,
            rows: group.runs.iter().map(row).collect(),
        }
    }

    /// Returns the load as text, such as `0.90`; `None` if the runs did not say.
    pub(crate) fn load(&self) -> Option<String> {
        let load_percent = self.load_percent?;
        Some(format!("{:.2}", f64::from(load_percent) / 100.0))
    }

    /// Returns the heading of the load, such as `load 0.90 of 10 Mbit/s, 18338 requests`.
    pub(crate) fn heading(&self, uplink_bits_per_s: u64) -> String {
        let requests = self.rows.first().map_or(0, |row| row.measures.requests);
        let rate = rate_text(uplink_bits_per_s);
        match self.load() {
            Some(load) => format!("load {load} of {rate}, {requests} requests"),
            None => format!("unknown load of {rate}, {requests} requests"),
        }
    }

    /// Returns the row of the system called `name`.
    pub(crate) fn row(&self, name: &str) -> Option<&SummaryRow> {
        self.rows.iter().find(|row| row.system == name)
    }
}

/// Makes the table of all loads.
pub(crate) fn rows(comparison: &Comparison) -> Vec<LoadRows> {
    let groups = comparison.groups.iter();
    groups
        .map(|group| LoadRows::new(group, comparison))
        .collect()
}

/// A line of the CSV. A gain is the baseline's value over the system's; what cannot be stated is
/// empty.
#[derive(Serialize)]
struct SummaryLine<'a> {
    system: &'a str,
    load: Option<String>,
    requests: usize,
    failed: usize,
    goodput_bytes_per_s: Option<String>,
    goodput_of_baseline: Option<String>,
    mean_ms: Option<String>,
    mean_gain: Option<String>,
    mean_of_ideal_srpt: Option<String>,
    slowdown: Option<String>,
    slowdown_gain: Option<String>,
    smallest80_ms: Option<String>,
    smallest80_gain: Option<String>,
    largest1_ms: Option<String>,
    largest1_gain: Option<String>,
    p50_ms: Option<String>,
    p99_ms: Option<String>,
    buckets_faster: Option<usize>,
    buckets: Option<usize>,
}

impl<'a> SummaryLine<'a> {
    fn new(load: &LoadRows, row: &'a SummaryRow) -> Self {
        let number = |value: f64| value.is_finite().then(|| format!("{value:.4}"));
        let (measures, against) = (&row.measures, row.against.as_ref());
        Self {
            system: &row.system,
            load: load.load(),
            requests: measures.requests,
            failed: measures.failed,
            goodput_bytes_per_s: number(measures.goodput_bytes_per_s),
            goodput_of_baseline: against.and_then(|a| number(a.goodput)),
            mean_ms: number(measures.mean_ms),
            mean_gain: against.and_then(|a| number(a.mean)),
            mean_of_ideal_srpt: row.of_ideal.and_then(number),
            slowdown: number(measures.slowdown),
            slowdown_gain: against.and_then(|a| number(a.slowdown)),
            smallest80_ms: number(measures.smallest80_ms),
            smallest80_gain: against.and_then(|a| number(a.smallest80)),
            largest1_ms: number(measures.largest1_ms),
            largest1_gain: against.and_then(|a| number(a.largest1)),
            p50_ms: number(measures.p50_ms),
            p99_ms: number(measures.p99_ms),
            buckets_faster: against.map(|a| a.buckets_faster),
            buckets: against.map(|a| a.buckets),
        }
    }
}

/// Writes the table as CSV.
pub(crate) fn write_csv(loads: &[LoadRows], out: impl Write) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    for load in loads {
        for row in &load.rows {
            csv.serialize(SummaryLine::new(load, row))?;
        }
    }
    csv.flush()
}

/// Headings of the table that people read.
pub(crate) const HEADINGS: [&str; 11] = [
    "system",
    "failed",
    "goodput Mbit/s",
    "mean ms",
    "of ideal",
    "slowdown",
    "smallest 80% ms",
    "largest 1% ms",
    "p50 ms",
    "p99 ms",
    "buckets faster",
];

/// A cell: its value, and how it compares with the baseline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    /// The value, as text.
    pub(crate) value: String,
    /// The comparison with the baseline, such as `x5.6` or a share; empty where there is none.
    pub(crate) against: String,
}

/// Returns the cells of a row under [`HEADINGS`].
pub(crate) fn cells(row: &SummaryRow, baseline: &str) -> [Cell; HEADINGS.len()] {
    let m = &row.measures;
    let against = row.against.as_ref().filter(|_| row.system != baseline);
    let gain = |of: fn(&Against) -> f64| {
        against.map_or_else(String::new, |a| format!("x{}", significant(of(a))))
    };
    let plain = |value: String| Cell {
        value,
        against: String::new(),
    };
    let compared = |value: f64, against: String| Cell {
        value: significant(value),
        against,
    };
    let goodput = Cell {
        value: format!("{:.3}", m.goodput_bytes_per_s * 8.0 / 1e6),
        against: against.map_or_else(String::new, |a| format!("{:.3}", a.goodput)),
    };
    let of_ideal = row.of_ideal.filter(|ratio| ratio.is_finite());
    let buckets = against.map(|a| format!("{} of {}", a.buckets_faster, a.buckets));
    [
        plain(row.system.clone()),
        plain(m.failed.to_string()),
        goodput,
        compared(m.mean_ms, gain(|a| a.mean)),
        plain(of_ideal.map_or_else(String::new, |ratio| format!("{ratio:.2}"))),
        compared(m.slowdown, gain(|a| a.slowdown)),
        compared(m.smallest80_ms, gain(|a| a.smallest80)),
        compared(m.largest1_ms, gain(|a| a.largest1)),
        plain(significant(m.p50_ms)),
        plain(significant(m.p99_ms)),
        plain(buckets.unwrap_or_default()),
    ]
}

/// Writes the table as text, one block for each load.
pub(crate) fn write_text(
    comparison: &Comparison,
    loads: &[LoadRows],
    out: &mut impl Write,
) -> io::Result<()> {
    for load in loads {
        let heading = load.heading(comparison.uplink_bits_per_s);
        writeln!(out, "{heading}; x2 = half of {}'s", comparison.baseline)?;
        let mut lines = vec![HEADINGS.map(str::to_owned)];
        for row in &load.rows {
            let text = |cell: Cell| match cell.against.as_str() {
                "" => cell.value,
                against => format!("{} ({against})", cell.value),
            };
            lines.push(cells(row, &comparison.baseline).map(text));
        }
        write_aligned(&lines, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// Writes the lines with the first column to the left, the others to the right.
fn write_aligned<const N: usize>(lines: &[[String; N]], out: &mut impl Write) -> io::Result<()> {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: [usize; N] = std::array::from_fn(|column| width(column).unwrap_or(0));
    for line in lines {
        write!(out, "{:<1$}", line[0], widths[0])?;
        for (text, &width) in line.iter().zip(&widths).skip(1) {
            write!(out, "  {text:>width$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
