//! The rows of the papers, each with our value beside it and a verdict.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::ensure;
use serde::Serialize;
use sprat_measure::text::significant;

use super::record::Record;
use super::reference::{Paper, PaperRow, Unit};
use super::run::PaperRun;
use super::verdict::{self, Verdict};
use crate::table;

/// The reason why a row has no value in a record that is older than what it is read from.
pub(super) const MEASURED_SINCE: &str =
    "its experiment was last run before it measured this: to be run again";

/// A row of a paper with its verdict, as the CSV has it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Reproduced {
    pub(super) paper: String,
    pub(super) figure: String,
    pub(super) what: String,
    /// The paper's value, in words.
    pub(super) expected: String,
    pub(super) tolerance: f64,
    pub(super) precision: String,
    /// Our value, written as the paper's.
    pub(super) ours: String,
    pub(super) value: Option<f64>,
    /// Our value over the paper's.
    pub(super) ratio: Option<f64>,
    pub(super) verdict: Verdict,
    /// The reason why the values differ or cannot be compared, or a fact to know.
    pub(super) why: String,
    /// The source of our value: simulated or lab, and the experiment.
    pub(super) source: String,
    pub(super) code: String,
    /// Whether our value is beyond the tolerance, where that is better.
    pub(super) is_beyond: bool,
}

impl Reproduced {
    /// Returns the name of the experiment that our value is from; it is empty if there is none.
    pub(super) fn experiment(&self) -> &str {
        self.source.split_once(": ").map_or("", |(_, name)| name)
    }
}

/// Checks that each row has a source, a number and a figure that is known.
///
/// # Errors
/// A row lacks one of these.
pub(super) fn check(papers: &[Paper], runs: &[PaperRun]) -> anyhow::Result<()> {
    for paper in papers {
        for row in &paper.rows {
            let told = || format!("{} {}, {}", paper.name, row.figure, row.what);
            ensure!(
                paper.figures.iter().any(|own| own.figure == row.figure),
                "{}: the figure is not listed",
                told()
            );
            let numbers = [
                row.equal.is_some(),
                row.between.is_some(),
                row.at_least.is_some(),
                row.at_most.is_some(),
                row.holds,
                row.printed.is_some(),
            ];
            let count = numbers.into_iter().filter(|is_there| *is_there).count();
            ensure!(count == 1, "{}: {count} numbers, one is needed", told());
            ensure!(
                row.from.is_some() != row.not_comparable.is_some(),
                "{}: it is read from an experiment, or is not comparable",
                told()
            );
            ensure!(
                row.printed.is_none() || row.not_comparable.is_some(),
                "{}: numbers in words cannot be compared",
                told()
            );
            if let Some(from) = &row.from {
                let mut of_paper = runs.iter().filter(|own| own.paper() == paper.name);
                ensure!(
                    of_paper.any(|own| own.name() == from.run),
                    "{}: there is no experiment {}",
                    told(),
                    from.run
                );
            }
        }
    }
    Ok(())
}

/// Judges all rows by the experiments that have been run.
///
/// # Errors
/// Never: a record that lacks the value of a row makes the row differ, or not run if the experiment
/// has other parameters by now.
pub(super) fn judge(
    papers: &[Paper],
    runs: &[PaperRun],
    output: &Path,
) -> anyhow::Result<Vec<Reproduced>> {
    let record = |run: &PaperRun| Some(((run.paper(), run.name()), run.record(output)?));
    let records: BTreeMap<(&str, &str), Record> = runs.iter().filter_map(record).collect();
    let mut found = Vec::new();
    for paper in papers {
        for row in &paper.rows {
            let from = row.from.as_ref();
            let record = from.and_then(|from| records.get(&(&*paper.name, &*from.run)));
            let run = from.and_then(|from| {
                let mut of_paper = runs.iter().filter(|own| own.paper() == paper.name);
                of_paper.find(|own| own.name() == from.run)
            });
            found.push(judged(paper, row, run, record));
        }
    }
    Ok(found)
}

