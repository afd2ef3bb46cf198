//! `sprat-loadgen`: workloads, origins, trace replay, bounds, the lab and reports.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use sprat_loadgen::{generate, origin, replay};

/// Workloads, origins, trace replay, bounds, the lab and reports for Sprat.
#[derive(Debug, Parser)]
#[command(name = "sprat-loadgen", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Gen(generate::GenArgs),
    Origin(origin::OriginArgs),
    Replay(replay::ReplayArgs),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Gen(args) => generate::run(&args),
        Command::Origin(args) => origin::run(&args),
        Command::Replay(args) => replay::run(&args),
    }
}
