//! `sprat-loadgen reproduce`: the figures and tables of the five papers, row by row, each beside
//! the value found here.

mod lab;
mod page;
mod plots;
mod record;
mod reference;
mod rows;
mod run;
mod verdict;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use crate::simulate::experiment::Scale;
use crate::simulate::sample::RecordedSample;
use crate::table;
use record::RunCode;
use reference::Paper;
use rows::{Reproduced, VerdictTally};
use run::PaperRun;

/// Reproduce the papers: their figures and tables, row by row, with a verdict for each.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
A row is reproduced, differs, or is not comparable, by a tolerance that its file in
loadgen/papers/ states beforehand. An experiment that has been run with the same code and
parameters is not run again, so that a run that was cut off goes on where it was.

Examples:
  # everything that can be simulated
  sprat-loadgen reproduce --quick

  # one paper; one figure and one experiment of another
  sprat-loadgen reproduce SFD02
  sprat-loadgen reproduce SRQ06 'table IV' --quick
  sprat-loadgen reproduce SRQ06 shift-uplink --quick

  # one experiment over real sockets, which needs no root
  sprat-loadgen reproduce SDIS02 lab-admission --quick --lab

  # all that is simulated, and the rows over real sockets (root, over an hour more)
  sudo sprat-loadgen reproduce --quick --lab

  # rows with the requests of a log of the World Cup's site, which the repository has not
  sprat-loadgen reproduce TOCS03 sample --quick --sample day6.csv.gz

  # everything at full length, with rows over real sockets (root, hours)
  sudo sprat-loadgen reproduce")]
pub struct ReproduceArgs {
    /// TOCS03, EH99, SFD02, SRQ06 or SDIS02 [default: all]
    #[arg(value_name = "PAPER")]
    pub paper: Option<String>,
    /// Figures and tables of the paper, such as 9 or 'table IV', or experiments, such as
    /// shift-uplink [default: all]
    #[arg(value_name = "FIGURE", requires = "paper")]
    pub figures: Vec<String>,
    /// Short runs and few seeds, and nothing over real sockets: a quarter of an hour, or
    /// more than an hour beside other work
    #[arg(long)]
    pub quick: bool,
    /// With --quick, rows over real sockets as well, which a full run has: most take root
    #[arg(long, requires = "quick")]
    pub lab: bool,
    /// Recorded trace of the World Cup's site (t_s,bytes,status,url), which some rows need: without
    /// it their experiments are not run
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,
    /// Run experiments again that have been run already
    #[arg(long)]
    pub fresh: bool,
    /// Directory for CSV, plots and the page
    #[arg(
        short,
        long,
        value_name = "DIR",
        default_value = "results/papers",
        visible_alias = "out"
    )]
    pub output: PathBuf,
}

/// Runs the command `reproduce` with its arguments.
///
/// # Errors
/// An experiment fails, or its output cannot be written.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<()> {
    let scale = match args.quick {
        true => Scale::Quick,
        false => Scale::Full,
    };
    reproduce(args, scale, &RunCode::of_checkout()).map(drop)
}

/// Runs the experiments that are asked for and have not been run with this code, and writes the
/// page of all that have been run. Returns the number of experiments that it ran.
///
/// # Errors
/// The sample cannot be read, an experiment fails, or its output cannot be written.
fn reproduce(args: &ReproduceArgs, scale: Scale, code: &RunCode) -> anyhow::Result<usize> {
    let papers = reference::all()?;
    let sample = args.sample.as_deref().map(RecordedSample::read);
    let runs = run::all(sample.transpose()?);
    rows::check(&papers, &runs)?;
    let wanted = wanted(args, scale, &papers, &runs)?;
    let ran = run::all_of(&wanted, &args.output, scale, code, args.fresh)?;
    let found = rows::judge(&papers, &runs, &args.output)?;
    write(&args.output, &papers, &runs, &found)?;
    say(&told(args, &papers, &found))?;
    Ok(ran)
}

