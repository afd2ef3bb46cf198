//! The gain of the uplink's order, as JSON for the admin listener.

use serde::Serialize;
use sprat_uplink::Gain;

use super::Metrics;

/// The fields of the page `/gain`.
#[derive(Serialize)]
struct GainPage {
    /// The gain; null where there is nothing to compare.
    gain: Option<Gain>,
    /// The reason why there is nothing to compare, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    nothing_to_compare: Option<&'static str>,
}

impl Metrics {
    /// Returns what the uplink's order gains over `fair`, as JSON.
    pub(crate) fn gain(&self) -> String {
        let present = self.present.load();
        let page = GainPage {
            gain: present.uplink.gain(),
            nothing_to_compare: present.uplink.nothing_to_compare(),
        };
        serde_json::to_string_pretty(&page).unwrap_or_default() + "\n"
    }
}
