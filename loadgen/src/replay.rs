//! `sprat-loadgen replay`: makes a trace's requests to a server, at the trace's times.

mod client;
mod groups;
mod http2;
mod plan;
mod received;
mod response;
mod run;
mod target;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use sprat_measure::wire::{self, Connection};

use crate::cli;
use crate::results::{self, ClientInfo, Mode, Outcome, RunInfo};
use crate::trace::Trace;
use groups::Groups;

pub(crate) use client::ReplayClient;
pub(crate) use groups::split;
pub(crate) use http2::Connections;
pub use plan::{Pace, Replay};
pub(crate) use received::Received;
pub use run::replay;
pub use target::{Target, target};

/// Replay a trace against a server and write each response time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A response time runs from just before connect() to the last byte. Requests
start at the trace's times whatever the server does (open loop), unless the
trace has users (partly open: a user's next request starts when the former is
done) or --closed is given. Status, length and, for the origin's paths, the
content of each response are checked; the error column says connect, reset,
timeout, short, corrupt or status. Slowdown is the response time over the time
that the response needs on the idle link: its bytes on the wire over --uplink.

Examples:
  # open loop, a new connection for each request
  sprat-loadgen replay --trace trace.csv.gz --target http://198.18.0.1:8080 \\
      --name nginx --seed 7 --load 0.9 --uplink 10mbit -o results/nginx.csv

  # 50 clients back to back on kept connections, 10,000 requests to warm up
  sprat-loadgen replay --trace trace.csv.gz --target http://127.0.0.1:8080 \\
      --closed 50 --connection keep --warmup 10000 -o results/closed.csv")]
pub struct ReplayArgs {
    /// Trace to replay, as `gen` writes it
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// The server to ask
    #[arg(long, value_name = "http[s]://HOST:PORT", value_parser = target)]
    target: Target,
    /// A header field of every request; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<String>,
    /// N clients, each with one request after the other; the trace's arrival times are ignored
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    closed: Option<u32>,
    /// Send requests from all clients of a running network (in a command of `network`,
    /// SPRAT_NETWORK names the file); the seed decides which client sends which request
    #[arg(long, value_name = "FILE", conflicts_with_all = ["closed", "http2"])]
    network: Option<PathBuf>,
    /// A new connection for each request, or kept ones; over https a new one
    /// is `new-tls`
    #[arg(long, value_enum, default_value_t)]
    connection: Connection,
    /// HTTP/2 with prior knowledge: each request is a stream of one of N
    /// connections, in turn
    #[arg(long, value_name = "N", conflicts_with = "connection", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    http2: Option<u32>,
    /// Replay only the first N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Leave the first N requests out of the results
    #[arg(long, value_name = "N", default_value_t = 0)]
    warmup: u64,
    /// A request fails after this long
    #[arg(long, value_name = "SPAN", default_value = "120s", value_parser = cli::span)]
    timeout: Duration,
    /// The most requests open at once; one more fails
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_open: u32,
    /// The system's name in reports
    #[arg(long, default_value = "unnamed")]
    name: String,
    /// The workload's seed, noted in the results
    #[arg(long)]
    seed: Option<u64>,
    /// The load of the workload, noted in the results
    #[arg(long, value_parser = cli::load)]
    load: Option<f64>,
    /// The link's rate, for the load on it and the slowdown
    #[arg(long, value_name = "RATE", value_parser = cli::rate)]
    uplink: Option<u64>,
    /// The source's commit, noted in the results [default: that of the working directory]
    #[arg(long, env = "SPRAT_COMMIT")]
    commit: Option<String>,
    /// Write the results to this file, and the run's JSON beside it
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

impl ReplayArgs {
    /// Returns how requests use connections: streams of HTTP/2 have none of their own.
    fn connection(&self) -> Connection {
        match (self.http2, &self.target.tls) {
            (Some(_), _) => Connection::Keep,
            (None, Some(_)) if self.connection.is_new() => Connection::NewTls,
            (None, _) => self.connection,
        }
    }
}

/// Descriptors that the process needs beside its connections.
const DESCRIPTORS_SPARE: u64 = 64;

/// Runs `sprat-loadgen replay`.
///
/// # Errors
/// When the trace cannot be read, the results cannot be written, or nothing
/// is left after the warm-up.
pub fn run(args: &ReplayArgs) -> anyhow::Result<()> {
    let mut trace = Trace::read(&args.trace)?;
    if let Some(limit) = args.limit {
        trace
            .requests
            .truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let warmup = usize::try_from(args.warmup).unwrap_or(usize::MAX);
    ensure!(
        args.http2.is_none() || args.target.tls.is_none(),
        "--http2 is with prior knowledge, over http"
    );
    ensure!(
        args.connection != Connection::NewTls || args.target.tls.is_some(),
        "--connection new-tls takes an https target"
    );
    ensure!(
        warmup < trace.requests.len(),
        "--warmup {warmup} leaves none of {} requests",
        trace.requests.len()
    );
    let open_max = cli::raise_open_files()
        .saturating_sub(DESCRIPTORS_SPARE)
        .clamp(1, args.max_open.into()) as u32;
    let plan = Replay {
        target: args.target.clone(),
        connection: args.connection(),
        http2: args.http2,
        fields: args.headers.concat(),
        timeout: args.timeout,
        open_max,
        pace: match args.closed {
            Some(clients) => Pace::Closed(clients),
            None => Pace::Trace,
        },
    };
    let begun = std::time::Instant::now();
    let bar = progress(trace.requests.len());
    let mut parts = None;
    let mut outcomes = match &args.network {
        None => replay(&trace, &plan, &bar)?,
        Some(file) => {
            let groups = Groups::read(file, &trace, args.seed.unwrap_or(0))?;
            let outcomes = groups.replay(&trace, &plan, &bar)?;
            parts.insert(groups).skip(warmup);
            outcomes
        }
    };
    outcomes.drain(..warmup);
    let mut info = describe(args, &trace, &plan, begun.elapsed(), &outcomes);
    info.network = parts.as_ref().map(|groups| groups.network().to_owned());
    results::write(&outcomes, &args.output)?;
    info.write_beside(&args.output)?;
    println!("{}", summary(&info, &outcomes, plan.connection));
    if let Some(groups) = parts {
        println!("{}", groups.summary(&outcomes));
    }
    Ok(())
}

/// Parses a header field into the line to send, with its line end.
fn header(text: &str) -> Result<String, String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&b);
    let field = text.split_once(':').filter(|(name, value)| {
        !name.is_empty()
            && name.bytes().all(token)
            && value.bytes().all(|b| (b' '..=b'~').contains(&b))
    });
    match field {
        Some((name, value)) => Ok(format!("{name}: {}\r\n", value.trim())),
        None => Err("write NAME: VALUE, such as 'Sec-Purpose: prefetch'".to_owned()),
    }
}

