//! `sprat whatif`: what size-based scheduling would gain on the traffic of an access log.
//!
//! ```text
//! log (lines to entries) -> traffic (requests in order) -> predict (the core in virtual
//! time, by policy and rate) -> report (terminal, JSON, page)
//! ```
//!
//! Nothing here knows how a policy orders: the core's egress decides, on the link of
//! [`sprat_measure::link`]. The configuration says which policies there are.

#![forbid(unsafe_code)]

pub mod log;
pub mod predict;
pub mod report;
pub mod traffic;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::thread;

use anyhow::{Context as _, bail, ensure};
use sprat_config::units;
use sprat_measure::wire::Connection;

use log::{Format, Reading};
use predict::{Plan, Policy};
use report::Report;
use traffic::Gathering;

/// The policy of a server that schedules nothing.
const BASELINE: &str = "fair";

/// The rates that are tried, as multiples of the log's own, as far as the link carries them.
const DEFAULT_RATES: [f64; 5] = [0.5, 0.75, 1.0, 1.5, 2.0];

/// The load of a link that is all but full.
const FULL_LOAD: f64 = 0.95;

/// The load of a link whose rate is not named.
const ASSUMED_LOAD: f64 = 0.7;

/// The rate of the link on which a log's load is first measured.
const PROBED_BITS_PER_S: u64 = 1_000_000_000;

/// Predict what size-based scheduling would gain on the traffic of an access log.
///
/// Replays the log's responses over a link of the given rate in virtual time, under every
/// policy that Sprat has, at the log's own rate and at others.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # what would change if this server's 100 Mbit/s were scheduled by size
  sprat whatif /var/log/nginx/access.log --uplink 100mbit

  # rotated logs, oldest first; a page to show
  sprat whatif access.log.2.gz access.log.1 access.log --uplink 1gbit --html whatif.html

  # from a pipe, over kept connections, as JSON
  zstdcat access.log.zst | sprat whatif - --uplink 50mbit --connection keep --json

  # a format that is not found by itself; two policies, other rates
  sprat whatif haproxy.log --format haproxy --uplink 10mbit \\
      --policy srpt --policy '{name: bands, cutoffs: two-class}' --rates 1,1.2,1.4

Formats: clf, combined, nginx-timed, sprat, sprat-combined, haproxy, caddy, envoy, envoy-json.
docs/whatif.md says what is predicted, how far it can be trusted, and what it leaves out.")]
pub struct Args {
    /// Access logs, one after the other; plain, gzip or zstd; `-` is standard input
    #[arg(value_name = "LOG", required = true)]
    pub logs: Vec<PathBuf>,
    /// The rate of the link that carries all responses
    #[arg(long, value_name = "RATE", value_parser = units::parse_bit_rate)]
    pub uplink: u64,
    /// The log's format [default: found by its first lines]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Whether each request has a connection of its own
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    pub connection: Connection,
    /// Factors by which the rate of requests is multiplied; 1 is always among them [default:
    /// 0.5,0.75,1,1.5,2 as far as the link carries them, and a load of 0.95]
    #[arg(long, value_name = "TIMES", value_delimiter = ',', value_parser = times)]
    pub rates: Option<Vec<f64>>,
    /// A policy, written as in the configuration; may be given several times [default: all
    /// policies]; `fair` is always among them
    #[arg(long = "policy", value_name = "POLICY")]
    pub policies: Vec<String>,
    /// Print all figures as JSON, instead of tables
    #[arg(long)]
    pub json: bool,
    /// Also write a page with figures to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Read at most this many requests; each takes 16 bytes of memory
    #[arg(long, value_name = "N", default_value_t = 20_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub max_requests: u32,
    /// Runs at the same time [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
}

/// Reads a rate as a multiple of the log's.
fn times(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(times) if (0.01..=100.0).contains(&times) => Ok(times),
        _ => Err("how many times as many requests come: from 0.01 to 100, such as 1.5".to_owned()),
    }
}

/// Runs the command: reads `stdin` if the log is `-`, and writes to `out`.
///
/// # Errors
/// The log or an option is of no use, or the page or `out` cannot be written; the message
/// says what to do.
pub fn run(args: &Args, stdin: &mut dyn Read, out: &mut dyn Write) -> anyhow::Result<()> {
    let report = predict(args, Some(args.uplink), stdin)?;
    if let Some(file) = &args.html {
        let page = report::page(&report)?;
        let written = std::fs::write(file, page);
        written.with_context(|| format!("cannot write the page {}", file.display()))?;
    }
    let text = match args.json {
        true => report::json(&report)?,
        false => report::terminal(&report),
    };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("cannot write to standard output")
}

