//! The header fields of a message, read from the host when the first is asked for.

use std::cell::OnceCell;

use proxy_wasm::hostcalls;
use proxy_wasm::types::MapType;
use sprat_config::fields::Fields;

/// The fields of the message that the present callback is about.
pub(crate) struct HostFields {
    map: MapType,
    /// The names and values of all fields, once a rule has asked for one.
    all: OnceCell<Vec<(String, Vec<u8>)>>,
}

impl Fields for HostFields {
    /// Shows each value of the fields of one name to `see`. Of a name that comes more than once,
    /// the host's look-up by name knows the first value alone; but `host` means `:authority` to it,
    /// which is the name that Envoy keeps that field under.
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        let read = || hostcalls::get_map_bytes(self.map).unwrap_or_default();
        let all = self.all.get_or_init(read);
        let name = match name {
            "host" if !all.iter().any(|(own, _)| own == name) => ":authority",
            name => name,
        };
        let mut own = all.iter();
        own.any(|(own, value)| own == name && see(&String::from_utf8_lossy(value)))
    }
}

impl HostFields {
    /// Creates the fields of one of the host's maps, and reads none yet.
    pub(crate) fn of(map: MapType) -> Self {
        Self {
            map,
            all: OnceCell::new(),
        }
    }

    /// Returns the value of a field that comes once, as text; empty if there is none. What is not
    /// UTF-8 is replaced, as in [`Fields::any`], so that rules for the rest of it still count.
    pub(crate) fn text(&self, name: &str) -> String {
        let value = hostcalls::get_map_value_bytes(self.map, name);
        let value = value.ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&value).into_owned()
    }
}
