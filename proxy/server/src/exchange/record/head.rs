//! The head of a response as the client gets it.

use http::Response;

use super::Record;
use crate::setup::routing::Telling;

impl Record {
    /// Makes the head of a response as the client gets it, and keeps what logs tell of
    /// it.
    pub(crate) fn finish_head<B>(&mut self, response: &mut Response<B>) {
        self.edit_head(response);
        let ids = self.stream.connection().listener.request_ids.as_ref();
        if let (Some(ids), Some(id)) = (ids, &self.facts.request_id) {
            ids.tell(response.headers_mut(), id);
        }
        if let Some(logs) = &self.generation.log {
            self.facts.response = logs.needs().of_response(response.headers());
        }
    }

    /// Changes the head of a response as the route says.
    fn edit_head<B>(&self, response: &mut Response<B>) {
        if let Some(granted) = self.routing.granted() {
            granted.tell(response.headers_mut());
        }
        let edits = self.route().and_then(|route| route.edits.as_ref());
        let edits = edits.and_then(|edits| edits.response.as_ref());
        let (Some(edits), Some(subject)) = (edits, self.routing.subject()) else {
            return;
        };
        let cluster = self.cluster();
        let told = Telling {
            subject,
            cluster: cluster.map_or("", |own| own.name()),
            endpoint: self.upstream.label().unwrap_or_default(),
            response: Some((response.status(), response.headers())),
        };
        let values = edits.values(&told);
        edits.apply(values, response.headers_mut());
    }
}
