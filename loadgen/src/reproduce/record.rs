//! The record of an experiment: its values as CSV, with the code that it was run with.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::simulate::experiment::{Measured, Point, Scale};
use crate::table;

/// An experiment that has been run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    /// The code that the experiment was run with, as a commit.
    pub(super) code: String,
    /// The name of the scale, such as quick or full.
    pub(super) scale: String,
    pub(super) parameters: String,
    pub(super) took_s: f64,
    pub(super) measured: Measured,
}

/// A line of an experiment's file.
#[derive(Debug, Serialize, Deserialize)]
struct RecordLine {
    kind: LineKind,
    /// The name of a fact about the run, of a value, or of a plot.
    name: String,
    /// The text of a fact, or the name of the plot's line.
    text: String,
    x: Option<f64>,
    value: Option<f64>,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LineKind {
    /// A fact about the run.
    Run,
    /// A value with a name.
    Value,
    /// A point of a plot.
    Point,
}

impl Record {
    /// Returns whether a run with this code, scale and parameters would make the same record.
    pub(super) fn is_of(&self, code: &str, scale: Scale, parameters: &str) -> bool {
        self.code == code && self.scale == scale.name() && self.parameters == parameters
    }

    /// Writes the experiment's file, whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let mut out = csv::Writer::from_writer(Vec::new());
        let took = format!("{:.1}", self.took_s);
        let facts = [
            ("code", &self.code),
            ("scale", &self.scale),
            ("parameters", &self.parameters),
            ("took_s", &took),
        ];
        for (name, text) in facts {
            out.serialize(RecordLine {
                kind: LineKind::Run,
                name: name.to_owned(),
                text: text.clone(),
                x: None,
                value: None,
            })?;
        }
        for (name, &value) in &self.measured.values {
            out.serialize(RecordLine {
                kind: LineKind::Value,
                name: name.clone(),
                text: String::new(),
                x: None,
                value: Some(rounded(value)),
            })?;
        }
        for point in &self.measured.points {
            out.serialize(RecordLine {
                kind: LineKind::Point,
                name: point.plot.clone(),
                text: point.line.clone(),
                x: Some(rounded(point.x)),
                value: Some(rounded(point.y)),
            })?;
        }
        let bytes = out.into_inner()?;
        table::create(file, |file| file.write_all(&bytes))?;
        Ok(())
    }

    /// Reads an experiment's file; `None` if there is none, or it is not whole.
    pub(super) fn read(file: &Path) -> Option<Self> {
        let mut lines = csv::Reader::from_path(file).ok()?;
        let mut record = Self {
            code: String::new(),
            scale: String::new(),
            parameters: String::new(),
            took_s: f64::NAN,
            measured: Measured::default(),
        };
        for line in lines.deserialize() {
            let line: RecordLine = line.ok()?;
            match (line.kind, line.name.as_str()) {
                (LineKind::Run, "code") => record.code = line.text,
                (LineKind::Run, "scale") => record.scale = line.text,
                (LineKind::Run, "parameters") => record.parameters = line.text,
                (LineKind::Run, "took_s") => record.took_s = line.text.parse().ok()?,
                (LineKind::Run, _) => return None,
                (LineKind::Value, _) => record.measured.value(line.name, line.value?),
                (LineKind::Point, _) => record.measured.points.push(Point {
                    plot: line.name,
                    line: line.text,
                    x: line.x?,
                    y: line.value?,
                }),
            }
        }
        (!record.code.is_empty() && record.took_s.is_finite()).then_some(record)
    }
}

/// Rounds a value to six significant digits: more would only make the files longer.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Returns the file of an experiment.
pub(super) fn file_of(output: &Path, paper: &str, name: &str) -> PathBuf {
    output.join(paper).join(format!("{name}.csv"))
}

/// The paths of the code that experiments in virtual time run, from the root of the repository. A
/// module with a directory has its file beside it.
const SIMULATED: [&str; 13] = [
    "scheduler/src",
    "measure/src",
    "loadgen/src/simulate",
    "loadgen/src/simulate.rs",
    "loadgen/src/links",
    "loadgen/src/links.rs",
    "loadgen/src/ideal",
    "loadgen/src/ideal.rs",
    "loadgen/src/recorded.rs",
    "loadgen/src/table.rs",
    "loadgen/src/trace.rs",
    "loadgen/src/workload",
    "loadgen/src/workload.rs",
];

/// The paths of the code that experiments over real sockets run: the proxy, and what asks, answers
/// and measures.
const LAB: [&str; 6] = [
    "scheduler/src",
    "measure/src",
    "config/src",
    "proxy",
    "loadgen/src",
    "scripts",
];

