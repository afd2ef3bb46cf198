//! `sprat-loadgen`: workloads, origins, trace replay, bounds, the lab and reports.

#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sprat_loadgen::{
    demo, generate, hold, ideal, lab, network, origin, replay, report, reproduce, simulate, soak,
};

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
    /// Compute the bounds of a trace: SRPT and processor sharing.
    Ideal(ideal::IdealArgs),
    /// Compare results: a table, figures, and a page that holds them.
    Report(report::ReportArgs),
    Reproduce(reproduce::ReproduceArgs),
    Lab(lab::LabArgs),
    Network(network::NetworkArgs),
    Simulate(simulate::SimulateArgs),
    Soak(soak::SoakArgs),
    Hold(hold::HoldArgs),
    Demo(demo::DemoArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Gen(args) => generate::run(&args),
        Command::Origin(args) => origin::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Ideal(args) => ideal::main(&args),
        Command::Report(args) => report::main(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Network(args) => match network::run(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Simulate(args) => simulate::run(&args),
        Command::Soak(args) => soak::run(&args),
        Command::Hold(args) => hold::run(&args),
        Command::Demo(args) => demo::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to do if stderr is closed.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
