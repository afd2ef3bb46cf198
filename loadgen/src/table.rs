//! CSV files, plain or gzipped by their name, whose errors name file and line.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Serialize, Serializer};

/// A file that could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}{}: {problem}", .file.display(), line_suffix(*.line))]
pub struct TableError {
    /// The file, as it was named.
    pub file: PathBuf,
    /// The line, counted from 1, if the error is in one.
    pub line: Option<u64>,
    /// The fault, and what the reader expected instead.
    pub problem: String,
}

fn line_suffix(line: Option<u64>) -> String {
    line.map_or_else(String::new, |line| format!(":{line}"))
}

impl TableError {
    /// Makes an error that concerns the whole of `file`.
    pub fn whole(file: &Path, problem: impl Display) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            problem: problem.to_string(),
        }
    }
}

fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

/// Opens `path` for reading; a name that ends in `.gz` is decompressed.
pub fn open(path: &Path) -> Result<Box<dyn Read>, TableError> {
    let file = File::open(path).map_err(|error| TableError::whole(path, error))?;
    Ok(if is_gzip(path) {
        Box::new(MultiGzDecoder::new(BufReader::new(file)))
    } else {
        Box::new(file)
    })
}

/// Creates `path` and has `fill` write it; a name that ends in `.gz` is
/// compressed. Missing parent directories are made.
pub fn create(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), TableError> {
    write_file(path, fill).map_err(|error| TableError::whole(path, error))
}

fn write_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mut out = BufWriter::new(File::create(path)?);
    if is_gzip(path) {
        let mut gzip = GzEncoder::new(out, Compression::default());
        fill(&mut gzip)?;
        gzip.finish()?.flush()
    } else {
        fill(&mut out)?;
        out.flush()
    }
}

/// A number in a CSV, written as it is printed: `2`, where the serializer would write `2.0`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Writes a field of a line as a [`Number`].
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands fields on by reference"
)]
pub(crate) fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Number(*value).serialize(serializer)
}

/// Writes a CSV: its columns, and lines whose fields stand in their order. The columns are
/// written even if there is no line, so that what reads it knows them.
pub(crate) fn write_lines<L: Serialize>(
    columns: &[&str],
    lines: impl IntoIterator<Item = L>,
    out: impl Write,
) -> io::Result<()> {
    let mut csv = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(out);
    csv.write_record(columns)?;
    for line in lines {
        csv.serialize(line)?;
    }
    csv.flush()
}

/// A reader of the rows of a CSV whose header names its columns, in any order.
pub(crate) struct TableReader<R> {
    file: PathBuf,
    reader: csv::Reader<R>,
    record: csv::StringRecord,
    /// The index in the file of each asked column.
    columns: Vec<Option<usize>>,
    names: Vec<&'static str>,
}

impl<R: Read> TableReader<R> {
    /// Reads the header. Columns are numbered in the order `required`, then
    /// `optional`; a missing, unknown or repeated one is an error.
    pub(crate) fn new(
        input: R,
        file: &Path,
        required: &[&'static str],
        optional: &[&'static str],
    ) -> Result<Self, TableError> {
        let mut reader = csv::Reader::from_reader(input);
        let names = [required, optional].concat();
        let at_header = |problem: String| TableError {
            file: file.to_owned(),
            line: Some(1),
            problem,
        };
        let header = reader
            .headers()
            .map_err(|error| at_header(describe(&error)))?;
        let mut columns = vec![None; names.len()];
        for (index, found) in header.iter().enumerate() {
            let known = names.iter().position(|name| *name == found);
            let Some(column) = known else {
                return Err(at_header(format!(
                    "unknown column `{found}`; the columns are {}",
                    names.join(",")
                )));
            };
            if columns[column].replace(index).is_some() {
                return Err(at_header(format!("column `{found}` appears twice")));
            }
        }
        for (name, column) in required.iter().zip(&columns) {
            if column.is_none() {
                return Err(at_header(format!(
                    "column `{name}` is missing; the header must name {}",
                    required.join(",")
                )));
            }
        }
        Ok(Self {
            file: file.to_owned(),
            reader,
            record: csv::StringRecord::new(),
            columns,
            names,
        })
    }

    /// Returns whether the file has the optional column.
    pub(crate) fn has(&self, column: usize) -> bool {
        self.columns[column].is_some()
    }

    /// Reads the next row; returns `None` at the end.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row<'_>>, TableError> {
        let line = self.reader.position().line();
        match self.reader.read_record(&mut self.record) {
            Ok(true) => Ok(Some(Row {
                file: &self.file,
                record: &self.record,
                columns: &self.columns,
                names: &self.names,
            })),
            Ok(false) => Ok(None),
            Err(error) => Err(TableError {
                file: self.file.clone(),
                line: Some(error.position().map_or(line, csv::Position::line)),
                problem: describe(&error),
            }),
        }
    }
}

/// Describes an error without its line, which csv's own messages repeat in their own manner.
fn describe(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Io(error) => error.to_string(),
        csv::ErrorKind::Utf8 { .. } => "this is not UTF-8 text".to_owned(),
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("{len} fields where the header names {expected_len}"),
        _ => error.to_string(),
    }
}

/// One row, its fields numbered as the columns were asked for.
pub(crate) struct Row<'a> {
    file: &'a Path,
    record: &'a csv::StringRecord,
    columns: &'a [Option<usize>],
    names: &'a [&'static str],
}

impl<'a> Row<'a> {
    /// Returns the text of a column; empty if the file has no such column.
    pub(crate) fn text(&self, column: usize) -> &'a str {
        self.columns[column]
            .and_then(|index| self.record.get(index))
            .unwrap_or("")
    }

    /// Parses the value of a column; `expected` completes "is not ...".
    pub(crate) fn parse<T: FromStr>(&self, column: usize, expected: &str) -> Result<T, TableError> {
        let text = self.text(column);
        text.trim().parse().map_err(|_| {
            self.error(format!(
                "`{text}` in column `{}` is not {expected}",
                self.names[column]
            ))
        })
    }

    /// Parses a time in seconds, not negative and within what clocks can add.
    pub(crate) fn seconds(&self, column: usize) -> Result<f64, TableError> {
        const EXPECTED: &str = "a number of seconds, 0 to 1e12";
        let value: f64 = self.parse(column, EXPECTED)?;
        if (0.0..=1e12).contains(&value) {
            Ok(value)
        } else {
            Err(self.error(format!(
                "`{value}` in column `{}` is not {EXPECTED}",
                self.names[column]
            )))
        }
    }

    /// Makes an error at this row.
    pub(crate) fn error(&self, problem: String) -> TableError {
        TableError {
            file: self.file.to_owned(),
            line: self.record.position().map(csv::Position::line),
            problem,
        }
    }
}