/// The paths among those of [`LAB`] of which nothing runs over real sockets.
const NOT_LAB: [&str; 4] = [
    "loadgen/src/simulate",
    "loadgen/src/simulate.rs",
    "loadgen/src/reproduce",
    "loadgen/src/reproduce.rs",
];

/// The code that experiments are run with, as commits: what runs over real sockets is other code
/// than what is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunCode {
    pub(super) simulated: String,
    pub(super) lab: String,
}

impl RunCode {
    /// Returns the code of the checkout in the current directory.
    pub(super) fn of_checkout() -> Self {
        Self::at(Path::new("."))
    }

    /// Returns the code of the checkout that a directory is in.
    fn at(directory: &Path) -> Self {
        Self {
            simulated: code(directory, &SIMULATED, &[]),
            lab: code(directory, &LAB, &NOT_LAB),
        }
    }
}

/// Returns the last commit that changed files at some paths, with a mark if changes are not
/// committed. Other commits, such as that of the results themselves, make no experiment another.
fn code(directory: &Path, paths: &[&str], without: &[&str]) -> String {
    let git = |args: &[&str]| {
        let paths = paths.iter().map(|path| format!(":(top){path}"));
        let without = without.iter().map(|path| format!(":(top,exclude){path}"));
        let mut command = Command::new("git");
        command.current_dir(directory).args(args);
        let output = command.args(paths.chain(without)).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let commit = git(&["log", "-1", "--format=%h", "--abbrev=12", "--"]);
    let commit = commit.and_then(|text| String::from_utf8(text).ok());
    let commit = commit.map(|text| text.trim().to_owned());
    let Some(commit) = commit.filter(|text| !text.is_empty()) else {
        return format!("version {}", env!("CARGO_PKG_VERSION"));
    };
    match git(&["diff", "HEAD", "--"]) {
        Some(changes) if changes.is_empty() => commit,
        changes => format!("{commit}-changed-{:08x}", sum(&changes.unwrap_or_default())),
    }
}

/// Computes a checksum of changes, to tell them apart (FNV-1a).
fn sum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs git in a directory, as an author that is no one.
    fn git(directory: &Path, args: &[&str]) {
        let author = [
            "-c",
            "user.name=test",
            "-c",
            "user.email=test@example.org",
            "-c",
            "commit.gpgsign=false",
        ];
        let mut command = Command::new("git");
        command.current_dir(directory).args(author).args(args);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {said}");
    }

    fn commit(directory: &Path) {
        git(directory, &["add", "--all"]);
        git(directory, &["commit", "--quiet", "--message", "a change"]);
    }

    /// The paths of files, each with whether it is code of what is simulated, and of the lab.
    const FILES: [(&str, bool, bool); 12] = [
        ("scheduler/src/lib.rs", true, true),
        ("loadgen/src/links.rs", true, true),
        ("loadgen/src/links/red.rs", true, true),
        ("loadgen/src/ideal.rs", true, true),
        ("loadgen/src/simulate/eh99.rs", true, false),
        ("loadgen/src/simulate.rs", true, false),
        ("loadgen/src/replay.rs", false, true),
        ("proxy/uplink/src/paced.rs", false, true),
        ("config/src/lib.rs", false, true),
        ("scripts/background.sh", false, true),
        ("loadgen/src/reproduce.rs", false, false),
        ("docs/papers.md", false, false),
    ];

    #[test]
    fn a_file_is_code_of_what_runs_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let write = |path: &str, text: &str| {
            let file = root.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        git(root, &["init", "--quiet"]);
        for (path, ..) in FILES {
            write(path, "one");
        }
        commit(root);
        for (path, is_simulated, is_lab) in FILES {
            let before = RunCode::at(root);
            let changed = || {
                let now = RunCode::at(root);
                (now.simulated != before.simulated, now.lab != before.lab)
            };
            assert_eq!(changed(), (false, false), "{path}, before");
            write(path, "two");
            assert_eq!(changed(), (is_simulated, is_lab), "{path}");
            commit(root);
            assert_eq!(changed(), (is_simulated, is_lab), "{path}, committed");
        }
    }

    #[test]
    fn paths_of_code_are_there_and_modules_are_listed_whole() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for paths in [&SIMULATED[..], &LAB[..], &NOT_LAB[..]] {
            for path in paths {
                assert!(root.join(path).exists(), "{path}");
                let file = format!("{path}.rs");
                let is_listed = paths.contains(&file.as_str());
                assert!(is_listed || !root.join(&file).exists(), "{file}");
            }
        }
    }
}
