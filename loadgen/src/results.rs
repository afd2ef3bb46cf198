//! Results of a run: one CSV row per request, and a JSON about the run beside
//! it. Replays and computed bounds write the same, so that a report treats a
//! bound as one more system.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use sprat_measure::wire::Connection;

use crate::table::{self, TableError, TableReader};

/// The result of one request, as a line of the CSV.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Planned arrival, in seconds since the start of the trace.
    #[serde(serialize_with = "table::number", deserialize_with = "table::seconds")]
    pub t_s: f64,
    /// Size of the body that was asked for, in bytes.
    #[serde(deserialize_with = "table::bytes")]
    pub bytes: u64,
    /// Path of the URL.
    pub path: Box<str>,
    /// The request's real start, in seconds since the start of the run.
    #[serde(serialize_with = "table::number", deserialize_with = "table::seconds")]
    pub start_s: f64,
    /// Milliseconds from just before connect to the last byte (or to the
    /// failure).
    #[serde(serialize_with = "table::number", deserialize_with = "milliseconds")]
    pub response_ms: f64,
    /// Bytes of the body that came.
    #[serde(deserialize_with = "table::bytes")]
    pub received: u64,
    /// Status of the response; 0 if none came.
    #[serde(deserialize_with = "status")]
    pub status: u16,
    /// The kind of failure, if the request failed.
    #[serde(deserialize_with = "failure")]
    pub error: Option<Failure>,
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    table::parsed(deserializer, "a number of milliseconds")
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    table::parsed(deserializer, "a status code, or 0")
}

fn failure<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Failure>, D::Error> {
    const EXPECTED: &str = "connect, reset, timeout, short, corrupt or status";
    table::parsed_unless(deserializer, "", EXPECTED)
}

impl Outcome {
    /// Returns the seconds from the start of the run to the last byte.
    pub fn done_s(&self) -> f64 {
        self.start_s + self.response_ms / 1e3
    }
}

/// A kind of failure, one word of the CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Failure {
    /// The client could not connect, or had no room for one more request.
    Connect,
    /// The connection was reset.
    Reset,
    /// The response did not end within the time allowed.
    Timeout,
    /// The connection closed before the announced end, or the body was
    /// smaller than asked for.
    Short,
    /// The response was not HTTP, was longer than it should be, or had the wrong bytes.
    Corrupt,
    /// The response had a status other than 200.
    Status,
}

impl Failure {
    /// Every kind of failure.
    pub const ALL: [Self; 6] = [
        Self::Connect,
        Self::Reset,
        Self::Timeout,
        Self::Short,
        Self::Corrupt,
        Self::Status,
    ];

    /// Returns the failure's word in the CSV.
    pub fn word(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Reset => "reset",
            Self::Timeout => "timeout",
            Self::Short => "short",
            Self::Corrupt => "corrupt",
            Self::Status => "status",
        }
    }
}

impl FromStr for Failure {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|failure| failure.word() == word)
            .ok_or(())
    }
}

const COLUMNS: [&str; 8] = [
    "t_s",
    "bytes",
    "path",
    "start_s",
    "response_ms",
    "received",
    "status",
    "error",
];

/// Reads results; a name that ends in `.gz` is decompressed.
///
/// # Errors
/// Names file and line of what is wrong.
pub fn read(file: &Path) -> Result<Vec<Outcome>, TableError> {
    from_reader(table::open(file)?, file)
}

/// Reads like [`read`], but from any input; `file` is for the messages.
pub fn from_reader(input: impl Read, file: &Path) -> Result<Vec<Outcome>, TableError> {
    let mut table = TableReader::new(input, file, &COLUMNS, &[])?;
    let mut outcomes = Vec::new();
    while let Some(row) = table.next_row()? {
        if outcomes.len() == crate::trace::REQUESTS_MAX {
            return Err(row.error(format!("more than {} rows", crate::trace::REQUESTS_MAX)));
        }
        let outcome: Outcome = row.read()?;
        let response_ms = outcome.response_ms;
        if !(response_ms.is_finite() && response_ms >= 0.0) {
            return Err(row.error(format!("response_ms is {response_ms}, not a time")));
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Writes results; a name that ends in `.gz` is compressed.
pub fn write(outcomes: &[Outcome], file: &Path) -> Result<(), TableError> {
    table::create(file, |out| to_writer(outcomes, out))
}

/// Writes like [`write()`], but to any output.
pub fn to_writer(outcomes: &[Outcome], out: impl Write) -> io::Result<()> {
    table::write_lines(COLUMNS, outcomes, out)
}

/// The facts about a run as a whole. A fact that is not known is left out of the JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunInfo {
    /// The system's name, as reports show it.
    pub name: String,
    /// Seed of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The rate of the link, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink_bits_per_s: Option<u64>,
    /// The load that was asked for, on the wire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// The trace's load on the wire, as a share of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_wire: Option<f64>,
    /// The trace's load in payload, as a share of the link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_payload: Option<f64>,
    /// The commit of the source, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The client of the replay; absent for a computed bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientInfo>,
    /// The network that the clients were in, if it was one of `network`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Seconds that the run took.
    pub wall_s: f64,
    /// The number of requests counted.
    pub requests: u64,
    /// The number of requests that failed.
    pub failed: u64,
    /// The payload received over the time from the first start to the last completion.
    pub goodput_bytes_per_s: f64,
}

/// The settings of a replay's client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientInfo {
    /// The source of the pace of requests.
    pub mode: Mode,
    /// Whether connections were kept.
    pub connection: Connection,
    /// The number of HTTP/2 connections whose streams the requests were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http2: Option<u32>,
    /// The number of back-to-back clients of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// The time after which a request failed, in milliseconds.
    pub timeout_ms: u64,
    /// The number of requests at the start that are left out of the results.
    pub warmup: u64,
    /// The most requests that could be open at once.
    pub max_open: u64,
}

/// The source of the pace of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The trace's arrival times, whatever the system does.
    Open,
    /// A fixed number of clients, each asking again once it has its answer.
    Closed,
    /// Users arrive by the trace, and each asks again once it has its answer.
    PartlyOpen,
}

