//! The report of all verdicts by file: `results/mutants.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::listing::Mutant;

/// The mutants that behave as the original does, so that no test can tell them from it.
const SAME: &str = include_str!("../same.txt");

/// The verdict on a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    /// A test has failed.
    Caught,
    /// The tests looped or waited for ever, so the mutant is caught.
    OutOfTime,
    /// All tests have passed.
    Missed,
    /// All tests have passed, and the mutant is known to behave as the original does.
    Same,
    /// The mutant does not compile.
    Unviable,
    /// The mutant cannot be switched at run time.
    NotTried,
}

/// A file's row in the table, and its mutants that were missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// The hash of the file's code, without comments and tests.
    pub(crate) hash: String,
    /// The number of mutants with each verdict.
    pub(crate) counts: BTreeMap<Verdict, usize>,
    /// The names of the missed mutants.
    pub(crate) missed: Vec<String>,
}

/// The report of all files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The rows, by the files' paths.
    pub(crate) rows: BTreeMap<String, Row>,
}

const COLUMNS: [Verdict; 6] = [
    Verdict::Caught,
    Verdict::OutOfTime,
    Verdict::Missed,
    Verdict::Same,
    Verdict::Unviable,
    Verdict::NotTried,
];

impl Row {
    /// Returns the number of the file's mutants with a verdict.
    pub(crate) fn count(&self, verdict: Verdict) -> usize {
        self.counts.get(&verdict).copied().unwrap_or(0)
    }
}

impl Report {
    /// Groups verdicts by file. For each line of the list of equal mutants, one missed mutant
    /// counts as the same.
    pub(crate) fn of(verdicts: &[(&Mutant, Verdict)]) -> Self {
        let mut same = same(SAME);
        let mut report = Self::default();
        for (mutant, verdict) in verdicts {
            let mut verdict = *verdict;
            if verdict == Verdict::Missed
                && let Some(left) = same.get_mut(&(mutant.file.as_str(), mutant.change()))
                && *left > 0
            {
                *left -= 1;
                verdict = Verdict::Same;
            }
            let row = report.rows.entry(mutant.file.clone()).or_default();
            *row.counts.entry(verdict).or_default() += 1;
            if verdict == Verdict::Missed {
                row.missed.push(mutant.name.clone());
            }
        }
        report
    }

    /// Reads a report as [`Report::text`] writes it. Lines of another form are skipped.
    pub(crate) fn read(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("    ") {
                let file = name.split(':').next().unwrap_or_default();
                if let Some(row) = report.rows.get_mut(file) {
                    row.missed.push(name.to_owned());
                }
            } else if let Some((file, row)) = read_row(line) {
                report.rows.insert(file, row);
            }
        }
        report
    }

    /// Returns the text of the report: the table, the missed mutants, and the score.
    pub(crate) fn text(&self) -> String {
        let mut text =
            "# Mutants\n\nWhat `ALL=1 make mutants` found in each file, with the hash of its code \
             then.\nOut of time: the mutant has the tests wait or loop for ever, and so is \
             caught. Same: no\ntest can tell it from the code (docs/testing.md). Not tried: it \
             cannot be switched at run\ntime, as in a constant.\n\n\
             | file | code | caught | out of time | missed | same | do not compile | not tried |\n\
             | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
                .to_owned();
        for (file, row) in &self.rows {
            let counts = COLUMNS.map(|verdict| row.count(verdict).to_string());
            // A string takes all that is written to it.
            let _ = writeln!(text, "| `{file}` | {} | {} |", row.hash, counts.join(" | "));
        }
        text.push_str("\n## Missed\n\n");
        for name in self.rows.values().flat_map(|row| &row.missed) {
            let _ = writeln!(text, "    {name}");
        }
        text.push_str("\n## Score\n\n");
        let packages: std::collections::BTreeSet<_> = self
            .rows
            .keys()
            .filter_map(|file| file.split('/').next())
            .collect();
        for package in packages {
            let of_package = |file: &str| file.split('/').next() == Some(package);
            let _ = writeln!(text, "- `{package}/`: {}", self.score(of_package));
        }
        let _ = writeln!(text, "- all: {}", self.score(|_| true));
        text
    }

    /// Returns how many mutants were caught, out of those that could be and were tried.
    fn score(&self, wanted: impl Fn(&str) -> bool) -> String {
        let rows: Vec<&Row> = self
            .rows
            .iter()
            .filter(|(file, _)| wanted(file))
            .map(|(_, row)| row)
            .collect();
        let sum = |verdict| rows.iter().map(|row| row.count(verdict)).sum::<usize>();
        let caught = sum(Verdict::Caught) + sum(Verdict::OutOfTime);
        let all = caught + sum(Verdict::Missed);
        let percent = 100.0 * caught as f64 / all.max(1) as f64;
        format!(
            "{caught} of {all} mutants in {} files, {percent:.1}%",
            rows.len()
        )
    }

    /// Returns the number of mutants with a verdict in all files.
    pub(crate) fn sum(&self, verdict: Verdict) -> usize {
        self.rows.values().map(|row| row.count(verdict)).sum()
    }

    /// Returns whether a file's row still holds: its code is unchanged, and no mutant was missed. A
    /// missed one is tried again, for a newer test may catch it.
    pub(crate) fn stands(&self, file: &str, hash: &str) -> bool {
        let row = self.rows.get(file);
        row.is_some_and(|row| row.hash == hash && row.missed.is_empty())
    }
}