/// Makes a progress bar on stderr; indicatif shows none where stderr is no terminal.
fn progress(requests: usize) -> indicatif::ProgressBar {
    let style = indicatif::ProgressStyle::with_template(
        "{elapsed_precise} {wide_bar} {human_pos}/{human_len} done, {per_sec}, {eta} left",
    );
    indicatif::ProgressBar::new(requests as u64)
        .with_style(style.expect("the template is well-formed"))
}

fn describe(
    args: &ReplayArgs,
    trace: &Trace,
    plan: &Replay,
    wall: Duration,
    outcomes: &[Outcome],
) -> RunInfo {
    let load = args
        .uplink
        .and_then(|uplink| trace.load(plan.connection, uplink));
    let mode = match plan.pace {
        Pace::Closed(_) => Mode::Closed,
        Pace::Trace if trace.has_users() => Mode::PartlyOpen,
        Pace::Trace => Mode::Open,
    };
    // A closed loop ignores the arrivals, so that it has no load of its own.
    let load = load.filter(|_| mode != Mode::Closed);
    let mut info = RunInfo {
        name: args.name.clone(),
        seed: args.seed,
        uplink_bits_per_s: args.uplink,
        load: args.load,
        load_wire: load.map(|load| load.wire),
        load_payload: load.map(|load| load.payload),
        commit: args.commit.clone().or_else(cli::commit),
        client: Some(ClientInfo {
            mode,
            connection: plan.connection,
            http2: plan.http2,
            clients: args.closed,
            timeout_ms: u64::try_from(plan.timeout.as_millis()).unwrap_or(u64::MAX),
            warmup: args.warmup,
            max_open: plan.open_max.into(),
        }),
        wall_s: wall.as_secs_f64(),
        ..RunInfo::default()
    };
    info.count(outcomes);
    info
}

/// Returns one line on the results. Times are of the requests that did not fail.
fn summary(info: &RunInfo, outcomes: &[Outcome], connection: Connection) -> String {
    let good = || outcomes.iter().filter(|outcome| outcome.error.is_none());
    let mut times: Vec<f64> = good().map(|outcome| outcome.response_ms).collect();
    times.sort_by(f64::total_cmp);
    let count = times.len().max(1) as f64;
    let mean = times.iter().sum::<f64>() / count;
    let slowdown = info.uplink_bits_per_s.map_or("-".to_owned(), |uplink| {
        let sum: f64 = good()
            .map(|o| o.response_ms / wire::alone_ms(o.bytes, connection, uplink))
            .sum();
        format!("{:.2}", sum / count)
    });
    format!(
        "{}: {} requests, {} failed{}, mean {mean:.2} ms, mean slowdown {slowdown}, p50 {:.2} ms, \
         p99 {:.2} ms, goodput {:.3} Mbit/s{}",
        info.name,
        info.requests,
        info.failed,
        failures(outcomes),
        percentile(&times, 0.5),
        percentile(&times, 0.99),
        info.goodput_bytes_per_s * 8.0 / 1e6,
        lateness(info, outcomes),
    )
}

/// Returns how late an open loop's requests started: a client that lacks CPU
/// time offers another load than it says. Empty for other loops.
fn lateness(info: &RunInfo, outcomes: &[Outcome]) -> String {
    let open = info
        .client
        .as_ref()
        .is_some_and(|client| client.mode == Mode::Open);
    if !open {
        return String::new();
    }
    let mut late_ms: Vec<f64> = outcomes.iter().map(|o| (o.start_s - o.t_s) * 1e3).collect();
    late_ms.sort_by(f64::total_cmp);
    format!(
        ", starts late by p50 {:.2} ms, p99 {:.2} ms",
        percentile(&late_ms, 0.5),
        percentile(&late_ms, 0.99),
    )
}

/// Lists the failures by kind, in brackets; empty if there are none.
fn failures(outcomes: &[Outcome]) -> String {
    let kinds: Vec<String> = results::Failure::ALL
        .into_iter()
        .filter_map(|kind| {
            let count = outcomes.iter().filter(|o| o.error == Some(kind)).count();
            (count > 0).then(|| format!("{} {count}", kind.word()))
        })
        .collect();
    if kinds.is_empty() {
        String::new()
    } else {
        format!(" ({})", kinds.join(", "))
    }
}

/// Returns the percentile `p` of sorted `times`, by nearest rank; 0 if there are none.
fn percentile(times: &[f64], p: f64) -> f64 {
    let rank = (times.len() as f64 * p).ceil() as usize;
    times.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&times, 0.5), 100.0);
        assert_eq!(percentile(&times, 0.99), 198.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