/// Returns the experiments that the chosen rows are read from; in a quick run those over
/// real sockets only if they are asked for, and none whose sample is not there.
fn wanted(
    args: &ReproduceArgs,
    scale: Scale,
    papers: &[Paper],
    runs: &[PaperRun],
) -> anyhow::Result<Vec<PaperRun>> {
    let chosen = chosen(args, papers)?;
    let is_wanted = |run: &&PaperRun| {
        let rows = chosen.iter().filter(|paper| paper.name == run.paper());
        let mut rows = rows.flat_map(|paper| &paper.rows);
        let reads = rows.any(|row| row.from.as_ref().is_some_and(|own| own.run == run.name()));
        let is_left_out = scale != Scale::Full && !args.lab && run.is_lab();
        reads && !is_left_out && !run.lacks_sample()
    };
    Ok(runs.iter().filter(is_wanted).cloned().collect())
}

/// Returns the papers with the rows that the command line asks for.
fn chosen(args: &ReproduceArgs, papers: &[Paper]) -> anyhow::Result<Vec<Paper>> {
    let Some(name) = &args.paper else {
        return Ok(papers.to_vec());
    };
    let mut found = papers.to_vec();
    found.retain(|paper| paper.name.eq_ignore_ascii_case(name));
    ensure!(
        !found.is_empty(),
        "there is no paper `{name}`: {}",
        papers
            .iter()
            .map(|own| &*own.name)
            .collect::<Vec<_>>()
            .join(", ")
    );
    for paper in &mut found {
        let mut known: Vec<String> = paper.figures.iter().map(|own| own.figure.clone()).collect();
        for from in paper.rows.iter().filter_map(|row| row.from.as_ref()) {
            if !known.contains(&from.run) {
                known.push(from.run.clone());
            }
        }
        for figure in &args.figures {
            ensure!(
                known.iter().any(|own| own.eq_ignore_ascii_case(figure)),
                "{} has no figure or experiment `{figure}`: {}",
                paper.name,
                known.join(", ")
            );
        }
        let is_asked = |own: &str| {
            let mut asked = args.figures.iter();
            args.figures.is_empty() || asked.any(|figure| figure.eq_ignore_ascii_case(own))
        };
        paper.rows.retain(|row| {
            let from = row.from.as_ref();
            is_asked(&row.figure) || from.is_some_and(|from| is_asked(&from.run))
        });
    }
    Ok(found)
}

/// Writes the rows, the plots and the page.
fn write(
    output: &Path,
    papers: &[Paper],
    runs: &[PaperRun],
    found: &[Reproduced],
) -> anyhow::Result<()> {
    rows::write(&output.join("rows.csv"), found)?;
    let plots = plots::all(runs, output)?;
    for plot in &plots {
        let file = output.join(&plot.paper).join(format!("{}.svg", plot.name));
        table::create(&file, |out| out.write_all(plot.svg.as_bytes()))?;
    }
    let html = page::html(papers, runs, found, &plots, output)?;
    table::create(&output.join("index.html"), |out| {
        out.write_all(html.as_bytes())
    })?;
    Ok(())
}

/// Lists the rows that the command line asks for, and their numbers by verdict.
fn told(args: &ReproduceArgs, papers: &[Paper], found: &[Reproduced]) -> String {
    let is_asked = |own: &&Reproduced| {
        let name = args.paper.as_ref();
        let of_paper = name.is_none_or(|name| own.paper.eq_ignore_ascii_case(name));
        let mut figures = args.figures.iter();
        let of_figure = args.figures.is_empty()
            || figures.any(|figure| {
                figure.eq_ignore_ascii_case(&own.figure)
                    || figure.eq_ignore_ascii_case(own.experiment())
            });
        of_paper && of_figure
    };
    let asked: Vec<&Reproduced> = found.iter().filter(is_asked).collect();
    let mut text = rows::told(&asked);
    for paper in papers {
        let own = asked.iter().filter(|own| own.paper == paper.name);
        let tally = VerdictTally::of(own.copied());
        if tally.all() > 0 {
            text.push_str(&format!("{}: {tally}\n", paper.name));
        }
    }
    let tally = VerdictTally::of(asked.iter().copied());
    text.push_str(&format!("Reproduced: {tally}\n"));
    text.push_str(&format!(
        "of these within the tolerance: {}, beyond the paper's where that is better: {}\n",
        tally.within(),
        tally.beyond
    ));
    text.push_str(&format!(
        "written: {}\n",
        args.output.join("index.html").display()
    ));
    text
}

/// Prints to standard output; a reader that closes it has seen enough.
fn say(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

#[cfg(test)]
#[path = "reproduce/tests.rs"]
mod tests;
