//! The lines of a manifest, as CSV or as a JSON object each.

use std::io::{self, BufRead, Read as _};

use serde::Deserialize;

/// Errors of a file that are told at most.
const MAX_ERRORS: usize = 10;

/// Bytes of a line in JSON at most.
const MAX_LINE: u64 = 64 << 10;

/// A line.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    pub(super) path: String,
    pub(super) bytes: u64,
    #[serde(default)]
    pub(super) host: String,
}

/// Lines of a file, and what is wrong with others.
#[derive(Default)]
pub(super) struct Lines {
    good: Vec<Line>,
    errors: Vec<String>,
    more_errors: usize,
}

impl Lines {
    fn error(&mut self, number: u64, message: impl std::fmt::Display) {
        match self.errors.len() < MAX_ERRORS {
            true => self.errors.push(format!("line {number}: {message}")),
            false => self.more_errors += 1,
        }
    }

    fn add(&mut self, number: u64, line: Line) {
        match line.path.starts_with('/') {
            true => self.good.push(line),
            false => self.error(number, "`path` begins with a slash"),
        }
    }

    pub(super) fn read_csv(&mut self, input: impl io::Read) {
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(input);
        let named = match reader.headers() {
            Ok(named) => named.clone(),
            Err(error) => return self.error(1, error),
        };
        if ["path", "bytes"]
            .iter()
            .any(|name| !named.iter().any(|n| n == *name))
        {
            return self.error(1, "it names the columns: `path,bytes` or `host,path,bytes`");
        }
        let mut record = csv::StringRecord::new();
        loop {
            let more = reader.read_record(&mut record);
            let number = record.position().map_or(0, csv::Position::line);
            match more {
                Ok(false) => return,
                Ok(true) => match record.deserialize(Some(&named)) {
                    Ok(line) => self.add(number, line),
                    Err(error) => self.error(number, csv_cause(&error)),
                },
                Err(error) => {
                    let number = error.position().map_or(number, csv::Position::line);
                    self.error(number, csv_cause(&error));
                    if error.is_io_error() {
                        return;
                    }
                }
            }
        }
    }

    pub(super) fn read_json(&mut self, mut input: impl BufRead) {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            match (&mut input).take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) if line.len() as u64 == MAX_LINE => {
                    return self.error(number, format!("it is longer than {MAX_LINE} bytes"));
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => match serde_json::from_slice(&line) {
                    Ok(line) => self.add(number, line),
                    Err(error) => self.error(number, json_cause(&error)),
                },
                Err(error) => return self.error(number, error),
            }
        }
    }

    /// All of them, in the file's order.
    ///
    /// # Errors
    ///
    /// What is wrong with the file, each with its line.
    pub(super) fn finish(mut self) -> Result<Vec<Line>, Vec<String>> {
        if self.more_errors > 0 {
            self.errors
                .push(format!("{} more errors", self.more_errors));
        }
        match self.errors.is_empty() {
            true => Ok(self.good),
            false => Err(self.errors),
        }
    }
}

fn csv_cause(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            format!("it has {len} columns, and the first line names {expected_len}")
        }
        csv::ErrorKind::Deserialize { err, .. } => err.kind().to_string(),
        _ => error.to_string(),
    }
}

/// Without the place: each line is read by itself.
fn json_cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let cause = text.rsplit_once(" at line ").map(|(cause, _)| cause);
    format!("{} (column {})", cause.unwrap_or(&text), error.column())
}
