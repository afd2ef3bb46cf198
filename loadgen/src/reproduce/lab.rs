//! Rows over real sockets: the lab's own scripts, and the values of their summaries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde::Deserialize;

use crate::simulate::experiment::{Measured, PlotAxes, PlotSpec};

/// An experiment over real sockets: a script of the lab.
#[derive(Clone, Debug)]
pub(super) struct LabScript {
    pub(super) paper: &'static str,
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    script: &'static str,
    environment: &'static [(&'static str, &'static str)],
    /// Whether the script makes network namespaces, which root alone may.
    pub(super) needs_root: bool,
    pub(super) expected_s: f64,
    values: &'static [SummaryValue],
    /// The plots of the script's points, if it writes any.
    pub(super) plots: &'static [PlotSpec],
}

/// A value of a summary: a cell, or a cell over another cell of its column.
#[derive(Clone, Copy, Debug)]
struct SummaryValue {
    name: &'static str,
    /// The first cells of the value's row.
    row: &'static [&'static str],
    over: Option<&'static [&'static str]>,
    column: &'static str,
}

/// A line of a script's plots: a point, with the names of its plot and of its line.
#[derive(Debug, Deserialize)]
struct PlotPoint {
    plot: String,
    line: String,
    x: f64,
    y: f64,
}

/// Returns all experiments of the lab.
pub(super) fn all() -> impl Iterator<Item = LabScript> {
    [
        LabScript {
            paper: "TOCS03",
            name: "lab-lan",
            about: "nginx and Sprat over a link of 10 Mbit/s between namespaces, today's TCP: \
                    scripts/compare.sh.",
            script: "scripts/compare.sh",
            environment: &[("LOADS", "0.5 0.7 0.9"), ("SYSTEMS", "nginx sprat-srpt")],
            needs_root: true,
            expected_s: 1800.0,
            values: &LAN,
            plots: &[],
        },
        LabScript {
            paper: "TOCS03",
            name: "lab-fast",
            about: "The same over 100 Mbit/s.",
            script: "scripts/compare.sh",
            environment: &[
                ("UPLINK", "100mbit"),
                ("LOADS", "0.8"),
                ("REQUESTS", "60000"),
                ("SYSTEMS", "nginx sprat-srpt"),
            ],
            needs_root: true,
            expected_s: 600.0,
            values: &FAST,
            plots: &[],
        },
        LabScript {
            paper: "EH99",
            name: "lab-network",
            about: "A foreground replayed beside twenty background clients over 10 Mbit/s: \
                    scripts/background.sh.",
            script: "scripts/background.sh",
            environment: &[],
            needs_root: true,
            expected_s: 1500.0,
            values: &BACKGROUND,
            plots: &[],
        },
        LabScript {
            paper: "SRQ06",
            name: "lab-shift",
            about: "The size shift over 10 Mbit/s: bytes on the wire stand for processor time, and \
                    Sprat's uplink orders all requests that are there: scripts/compare-shift.sh.",
            script: "scripts/compare-shift.sh",
            environment: &[],
            needs_root: true,
            expected_s: 1100.0,
            values: &SHIFT,
            plots: &[],
        },
        LabScript {
            paper: "SDIS02",
            name: "lab-admission",
            about: "Four origins that serve one request at a time, behind Sprat, which refuses and \
                    times out; requests come in bursts: scripts/compare-admission.sh.",
            script: "scripts/compare-admission.sh",
            environment: &[],
            needs_root: false,
            expected_s: 800.0,
            values: &ADMISSION,
            plots: &ADMISSION_PLOTS,
        },
    ]
    .into_iter()
}

const LAN: [SummaryValue; 6] = [
    gain(
        "gain at 0.5 wire",
        &["nginx", "0.50"],
        &["sprat-srpt", "0.50"],
        "mean_ms",
    ),
    gain(
        "gain at 0.7 wire",
        &["nginx", "0.70"],
        &["sprat-srpt", "0.70"],
        "mean_ms",
    ),
    gain(
        "gain at 0.9 wire",
        &["nginx", "0.90"],
        &["sprat-srpt", "0.90"],
        "mean_ms",
    ),
    gain(
        "slowdown gain at 0.5 wire",
        &["nginx", "0.50"],
        &["sprat-srpt", "0.50"],
        "slowdown",
    ),
    gain(
        "slowdown gain at 0.9 wire",
        &["nginx", "0.90"],
        &["sprat-srpt", "0.90"],
        "slowdown",
    ),
    SummaryValue {
        name: "goodput ratio",
        row: &["sprat-srpt", "0.90"],
        over: None,
        column: "goodput_of_baseline",
    },
];

