//! What comes out: a table on the terminal, and CSV and figures in a directory.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use sprat_measure::text::significant;

use super::charts::{bars, by_load};
use super::measure::Measures;
use super::row::Row;
use super::statistics::Estimate;
use crate::table;

/// All rows of a command.
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
    pub(super) rows: Vec<Row>,
}

type Column = (String, Box<dyn Fn(&Row) -> Option<String>>);

impl Report {
    /// Prints the table, and writes `NAME.csv` and the figures to `output`.
    pub(super) fn write(&self, output: Option<&Path>) -> anyhow::Result<()> {
        let mut text = format!("{}\n", self.about);
        text.push_str(&aligned(&self.table(), 2));
        if let Some(directory) = output {
            let file = directory.join(format!("{}.csv", self.name));
            table::create(&file, |out| out.write_all(self.csv().as_bytes()))?;
            for (name, svg) in self.figures()? {
                let file = directory.join(format!("{}-{name}.svg", self.name));
                table::create(&file, |out| out.write_all(svg.as_bytes()))?;
            }
            writeln!(text, "written: {}", directory.display())?;
        }
        print(&text)
    }

    fn figures(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let mean = |row: &Row| row.measures.mean_ms.mean;
        let slowdown = |row: &Row| row.measures.slowdown.mean;
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
    fn gain(&self, row: &Row) -> Option<f64> {
        let is_baseline = |other: &&Row| Some(other.system.as_str()) == self.baseline;
        let mut same_load = self.rows.iter().filter(|other| other.load == row.load);
        let baseline = same_load.find(is_baseline)?;
        Some(baseline.measures.slowdown.mean / row.measures.slowdown.mean)
    }

    /// Header and rows of the terminal's table; columns without a value in any
    /// row are left out.
    fn table(&self) -> Vec<Vec<String>> {
        let gains: Vec<Option<f64>> = self.rows.iter().map(|row| self.gain(row)).collect();
        let mut columns = columns();
        let classes = self.rows.first().map_or(&[][..], |row| &row.classes);
        for (index, (class, _)) in classes.iter().enumerate() {
            let value = move |row: &Row| row.classes.get(index).map(|(_, ms)| significant(*ms));
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

    fn csv(&self) -> String {
        let mut csv = "system,load,mean_ms,mean_ms_ci95,theory_ms,slowdown,slowdown_ci95,\
                       theory_slowdown,p95_ms,largest1_ms,late_percent"
            .to_owned();
        let classes = self.rows.first().map_or(&[][..], |row| &row.classes);
        for (class, _) in classes {
            // Writing to a string cannot fail; here and below.
            let _ = write!(csv, ",{class}_ms");
        }
        csv.push('\n');
        let optional = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
        for row in &self.rows {
            let Measures {
                mean_ms,
                slowdown,
                p95_ms,
                largest1_ms,
            } = row.measures;
            let _ = write!(
                csv,
                "{},{},{},{},{},{},{},{},{p95_ms},{largest1_ms},{}",
                // A comma in a name would be a column.
                row.system.replace(", ", "-"),
                row.load,
                mean_ms.mean,
                mean_ms.half_width,
                optional(row.theory_ms),
                slowdown.mean,
                slowdown.half_width,
                optional(row.theory_slowdown),
                optional(row.late_percent),
            );
            for (_, ms) in &row.classes {
                let _ = write!(csv, ",{ms}");
            }
            csv.push('\n');
        }
        csv
    }
}

fn columns() -> Vec<Column> {
    fn column(name: &str, value: impl Fn(&Row) -> Option<String> + 'static) -> Column {
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

/// Columns of text: the first `left` of them to the left, numbers to the
/// right.
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
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}
