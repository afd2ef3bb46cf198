//! The command `sprat try`, which shows what Sprat takes over of another proxy's configuration, and
//! what its traffic would gain.

use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;

use clap::Parser;
use sprat_config::units;
use sprat_import::Outcome;
use sprat_whatif::{Args as Whatif, log::Format, report};

use super::import::{self, From};

/// The most directives that are named; `sprat import` names all.
const MAX_NAMED: usize = 12;

/// The most requests of the log that are read.
const MAX_REQUESTS: u32 = 20_000_000;

/// Another proxy's configuration, and its traffic.
#[derive(Debug, Parser)]
#[command(after_help = "\
Examples:
  sprat try /etc/nginx/nginx.conf /var/log/nginx/access.log --uplink 100mbit
  sprat try /etc/haproxy/haproxy.cfg haproxy.log.1 haproxy.log --port 443

Nothing is installed, written or served. `sprat import` and `sprat whatif` say more.")]
pub(crate) struct TrialArgs {
    /// The configuration of nginx or HAProxy, or its directory, such as /etc/nginx.
    #[arg(value_name = "FILE")]
    file: String,
    /// Access logs, one after the other; plain, gzip or zstd; `-` is standard input.
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// The rate of the link that carries all responses [default: one that the log's traffic fills
    /// to 70%].
    #[arg(long, value_name = "RATE", value_parser = units::parse_bit_rate)]
    uplink: Option<u64>,
    /// The proxy whose configuration it is [default: HAProxy if the path ends in .cfg or haproxy,
    /// or else nginx].
    #[arg(long, value_enum)]
    from: Option<From>,
    /// Import the servers on this port; may be given several times.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// The log's format [default: found by its first lines].
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,
}

/// Imports the configuration, replays the log, and returns a summary of both.
///
/// # Errors
///
/// The configuration or the log cannot be read, or nothing can be made of it.
pub(super) fn run(args: &TrialArgs, stdin: &mut dyn Read) -> anyhow::Result<String> {
    let is_cfg =
        args.file.ends_with(".cfg") || args.file.trim_end_matches('/').ends_with("haproxy");
    let from = args.from.unwrap_or(match is_cfg {
        true => From::Haproxy,
        false => From::Nginx,
    });
    let imported = import::read(from, &args.file, &args.port)?;
    let whatif = Whatif {
        logs: args.logs.clone(),
        uplink: args.uplink.unwrap_or(0),
        format: args.format,
        connection: Default::default(),
        rates: Some(vec![1.0]),
        policies: vec!["fair".to_owned(), "srpt".to_owned()],
        json: false,
        html: None,
        max_requests: MAX_REQUESTS,
        threads: None,
    };
    let report = sprat_whatif::predict(&whatif, args.uplink, stdin)?;
    let mut out = format!("{}\n", import::counts(&imported.summary));
    let mut exceptions: Vec<_> = imported.summary.exceptions().collect();
    // What is lost first.
    exceptions.sort_by_key(|note| note.outcome != Outcome::Not);
    for note in exceptions.iter().take(MAX_NAMED) {
        let _ = writeln!(out, "  {note}");
    }
    if exceptions.len() > MAX_NAMED {
        let _ = writeln!(out, "  and {} more", exceptions.len() - MAX_NAMED);
    }
    let _ = write!(out, "\n{}", report::brief(&report));
    out.push_str(&next_steps(args, from, report.link.uplink_bits_per_s));
    Ok(out)
}

/// Returns the commands that the operator would run next.
fn next_steps(args: &TrialArgs, from: From, uplink_bits_per_s: u64) -> String {
    let from = match from {
        From::Nginx => "nginx",
        From::Haproxy => "haproxy",
    };
    let assumed = match args.uplink {
        None => "\nThe link's rate was assumed: name your own by --uplink.\n",
        Some(_) => "",
    };
    let ports: String = args
        .port
        .iter()
        .map(|port| format!(" --port {port}"))
        .collect();
    format!(
        "{assumed}\nNext:\n  sprat import {from} {}{ports} > sprat.yaml\n  \
         # in sprat.yaml: uplink: {{rate: {}}}\n  sprat check sprat.yaml\n  \
         sprat run -c sprat.yaml\n",
        args.file,
        units::format_bit_rate(uplink_bits_per_s),
    )
}