/// Predicts the command's report, over a link of this rate; without a rate, over a link that the
/// log's traffic fills to 70%.
///
/// # Errors
/// The log or an option is of no use; the message says what to do.
pub fn predict(
    args: &Args,
    uplink_bits_per_s: Option<u64>,
    stdin: &mut dyn Read,
) -> anyhow::Result<Report> {
    ensure!(
        uplink_bits_per_s != Some(0),
        "--uplink 0bit carries nothing: give the link's rate, such as 10mbit"
    );
    let policies = policies(&args.policies)?;
    let mut gathering = Gathering::default();
    let reading = Reading {
        files: &args.logs,
        format: args.format,
        max_requests: args.max_requests as usize,
    };
    let log = log::read(&reading, stdin, &mut |format, entry| {
        gathering.take(format, entry);
    })?;
    let traffic = gathering.finish().context("the log has no requests")?;
    let uplink_bits_per_s = uplink_bits_per_s.unwrap_or_else(|| {
        let load = traffic.summary(PROBED_BITS_PER_S, args.connection).load;
        rate_of_load(load)
    });
    let summary = traffic.summary(uplink_bits_per_s, args.connection);
    let plan = Plan {
        uplink_bits_per_s,
        connection: args.connection,
        rates: rates(args.rates.as_deref(), summary.load),
        baseline: baseline(&policies),
        policies,
        threads: threads(args.threads),
    };
    let prediction = plan.predict(&traffic, &summary);
    Ok(Report::new(
        &args.logs,
        &log,
        &traffic.notes,
        &summary,
        &plan,
        &prediction,
    ))
}

/// Returns the rate of a link that is filled to 70% by traffic that puts `load` on a link of 1
/// Gbit/s. The rate has two significant digits, and is 1 kbit/s at least.
fn rate_of_load(load: f64) -> u64 {
    let rate = PROBED_BITS_PER_S as f64 * load / ASSUMED_LOAD;
    let unit = 10_f64.powf(rate.max(1000.0).log10().floor() - 1.0);
    ((rate.max(1000.0) / unit).round() * unit) as u64
}

/// Returns the policies that were asked for, and the baseline. If none was, returns all that the
/// configuration knows, but for those that need parameters.
fn policies(asked: &[String]) -> anyhow::Result<Vec<Policy>> {
    if asked.is_empty() {
        let names = sprat_config::policy_names().iter();
        return Ok(names.filter_map(|name| policy(name).ok()).collect());
    }
    let baseline = (!asked.iter().any(|name| name == BASELINE)).then_some(BASELINE);
    let names = baseline.into_iter().chain(asked.iter().map(String::as_str));
    names.map(policy).collect()
}

/// Reads a policy as the configuration has it.
fn policy(name: &str) -> anyhow::Result<Policy> {
    // The rate is given apart, and no part of a policy.
    let text = format!("{{rate: 1mbit, policy: {name}}}");
    match sprat_config::parse_uplink(&text, "--policy", &|_| None) {
        Ok(loaded) => Ok(Policy {
            name: name.to_owned(),
            uplink: loaded.config,
        }),
        Err(errors) => bail!("{}", errors.render(false).trim_end()),
    }
}

fn baseline(policies: &[Policy]) -> usize {
    let baseline = policies.iter().position(|policy| policy.name == BASELINE);
    baseline.expect("the baseline has been added")
}

/// Returns the rates in order, each once, the log's own among them.
fn rates(asked: Option<&[f64]>, load: f64) -> Vec<f64> {
    let mut rates = match asked {
        Some(rates) => rates.to_vec(),
        None => default_rates(load),
    };
    rates.push(1.0);
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

/// Returns the default rates that the link carries, and one that all but fills it in the place of
/// those that it does not.
fn default_rates(load: f64) -> Vec<f64> {
    let carried = DEFAULT_RATES.into_iter().filter(|rate| rate * load < 1.0);
    let mut rates: Vec<f64> = carried.collect();
    let full = (FULL_LOAD / load * 100.0).floor() / 100.0;
    let most = rates.last().copied().unwrap_or(0.0);
    if rates.len() < DEFAULT_RATES.len() && full > most {
        rates.push(full);
    }
    rates
}

fn threads(asked: Option<u16>) -> usize {
    match asked {
        Some(threads) => threads.into(),
        None => thread::available_parallelism().map_or(1, usize::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn todays_rate_and_fair_are_always_there() {
        assert_eq!(rates(Some(&[2.0, 0.5, 2.0]), 0.9), [0.5, 1.0, 2.0]);
        assert_eq!(rates(None, 0.4), DEFAULT_RATES);
        assert_eq!(rates(None, 0.7), [0.5, 0.75, 1.0, 1.35]);
        assert_eq!(rates(None, 0.96), [0.5, 0.75, 1.0]);
        assert_eq!(rates(None, 4.0), [0.23, 1.0]);
        let all = policies(&[]).unwrap();
        let names: Vec<&str> = all.iter().map(|policy| policy.name.as_str()).collect();
        assert_eq!(names, sprat_config::policy_names());
        let two = policies(&["{name: bands, cutoffs: two-class}".to_owned()]).unwrap();
        assert_eq!((two.len(), baseline(&two)), (2, 0));
        let error = policies(&["sprt".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("did you mean `srpt`"), "{error}");
    }

    #[test]
    fn a_link_that_nobody_names_is_filled_to_70_percent() {
        assert_eq!(rate_of_load(0.07), 100_000_000);
        assert_eq!(rate_of_load(0.0123), 18_000_000);
        assert_eq!(rate_of_load(0.0), 1000);
    }

    #[test]
    fn a_multiple_has_bounds() {
        assert_eq!(times("1.5"), Ok(1.5));
        for text in ["0", "-1", "NaN", "101", "x"] {
            assert!(times(text).is_err(), "{text}");
        }
    }
}
