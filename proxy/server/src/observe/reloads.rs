//! The outcomes of a process's reloads.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use flate2::read::GzDecoder;
use serde::Serialize;
use sprat_config::{Shown, effective};
use sprat_net::metrics::{Labels, Row, Topic};

/// The outcomes of reloads, for `/metrics` and `/config`.
#[derive(Debug, Default)]
pub(crate) struct Reloads(Mutex<Status>);

/// The outcomes of the reloads up to a moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Status {
    /// The time when the configuration that is served by was read, in seconds since 1970.
    loaded_unix_s: u64,
    good: u64,
    bad: u64,
    /// Whether the configuration that was read last is the one that is served by.
    last_reload_successful: bool,
    /// The error in the configuration that was read last, if it is not served by.
    last_error: Option<String>,
}

/// The fields of the page `/config`.
#[derive(Serialize)]
struct ReloadsPage<'a> {
    #[serde(flatten)]
    status: Status,
    configuration: &'a serde_json::Value,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            loaded_unix_s: now_unix_s(),
            good: 0,
            bad: 0,
            last_reload_successful: true,
            last_error: None,
        }
    }
}

fn now_unix_s() -> u64 {
    let unix = SystemTime::UNIX_EPOCH.elapsed();
    unix.map_or(0, |elapsed| elapsed.as_secs())
}

impl Reloads {
    fn lock(&self) -> MutexGuard<'_, Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the outcomes of the reloads so far.
    pub(crate) fn status(&self) -> Status {
        self.lock().clone()
    }

    /// Notes that a reload has ended, and what was wrong if it failed.
    pub(crate) fn note(&self, outcome: Result<(), String>) {
        let mut status = self.lock();
        status.last_reload_successful = outcome.is_ok();
        match &outcome {
            Ok(()) => {
                status.good += 1;
                status.loaded_unix_s = now_unix_s();
            }
            Err(_) => status.bad += 1,
        }
        status.last_error = outcome.err();
    }

    /// Returns the outcomes as JSON, with the configuration that is served by.
    pub(crate) fn json(&self, shown: &Shown) -> String {
        let page = ReloadsPage {
            status: self.status(),
            configuration: shown.json(),
        };
        serde_json::to_string_pretty(&page).unwrap_or_default() + "\n"
    }

    /// Returns the configuration that is served by as YAML, with what it leaves out.
    pub(crate) fn effective(&self, shown: &Shown) -> String {
        let schema = schema().and_then(|text| Ok(serde_json::from_str(&text)?));
        // It is in the program, and tests read it.
        let schema = schema.unwrap_or(serde_json::Value::Null);
        let status = self.status();
        let at = jiff::Timestamp::from_second(i64::try_from(status.loaded_unix_s).unwrap_or(0));
        let at = at.map_or_else(|_| String::new(), |at| at.to_string());
        let refused = match status.last_error {
            None => "",
            Some(_) => "# The file has changed since and was refused: /config has the error.\n",
        };
        format!("# Read {at}.\n{refused}") + &effective(shown, &schema)
    }
}

/// Returns the JSON Schema of the configuration.
///
/// # Errors Fails only if the program's copy is damaged: it is compressed when the program
/// is built.
pub fn schema() -> anyhow::Result<String> {
    let compressed: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schema.json.gz"));
    Ok(io::read_to_string(GzDecoder::new(compressed))?)
}

/// The metrics that tell of the configuration.
#[rustfmt::skip]
pub(crate) static CONFIGURATION: Topic<Status> = Topic { title: "The configuration", rows: &[
    Row::gauge("sprat_config_last_reload_successful", Labels::NONE,
        "1 if the configuration that was read last is in use, 0 if it was refused",
        |own, out| out.one(own.last_reload_successful)),
    Row::gauge("sprat_config_last_reload_success_timestamp_seconds", Labels::NONE,
        "When the configuration in use was read, in seconds since 1970-01-01 UTC",
        |own, out| out.one(own.loaded_unix_s)),
    Row::counter("sprat_config_reloads_total", Labels::NONE.and("result", 2),
        "Reloads of the configuration: good (in use), or bad (refused)",
        |own, out| {
            out.put(&["good"], own.good);
            out.put(&["bad"], own.bad);
        }),
] };
