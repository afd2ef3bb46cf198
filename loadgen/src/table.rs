//! CSV files, plain or gzipped by their name, whose errors name file and line.

use std::cell::Cell;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::de::value::{self, BorrowedStrDeserializer, MapDeserializer};
use serde::de::{self, Deserialize, Deserializer};
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
    columns: impl IntoIterator<Item = impl AsRef<[u8]>>,
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

/// Reads a field's text as a value; `expected` completes "is not ...".
pub(crate) fn parsed<'de, T: FromStr, D: Deserializer<'de>>(
    deserializer: D,
    expected: &str,
) -> Result<T, D::Error> {
    parse(<&str>::deserialize(deserializer)?, expected)
}

/// Reads a field's text as a value, like [`parsed`]; the text `none` stands for none.
pub(crate) fn parsed_unless<'de, T: FromStr, D: Deserializer<'de>>(
    deserializer: D,
    none: &str,
    expected: &str,
) -> Result<Option<T>, D::Error> {
    let text = <&str>::deserialize(deserializer)?;
    if text == none {
        return Ok(None);
    }
    parse(text, expected).map(Some)
}

fn parse<T: FromStr, E: de::Error>(text: &str, expected: &str) -> Result<T, E> {
    text.trim().parse().map_err(|_| E::custom(expected))
}

/// Reads a field as a time in seconds, not negative and within what clocks can add.
pub(crate) fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    const EXPECTED: &str = "a number of seconds, 0 to 1e12";
    let value: f64 = parsed(deserializer, EXPECTED)?;
    if (0.0..=1e12).contains(&value) {
        Ok(value)
    } else {
        Err(de::Error::custom(EXPECTED))
    }
}

/// Reads a field as a number of bytes.
pub(crate) fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    parsed(deserializer, "a number of bytes")
}

/// A reader of the rows of a CSV whose header names its columns, in any order.
pub(crate) struct TableReader<R> {
    file: PathBuf,
    reader: csv::Reader<R>,
    record: csv::StringRecord,
    /// The index in the file of each known column.
    columns: Vec<Option<usize>>,
    names: Vec<&'static str>,
}

impl<R: Read> TableReader<R> {
    /// Reads the header. A missing column that is required, an unknown and a repeated one are
    /// errors.
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

/// A row of a CSV, with the names of its columns.
pub(crate) struct Row<'a> {
    file: &'a Path,
    record: &'a csv::StringRecord,
    columns: &'a [Option<usize>],
    names: &'a [&'static str],
}

impl<'a> Row<'a> {
    /// Reads the row as a line whose fields have the names of the columns, or of some. Fields are
    /// read by [`seconds`], [`parsed`] and the like, whose errors complete "is not ...".
    ///
    /// # Errors
    /// Names file, line and column when a field does not parse.
    pub(crate) fn read<L: Deserialize<'a>>(&self) -> Result<L, TableError> {
        // csv's own deserializer does not tell the column of an error that a field's type makes.
        let last = Cell::new(("", ""));
        let fields = self.names.iter().zip(self.columns);
        let fields = fields.filter_map(|(&name, &index)| {
            let text = self.record.get(index?)?;
            last.set((name, text));
            Some((name, BorrowedStrDeserializer::<value::Error>::new(text)))
        });
        let fields: MapDeserializer<'_, _, value::Error> = MapDeserializer::new(fields);
        L::deserialize(fields).map_err(|expected| {
            let (name, text) = last.get();
            self.error(format!("`{text}` in column `{name}` is not {expected}"))
        })
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
