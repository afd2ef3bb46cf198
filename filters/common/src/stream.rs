//! The state that a filter keeps of a stream.

use sprat_config::classify::Later;
use sprat_scheduler::station::Ticket;
use sprat_scheduler::{Size, Time};

use crate::answer::Form;
use crate::keys::Asked;
use crate::sizes::Lesson;
use crate::source::Source;

/// The state of a request and its response.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) class: usize,
    /// The class rules that depend on the response's head, if there are any.
    pub(crate) later: Option<Later>,
    /// The keys of the resource that the request asks for, if sizes are looked up.
    pub(crate) asked: Option<Asked>,
    /// The response's size, as far as it is known.
    pub(crate) size: Size,
    pub(crate) source: Source,
    pub(crate) method: Method,
    pub(crate) group: Option<usize>,
    pub(crate) hash: u64,
    pub(crate) random: u64,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) phase: Phase,
    pub(crate) arrived: Time,
    /// The time at which the request was released to a pool.
    pub(crate) started: Time,
    /// The form in which the client reads a refusal.
    pub(crate) form: Form,
    /// The bytes of the response's body so far.
    pub(crate) received: u64,
    /// The lesson of the response's head, if its end is to tell the size.
    pub(crate) lesson: Option<Lesson>,
}

/// The phase of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A probe is to tell the response's size.
    Probing,
    /// The request waits for a pool.
    Waiting,
    /// The request has gone on to its pool.
    Passed,
    /// The request was answered by the filter.
    Answered,
}

/// The method of a request, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    /// A tunnel, which has no size.
    Connect,
    Other,
}

impl Method {
    pub(crate) fn of(method: &str) -> Self {
        match method {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "CONNECT" => Self::Connect,
            _ => Self::Other,
        }
    }
}
