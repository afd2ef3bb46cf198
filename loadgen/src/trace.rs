//! Traces: the responses that clients ask for, and when.
//!
//! A trace is a CSV with the header `t_s,bytes,path` and optionally `user`.
//! A trace with users is partly open: a user's first row says when the user
//! arrives, and each later row of that user starts when the one before it is
//! done, whatever its `t_s`.

use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};
use sprat_measure::wire::{self, Connection};

use crate::table::{self, TableError, TableReader};

/// The most requests a trace may hold; some 2 GB in memory.
pub const REQUESTS_MAX: usize = 20_000_000;

/// The longest path, in bytes: what common servers take as a request line.
pub const PATH_BYTES_MAX: usize = 8 * 1024;

/// One request of a trace, as a line of the CSV.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Planned arrival, in seconds since the start of the trace.
    #[serde(serialize_with = "table::number", deserialize_with = "table::seconds")]
    pub t_s: f64,
    /// Size of the response's body, in bytes.
    #[serde(deserialize_with = "table::bytes")]
    pub bytes: u64,
    /// Path of the URL, beginning with `/`.
    pub path: Box<str>,
    /// The user who asks, in a partly open trace.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "user"
    )]
    pub user: Option<u32>,
}

/// Reads the number of a user, whom each row has if the column is there.
fn user<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    table::parsed(deserializer, "a user's number").map(Some)
}

/// Requests in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The requests, sorted by `t_s`. Either all have a user or none.
    pub requests: Vec<Request>,
}

const COLUMNS: [&str; 3] = ["t_s", "bytes", "path"];
const OPTIONAL_COLUMNS: [&str; 1] = ["user"];

impl Trace {
    /// Reads a trace; a name that ends in `.gz` is decompressed.
    ///
    /// # Errors
    /// Names file and line when a field does not parse, a time goes backwards,
    /// a path is no URL path, or the trace holds nothing or too much.
    pub fn read(file: &Path) -> Result<Self, TableError> {
        Self::from_reader(table::open(file)?, file)
    }

    /// Reads like [`Trace::read`], but from any input; `file` is for the messages.
    pub fn from_reader(input: impl Read, file: &Path) -> Result<Self, TableError> {
        let mut table = TableReader::new(input, file, &COLUMNS, &OPTIONAL_COLUMNS)?;
        let mut requests: Vec<Request> = Vec::new();
        while let Some(row) = table.next_row()? {
            let request: Request = row.read()?;
            if let Some(problem) = path_problem(&request.path) {
                return Err(row.error(format!("path `{}` {problem}", request.path)));
            }
            if requests.last().is_some_and(|last| last.t_s > request.t_s) {
                return Err(row.error("t_s goes backwards; sort the trace by t_s".to_owned()));
            }
            if requests.len() == REQUESTS_MAX {
                return Err(row.error(format!("more than {REQUESTS_MAX} requests")));
            }
            requests.push(request);
        }
        if requests.is_empty() {
            return Err(TableError::whole(file, "the trace holds no request"));
        }
        Ok(Self { requests })
    }

    /// Writes the trace; a name that ends in `.gz` is compressed.
    pub fn write(&self, file: &Path) -> Result<(), TableError> {
        table::create(file, |out| self.to_writer(out))
    }

    /// Writes like [`Trace::write`], but to any output.
    pub fn to_writer(&self, out: impl Write) -> io::Result<()> {
        let users = OPTIONAL_COLUMNS.iter().filter(|_| self.has_users());
        table::write_lines(COLUMNS.iter().chain(users), &self.requests, out)
    }

    /// Returns whether the trace is partly open.
    pub fn has_users(&self) -> bool {
        self.requests
            .first()
            .is_some_and(|request| request.user.is_some())
    }

    /// Returns the seconds from the start to the last arrival.
    pub fn duration_s(&self) -> f64 {
        self.requests.last().map_or(0.0, |request| request.t_s)
    }

    /// Returns the bytes of all bodies.
    pub fn payload_bytes(&self) -> u64 {
        let sizes = self.requests.iter().map(|request| request.bytes);
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns the bytes that all responses cost on the wire.
    pub fn wire_bytes(&self, connection: Connection) -> u64 {
        let costs = self.requests.iter();
        costs
            .map(|request| wire::response_bytes(request.bytes, connection))
            .fold(0, u64::saturating_add)
    }

    /// Returns the load that the trace puts on a link: bytes over what the link
    /// carries while requests arrive. `None` if they all arrive at once.
    pub fn load(&self, connection: Connection, uplink_bits_per_s: u64) -> Option<Load> {
        let capacity_bytes = self.duration_s() * uplink_bits_per_s as f64 / 8.0;
        (capacity_bytes > 0.0).then(|| Load {
            wire: self.wire_bytes(connection) as f64 / capacity_bytes,
            payload: self.payload_bytes() as f64 / capacity_bytes,
        })
    }
}

/// Load on a link, as a share of its capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The load of all bytes on the wire.
    pub wire: f64,
    /// The load of the bodies alone.
    pub payload: f64,
}

