//! Learnt sizes as JSON lines: `sprat catalogue dump` and the admin listener print them, and `sprat
//! catalogue load` reads them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use serde::{Deserialize, Serialize};
use sprat_scheduler::catalogue::Packed;

use super::catalogue::Catalogue;
use super::snapshot;

/// The first line of a dump: the secret that the keys are made with, and the `vary` fields.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct First {
    /// The secret, as 32 hexadecimal digits.
    pub secret: String,
    /// The time at which the catalogue was saved, in seconds of Unix time.
    pub saved: u32,
    /// The fields that tell variants apart.
    pub vary: Vec<String>,
}

/// A line of the dump after the first: one learnt size.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// The key, as twelve hexadecimal digits.
    pub key: String,
    /// The size of the response in bytes.
    pub bytes: u64,
    /// The time at which the size was learnt, in seconds of Unix time.
    pub learnt: u32,
    /// The number of times in a row that about the same size was seen again; 3 at most.
    #[serde(default)]
    pub agreements: u8,
    /// The fields that tell variants apart: bit `n` for the `n`-th.
    #[serde(default)]
    pub fields: u8,
    /// Whether the entry was asked for again: such entries outlive those that were asked for once.
    #[serde(default)]
    pub asked_again: bool,
}

impl From<&snapshot::Header> for First {
    fn from(header: &snapshot::Header) -> Self {
        let [high, low] = header.hasher.secret();
        Self {
            secret: format!("{high:016x}{low:016x}"),
            saved: header.saved_s,
            vary: header.vary.clone(),
        }
    }
}

impl Line {
    /// Creates the line of an entry; `asked_again` says whether it outlives others.
    pub fn new(packed: Packed, asked_again: bool) -> Self {
        Self {
            key: format!("{:012x}", packed.key().bits()),
            bytes: packed.bytes(),
            learnt: packed.learnt_s(),
            agreements: packed.agreements(),
            fields: packed.fields(),
            asked_again,
        }
    }
}

/// Appends a value as one line of JSON. Only a map whose keys are no text cannot be JSON.
pub fn push_line(out: &mut Vec<u8>, value: &impl Serialize) {
    if serde_json::to_writer(&mut *out, value).is_ok() {
        out.push(b'\n');
    }
}

/// A response's body that dumps the whole catalogue, one part of the table at a time. The secret is
/// left out: a reader may look but not aim.
pub struct Dump {
    catalogue: Arc<Catalogue>,
    next_part: usize,
}

impl Dump {
    /// Creates the dump of this catalogue.
    pub fn new(catalogue: &Arc<Catalogue>) -> Self {
        Self {
            catalogue: Arc::clone(catalogue),
            next_part: 0,
        }
    }
}

impl Body for Dump {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        let memory = &this.catalogue.memory;
        let (learnt, now_s) = (&memory.learnt, memory.now_s());
        let mut lines = Vec::new();
        while lines.is_empty() && this.next_part < learnt.parts() {
            for (packed, asked_again) in learnt.entries(this.next_part, now_s) {
                push_line(&mut lines, &Line::new(packed, asked_again));
            }
            this.next_part += 1;
        }
        Poll::Ready((!lines.is_empty()).then(|| Ok(Frame::data(lines.into()))))
    }
}
