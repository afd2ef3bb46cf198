//! How reloads went.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use serde::Serialize;
use sprat_config::Shown;
use sprat_net::encoding::{count, gauge};

/// How reloads went, for `/metrics` and `/config`.
#[derive(Debug, Default)]
pub(crate) struct Reloads(Mutex<Status>);

#[derive(Clone, Debug, Serialize)]
struct Status {
    /// What is served by was read so many seconds after 1970.
    loaded_unix_s: u64,
    good: u64,
    bad: u64,
    /// Whether the file that was read last is what is served by.
    last_reload_successful: bool,
    /// What was wrong with it, if it is not.
    last_error: Option<String>,
}

/// What `/config` tells.
#[derive(Serialize)]
struct Page<'a> {
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

    /// One has ended; what was wrong if it failed.
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

    /// As JSON, with the configuration that is served by.
    pub(crate) fn json(&self, shown: &Shown) -> String {
        let page = Page {
            status: self.lock().clone(),
            configuration: shown.json(),
        };
        serde_json::to_string_pretty(&page).unwrap_or_default() + "\n"
    }
}

impl Collector for Reloads {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.lock().clone();
        let help = "1 if the configuration read last is what is served by, 0 if it was refused";
        let successful = u64::from(status.last_reload_successful);
        gauge(
            &mut encoder,
            "config_last_reload_successful",
            help,
            successful,
        )?;
        let help = "When the configuration that is served by was read, seconds of Unix time";
        let name = "config_last_reload_success_timestamp_seconds";
        gauge(&mut encoder, name, help, status.loaded_unix_s)?;
        let help = "Configurations read anew: good, and served by, or bad";
        let kind = MetricType::Counter;
        let mut metric = encoder.encode_descriptor("config_reloads", help, None, kind)?;
        for (result, value) in [("good", status.good), ("bad", status.bad)] {
            count(&mut metric.encode_family(&[("result", result)])?, value)?;
        }
        Ok(())
    }
}
