//! The command line: `sprat run`, `healthcheck`, `check`, `diff`, `explain`, `link`,
//! `catalogue`, `top`, `whatif`, `import`, `try`, `schema`, `completions`, `man`.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use sprat_config::Config;
use sprat_config::resolved::{Syslog, SyslogAddress};
use sprat_net::problem::Purpose;
use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::commands::catalogue;
use crate::commands::diff;
use crate::commands::explain;
use crate::commands::healthcheck;
use crate::commands::import;
use crate::commands::link;
use crate::commands::trial;
use sprat_server::loaded::{STDIN, is_stdin, load_with_files, look};
use sprat_server::log_lines::Shape;
use sprat_server::operate::{Operator, pid_file};
use sprat_server::standard_error::{StandardError, Style};
use sprat_server::version;

/// A reverse proxy and load balancer that schedules by size.
#[derive(Parser)]
#[command(name = "sprat", version = version::LONG, about)]
struct Arguments {
    /// Level of the log that Sprat writes on standard error: off, error, warn, info, debug or
    /// trace.
    #[arg(long, global = true, default_value = "info", env = "SPRAT_LOG_LEVEL")]
    log_level: LevelFilter,
    /// Format of the lines of the log. `text` is for people; if the systemd journal reads it, lines
    /// have priorities and no time. `json` is one object per line.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "text",
        env = "SPRAT_LOG_FORMAT"
    )]
    log_format: LogFormat,
    /// Send the log of `run` to this syslog server instead: a local socket, or an IP address with a
    /// port.
    #[arg(long, global = true, value_name = "ADDRESS", env = "SPRAT_LOG_SYSLOG")]
    log_syslog: Option<SyslogAddress>,
    #[command(subcommand)]
    command: Command,
}