impl RunInfo {
    /// Counts requests, failures and goodput from `outcomes`.
    pub fn count(&mut self, outcomes: &[Outcome]) {
        let first_s = outcomes.iter().map(|outcome| outcome.start_s);
        let first_s = first_s.fold(f64::INFINITY, f64::min);
        let last_s = outcomes.iter().map(Outcome::done_s).fold(0.0, f64::max);
        let received: u64 = outcomes.iter().map(|outcome| outcome.received).sum();
        self.requests = outcomes.len() as u64;
        self.failed = outcomes.iter().filter(|o| o.error.is_some()).count() as u64;
        self.goodput_bytes_per_s = if last_s > first_s {
            received as f64 / (last_s - first_s)
        } else {
            0.0
        };
    }

    /// Reads the JSON beside `results`.
    pub fn read_beside(results: &Path) -> Result<Self, TableError> {
        let file = info_path(results);
        let text = std::fs::read_to_string(&file).map_err(|error| {
            TableError::whole(
                &file,
                format!("{error}; it should stand beside {}", results.display()),
            )
        })?;
        serde_json::from_str(&text).map_err(|error| TableError {
            file,
            line: Some(error.line() as u64),
            problem: error.to_string(),
        })
    }

    /// Writes the JSON beside `results`.
    pub fn write_beside(&self, results: &Path) -> Result<(), TableError> {
        table::create(&info_path(results), |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            writeln!(out)
        })
    }
}

/// Returns the path of the JSON of a results file: `nginx.csv` and
/// `nginx.csv.gz` have `nginx.json`.
pub fn info_path(results: &Path) -> PathBuf {
    let plain = if results.extension().is_some_and(|e| e == "gz") {
        results.with_extension("")
    } else {
        results.to_owned()
    };
    plain.with_extension("json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(start_s: f64, response_ms: f64, received: u64, error: Option<Failure>) -> Outcome {
        Outcome {
            t_s: start_s,
            bytes: 1000,
            path: "/size/1000/1".into(),
            start_s,
            response_ms,
            received,
            status: 200,
            error,
        }
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut outcomes: Vec<Outcome> = Failure::ALL
            .into_iter()
            .enumerate()
            .map(|(i, failure)| outcome(i as f64 / 3.0, 1.0 / 7.0, i as u64, Some(failure)))
            .collect();
        outcomes.push(outcome(0.125, 12.5, 1000, None));
        let dir = tempfile::tempdir().unwrap();
        for name in ["r.csv", "r.csv.gz"] {
            let file = dir.path().join(name);
            write(&outcomes, &file).unwrap();
            assert_eq!(read(&file).unwrap(), outcomes);
        }
    }

    #[test]
    fn the_json_reads_back_and_names_its_errors() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("r.csv");
        let mut info = RunInfo {
            name: "nginx".to_owned(),
            seed: Some(7),
            client: Some(ClientInfo {
                mode: Mode::PartlyOpen,
                connection: Connection::Keep,
                http2: Some(4),
                clients: None,
                timeout_ms: 1,
                warmup: 2,
                max_open: 3,
            }),
            ..RunInfo::default()
        };
        info.count(&[
            outcome(1.0, 500.0, 1000, None),
            outcome(2.0, 1000.0, 500, Some(Failure::Short)),
        ]);
        assert_eq!((info.requests, info.failed), (2, 1));
        assert_eq!(info.goodput_bytes_per_s, 750.0);
        info.write_beside(&file).unwrap();
        assert_eq!(RunInfo::read_beside(&file).unwrap(), info);

        std::fs::write(dir.path().join("r.json"), "{\n\"name\": 1}").unwrap();
        let error = RunInfo::read_beside(&file).unwrap_err().to_string();
        assert!(error.contains("r.json:2: "), "{error}");
        let missing = RunInfo::read_beside(&dir.path().join("no.csv"));
        let error = missing.unwrap_err().to_string();
        assert!(error.contains("beside"), "{error}");
    }

    #[test]
    fn the_json_stands_beside() {
        for name in ["a/nginx.csv", "a/nginx.csv.gz"] {
            assert_eq!(info_path(Path::new(name)), Path::new("a/nginx.json"));
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let header = COLUMNS.join(",");
        let cases = [
            (
                "0,1,/a,0,nope,1,200,",
                "r.csv:2: `nope` in column `response_ms`",
            ),
            ("0,1,/a,0,-1,1,200,", "r.csv:2: response_ms is -1"),
            (
                "0,1,/a,0,1,1,200,oops",
                "r.csv:2: `oops` in column `error` is not connect",
            ),
            ("0,1,/a,0,1,1,99999,", "r.csv:2: `99999` in column `status`"),
        ];
        for (row, expected) in cases {
            let text = format!("{header}\n{row}\n");
            let error = from_reader(text.as_bytes(), Path::new("r.csv")).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
