//! The answers of the admin listener, as far as they are shown. Texts are cleaned as they come in:
//! nothing that a server says can command the terminal.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// One look at a server: its figures and its responses in progress.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) stats: Stats,
    /// The responses in progress; or the reason why they are not there.
    pub(crate) flows: Result<Flows, String>,
}

/// Returns the first 256 characters of a text, with a question mark in place of each that a
/// terminal could obey, or that changes the direction of what follows.
pub(crate) fn clean(text: &str) -> String {
    let is_bad = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars()
        .map(|c| if is_bad(c) { '?' } else { c })
        .take(256)
        .collect()
}

fn cleaned<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(clean(&text.unwrap_or_default()))
}

/// The figures that `/stats` tells of a server.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Stats {
    pub(crate) at_unix_ms: u64,
    #[serde(deserialize_with = "cleaned")]
    pub(crate) version: String,
    #[serde(deserialize_with = "cleaned")]
    pub(crate) stage: String,
    pub(crate) uplink: Uplink,
    pub(crate) connections: Connections,
    pub(crate) requests: Requests,
    #[serde(default)]
    pub(crate) failures: Vec<Counted>,
    #[serde(default)]
    pub(crate) refusals: Vec<Counted>,
    #[serde(default)]
    pub(crate) sizes: Vec<SizeClass>,
    #[serde(default)]
    pub(crate) classes: Vec<Class>,
    #[serde(default)]
    pub(crate) endpoints: Vec<Endpoint>,
    #[serde(default)]
    pub(crate) gain: Option<Gain>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Uplink {
    #[serde(deserialize_with = "cleaned")]
    pub(crate) policy: String,
    #[serde(deserialize_with = "cleaned")]
    pub(crate) rate: String,
    pub(crate) rate_bits_per_s: Option<u64>,
    pub(crate) standing_queue_ms: Option<f64>,
    pub(crate) backlog_ms: Option<f64>,
    pub(crate) wire_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) response_bytes: u64,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Connections {
    pub(crate) open: u64,
    #[serde(default)]
    pub(crate) open_tunnels: u64,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Requests {
    pub(crate) open: u64,
    #[serde(default)]
    pub(crate) by_code: BTreeMap<String, u64>,
}

/// The number of times that something happened, by its reason.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Counted {
    #[serde(deserialize_with = "cleaned")]
    pub(crate) reason: String,
    pub(crate) count: u64,
}

/// The durations of the responses of one class of sizes.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct SizeClass {
    #[serde(deserialize_with = "cleaned")]
    pub(crate) size: String,
    pub(crate) durations_s: Durations,
}

/// The times that responses took, since the server began.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Durations {
    /// The numbers of responses, by bounds of time.
    pub(crate) counts: Vec<u64>,
    /// The sum of all times.
    pub(crate) sum: f64,
}

impl Durations {
    /// Returns the mean in milliseconds of the responses since `before`, a look at the
    /// same server; none if there were none.
    pub(crate) fn mean_ms_since(&self, before: Option<&Self>) -> Option<f64> {
        let count = |own: &Self| own.counts.iter().sum::<u64>();
        let (responses, sum_s) = match before {
            None => (count(self), self.sum),
            Some(before) => (
                count(self).checked_sub(count(before))?,
                self.sum - before.sum,
            ),
        };
        (responses > 0).then(|| sum_s.max(0.0) * 1e3 / responses as f64)
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Class {
    #[serde(deserialize_with = "cleaned")]
    pub(crate) class: String,
    pub(crate) level: u64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) waiting: u64,
    pub(crate) refused: u64,
    pub(crate) open_flows: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Endpoint {
    #[serde(deserialize_with = "cleaned")]
    pub(crate) cluster: String,
    #[serde(deserialize_with = "cleaned")]
    pub(crate) address: String,
    pub(crate) used: bool,
    #[serde(default)]
    pub(crate) draining: bool,
    #[serde(default)]
    pub(crate) weight: u64,
    #[serde(default)]
    pub(crate) configured_weight: u64,
    pub(crate) ejected_for_ms: Option<u64>,
    pub(crate) passes_checks: Option<bool>,
    pub(crate) outstanding: u64,
    pub(crate) connections: u64,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Gain {
    pub(crate) ratio: Option<f64>,
    pub(crate) last_minute: Means,
    #[serde(default)]
    pub(crate) last_ten_minutes: Apart,
}

/// The gain of responses by their size, and by the clients' networks.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Apart {
    #[serde(default)]
    pub(crate) sizes: Vec<SizeGain>,
    #[serde(default)]
    pub(crate) networks: Vec<NetworkGain>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct SizeGain {
    #[serde(deserialize_with = "cleaned")]
    pub(crate) size: String,
    pub(crate) gain: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct NetworkGain {
    #[serde(deserialize_with = "cleaned")]
    pub(crate) network: String,
    pub(crate) gain: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Means {
    pub(crate) mean_ms: Option<f64>,
    pub(crate) fair_mean_ms: Option<f64>,
    pub(crate) gain: Option<f64>,
}

/// The responses in progress that `/flows` tells of.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Flows {
    pub(crate) is_paced: bool,
    pub(crate) open: u64,
    pub(crate) waiting: u64,
    pub(crate) flows: Vec<Flow>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Flow {
    pub(crate) number: u64,
    #[serde(deserialize_with = "cleaned")]
    pub(crate) class: String,
    #[serde(deserialize_with = "cleaned")]
    pub(crate) cluster: String,
    #[serde(deserialize_with = "cleaned")]
    pub(crate) state: String,
    pub(crate) size_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) size_is_exact: bool,
    pub(crate) sent_bytes: u64,
    pub(crate) left_bytes: Option<u64>,
    pub(crate) age_ms: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_the_terminal() {
        assert_eq!(
            clean("a\u{1b}[2J\r\n\u{9b}31m\u{202e}\u{7}\u{0}é"),
            "a?[2J???31m???é"
        );
        let flow = r#"{"number": 1, "class": "\u001b]0;title\u0007", "cluster": null,
                       "state": "waiting", "sent_bytes": 0, "left_bytes": null, "age_ms": 0.5}"#;
        let flow: Flow = serde_json::from_str(flow).unwrap();
        assert_eq!((&*flow.class, &*flow.cluster), ("?]0;title?", ""));
    }
}
