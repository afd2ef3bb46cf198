//! Reports: what several systems made of the same trace, as a table, figures
//! and a page.
//!
//! - **Response time** is from just before connect to the last byte.
//! - **Slowdown** of a request is its response time over the time that it
//!   needs alone on the link: its wire cost ([`sprat_measure::wire::alone_ms`]) at
//!   the link's rate. Under ideal processor sharing and SRPT it is at least
//!   1, and 1 on an idle link.
//! - **Ranks by size** are over all requests of the trace, ties in trace
//!   order, so that "the smallest 80%" is the same requests for all systems.
//! - **Times** are over answered requests; failures are counted beside them.

pub(crate) mod figures;
mod measure;
mod page;
mod png;
mod runs;
pub(crate) mod summary;

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use runs::{Comparison, Run};

/// Compares results of the same trace, and writes table, figures and a page.
#[derive(Clone, Debug, clap::Args)]
pub struct ReportArgs {
    /// Results as `replay` and `ideal` write them, each with its JSON beside
    /// it; any number of systems and loads.
    #[arg(required = true, value_name = "RESULTS")]
    pub results: Vec<PathBuf>,
    /// Directory for summary.csv, index.html and the figures.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
    /// The system that the others are compared with [default: nginx, or the
    /// first].
    #[arg(long, value_name = "SYSTEM")]
    pub baseline: Option<String>,
    /// Write only summary.csv, without figures and page.
    #[arg(long)]
    pub summary: bool,
    /// Title of the page.
    #[arg(long, default_value = "Response times by scheduling")]
    pub title: String,
}

/// Runs `sprat-loadgen report`.
///
/// # Errors
/// If results cannot be read or compared (the message names the file), or the
/// output cannot be written.
pub fn main(args: &ReportArgs) -> anyhow::Result<()> {
    let text = write_report(args)?;
    match io::stdout().lock().write_all(text.as_bytes()) {
        // The reader of the table has seen enough of it.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Writes the files of a report, and returns the text for the terminal.
fn write_report(args: &ReportArgs) -> anyhow::Result<String> {
    let runs = args.results.iter().map(|file| Run::read(file));
    let runs = runs.collect::<anyhow::Result<Vec<_>>>()?;
    let comparison = Comparison::new(runs, args.baseline.as_deref())?;
    let loads = summary::rows(&comparison);

    std::fs::create_dir_all(&args.output)
        .with_context(|| format!("could not create {}", args.output.display()))?;
    let mut csv = Vec::new();
    summary::write_csv(&loads, &mut csv)?;
    save(&args.output, "summary.csv", &csv)?;
    let mut text = Vec::new();
    summary::write_text(&comparison, &loads, &mut text)?;
    if args.summary {
        return Ok(String::from_utf8(text)?);
    }
    let figures = figures::draw(&comparison, &loads)?;
    let renderer = png::Renderer::new();
    for figure in &figures {
        let svg = figure.svg.as_bytes();
        save(&args.output, &format!("{}.svg", figure.name), svg)?;
        let png = renderer.png(&figure.svg)?;
        save(&args.output, &format!("{}.png", figure.name), &png)?;
    }
    let page = page::html(&args.title, &comparison, &loads, &figures);
    save(&args.output, "index.html", page.as_bytes())?;

    writeln!(
        text,
        "written: {}",
        args.output.join("index.html").display()
    )?;
    Ok(String::from_utf8(text)?)
}

fn save(directory: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    let file = directory.join(name);
    std::fs::write(&file, content).with_context(|| format!("could not write {}", file.display()))
}

#[cfg(test)]
#[path = "report/tests.rs"]
mod tests;
