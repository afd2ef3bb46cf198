//! A message's header fields, asked of the host one by one: most rules look at
//! few.

use sprat_config::fields::Fields;

use crate::abi::{Head, field};

/// The fields of the message that the callback is about.
pub(crate) struct HostFields(pub(crate) Head);

impl Fields for HostFields {
    /// The host joins the values of fields of one name.
    fn any(&self, name: &str, see: &mut dyn FnMut(&str) -> bool) -> bool {
        matches!(field(self.0, name), Some(value) if see(&value))
    }
}

impl HostFields {
    /// The value of a field; empty if there is none.
    pub(crate) fn text(&self, name: &str) -> String {
        field(self.0, name).unwrap_or_default()
    }
}
