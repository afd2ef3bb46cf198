//! The command line: `sprat run`, `check`, `explain`, `link`, `catalogue`,
//! `schema`.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use sprat_config::{Config, Loaded};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::level_filters::LevelFilter;

use crate::catalogue::command as catalogue;
use crate::explain;
use crate::link;
use crate::server::{Control, Server};
use crate::tls;

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
    /// Say what would become of a request: its route, class, size and
    /// endpoints, and why.
    Explain {
        /// The configuration.
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        request: explain::Request,
    },
    /// Set up the network device for engine `kernel`.
    Link {
        #[command(subcommand)]
        action: link::Action,
        /// The configuration.
        #[arg(
            short,
            long,
            value_name = "FILE",
            global = true,
            default_value = "sprat.yaml"
        )]
        config: PathBuf,
    },
    /// Read and write snapshots of the catalogue of sizes.
    Catalogue {
        #[command(subcommand)]
        action: catalogue::Action,
    },
    /// Print the JSON Schema of the configuration.
    Schema,
}

/// Runs the command line; the exit code is 2 for a wrong one, 1 for anything
/// else that failed.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(arguments.log_level)
        .init();
    let done = match arguments.command {
        Command::Run { config, workers } => run(&config, workers),
        Command::Check { file, config } => check(&file.or(config).unwrap_or_default()),
        Command::Explain { config, request } => explain_request(&config, &request),
        Command::Link { action, config } => set_link(&config, action),
        Command::Catalogue { action } => work_on_catalogue(action),
        Command::Schema => schema(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Reads a configuration; shows what is doubtful about it.
fn load(file: &Path) -> anyhow::Result<Config> {
    show(file, |_| ())
}

/// Reads a configuration, looks closer at it with `look`, and shows what is
/// doubtful.
fn show(file: &Path, look: impl FnOnce(&mut Loaded)) -> anyhow::Result<Config> {
    let colour = std::io::stderr().is_terminal();
    let mut loaded = sprat_config::load(file, &sprat_config::process_env)
        .map_err(|errors| anyhow::Error::msg(errors.render(colour)))?;
    look(&mut loaded);
    if loaded.warnings.has_errors() {
        anyhow::bail!(loaded.warnings.render(colour));
    }
    if !loaded.warnings.is_empty() {
        complain(&loaded.warnings.render(colour));
    }
    Ok(loaded.config)
}

/// The same, with the files that it names for TLS.
fn load_with_files(file: &Path) -> anyhow::Result<Config> {
    show(file, |loaded| {
        tls::inspect(&loaded.config, &mut loaded.warnings);
    })
}

fn check(file: &Path) -> anyhow::Result<()> {
    load_with_files(file)?;
    print(&format!("{}: ok", file.display()));
    Ok(())
}

fn set_link(file: &Path, action: link::Action) -> anyhow::Result<()> {
    print(&link::run(&load(file)?, action)?);
    Ok(())
}

fn work_on_catalogue(action: catalogue::Action) -> anyhow::Result<()> {
    let (mut input, out) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut out = std::io::BufWriter::new(out);
    catalogue::run(action, &mut input, &mut out)?;
    Ok(std::io::Write::flush(&mut out)?)
}

fn explain_request(file: &Path, request: &explain::Request) -> anyhow::Result<()> {
    print(&explain::run(&load(file)?, request)?);
    Ok(())
}

fn schema() -> anyhow::Result<()> {
    print(&serde_json::to_string_pretty(&sprat_config::schema())?);
    Ok(())
}

fn run(file: &Path, workers: Option<u16>) -> anyhow::Result<()> {
    let mut config = load_with_files(file)?;
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
fn print(text: &str) {
    println!("{}", text.trim_end());
}

#[expect(
    clippy::print_stderr,
    reason = "errors are for people, not for the log"
)]
fn complain(text: &str) {
    eprintln!("{}", text.trim_end());
}
