//! The output of a simulation: a table on the terminal, and CSV and figures in a directory.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use sprat_measure::text::significant;

use super::charts::{bars, by_load};
use super::measure::SimulatedMeasures;
use super::row::SimulationRow;
use super::statistics::Estimate;
use crate::table::{self, Number};

/// The report of a simulation: its rows, and the words around them.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The name of the files.
    pub(super) name: &'static str,
    /// The title of the figures.
    pub(super) title: &'static str,
    /// The setting that was simulated, in one line.
    pub(super) about: String,
    /// The system whose slowdown the others are compared with.
    pub(super) baseline: Option<&'static str>,
    pub(super) rows: Vec<SimulationRow>,
}

type Column = (String, Box<dyn Fn(&SimulationRow) -> Option<String>>);

impl Report {
    /// Prints the table, and writes `NAME.csv` and the figures to `output`.
    pub(super) fn write(&self, output: Option<&Path>) -> anyhow::Result<()> {
        let mut text = format!("{}\n", self.about);
        text.push_str(&aligned(&self.table(), 2));
        if let Some(directory) = output {
            let file = directory.join(format!("{}.csv", self.name));
            table::create(&file, |out| self.write_csv(out))?;
            for (name, svg) in self.figures()? {
                let file = directory.join(format!("{}-{name}.svg", self.name));
                table::create(&file, |out| out.write_all(svg.as_bytes()))?;
            }
            writeln!(text, "written: {}", directory.display())?;
        }
        print(&text)
    }

    fn figures(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let mean = |row: &SimulationRow| row.measures.mean_ms.mean;
        let slowdown = |row: &SimulationRow| row.measures.slowdown.mean;
        let several = self.rows.iter().any(|row| row.load != self.rows[0].load);
        let draw = if several { by_load } else { bars };
        Ok(vec![
            (
                "time",
                draw(self.title, &self.rows, "mean response time (ms)", &mean)?,
            ),
            (
                "slowdown",
                draw(self.title, &self.rows, "mean slowdown", &slowdown)?,
            ),
        ])
    }

    /// Returns the slowdown of the baseline over that of a row, at the same load.
    fn gain(&self, row: &SimulationRow) -> Option<f64> {
        let is_baseline = |other: &&SimulationRow| Some(other.system.as_str()) == self.baseline;
        let mut same_load = self.rows.iter().filter(|other| other.load == row.load);
        let baseline = same_load.find(is_baseline)?;
        Some(baseline.measures.slowdown.mean / row.measures.slowdown.mean)
    }

    /// Returns header and rows of the terminal's table; columns without a value in any row are left
    /// out.
    fn table(&self) -> Vec<Vec<String>> {
        let gains: Vec<Option<f64>> = self.rows.iter().map(|row| self.gain(row)).collect();
        let mut columns = columns();
        let classes = self.rows.first().map_or(&[][..], |row| &row.classes);
        for (index, (class, _)) in classes.iter().enumerate() {
            let value =
                move |row: &SimulationRow| row.classes.get(index).map(|(_, ms)| significant(*ms));
            columns.push((format!("{class} ms"), Box::new(value)));
        }
        let mut table: Vec<Vec<String>> = vec![Vec::new(); self.rows.len() + 1];
        let mut add = |name: &str, values: Vec<Option<String>>| {
            if values.iter().all(Option::is_none) {
                return;
            }
            table[0].push(name.to_owned());
            for (line, value) in table[1..].iter_mut().zip(values) {
                line.push(value.unwrap_or_default());
            }
        };
        for (name, value) in &columns {
            add(name, self.rows.iter().map(value).collect());
        }
        let gains = gains.into_iter().map(|gain| gain.map(significant));
        let name = format!("times less than {}", self.baseline.unwrap_or_default());
        add(&name, gains.collect());
        table
    }

    fn write_csv(&self, out: impl Write) -> io::Result<()> {
        let classes = self.rows.first().map_or(&[][..], |row| &row.classes);
        let of_classes = classes.iter().map(|(class, _)| format!("{class}_ms"));
        let columns = CSV_COLUMNS.map(str::to_owned).into_iter().chain(of_classes);
        table::write_lines(columns, self.rows.iter().map(SimulationLine::new), out)
    }
}

/// A line of the CSV: the results of one system at one load.
#[derive(Serialize)]
struct SimulationLine {
    system: String,
    load: Number,
    mean_ms: Number,
    mean_ms_ci95: Number,
    theory_ms: Option<Number>,
    slowdown: Number,
    slowdown_ci95: Number,
    theory_slowdown: Option<Number>,
    p95_ms: Number,
    largest1_ms: Number,
    late_percent: Option<Number>,
    /// The last columns, as many as the simulation has classes.
    classes_ms: Vec<Number>,
}

