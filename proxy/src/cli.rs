//! The command line: `sprat run`, `check`, `schema`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use sprat_config::Config;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::level_filters::LevelFilter;

use crate::server::{Control, Server};

/// A reverse proxy and load balancer that schedules by size.
#[derive(Parser)]
#[command(name = "sprat", version, about)]
struct Arguments {
    /// How much Sprat says about itself on standard error: off, error, warn,
    /// info, debug or trace.
    #[arg(long, global = true, default_value = "info", env = "SPRAT_LOG_LEVEL")]
    log_level: LevelFilter,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve. SIGTERM and SIGINT drain (a second one cuts), SIGUSR1 reopens
    /// the access log.
    Run {
        /// The configuration.
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
        /// Worker threads, instead of what the configuration says.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        workers: Option<u16>,
    },
    /// Print every error in a configuration; exit with 1 if there is one.
    Check {
        /// The configuration.
        #[arg(value_name = "FILE", required_unless_present = "config")]
        file: Option<PathBuf>,
        /// The same, as `run` has it.
        #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
    },
    /// Print the JSON Schema of the configuration.
    Schema,
}

/// Where configurations come from.
pub struct Source {
    /// Reads a file; the error is ready to be shown.
    pub load: fn(&Path) -> Result<Config, String>,
    /// The JSON Schema.
    pub schema: fn() -> String,
}

/// Runs the command line; the exit code is 2 for a wrong one, 1 for anything
/// else that failed.
pub fn main(source: &Source) -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(arguments.log_level)
        .init();
    let done = match arguments.command {
        Command::Run { config, workers } => run(source, &config, workers),
        Command::Check { file, config } => check(source, &file.or(config).unwrap_or_default()),
        Command::Schema => print(&(source.schema)()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn check(source: &Source, file: &Path) -> anyhow::Result<()> {
    (source.load)(file).map_err(anyhow::Error::msg)?;
    print(&format!("{}: ok", file.display()))
}

fn run(source: &Source, file: &Path, workers: Option<u16>) -> anyhow::Result<()> {
    let mut config = (source.load)(file).map_err(anyhow::Error::msg)?;
    if let Some(workers) = workers {
        config.runtime.workers = usize::from(workers);
    }
    serve(&config)
}

/// Serves until a signal says otherwise.
fn serve(config: &Config) -> anyhow::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    // Before anything else: no signal may kill a server that is starting.
    let signals = runtime.block_on(async { Signals::install() });
    let signals = signals.context("cannot install signal handlers")?;
    let server = Server::start(config)?;
    for (listener, address) in config.listeners.iter().zip(server.addresses()) {
        tracing::info!(%address, listener = listener.name, "listening");
    }
    if let Some(address) = server.admin_address() {
        tracing::info!(%address, "admin");
    }
    let control = server.control();
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || runtime.block_on(signals.obey(&control)))
        .context("cannot start the signal thread")?;
    server.join()?;
    tracing::info!("stopped");
    Ok(())
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
}

impl Signals {
    fn install() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reopen: signal(SignalKind::user_defined1())?,
        })
    }

    async fn obey(mut self, control: &Control) {
        let mut draining = false;
        loop {
            tokio::select! {
                _ = self.reopen.recv() => {
                    control.reopen_log();
                    continue;
                }
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            if std::mem::replace(&mut draining, true) {
                tracing::info!("cutting what is open");
                control.cut();
            } else {
                tracing::info!("draining; a second signal cuts what is open");
                control.drain();
            }
        }
    }
}

#[expect(clippy::print_stdout, reason = "what was asked for")]
fn print(text: &str) -> anyhow::Result<()> {
    println!("{}", text.trim_end());
    Ok(())
}

#[expect(
    clippy::print_stderr,
    reason = "errors are for people, not for the log"
)]
fn complain(text: &str) {
    eprintln!("{}", text.trim_end());
}