fn read_row(line: &str) -> Option<(String, Row)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let [_, file, hash, counts @ .., _] = cells.as_slice() else {
        return None;
    };
    let file = file.strip_prefix('`')?.strip_suffix('`')?;
    let counts: Vec<usize> = counts
        .iter()
        .map(|count| count.parse().ok())
        .collect::<Option<_>>()?;
    let row = Row {
        hash: (*hash).to_owned(),
        counts: COLUMNS.into_iter().zip(counts.iter().copied()).collect(),
        missed: Vec::new(),
    };
    (counts.len() == COLUMNS.len()).then(|| (file.to_owned(), row))
}

/// Counts the mutants in the list of equal ones, by file and change.
fn same(text: &str) -> BTreeMap<(&str, &str), usize> {
    let mut same = BTreeMap::new();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for (file, change) in lines.filter_map(|line| line.split_once(": ")) {
        *same.entry((file, change)).or_default() += 1;
    }
    same
}

/// Returns the hash of a file's code, without comments and unit tests.
///
/// # Errors
/// Git or the file system.
pub(crate) fn hash(path: &Path) -> anyhow::Result<String> {
    let source = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut git = Command::new("git")
        .args(["hash-object", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("git hash-object")?;
    let mut input = git.stdin.take().context("git hash-object")?;
    input.write_all(code(&source).as_bytes())?;
    drop(input);
    let output = git.wait_with_output()?;
    ensure!(output.status.success(), "git hash-object has failed");
    let hash = String::from_utf8_lossy(&output.stdout);
    Ok(hash.chars().take(10).collect())
}

/// Returns the lines of a source that are code, up to the module of unit tests.
fn code(source: &str) -> String {
    let mut code = String::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let of_tests = line == "#[cfg(test)]" && lines.peek() == Some(&"mod tests {");
        if of_tests {
            break;
        }
        if !line.trim_start().starts_with("//") {
            code.push_str(line);
            code.push('\n');
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing;

    const LISTED: &str = r#"[{"name": "a/src/b.rs:3:4: replace | with ^ in f", "file": "a/src/b.rs",
        "package": "sprat-a", "genre": "BinaryOperator", "replacement": "^",
        "span": {"start": {"line": 3, "column": 4}, "end": {"line": 3, "column": 5}}}]"#;

    fn report() -> Report {
        let mutants = listing::read(LISTED).expect("it is a list");
        let verdicts = [Verdict::Missed, Verdict::Caught, Verdict::Caught];
        let pairs: Vec<_> = verdicts.map(|verdict| (&mutants[0], verdict)).into();
        let mut report = Report::of(&pairs);
        for row in report.rows.values_mut() {
            row.hash = "0123456789".to_owned();
        }
        report
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut report = report();
        let text = report.text();
        assert!(text.contains("| `a/src/b.rs` | 0123456789 | 2 | 0 | 1 | 0 | 0 | 0 |\n"));
        assert!(text.ends_with("- all: 2 of 3 mutants in 1 files, 66.7%\n"));
        for row in report.rows.values_mut() {
            for verdict in COLUMNS {
                row.counts.entry(verdict).or_default();
            }
        }
        assert_eq!(Report::read(&text), report);
    }

    #[test]
    fn a_row_stands_while_the_code_does_and_nothing_is_missed() {
        let mut report = report();
        assert!(!report.stands("a/src/b.rs", "0123456789"));
        report.rows.values_mut().for_each(|row| row.missed.clear());
        assert!(report.stands("a/src/b.rs", "0123456789"));
        assert!(!report.stands("a/src/b.rs", "9123456789"));
        assert!(!report.stands("a/src/c.rs", "0123456789"));
    }

    #[test]
    fn each_line_stands_for_one_mutant_that_is_the_same() {
        let text = "# why\na.rs: replace | with ^ in f\na.rs: replace | with ^ in f\n";
        let same = same(text);
        assert_eq!(same[&("a.rs", "replace | with ^ in f")], 2);
    }

    #[test]
    fn comments_and_tests_are_no_code() {
        let source =
            "//! A.\nfn a() {}\n    // B.\n#[cfg(test)]\nuse b;\n#[cfg(test)]\nmod tests {\n}\n";
        assert_eq!(code(source), "fn a() {}\n#[cfg(test)]\nuse b;\n");
    }
}
