//! The lines of a manifest: CSV, or a JSON object a line.

use std::io::{self, BufRead, Read as _};

use serde::Deserialize;

use super::wrong::Wrong;

/// The most errors of one file that are told one by one.
const MAX_ERRORS: usize = 10;

/// The most bytes of a line in JSON.
const MAX_LINE: u64 = 64 << 10;

/// A line of a manifest: the size of one resource.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ManifestLine {
    pub(super) path: String,
    pub bytes: u64,
    #[serde(default)]
    pub(super) host: String,
}

/// The good lines of a file, and the errors of the others.
#[derive(Default)]
pub(super) struct Lines {
    good: Vec<ManifestLine>,
    errors: Vec<Wrong>,
    more_errors: usize,
}

/// The index of each value's column in a manifest in CSV.
struct Columns {
    path: usize,
    bytes: usize,
    host: Option<usize>,
}

impl Lines {
    fn error(&mut self, wrong: Wrong) {
        match self.errors.len() < MAX_ERRORS {
            true => self.errors.push(wrong),
            false => self.more_errors += 1,
        }
    }

    pub(super) fn read_csv(&mut self, input: impl io::Read) {
        let mut reader = csv::ReaderBuilder::new()
            .trim(csv::Trim::All)
            .comment(Some(b'#'))
            .from_reader(input);
        let named = match reader.headers() {
            Ok(named) => named.clone(),
            Err(error) => return self.error(of_csv(1, &error)),
        };
        let first = named.position().map_or(1, csv::Position::line);
        let columns = match columns(&named, first) {
            Ok(columns) => columns,
            Err(wrong) => return self.error(wrong),
        };
        let mut record = csv::StringRecord::new();
        loop {
            let more = reader.read_record(&mut record);
            let number = record.position().map_or(0, csv::Position::line);
            match more {
                Ok(false) => return,
                Ok(true) => match columns.line(&record, number) {
                    Ok(line) => self.good.push(line),
                    Err(wrong) => self.error(wrong),
                },
                Err(error) => {
                    let number = error.position().map_or(number, csv::Position::line);
                    self.error(of_csv(number, &error));
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
                    let wrong = Wrong::line(number, format!("it is longer than {MAX_LINE} bytes"));
                    return self.error(wrong.help("each object has a line of its own"));
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => match serde_json::from_slice::<ManifestLine>(&line) {
                    Ok(line) if line.path.starts_with('/') => self.good.push(line),
                    Ok(line) => self.error(no_slash(Wrong::line, number, &line.path)),
                    Err(error) => self.error(of_json(number, &error)),
                },
                Err(error) => return self.error(Wrong::line(number, error)),
            }
        }
    }

    /// Returns all lines of the file, in its order.
    ///
    /// # Errors
    ///
    /// The errors of the file, each with its place.
    pub(super) fn finish(mut self) -> Result<Vec<ManifestLine>, Vec<Wrong>> {
        if self.more_errors > 0 {
            let more = format!("{} more errors", self.more_errors);
            self.errors.push(Wrong::whole(more));
        }
        match self.errors.is_empty() {
            true => Ok(self.good),
            false => Err(self.errors),
        }
    }
}

/// Finds the columns that the first line of a file in CSV names.
fn columns(named: &csv::StringRecord, line: u64) -> Result<Columns, Wrong> {
    let help = "write `path,bytes` or `host,path,bytes` there";
    for (index, name) in named.iter().enumerate() {
        let wrong = |what: String| Wrong::column(line, index + 1, what).help(help);
        if !["path", "bytes", "host"].contains(&name) {
            return Err(wrong(format!(
                "the first line names the columns, and `{}` is none",
                shortened(name)
            )));
        }
        if named.iter().take(index).any(|other| other == name) {
            return Err(wrong(format!("the column `{name}` is named twice")));
        }
    }
    let position = |name: &str| named.iter().position(|own| own == name);
    let needed = |name: &str| {
        let missing = format!("the first line does not name the column `{name}`");
        position(name).ok_or_else(|| Wrong::line(line, missing).help(help))
    };
    Ok(Columns {
        path: needed("path")?,
        bytes: needed("bytes")?,
        host: position("host"),
    })
}

impl Columns {
    /// Reads the values of a record, which has as many as the first line.
    fn line(&self, record: &csv::StringRecord, number: u64) -> Result<ManifestLine, Wrong> {
        let value = |index: usize| record.get(index).unwrap_or_default();
        let (path, bytes) = (value(self.path), value(self.bytes));
        if !path.starts_with('/') {
            let at = |line, what| Wrong::column(line, self.path + 1, what);
            return Err(no_slash(at, number, path));
        }
        let bytes = bytes.parse().map_err(|_| {
            let what = format!("`{}` is not a number of bytes", shortened(bytes));
            let help = "write a whole number without a unit, such as 2048";
            Wrong::column(number, self.bytes + 1, what).help(help)
        })?;
        Ok(ManifestLine {
            path: path.to_owned(),
            bytes,
            host: self.host.map(value).unwrap_or_default().to_owned(),
        })
    }
}

fn no_slash(at: impl Fn(u64, String) -> Wrong, line: u64, path: &str) -> Wrong {
    let path = shortened(path);
    at(line, format!("the path `{path}` does not begin with `/`"))
        .help(format!("write `/{path}`: paths are as requests have them"))
}

fn of_csv(line: u64, error: &csv::Error) -> Wrong {
    match error.kind() {
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => {
            let what = format!("it has {len} columns, and the first line names {expected_len}");
            Wrong::line(line, what).help("put a value with a comma in it between double quotes")
        }
        csv::ErrorKind::Utf8 { err, .. } => {
            let wrong = Wrong::column(line, err.field() + 1, "it is not UTF-8");
            wrong.help("save the file as UTF-8")
        }
        _ => Wrong::line(line, error),
    }
}

/// Describes an error in a line of JSON, without the library's place: each line is read by itself.
fn of_json(line: u64, error: &serde_json::Error) -> Wrong {
    let text = error.to_string();
    let cause = text.rsplit_once(" at line ").map(|(cause, _)| cause);
    Wrong::column(line, error.column(), cause.unwrap_or(&text))
        .help("write an object such as {\"path\": \"/a\", \"bytes\": 2048}")
}

/// Shortens a text to at most 60 characters, on one line.
fn shortened(text: &str) -> String {
    let short = text.chars().take(60);
    short
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