const FAST: [SummaryValue; 1] = [gain(
    "gain at 0.8 wire",
    &["nginx", "0.80"],
    &["sprat-srpt", "0.80"],
    "mean_ms",
)];

const BACKGROUND: [SummaryValue; 8] = [
    growth("light basic growth", &["light", "unmanaged"]),
    growth("heavy basic growth", &["heavy", "unmanaged"]),
    growth("light ltdpool growth", &["light", "pool"]),
    growth("heavy ltdpool growth", &["heavy", "pool"]),
    growth("light loprio growth", &["light", "priority"]),
    growth("heavy loprio growth", &["heavy", "priority"]),
    growth("light ltdrate growth", &["light", "rate"]),
    growth("heavy ltdrate growth", &["heavy", "rate"]),
];

const SHIFT: [SummaryValue; 4] = [
    SummaryValue {
        name: "srq change",
        row: &["srq"],
        over: None,
        column: "change",
    },
    gain("srq over edf", &["srq"], &["edf"], "mean_s"),
    gain("srq over vrd", &["srq"], &["vrd"], "mean_s"),
    gain(
        "linux throughput over srq",
        &["fair-20"],
        &["srq"],
        "ended_per_s",
    ),
];

const ADMISSION: [SummaryValue; 7] = [
    found(&["rejection slope of high over low"]),
    found(&["early discard keeps high in"]),
    found(&["high within 2 s"]),
    found(&["high refused"]),
    found(&["high aborted"]),
    found(&["high aborted at capacity over below"]),
    found(&["low aborted grows"]),
];

const ADMISSION_PLOTS: [PlotSpec; 2] = [
    PlotSpec {
        name: "figure-12-sockets",
        title: "Rejection, half of high priority",
        x: "rate, of what the four origins can do",
        y: "rejected (%)",
        axes: PlotAxes::Linear,
    },
    PlotSpec {
        name: "figure-13-sockets",
        title: "Early discard, time-out 2 s, by ratio",
        x: "rate, of what the four origins can do",
        y: "%",
        axes: PlotAxes::Linear,
    },
];

/// The part of a value by which a record may differ from its summary: it has six digits.
const ROUNDED: f64 = 1e-5;

/// Returns a value of a summary that has a line for each value, by its name.
const fn found(row: &'static [&'static str; 1]) -> SummaryValue {
    SummaryValue {
        name: row[0],
        row,
        over: None,
        column: "value",
    }
}

const fn gain(
    name: &'static str,
    row: &'static [&'static str],
    over: &'static [&'static str],
    column: &'static str,
) -> SummaryValue {
    SummaryValue {
        name,
        row,
        over: Some(over),
        column,
    }
}

