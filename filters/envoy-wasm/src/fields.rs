//! The header fields of a message, read from the host one by one: most rules look at few.

use proxy_wasm::hostcalls;
use proxy_wasm::types::MapType;
use sprat_config::fields::Fields;

/// The fields of the message that the present callback is about.
pub(crate) struct HostFields(pub(crate) MapType);

impl Fields for HostFields {
    /// Shows the value of the fields of one name, which the host joins, to `see`.
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        matches!(self.value(name), Some(value) if see(&value))
    }
}

impl HostFields {
    /// Returns the value of a field; none if there is no such field, or its value is no text.
    fn value(&self, name: &str) -> Option<String> {
        let value = hostcalls::get_map_value_bytes(self.0, name).ok()??;
        String::from_utf8(value).ok()
    }

    /// Returns the value of a field as text; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> String {
        self.value(name).unwrap_or_default()
    }
}
