//! `sprat-loadgen gen`: writes a trace, and the files that its requests ask for.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sprat_measure::wire::Connection;

use crate::content::{Content, SLICE_BYTES_MAX};
use crate::table;
use crate::trace::Trace;
use crate::workload::{self, Sizes, TracePlan};
use crate::{cli, recorded};

/// Generate a workload: a trace of requests, and the files behind it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  # 20,000 requests at 0.9 of a 10 Mbit/s link
  sprat-loadgen gen --uplink 10mbit --load 0.9 --requests 20000 -o trace.csv.gz

  # the sizes and arrivals of a recorded day, scaled to a load of 0.7
  sprat-loadgen gen --recorded day.csv.gz --load 0.7 -o day-0.7.csv.gz

  # partly open: users arrive, and each makes five requests in turn
  sprat-loadgen gen --users 5 -o users.csv

  # the files too, for a server that serves them from disk
  sprat-loadgen gen --requests 20000 -o trace.csv --tree ./www")]
pub struct GenArgs {
    /// Seed of sizes and arrivals
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Number of requests [default: 20000, or all of a recorded trace]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000_000))]
    requests: Option<u32>,
    /// Rate of the link; the load is a share of it
    #[arg(long, value_name = "RATE", default_value = "10mbit", value_parser = cli::rate)]
    uplink: u64,
    /// Load on the wire: heads, segment headers and connections included
    #[arg(long, default_value = "0.9", value_parser = cli::load)]
    load: f64,
    /// Whether each response has a connection of its own, which counts in the load
    #[arg(long, value_enum, default_value_t)]
    connection: Connection,
    /// Number of distinct files
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// Distribution of the sizes of the files
    #[arg(long, value_enum, default_value_t)]
    sizes: Sizes,
    /// Partly open: users arrive, and each makes N requests in turn
    #[arg(long, value_name = "N", conflicts_with = "recorded", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    users: Option<u32>,
    /// Take sizes and arrivals from a recorded trace (t_s,bytes,status,url)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "sizes"])]
    recorded: Option<PathBuf>,
    /// Write the distinct files under this directory, at their paths
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// Write the trace to this file, compressed if its name ends in .gz
    #[arg(short, long, value_name = "FILE", required_unless_present = "tree")]
    output: Option<PathBuf>,
}

const REQUESTS_DEFAULT: u32 = 20_000;

/// Runs `sprat-loadgen gen`.
///
/// # Errors
/// When a file cannot be read or written, or the recorded trace is bad.
pub fn run(args: &GenArgs) -> anyhow::Result<()> {
    let trace = build(args)?;
    if let Some(output) = &args.output {
        trace.write(output)?;
    }
    if let Some(tree) = &args.tree {
        let (files, bytes) = write_tree(&trace, tree)?;
        println!("{files} files, {bytes} bytes, under {}", tree.display());
    }
    println!("{}", describe(&trace, args));
    Ok(())
}

fn build(args: &GenArgs) -> anyhow::Result<Trace> {
    let mut trace = match &args.recorded {
        Some(file) => recorded::read(file, args.requests, args.seed)?,
        None => workload::generate(&TracePlan {
            seed: args.seed,
            requests: args.requests.unwrap_or(REQUESTS_DEFAULT),
            files: args.files,
            sizes: args.sizes,
            requests_per_user: args.users,
        }),
    };
    ensure!(
        workload::scale_to_load(&mut trace, args.load, args.connection, args.uplink),
        "all requests arrive at the same time, so that they make no load; take more of them"
    );
    Ok(trace)
}

fn describe(trace: &Trace, args: &GenArgs) -> String {
    let sizes: Vec<u64> = trace.requests.iter().map(|r| r.bytes).collect();
    let count = sizes.len();
    let summary = workload::summarise(sizes).expect("a trace holds a request");
    let load = trace
        .load(args.connection, args.uplink)
        .expect("a scaled trace lasts");
    format!(
        "{count} requests in {:.1} s: mean {:.0} B, median {} B, largest 3% carry {:.1}% of the bytes; \
         load {:.3} on the wire, {:.3} in payload, of {} Mbit/s",
        trace.duration_s(),
        summary.mean_bytes,
        summary.median_bytes,
        summary.largest_3_percent_share * 100.0,
        load.wire,
        load.payload,
        args.uplink as f64 / 1e6,
    )
}

/// Writes each distinct path of `trace` as a file under `tree`, with the bytes
/// that an origin would send. Returns the number of files and their bytes.
fn write_tree(trace: &Trace, tree: &Path) -> anyhow::Result<(usize, u64)> {
    let mut files: BTreeMap<&str, Content> = BTreeMap::new();
    for request in &trace.requests {
        let content = Content::of_path(&request.path)
            .filter(|content| content.bytes == request.bytes)
            .with_context(|| format!("`{}` is not a path of the origin", request.path))?;
        files.insert(&request.path, content);
    }
    for (path, content) in &files {
        if path.split('/').any(|part| part == "..") {
            bail!("`{path}` leaves the tree");
        }
        table::create(&tree.join(&path[1..]), |out| write_content(content, out))?;
    }
    Ok((
        files.len(),
        files.values().map(|content| content.bytes).sum(),
    ))
}

fn write_content(content: &Content, out: &mut dyn Write) -> std::io::Result<()> {
    let mut offset = 0;
    while offset < content.bytes {
        let slice = content.slice(offset, SLICE_BYTES_MAX);
        out.write_all(&slice)?;
        offset += slice.len() as u64;
    }
    Ok(())
}