const fn growth(name: &'static str, row: &'static [&'static str]) -> SummaryValue {
    SummaryValue {
        name,
        row,
        over: None,
        column: "median_over_none",
    }
}

impl LabScript {
    /// Returns the environment and the script, as a shell has them.
    pub(super) fn parameters(&self) -> String {
        let each = self.environment.iter();
        let each = each.map(|(name, value)| format!("{name}='{value}' "));
        format!("{}{}", each.collect::<String>(), self.script)
    }

    /// Runs the script, and reads its summary.
    ///
    /// # Errors
    /// The script fails, or its summary lacks a value.
    pub(super) fn run(&self, output: &Path) -> anyhow::Result<Measured> {
        ensure!(
            !self.needs_root || rustix::process::geteuid().is_root(),
            "{} {} needs root: run this with sudo, or with --quick, which leaves rows over real \
             sockets out",
            self.paper,
            self.name
        );
        let results = std::path::absolute(self.results(output))?;
        let status = Command::new("bash")
            .arg(self.script)
            .envs(self.environment.iter().copied())
            .env("RESULTS", &results)
            .stdout(std::io::stderr())
            .status()
            .with_context(|| format!("cannot run {}: is this the repository?", self.script))?;
        ensure!(status.success(), "{} failed", self.script);
        self.read(&results)
    }

    /// Returns the directory of the script's results.
    fn results(&self, output: &Path) -> PathBuf {
        output.join(self.paper).join(self.name)
    }

    /// Adds the values of the summary that is kept and a record lacks, if both are of the same run.
    pub(super) fn complete(&self, record: &mut Measured, output: &Path) {
        let Ok(kept) = self.read(&self.results(output)) else {
            return;
        };
        let is_same = |(name, value): (&String, &f64)| {
            let kept = kept.values.get(name);
            kept.is_none_or(|own| (own - value).abs() <= ROUNDED * value.abs())
        };
        // Two that share no value say nothing of each other.
        let shares = record
            .values
            .keys()
            .any(|name| kept.values.contains_key(name));
        if shares && record.values.iter().all(is_same) {
            for (name, value) in kept.values {
                record.values.entry(name).or_insert(value);
            }
        }
    }

    /// Reads the values off the summary in a directory, and the points of plots.
    ///
    /// # Errors
    /// A file is missing, or the summary lacks a value.
    pub(super) fn read(&self, results: &Path) -> anyhow::Result<Measured> {
        let file = results.join("summary.csv");
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let mut measured = Measured::default();
        for value in self.values {
            let number = |row: &[&str]| {
                let found = cell(&text, row, value.column);
                found.with_context(|| {
                    format!(
                        "{}: no {} of {}",
                        file.display(),
                        value.column,
                        row.join(",")
                    )
                })
            };
            let over = value.over.map_or(Ok(1.0), number)?;
            measured.value(value.name, number(value.row)? / over);
        }
        if !self.plots.is_empty() {
            read_points(&results.join("plots.csv"), &mut measured)?;
        }
        Ok(measured)
    }
}

/// Reads the points of plots that a script has written.
fn read_points(file: &Path, measured: &mut Measured) -> anyhow::Result<()> {
    let told = || file.display().to_string();
    let mut lines = csv::Reader::from_path(file).with_context(told)?;
    for line in lines.deserialize::<PlotPoint>() {
        let PlotPoint { plot, line, x, y } = line.with_context(told)?;
        measured.point(&plot, &line, x, y);
    }
    Ok(())
}

/// Reads a cell, by the first cells of its row and the name of its column.
fn cell(text: &str, row: &[&str], column: &str) -> Option<f64> {
    let mut lines = csv::Reader::from_reader(text.as_bytes());
    let columns = lines.headers().ok()?.clone();
    // Each script's summary has columns of its own.
    let lines = lines.deserialize::<BTreeMap<String, String>>();
    let found = lines.map_while(Result::ok).find(|line| {
        let first = columns.iter().take(row.len());
        let first = first.map(|name| line[name].as_str());
        first.eq(row.iter().copied())
    });
    found?.get(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_off_the_summaries_that_are_kept() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (name, results) in [
            ("lab-lan", "results/10mbit"),
            ("lab-network", "results/background"),
        ] {
            let lab = all().find(|own| own.name == name).unwrap();
            let measured = lab.read(&root.join(results)).unwrap();
            assert_eq!(measured.values.len(), lab.values.len());
            assert!(
                measured.values.values().all(|&value| value > 0.0),
                "{measured:?}"
            );
        }
    }

    #[test]
    fn a_record_is_completed_from_the_summary_of_its_own_run() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path();
        let lab = all().find(|own| own.name == "lab-network").unwrap();
        let results = lab.results(output);
        std::fs::create_dir_all(&results).unwrap();
        let lines = [
            "unmanaged,28.313",
            "pool,1.774",
            "priority,1.279",
            "rate,1.011",
        ];
        let lines = ["light", "heavy"].map(|own| lines.map(|line| format!("{own},{line}\n")));
        let text = format!(
            "foreground,variant,median_over_none\n{}",
            lines.concat().concat()
        );
        std::fs::write(results.join("summary.csv"), text).unwrap();
        let completed_of = |name: &str, basic: f64| {
            let mut record = Measured::default();
            record.value(name, basic);
            lab.complete(&mut record, output);
            record.values
        };
        let completed = |basic: f64| completed_of("light basic growth", basic);
        let values = completed(28.313);
        assert_eq!(values.len(), lab.values.len());
        assert_eq!(values["heavy ltdpool growth"], 1.774);
        // A summary of another run.
        assert_eq!(completed(28.4).len(), 1);
        // Nothing says that it is of the same run.
        assert_eq!(completed_of("another", 28.313).len(), 1);
    }

    #[test]
    fn a_cell_is_found_by_its_row_and_column() {
        let text = "system,load,mean_ms\nnginx,0.50,20\nnginx,0.5,30\n";
        assert_eq!(cell(text, &["nginx", "0.5"], "mean_ms"), Some(30.0));
        assert_eq!(cell(text, &["nginx", "0.50"], "mean_ms"), Some(20.0));
        assert_eq!(cell(text, &["nginx"], "p50"), None);
        assert_eq!(cell(text, &["haproxy"], "mean_ms"), None);
    }
}
