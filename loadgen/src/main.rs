//! `sprat-loadgen`: workloads, origins, trace replay, bounds, the lab and reports.

#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use sprat_loadgen::{ideal, report};

/// Workloads, origins, trace replay, bounds, the lab and reports for Sprat.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compute the bounds of a trace: SRPT and processor sharing.
    Ideal(ideal::Args),
    /// Compare results: a table, figures, and a page that holds them.
    Report(report::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Ideal(args) => ideal::main(&args),
        Command::Report(args) => report::main(&args),
    }
}