/// How lines of the log look.
#[derive(Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    fn shape(self, is_for_syslog: bool) -> Shape {
        match self {
            // It takes the same priorities.
            Self::Text if is_for_syslog => Shape::Journal,
            Self::Text => Shape::of_text(),
            Self::Json => Shape::Json,
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Serve. SIGTERM and SIGINT drain (a second one cuts open requests), SIGHUP reloads the
    /// configuration, SIGUSR1 reopens the access log, SIGUSR2 starts the program again and hands
    /// over to it.
    Run {
        /// The configuration to serve with
        #[arg(short, long, value_name = "FILE", env = "SPRAT_CONFIG")]
        config: PathBuf,
        /// Number of worker threads, instead of the one in the configuration.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        workers: Option<u16>,
        /// Write the process ID to this file.
        #[arg(long, value_name = "FILE")]
        pid_file: Option<PathBuf>,
    },
    /// Ask the server that runs with a configuration whether it serves; exit with 1 if it does not.
    Healthcheck {
        /// The configuration of the running server
        #[arg(short, long, value_name = "FILE", env = "SPRAT_CONFIG")]
        config: PathBuf,
    },
    /// Print every error in a configuration and in the files that it names; exit with 1 if there is
    /// any.
    Check {
        /// The configuration; `-` is standard input.
        #[arg(value_name = "FILE", required_unless_present = "config")]
        file: Option<PathBuf>,
        /// The configuration, given as for `run`.
        #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
        /// Also check whether `run` could write its process ID to this file.
        #[arg(long, value_name = "FILE")]
        pid_file: Option<PathBuf>,
    },
    /// Print what a reload from one configuration to another would change; exit with 0 if nothing
    /// changes, 1 if something does, 2 if one of them is refused.
    Diff(diff::DiffArgs),
    /// Explain what would happen to a request: its route, class, size and endpoints, and why.
    Explain {
        /// The configuration to use
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
        #[command(flatten)]
        request: explain::Request,
    },
    /// Set up the network device for engine `kernel`.
    Link {
        #[command(subcommand)]
        action: link::LinkAction,
        /// The configuration with the link
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
        action: catalogue::SnapshotAction,
    },
    /// Show what a running server does, in the terminal.
    Top(sprat_top::Args),
    /// Predict what size-based scheduling would gain on the traffic of an access log.
    Whatif(sprat_whatif::Args),
    /// Convert the configuration of another proxy to one of Sprat, as far as Sprat can; print the
    /// differences on standard error.
    Import(import::ImportArgs),
    /// Print which parts of another proxy's configuration Sprat takes over, and what its traffic
    /// would gain.
    Try(trial::TrialArgs),
    /// Print the JSON Schema of the configuration.
    Schema,
    /// Print a script that lets a shell complete this program's arguments.
    Completions {
        /// The shell that the script is for.
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command.
    Man {
        /// The directory for the pages; it must exist.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Parses the command line, and runs its command. The exit code is 2 for a wrong command line, and
/// 1 for any other failure.
pub(crate) fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_server = matches!(arguments.command, Command::Run { .. });
    let syslog = arguments
        .log_syslog
        .filter(|_| is_server)
        .map(Syslog::of_daemon);
    let shape = arguments.log_format.shape(syslog.is_some());
    let style = Style::of(arguments.log_level, shape);
    let with_writer = |opened: io::Result<_>| opened.map(|(it, writer)| (it, Some(writer)));
    let opened = match (is_server, &syslog) {
        // It must not wait for a reader.
        (true, Some(server)) => with_writer(StandardError::to_syslog(server, style)),
        (true, None) => with_writer(StandardError::queued(style)),
        (false, _) => Ok((StandardError::Direct, None)),
    };
    let (standard_error, _writer) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            complain(&format!("the log cannot be opened: {error}"));
            return ExitCode::FAILURE;
        }
    };
    style.log(standard_error.clone()).init();
    if let Command::Diff(args) = &arguments.command {
        return compare(args);
    }
    let done = match arguments.command {
        Command::Run {
            config,
            workers,
            pid_file,
        } => Operator::new(config, workers, pid_file, standard_error.clone()).run(),
        Command::Healthcheck { config } => check_health(&config),
        Command::Check {
            file,
            config,
            pid_file,
        } => check(&file.or(config).unwrap_or_default(), pid_file.as_deref()),
        Command::Explain { config, request } => explain_request(&config, &request),
        Command::Link { action, config } => set_link(&config, action),
        Command::Catalogue { action } => work_on_catalogue(action),
        Command::Top(args) => sprat_top::run(&args),
        Command::Whatif(args) => ask_whatif(&args),
        Command::Import(args) => convert(&args),
        Command::Schema => sprat_server::schema().and_then(|text| print(&text)),
        Command::Completions { shell } => print(&completions(shell)),
        Command::Man { directory } => write_pages(&directory),
        Command::Try(args) => try_out(&args),
        // Its exit code says more.
        Command::Diff(_) => Ok(()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            standard_error.complain(Level::ERROR, &format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Reads a configuration, and prints its warnings on standard error.
fn load(file: &Path) -> anyhow::Result<Config> {
    let colour = io::stderr().is_terminal();
    let loaded = look(file, colour, |_| ())?;
    complain(&loaded.warnings.render(colour));
    Ok(loaded.config)
}

fn check(file: &Path, pid_file: Option<&Path>) -> anyhow::Result<()> {
    let colour = io::stderr().is_terminal();
    let loaded = load_with_files(file, Purpose::Check, colour);
    let numbered = pid_file.map_or(Ok(()), pid_file::inspect);
    let doubts = match (loaded, numbered) {
        (Ok(loaded), Ok(())) => loaded.warnings,
        (Ok(loaded), Err(error)) => {
            complain(&loaded.warnings.render(colour));
            return Err(error);
        }
        (Err(error), numbered) => {
            numbered.unwrap_or_else(|error| complain(&format!("{error:#}")));
            return Err(error);
        }
    };
    complain(&doubts.render(colour));
    match is_stdin(file) {
        true => print(&format!("{STDIN}: ok")),
        false => print(&format!("{}: ok", file.display())),
    }
}

fn check_health(file: &Path) -> anyhow::Result<()> {
    print(&healthcheck::run(file)?)
}

fn set_link(file: &Path, action: link::LinkAction) -> anyhow::Result<()> {
    print(&link::run(&load(file)?, action)?)
}

fn work_on_catalogue(action: catalogue::SnapshotAction) -> anyhow::Result<()> {
    let (mut input, out) = (io::stdin().lock(), io::stdout().lock());
    let mut out = io::BufWriter::new(out);
    let done = catalogue::run(action, &mut input, &mut out);
    unless_closed(done.and_then(|()| Ok(out.flush()?)))
}

fn explain_request(file: &Path, request: &explain::Request) -> anyhow::Result<()> {
    print(&explain::run(&load(file)?, request)?)
}

fn ask_whatif(args: &sprat_whatif::Args) -> anyhow::Result<()> {
    let done = sprat_whatif::run(args, &mut io::stdin().lock(), &mut io::stdout().lock());
    unless_closed(done)
}

fn convert(args: &import::ImportArgs) -> anyhow::Result<()> {
    let done = import::run(args)?;
    complain(&done.told);
    print(&done.yaml)?;
    done.refused.map_or(Ok(()), Err)
}

/// Runs `diff`, and returns the exit code as diff(1) does: 0 if nothing differs, 1 if something
/// does, 2 on an error.
fn compare(args: &diff::DiffArgs) -> ExitCode {
    let compared = diff::run(args, load);
    match compared.and_then(|own| print(&own.text).map(|()| own.differs)) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}

fn try_out(args: &trial::TrialArgs) -> anyhow::Result<()> {
    print(&trial::run(args, &mut io::stdin().lock())?)
}

/// Returns the script that completes the program's commands and arguments in a shell.
fn completions(shell: clap_complete::Shell) -> String {
    let (mut command, mut script) = (Arguments::command(), Vec::new());
    clap_complete::generate(shell, &mut command, "sprat", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Writes the manual pages: `sprat.1`, and a page for each command.
fn write_pages(directory: &Path) -> anyhow::Result<()> {
    // Without the commit: the same sources give the same pages.
    let command = Arguments::command().version(version::VERSION);
    let written = clap_mangen::generate_to(command, directory);
    written.with_context(|| format!("cannot write pages into {}", directory.display()))
}

/// Prints a text on standard output, unless it is empty.
///
/// # Errors
///
/// Standard output cannot be written. A closed pipe is no error.
fn print(text: &str) -> anyhow::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
    match written {
        // Who reads it has seen enough: `sprat explain ... | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// Returns the outcome of a command that writes to standard output by itself, and to no other pipe.
/// A closed pipe is no error, as for [`print()`].
fn unless_closed(done: anyhow::Result<()>) -> anyhow::Result<()> {
    let is_closed = |error: &anyhow::Error| {
        let mut causes = error
            .chain()
            .filter_map(|own| own.downcast_ref::<io::Error>());
        causes.any(|own| own.kind() == io::ErrorKind::BrokenPipe)
    };
    match done {
        Err(error) if is_closed(&error) => Ok(()),
        done => done,
    }
}

/// Writes a text to standard error: errors of a command are for people, not for the log.
fn complain(text: &str) {
    StandardError::Direct.complain(Level::ERROR, text);
}

#[cfg(test)]
mod tests;