/// Returns why `path` cannot stand in a request line, if it cannot.
fn path_problem(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        Some("does not begin with `/`")
    } else if path.len() > PATH_BYTES_MAX {
        Some("is longer than 8 KB")
    } else if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        Some("holds a space, a control character or a byte beyond ASCII; percent-encode it")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Trace, TableError> {
        Trace::from_reader(text.as_bytes(), Path::new("t.csv"))
    }

    fn problem(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn reads_columns_in_any_order() {
        let trace = read("path,bytes,t_s\n/a,10,0.5\n\"/b,c\",0,0.5\n").unwrap();
        assert_eq!(trace.requests.len(), 2);
        assert_eq!(&*trace.requests[1].path, "/b,c");
        assert_eq!(trace.requests[0].t_s, 0.5);
        assert!(!trace.has_users());
    }

    #[test]
    fn errors_name_file_and_line() {
        let cases = [
            (
                "t_s,bytes,path\n0,1,/a\nx,1,/a\n",
                "t.csv:3: `x` in column `t_s` is not a number of seconds",
            ),
            ("t_s,bytes,path\n-1,1,/a\n", "t.csv:2: `-1` in column `t_s`"),
            (
                "t_s,bytes,path\nNaN,1,/a\n",
                "t.csv:2: `NaN` in column `t_s`",
            ),
            (
                "t_s,bytes,path\n0,-1,/a\n",
                "t.csv:2: `-1` in column `bytes`",
            ),
            (
                "t_s,bytes,path\n0,1,a\n",
                "t.csv:2: path `a` does not begin",
            ),
            (
                "t_s,bytes,path\n0,1,/a b\n",
                "t.csv:2: path `/a b` holds a space",
            ),
            (
                "t_s,bytes,path\n2,1,/a\n1,1,/a\n",
                "t.csv:3: t_s goes backwards",
            ),
            (
                "t_s,bytes,path\n1,1\n",
                "t.csv:2: 2 fields where the header names 3",
            ),
            ("t_s,bytes\n1,1\n", "t.csv:1: column `path` is missing"),
            (
                "t_s,bytes,path,t_s\n",
                "t.csv:1: column `t_s` appears twice",
            ),
            ("t_s,bytes,path,url\n", "t.csv:1: unknown column `url`"),
            (
                "t_s,bytes,path,user\n0,1,/a,\n",
                "t.csv:2: `` in column `user`",
            ),
            ("t_s,bytes,path\n", "t.csv: the trace holds no request"),
            ("", "t.csv:1: column `t_s` is missing"),
        ];
        for (text, expected) in cases {
            let found = problem(text);
            assert!(found.starts_with(expected), "{text:?}: {found}");
        }
        let long = format!("t_s,bytes,path\n0,1,/{}\n", "a".repeat(PATH_BYTES_MAX));
        assert!(problem(&long).contains("longer than 8 KB"));
    }

    #[test]
    fn extreme_values_neither_overflow_nor_pass_for_times() {
        let max = u64::MAX;
        let trace = read(&format!("t_s,bytes,path\n0,{max},/a\n1,{max},/a\n")).unwrap();
        assert_eq!(trace.payload_bytes(), max);
        assert_eq!(trace.wire_bytes(Connection::New), max);
        assert!(problem("t_s,bytes,path\n1e13,1,/a\n").contains("0 to 1e12"));
    }

    #[test]
    fn a_missing_file_and_a_cut_gzip_are_named() {
        let missing = Trace::read(Path::new("/nonexistent/t.csv")).unwrap_err();
        assert!(missing.to_string().starts_with("/nonexistent/t.csv: "));

        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.csv.gz");
        let whole = read("t_s,bytes,path\n0,1,/a\n1,1,/b\n").unwrap();
        whole.write(&file).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() - 12]).unwrap();
        let cut = Trace::read(&file).unwrap_err();
        assert_eq!(cut.file, file);
    }

    #[test]
    fn load_counts_head_segments_and_connection() {
        let trace = read("t_s,bytes,path\n0,100,/a\n1,1228,/b\n").unwrap();
        let own = trace.load(Connection::New, 8000).unwrap();
        // 100 + 220 in one segment, 1228 + 220 in one more, two connections.
        assert_eq!(
            own.wire,
            (320.0 + 66.0 + 330.0 + 1448.0 + 66.0 + 330.0) / 1000.0
        );
        assert_eq!(own.payload, 1.328);
        let kept = trace.load(Connection::Keep, 8000).unwrap();
        assert_eq!(kept.wire, (320.0 + 66.0 + 1448.0 + 66.0) / 1000.0);
        assert_eq!(
            read("t_s,bytes,path\n0,1,/\n")
                .unwrap()
                .load(Connection::New, 1),
            None
        );
    }

    prop_compose! {
        fn traces()(users in any::<bool>())(
            rows in prop::collection::vec((0u32..1000, any::<u32>(), "/[!-~]{0,40}", any::<u32>()), 1..40),
            users in Just(users),
        ) -> Trace {
            let mut t_s = 0.0;
            let requests = rows.into_iter().map(|(gap, bytes, path, user)| {
                t_s += f64::from(gap) / 7.0;
                Request { t_s, bytes: bytes.into(), path: path.into(), user: users.then_some(user) }
            }).collect();
            Trace { requests }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(trace in traces(), gzip in any::<bool>()) {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join(if gzip { "t.csv.gz" } else { "t.csv" });
            trace.write(&file).unwrap();
            prop_assert_eq!(Trace::read(&file).unwrap(), trace);
        }

        #[test]
        fn any_text_reads_or_is_refused_with_its_file(text in "(t_s,bytes,path(,user)?\n)?[0-9a-z,./\"\n-]{0,200}") {
            match read(&text) {
                Ok(trace) => {
                    prop_assert!(!trace.requests.is_empty());
                    prop_assert!(trace.requests.is_sorted_by(|a, b| a.t_s <= b.t_s));
                }
                Err(error) => prop_assert!(error.to_string().starts_with("t.csv")),
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Trace::from_reader(&bytes[..], Path::new("t.csv"));
        }
    }
}