impl SimulationLine {
    fn new(row: &SimulationRow) -> Self {
        let SimulatedMeasures {
            mean_ms,
            slowdown,
            p95_ms,
            largest1_ms,
        } = row.measures;
        Self {
            // Scripts split lines at commas.
            system: row.system.replace(", ", "-"),
            load: Number(row.load),
            mean_ms: Number(mean_ms.mean),
            mean_ms_ci95: Number(mean_ms.half_width),
            theory_ms: row.theory_ms.map(Number),
            slowdown: Number(slowdown.mean),
            slowdown_ci95: Number(slowdown.half_width),
            theory_slowdown: row.theory_slowdown.map(Number),
            p95_ms: Number(p95_ms),
            largest1_ms: Number(largest1_ms),
            late_percent: row.late_percent.map(Number),
            classes_ms: row.classes.iter().map(|(_, ms)| Number(*ms)).collect(),
        }
    }
}

/// The columns before those of the classes.
const CSV_COLUMNS: [&str; 11] = [
    "system",
    "load",
    "mean_ms",
    "mean_ms_ci95",
    "theory_ms",
    "slowdown",
    "slowdown_ci95",
    "theory_slowdown",
    "p95_ms",
    "largest1_ms",
    "late_percent",
];

fn columns() -> Vec<Column> {
    fn column(name: &str, value: impl Fn(&SimulationRow) -> Option<String> + 'static) -> Column {
        (name.to_owned(), Box::new(value))
    }
    let off = |estimate: Estimate, theory: Option<f64>| {
        let Estimate { mean, half_width } = estimate.difference_percent(theory?);
        Some(format!("{mean:+.2} ±{half_width:.2}"))
    };
    vec![
        column("load", |row| Some(row.load.to_string())),
        column("", |row| Some(row.system.clone())),
        column("mean ms", |row| Some(interval(row.measures.mean_ms))),
        column("theory", |row| row.theory_ms.map(significant)),
        column("off %", move |row| off(row.measures.mean_ms, row.theory_ms)),
        column("slowdown", |row| Some(interval(row.measures.slowdown))),
        column("theory", |row| row.theory_slowdown.map(significant)),
        column("off %", move |row| {
            off(row.measures.slowdown, row.theory_slowdown)
        }),
        column("95% ms", |row| Some(significant(row.measures.p95_ms))),
        column("largest 1% ms", |row| {
            Some(significant(row.measures.largest1_ms))
        }),
        column("late %", |row| row.late_percent.map(significant)),
    ]
}

fn interval(estimate: Estimate) -> String {
    let (mean, half_width) = (estimate.mean, estimate.half_width);
    format!("{} ±{}", significant(mean), significant(half_width))
}

/// Aligns columns of text: the first `left` of them to the left, numbers to the right.
pub(super) fn aligned(table: &[Vec<String>], left: usize) -> String {
    let width = |column: usize| {
        let cells = table.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let mut text = String::new();
    for line in table {
        let mut out = String::new();
        for (column, cell) in line.iter().enumerate() {
            let width = width(column);
            let gap = if column == 0 { "" } else { "  " };
            // Writing to a string cannot fail.
            let _ = if column < left {
                write!(out, "{gap}{cell:<width$}")
            } else {
                write!(out, "{gap}{cell:>width$}")
            };
        }
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

/// Prints to standard output; a reader that closes it has seen enough.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(report: &Report) -> String {
        let mut out = Vec::new();
        report.write_csv(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_csv_has_a_column_for_each_class() {
        let estimate = |mean, half_width| Estimate { mean, half_width };
        let first = SimulationRow {
            system: "sita, learnt".to_owned(),
            load: 0.5,
            measures: SimulatedMeasures {
                mean_ms: estimate(80.196_473_580_555_55, f64::NAN),
                slowdown: estimate(2.0, 0.25),
                p95_ms: 1e16,
                largest1_ms: 1e-7,
            },
            theory_ms: Some(7.0),
            theory_slowdown: None,
            late_percent: Some(0.0),
            classes: vec![("tight", 9.5), ("loose", 8.0)],
        };
        let second = SimulationRow {
            system: "fcfs".to_owned(),
            theory_ms: None,
            theory_slowdown: Some(1.5),
            late_percent: None,
            ..first.clone()
        };
        let report = Report {
            name: "waiting",
            title: "Who of the waiting goes first",
            about: String::new(),
            baseline: None,
            rows: vec![first, second],
        };
        assert_eq!(
            csv(&report),
            "system,load,mean_ms,mean_ms_ci95,theory_ms,slowdown,slowdown_ci95,theory_slowdown,\
             p95_ms,largest1_ms,late_percent,tight_ms,loose_ms\n\
             sita-learnt,0.5,80.19647358055555,NaN,7,2,0.25,,10000000000000000,0.0000001,0,9.5,8\n\
             fcfs,0.5,80.19647358055555,NaN,,2,0.25,1.5,10000000000000000,0.0000001,,9.5,8\n"
        );
    }
}
