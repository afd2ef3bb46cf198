//! Recorded traces (`t_s,bytes,status,url`) turned into traces for replay.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Deserializer};

use crate::table::{self, TableError, TableReader};
use crate::trace::{REQUESTS_MAX, Request, Trace};
use crate::workload::{Dice, origin_path};

/// The columns of a recorded trace, in the order in which fields are read.
pub(crate) const COLUMNS: [&str; 4] = ["t_s", "bytes", "status", "url"];
const NOT_MODIFIED: u16 = 304;

/// The time of a request, in a row of a recorded trace.
#[derive(Deserialize)]
struct RecordedTime {
    #[serde(deserialize_with = "table::seconds")]
    t_s: f64,
}

/// The reply to a request, in a row of a recorded trace.
#[derive(Deserialize)]
pub(crate) struct RecordedReply<'a> {
    #[serde(deserialize_with = "table::bytes")]
    bytes: u64,
    #[serde(deserialize_with = "status")]
    status: Option<u16>,
    pub(crate) url: &'a str,
}

/// Reads a status, or `-`, as the common log format has it: the server did not note one.
fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u16>, D::Error> {
    table::parsed_unless(deserializer, "-", "a status code or `-`")
}

impl RecordedReply<'_> {
    /// Returns the bytes of the reply's body; 0 if the reply had none.
    pub(crate) fn body_bytes(&self) -> u64 {
        match self.status {
            Some(NOT_MODIFIED) => 0,
            _ => self.bytes,
        }
    }
}

/// Reads a recorded trace: the first `limit` requests that have a body. Stamps of whole seconds are
/// spread uniformly inside their second, by `seed`; each distinct size of a URL becomes a file of
/// the origin; time 0 is the first second.
///
/// # Errors
/// Names file and line when a field does not parse, time goes backwards, or no
/// request has a body.
pub fn read(file: &Path, limit: Option<u32>, seed: u64) -> Result<Trace, TableError> {
    from_reader(table::open(file)?, file, limit, seed)
}

fn from_reader(
    input: impl Read,
    file: &Path,
    limit: Option<u32>,
    seed: u64,
) -> Result<Trace, TableError> {
    let mut table = TableReader::new(input, file, &COLUMNS, &[])?;
    let limit = limit.map_or(REQUESTS_MAX, |limit| limit as usize);
    let mut ids: HashMap<(Box<str>, u64), usize> = HashMap::new();
    let mut requests: Vec<Request> = Vec::new();
    while requests.len() < limit
        && let Some(row) = table.next_row()?
    {
        let RecordedTime { t_s } = row.read()?;
        let reply: RecordedReply<'_> = row.read()?;
        let bytes = reply.body_bytes();
        if bytes == 0 {
            continue;
        }
        if requests.last().is_some_and(|last| last.t_s > t_s) {
            return Err(row.error("t_s goes backwards; sort the trace by t_s".to_owned()));
        }
        let next_id = ids.len();
        let id = *ids.entry((reply.url.into(), bytes)).or_insert(next_id);
        requests.push(Request {
            t_s,
            bytes,
            path: origin_path(bytes, id),
            user: None,
        });
    }
    if requests.is_empty() {
        return Err(TableError::whole(file, "no request has a body"));
    }
    spread(&mut requests, seed);
    Ok(Trace { requests })
}

/// Spreads whole-second stamps inside their second, and counts times from the first.
fn spread(requests: &mut [Request], seed: u64) {
    let whole_seconds = requests.iter().all(|request| request.t_s.fract() == 0.0);
    let first_s = requests[0].t_s;
    let mut dice = Dice::new(seed);
    for request in requests.iter_mut() {
        request.t_s -= first_s;
        if whole_seconds {
            request.t_s += dice.uniform();
        }
    }
    requests.sort_by(|a, b| a.t_s.total_cmp(&b.t_s));
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "t_s,bytes,status,url\n4,0,304,/a\n4,9,304,/a\n5,10,200,/a\n5,20,200,/b\n5,10,200,/a\n9,30,200,/a\n";

    fn from_text(text: &str, limit: Option<u32>, seed: u64) -> Result<Trace, TableError> {
        from_reader(text.as_bytes(), Path::new("r.csv"), limit, seed)
    }

    #[test]
    fn bodies_become_files_and_stamps_are_spread() {
        let trace = from_text(RECORDED, None, 1).unwrap();
        let mut paths: Vec<&str> = trace.requests.iter().map(|r| &*r.path).collect();
        paths.sort_unstable();
        assert_eq!(
            paths,
            ["/size/10/0", "/size/10/0", "/size/20/1", "/size/30/2"]
        );
        let times: Vec<f64> = trace.requests.iter().map(|r| r.t_s).collect();
        assert!(times.is_sorted());
        assert!(times[..3].iter().all(|t_s| (0.0..1.0).contains(t_s)));
        assert!((4.0..5.0).contains(&times[3]));
        assert_ne!(times[0], times[1]);
        assert_eq!(trace, from_text(RECORDED, None, 1).unwrap());
        assert_ne!(trace, from_text(RECORDED, None, 2).unwrap());
    }

    #[test]
    fn a_status_may_be_unknown_but_not_nonsense() {
        let text = "t_s,bytes,status,url\n4,7,-,/a\n";
        assert_eq!(from_text(text, None, 1).unwrap().requests.len(), 1);
        let error = from_text(&text.replace(",-,", ",x,"), None, 1).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("r.csv:2: `x` in column `status`"),
            "{error}"
        );
    }

    #[test]
    fn fine_stamps_are_kept_and_the_limit_counts_bodies() {
        let fine = RECORDED
            .replace("\n5,20", "\n5.25,20")
            .replace("\n5,10,200,/a\n9", "\n5.5,10,200,/a\n9");
        let trace = from_text(&fine, Some(3), 1).unwrap();
        let times: Vec<f64> = trace.requests.iter().map(|r| r.t_s).collect();
        assert_eq!(times, [0.0, 0.25, 0.5]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let error =
            from_text("t_s,bytes,status,url\n5,1,200,/a\n4,1,200,/a\n", None, 1).unwrap_err();
        assert!(error.to_string().starts_with("r.csv:3: "), "{error}");
        let error = from_text("t_s,bytes,status,url\n4,0,304,/a\n", None, 1).unwrap_err();
        assert_eq!(error.to_string(), "r.csv: no request has a body");
    }
}
