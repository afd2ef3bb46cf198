//! The content of a report: the figures of a prediction, in the order and units in which they are
//! shown.

use std::path::PathBuf;

use serde::Serialize;
use sprat_measure::wire::Connection;

use crate::log::Log;
use crate::predict::{self, CLASS_BOUNDS, Outcome, Plan, Prediction};
use crate::traffic::{Notes, Summary};

/// The prediction, in the order and units in which it is shown.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The log, and what it has in it.
    pub log: LogPart,
    /// The link and the load that the log puts on it.
    pub link: LinkPart,
    /// The classes of size by which times are told.
    pub size_classes: Vec<SizeClass>,
    /// The rates, as multiples of the log's own, ascending.
    pub rates: Vec<f64>,
    /// The policy that gains are against.
    pub baseline: String,
    /// The outcome of each policy.
    pub policies: Vec<PolicyPart>,
    /// The requests that were simulated in all.
    pub simulated_requests: u64,
}

/// The log's part of a report: its files, faults, times and sizes.
#[derive(Clone, Debug, Serialize)]
pub struct LogPart {
    /// The files, as they were named.
    pub files: Vec<PathBuf>,
    /// The format of the lines.
    pub format: &'static str,
    /// The number of lines with a request.
    pub requests: usize,
    /// The number of lines that could not be read.
    pub unreadable_lines: u64,
    /// The first of the lines that could not be read.
    pub unreadable: Vec<UnreadablePart>,
    /// Whether `--max-requests` left lines unread.
    pub is_cut: bool,
    /// The number of lines with a stamp before the latest in front of them.
    pub out_of_order: usize,
    /// The seconds by which the furthest of those is behind.
    pub behind_s: f64,
    /// The time at which the first response was asked for.
    pub began: String,
    /// The seconds from the first arrival to the last, 1 at least.
    pub span_s: f64,
    /// The unit that time stamps are rounded down to, in seconds.
    pub grain_s: f64,
    /// The bytes of all responses with their heads.
    pub bytes: u64,
    /// The mean size of a response with its head.
    pub mean_bytes: f64,
    /// The median size of a response with its head.
    pub median_bytes: u64,
    /// The 99th percentile of responses' sizes with their heads.
    pub p99_bytes: u64,
    /// The size of the largest response.
    pub max_bytes: u64,
}

/// A line that could not be read.
#[derive(Clone, Debug, Serialize)]
pub struct UnreadablePart {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line's number, from 1.
    pub line: u64,
    /// The reason why the line could not be read.
    pub reason: String,
    /// The beginning of the line.
    pub excerpt: String,
}

/// The link's part of a report: its rate, and the load that the log puts on it.
#[derive(Clone, Debug, Serialize)]
pub struct LinkPart {
    /// The link's rate on the wire.
    pub uplink_bits_per_s: u64,
    /// Whether each request has a connection of its own.
    pub connection: Connection,
    /// The load that the log puts on the link: 1 is all of it.
    pub load: f64,
    /// The load of the busiest minute.
    pub peak_load: f64,
}

/// A class of responses by their size.
#[derive(Clone, Debug, Serialize)]
pub struct SizeClass {
    /// The bytes of the largest response in the class, head included; `None` for the last class.
    pub up_to_bytes: Option<u64>,
}

/// The outcome of a policy.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyPart {
    /// The policy, as the configuration has it.
    pub policy: String,
    /// The multiple of today's clients that the policy serves as well as the baseline serves these.
    pub clients: Option<Clients>,
    /// The outcomes by rate, in the report's order.
    pub rates: Vec<RatePart>,
}

/// A multiple of today's clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Clients {
    /// This many times as many, within what the search narrows down.
    Times(f64),
    /// At least this many times as many, the most that could be served.
    AtLeast(f64),
    /// Fewer than this many times as many.
    Below(f64),
}

/// The outcome of a policy at a rate.
#[derive(Clone, Debug, Serialize)]
pub struct RatePart {
    /// The rate, as a multiple of the log's own.
    pub rate: f64,
    /// The load that the requests put on the link.
    pub load: f64,
    /// The figures; `None` if the link is overloaded.
    pub figures: Option<FiguresPart>,
    /// The reason why there are no figures, if there are none.
    pub overloaded: Option<&'static str>,
}

/// The figures of a policy at a rate.
#[derive(Clone, Debug, Serialize)]
pub struct FiguresPart {
    /// The times of all responses.
    pub all: Times,
    /// The times of the largest 1% of responses.
    pub largest_1_percent: Times,
    /// The times by class of size.
    pub size_classes: Vec<Times>,
}

/// The response times and slowdowns of some responses; nulls in JSON if there are none.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Times {
    /// The number of these responses.
    pub responses: u64,
    /// The response times in milliseconds.
    pub response_ms: ReportedSpread,
    /// The response times over what each response alone would take.
    pub slowdown: ReportedSpread,
}

/// The spread of values.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReportedSpread {
    /// The mean, which is exact.
    pub mean: f64,
    /// The median, within 0.5%.
    pub p50: f64,
    /// The 95th percentile, within 0.5%.
    pub p95: f64,
    /// The 99th percentile, within 0.5%.
    pub p99: f64,
}