fn judged(
    paper: &Paper,
    row: &PaperRow,
    run: Option<&PaperRun>,
    record: Option<&Record>,
) -> Reproduced {
    let from = row.from.as_ref();
    let name = from.map(|from| from.value.as_str());
    let value = record.and_then(|record| record.measured.values.get(name?).copied());
    let verdict = match (value, record) {
        _ if row.not_comparable.is_some() => Verdict::NotComparable,
        (Some(value), _) => Verdict::of(row, value),
        (None, Some(record)) if run.is_some_and(|run| run.has_changed_since(record)) => {
            Verdict::NotRun
        }
        // The run came to no number, such as a knee that is not there.
        (None, Some(_)) => Verdict::Differs,
        (None, None) => Verdict::NotRun,
    };
    let why = match verdict {
        Verdict::NotComparable => row.not_comparable.clone(),
        Verdict::NotRun if record.is_some() => Some(MEASURED_SINCE.to_owned()),
        Verdict::NotRun if run.is_some_and(PaperRun::needs_root) => {
            Some("over real sockets: with --lab, or in a full run (root)".to_owned())
        }
        Verdict::NotRun if run.is_some_and(PaperRun::is_lab) => {
            Some("over real sockets: with --lab, or in a full run".to_owned())
        }
        Verdict::NotRun if run.is_some_and(PaperRun::is_of_sample) => {
            Some("with the requests of a log of the World Cup's site: by --sample".to_owned())
        }
        Verdict::NotRun => Some("its experiment has not been run".to_owned()),
        Verdict::Reproduced | Verdict::Differs => row.note.clone(),
    };
    let source = run.map(|run| match run.is_lab() {
        true => format!("lab: {}", run.name()),
        false => format!("simulated: {}", run.name()),
    });
    Reproduced {
        paper: paper.name.clone(),
        figure: row.figure.clone(),
        what: row.what.clone(),
        expected: expected(row),
        tolerance: row.tolerance,
        precision: row.precision.clone(),
        ours: match value {
            Some(value) if row.holds => holds(value == 1.0).to_owned(),
            Some(value) => shown(value, row.unit),
            None => String::new(),
        },
        value,
        ratio: value.and_then(|value| ratio(row, value)),
        verdict,
        why: why.unwrap_or_default(),
        source: source.unwrap_or_default(),
        code: record.map(|record| record.code.clone()).unwrap_or_default(),
        is_beyond: value.is_some_and(|value| verdict::is_beyond(row, value)),
    }
}

fn holds(it_does: bool) -> &'static str {
    match it_does {
        true => "holds",
        false => "does not hold",
    }
}

/// Returns the paper's value in words.
fn expected(row: &PaperRow) -> String {
    let shown = |value| shown(value, row.unit);
    if let Some(value) = row.equal {
        return shown(value);
    }
    if let Some([low, high]) = row.between {
        return format!("{} to {}", shown(low), shown(high));
    }
    if let Some(least) = row.at_least {
        return format!("at least {}", shown(least));
    }
    if let Some(most) = row.at_most {
        return format!("at most {}", shown(most));
    }
    match &row.printed {
        Some(printed) => printed.clone(),
        None => holds(true).to_owned(),
    }
}

/// Returns our value over the paper's, where the paper has one number that is not zero.
fn ratio(row: &PaperRow, value: f64) -> Option<f64> {
    let paper = row.equal.or(row.at_least).or(row.at_most)?;
    (paper != 0.0).then(|| value / paper)
}

/// Writes a value in its unit.
fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Plain => significant(value),
        Unit::Times => format!("{}\u{d7}", significant(value)),
        Unit::Percent => {
            let percent = 100.0 * value;
            let digits = match percent.abs() {
                least if least > 0.0 && least < 1.0 => 2,
                _ => 1,
            };
            format!("{percent:.digits$} %")
        }
        Unit::Change => format!("{:+.1} %", 100.0 * value),
        Unit::S => format!("{} s", significant(value)),
        Unit::Ms => format!("{} ms", significant(value)),
        Unit::Mbit => format!("{} Mbit/s", significant(value)),
    }
}

/// The number of rows with each verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct VerdictTally {
    pub(super) reproduced: usize,
    /// The number of those that are beyond the tolerance, where that is better.
    pub(super) beyond: usize,
    pub(super) differs: usize,
    pub(super) not_comparable: usize,
    pub(super) not_run: usize,
}

impl VerdictTally {
    /// Counts rows by verdict.
    pub(super) fn of<'a>(rows: impl Iterator<Item = &'a Reproduced>) -> Self {
        let mut tally = Self::default();
        for row in rows {
            tally.beyond += usize::from(row.is_beyond);
            match row.verdict {
                Verdict::Reproduced => tally.reproduced += 1,
                Verdict::Differs => tally.differs += 1,
                Verdict::NotComparable => tally.not_comparable += 1,
                Verdict::NotRun => tally.not_run += 1,
            }
        }
        tally
    }

    /// Returns the number of rows that are reproduced within their tolerance.
    pub(super) fn within(self) -> usize {
        self.reproduced - self.beyond
    }

    /// Returns the number of all rows that were counted.
    pub(super) fn all(self) -> usize {
        self.reproduced + self.differs + self.not_comparable + self.not_run
    }
}

impl fmt::Display for VerdictTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "reproduced={} differs={} not_comparable={} not_run={} of={}",
            self.reproduced,
            self.differs,
            self.not_comparable,
            self.not_run,
            self.all()
        )
    }
}

/// Writes all rows as CSV.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(file: &Path, rows: &[Reproduced]) -> anyhow::Result<()> {
    let mut out = csv::Writer::from_writer(Vec::new());
    for row in rows {
        out.serialize(row)?;
    }
    let bytes = out.into_inner()?;
    table::create(file, |file| file.write_all(&bytes))?;
    Ok(())
}

/// Returns a table of rows for the terminal.
pub(super) fn told(rows: &[&Reproduced]) -> String {
    let mut text = String::new();
    for row in rows {
        let ratio = row.ratio.map_or(String::new(), significant);
        text.push_str(&format!(
            "{:14} {:6} {:16} {:>16} {:>14} {:>6}  {}\n",
            row.verdict.to_string(),
            row.paper,
            row.figure,
            row.expected,
            row.ours,
            ratio,
            row.what,
        ));
    }
    text
}
