//! HTTP/1.1 with a client: what goes beyond the request in progress.

use std::cell::{Cell, RefCell};

use bytes::BytesMut;
use sprat_net::framing::RequestWatch;

use super::account::Account;

/// The state that HTTP/1.1 needs on a connection. While HTTP/2 is spoken it rests.
#[derive(Default)]
pub(super) struct Http1 {
    /// The watch over where requests begin and end in what the client sends.
    pub(super) watch: RefCell<RequestWatch>,
    /// Whether the client has closed its sending side.
    pub(super) has_finished_sending: Cell<bool>,
    /// A response handed over to hyper whose bytes may not be in the socket yet.
    pub(super) finishing: RefCell<Option<Box<dyn Account>>>,
    /// Interim responses that the socket does not have yet.
    pub(super) interim: RefCell<BytesMut>,
    /// Whether the connection is read for a while when it ends with the present answer.
    pub(super) lingers: Cell<bool>,
}

impl Http1 {
    /// Returns whether the socket has still to take the end of a response. Until
    /// then the client can't be late with its next request, though it may have sent
    /// some of it.
    pub(super) fn is_finishing(&self) -> bool {
        self.finishing.borrow().is_some()
    }

    /// Returns whether all that there was to read and to write is read and written, but
    /// for what is in the socket.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.is_finishing()
            && !self.has_finished_sending.get()
            && self.interim.borrow().is_empty()
            && self.watch.borrow().is_between()
    }
}
