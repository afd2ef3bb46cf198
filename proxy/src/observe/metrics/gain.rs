//! What the uplink's order gains, as JSON for the admin listener.

use serde::Serialize;
use sprat_uplink::Gain;

use super::Metrics;

/// A page of one field.
#[derive(Serialize)]
struct GainPage {
    /// Null where there is nothing to compare.
    gain: Option<Gain>,
}

impl Metrics {
    /// Returns what the uplink's order gains over `fair`, as JSON.
    pub(crate) fn gain(&self) -> String {
        let gain = self.present.load().uplink.gain();
        serde_json::to_string_pretty(&GainPage { gain }).unwrap_or_default() + "\n"
    }
}
