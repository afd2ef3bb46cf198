//! The shared filter's decisions about a stream. The stream's own worker carries them out, in one
//! of the stream's hooks.

use sprat_filter::Answer;

use crate::host::{Fields, Host};

/// The way in which a held request ends its wait.
#[derive(Debug)]
pub(crate) enum Go {
    /// The request goes on to its pool.
    On,
    /// The request is answered by the filter.
    Answered(Box<Answer>),
}

/// The orders for one stream.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    /// The fields of heads to set, or to remove.
    fields: Vec<(Fields, String, Option<String>)>,
    /// The keys and values to set in the metadata of load balancing.
    metadata: Vec<(String, String)>,
    /// The way in which the request's wait ends, if it was held.
    pub(crate) go: Option<Go>,
    /// The probe that was sent from the stream, if there is one.
    pub(crate) probe: Option<u32>,
}

impl Orders {
    pub(crate) fn of_probe(probe: Option<u32>) -> Self {
        Self {
            probe,
            ..Self::default()
        }
    }

    pub(crate) fn field(&mut self, head: Fields, name: &str, value: Option<&str>) {
        let value = value.map(str::to_owned);
        self.fields.push((head, name.to_owned(), value));
    }

    pub(crate) fn metadata(&mut self, key: &str, value: &str) {
        self.metadata.push((key.to_owned(), value.to_owned()));
    }

    /// Changes the heads and the metadata as ordered.
    pub(crate) fn carry_out(&mut self, host: &mut impl Host) {
        let mut routed = !self.metadata.is_empty();
        for (head, name, value) in self.fields.drain(..) {
            routed |= head == Fields::Request;
            host.set_field(head, &name, value.as_deref());
        }
        for (key, value) in self.metadata.drain(..) {
            host.set_metadata(&key, &value);
        }
        if routed {
            host.clear_route_cache();
        }
    }
}