impl Report {
    /// Assembles the report of a prediction.
    pub fn new(
        files: &[PathBuf],
        log: &Log,
        notes: &Notes,
        summary: &Summary,
        plan: &Plan,
        prediction: &Prediction,
    ) -> Self {
        let bounds = CLASS_BOUNDS.iter().map(|bound| Some(*bound)).chain([None]);
        let policies = plan.policies.iter().enumerate();
        let policies = policies.map(|(index, policy)| PolicyPart {
            policy: policy.name.clone(),
            clients: prediction.worths[index].map(Clients::of),
            rates: rates(&plan.rates, &prediction.outcomes[index], summary.load),
        });
        Self {
            log: LogPart::new(files, log, notes, summary),
            link: LinkPart {
                uplink_bits_per_s: plan.uplink_bits_per_s,
                connection: plan.connection,
                load: summary.load,
                peak_load: summary.peak_load,
            },
            size_classes: bounds
                .map(|up_to_bytes| SizeClass { up_to_bytes })
                .collect(),
            rates: plan.rates.clone(),
            baseline: plan.policies[plan.baseline].name.clone(),
            policies: policies.collect(),
            simulated_requests: prediction.simulated,
        }
    }

    /// Returns the policy that gains are against.
    pub(super) fn baseline(&self) -> Option<&PolicyPart> {
        self.policies
            .iter()
            .find(|part| part.policy == self.baseline)
    }

    /// Returns the policy that is spoken of first: Sprat's default, or else the one with
    /// the least mean, or the first if none has any.
    pub(super) fn chosen(&self) -> Option<&PolicyPart> {
        let others = || {
            self.policies
                .iter()
                .filter(|part| part.policy != self.baseline)
        };
        let default = others().find(|part| part.policy == "srpt");
        default.or_else(|| {
            let means = others().filter_map(|part| Some((part, self.today(part)?)));
            let least = means.min_by(|(_, one), (_, other)| {
                one.all
                    .response_ms
                    .mean
                    .total_cmp(&other.all.response_ms.mean)
            });
            // Where no policy has figures, any of them can say why.
            least.map(|(part, _)| part).or_else(|| others().next())
        })
    }

    /// Returns a policy's figures at the log's own rate.
    pub(super) fn today<'a>(&self, part: &'a PolicyPart) -> Option<&'a FiguresPart> {
        let today = part.rates.iter().find(|at| at.rate == 1.0)?;
        today.figures.as_ref()
    }
}

impl LogPart {
    fn new(files: &[PathBuf], log: &Log, notes: &Notes, summary: &Summary) -> Self {
        let unreadable = log.unreadable.iter().map(|line| UnreadablePart {
            file: line.file.clone(),
            line: line.line,
            reason: line.fault.to_string(),
            excerpt: line.excerpt.clone(),
        });
        Self {
            files: files.to_vec(),
            format: log.format.name(),
            requests: log.requests,
            unreadable_lines: log.unreadable_lines,
            unreadable: unreadable.collect(),
            is_cut: log.is_cut,
            out_of_order: notes.out_of_order,
            behind_s: notes.behind_ns as f64 / 1e9,
            began: moment(notes.began_ns),
            span_s: summary.span_s,
            grain_s: notes.grain_ns as f64 / 1e9,
            bytes: summary.bytes,
            mean_bytes: summary.bytes as f64 / summary.requests as f64,
            median_bytes: summary.median_bytes,
            p99_bytes: summary.p99_bytes,
            max_bytes: summary.max_bytes,
        }
    }
}

impl Clients {
    fn of(worth: predict::Worth) -> Self {
        match worth {
            predict::Worth::Times(times) => Self::Times(times),
            predict::Worth::AtLeast(times) => Self::AtLeast(times),
            predict::Worth::Below(times) => Self::Below(times),
        }
    }
}

fn rates(rates: &[f64], outcomes: &[Outcome], load: f64) -> Vec<RatePart> {
    let part = |(rate, outcome): (&f64, &Outcome)| RatePart {
        rate: *rate,
        load: load * rate,
        figures: outcome.served().map(|served| FiguresPart {
            all: Times::of(&served.all),
            largest_1_percent: Times::of(&served.largest),
            size_classes: served.classes.iter().map(Times::of).collect(),
        }),
        overloaded: match outcome {
            Outcome::Served(_) => None,
            Outcome::Overloaded => Some("the link carries less than is asked of it"),
            Outcome::Flooded(_) => Some("more than 65536 responses wait at a time"),
        },
    };
    rates.iter().zip(outcomes).map(part).collect()
}

impl Times {
    fn of(figures: &predict::Figures) -> Self {
        let spread = |of: predict::Spread, unit: f64| ReportedSpread {
            mean: of.mean * unit,
            p50: of.p50 * unit,
            p95: of.p95 * unit,
            p99: of.p99 * unit,
        };
        Self {
            responses: figures.responses,
            response_ms: spread(figures.response_s, 1e3),
            slowdown: spread(figures.slowdown, 1.0),
        }
    }
}

/// Writes a point in time to the second, such as `2026-11-24 21:43:51 UTC`.
fn moment(ns: u64) -> String {
    let seconds = i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_second(seconds) {
        Ok(moment) => moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => "an unknown time".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_to_the_second() {
        assert_eq!(moment(971_211_336_000_000_000), "2000-10-10 20:55:36 UTC");
    }
}
