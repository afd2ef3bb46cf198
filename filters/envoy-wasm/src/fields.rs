//! A message's header fields, asked of the host one by one: most rules look at
//! few.

use proxy_wasm::hostcalls::get_map_value;
use proxy_wasm::types::MapType;
use sprat_config::fields::Fields;

/// The fields of the message that the callback is about.
pub(crate) struct HostFields(pub(crate) MapType);

impl Fields for HostFields {
    /// The host joins the values of fields of one name.
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        matches!(get_map_value(self.0, name), Ok(Some(value)) if see(&value))
    }
}

impl HostFields {
    /// The value of a field; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> String {
        get_map_value(self.0, name)
            .ok()
            .flatten()
            .unwrap_or_default()
    }
}
