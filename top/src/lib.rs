//! `sprat top`: what a running Sprat does, in a terminal, as its admin listener tells it.
//!
//! ```text
//! ask (HTTP) -> told (figures) -> watch (rates, what is looked at) -> page (lines)
//! ```
//!
//! A page is lines of text with styles, so that `--once` prints what the terminal shows.

#![forbid(unsafe_code)]

mod ask;
mod page;
mod terminal;
mod told;
mod watch;

use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use ratatui::layout::Size;

pub use self::ask::Listener;
use self::page::{Looks, page};
use self::watch::Watch;

/// The columns of what `--once` prints; `ONCE_LINES` are its lines.
const ONCE_COLUMNS: u16 = 100;
const ONCE_LINES: u16 = 60;

/// Command-line options of `sprat top`.
#[derive(Debug, Parser)]
pub struct Args {
    /// The admin listener of the server to watch: host and port, or unix:/PATH.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:9900",
        env = "SPRAT_ADMIN"
    )]
    admin: String,
    /// A file with the token of the server's `admin.token_file`.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Seconds between two updates.
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=60))]
    interval: u16,
    /// Print the server's present state as plain text, and exit.
    #[arg(long)]
    once: bool,
}

/// Shows a server until the operator ends it, or prints one look at it.
///
/// # Errors
///
/// The token cannot be read, there is no terminal, or with `--once` no server answers.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let listener = Listener::new(&args.admin, args.token_file.as_deref())?;
    if args.once {
        let looked = listener.look()?;
        let mut watch = Watch::default();
        watch.take(Ok(looked));
        let lines = page(
            &watch,
            listener.name(),
            Size::new(ONCE_COLUMNS, ONCE_LINES),
            Looks::Plain,
        );
        let mut out = std::io::stdout().lock();
        let mut lines = lines.iter();
        let written = lines.try_for_each(|line| writeln!(out, "{}", line.to_string().trim_end()));
        return match written {
            // Who reads it has seen enough: `sprat top --once | head`.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write"),
        };
    }
    anyhow::ensure!(
        std::io::stdout().is_terminal() && std::io::stdin().is_terminal(),
        "`sprat top` needs a terminal; `--once` prints what there is"
    );
    terminal::show(listener, Duration::from_secs(args.interval.into()))
}
