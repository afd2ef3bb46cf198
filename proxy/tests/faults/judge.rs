//! The judgement of the answers that clients get.

use crate::http::Head;
use crate::plan::{self, Framing, RequestPlan};
use crate::world::World;

/// The answer to a request, as far as it came.
#[derive(Debug)]
pub(crate) enum Got {
    /// The whole answer has come.
    Answer(Head, Vec<u8>),
    /// The beginning of an answer has come.
    Part(Head, Vec<u8>),
    /// The connection or the stream ended without an answer.
    Nothing,
}

impl Got {
    /// Adds bytes to the body of an answer that has begun.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if let Self::Part(_, body) = self {
            body.extend_from_slice(bytes);
        }
    }

    /// Marks an answer that has begun as whole.
    pub(crate) fn complete(&mut self) {
        *self = match std::mem::replace(self, Self::Nothing) {
            Self::Part(head, body) => Self::Answer(head, body),
            other => other,
        };
    }

    /// Reports the answer if it is wrong. The time `begun` is that of the request's beginning, and
    /// `excused` says whether a planned fault explains the answer.
    pub(crate) fn judge(
        &self,
        (world, name): (&World, &str),
        request: &RequestPlan,
        begun: Option<u64>,
        excused: bool,
    ) {
        if let Err(what) = self.check(world, request, begun, excused) {
            let got = self.brief();
            world.wrong(name, &format!("{what}: {request:?} {got}"));
        }
    }

    fn check(
        &self,
        world: &World,
        request: &RequestPlan,
        begun: Option<u64>,
        excused: bool,
    ) -> Result<(), &'static str> {
        let (head, body, whole) = match self {
            Self::Nothing if excused => return Ok(()),
            Self::Nothing if begun.is_none() => return Err("the connection was closed"),
            Self::Nothing => return Err("no answer"),
            _ if begun.is_none() => return Err("an answer that nobody asked for"),
            Self::Answer(head, body) => (head, body, true),
            Self::Part(head, body) => (head, body, false),
        };
        if head.field("proxy-status").is_some() {
            let narrow = world.plan.is_narrow() && head.status() == 503;
            return (excused || narrow)
                .then_some(())
                .ok_or("an error without a fault");
        }
        if excused && head.status() == 503 {
            // Of an endpoint that was away.
            return Ok(());
        }
        let answer = world.plan.answer(request.id);
        if head.field("x-id") != Some(&*request.id.to_string()) {
            return Err("the answer to another request");
        }
        let is_tunnel = !request.messages.is_empty();
        if head.status() != if is_tunnel { 101 } else { answer.status } {
            return Err("another status");
        }
        if is_tunnel {
            return Ok(());
        }
        let expected = plan::body(request.id, true, answer.length);
        if request.method == "HEAD" {
            return body
                .is_empty()
                .then_some(())
                .ok_or("a body that HEAD does not have");
        }
        if !expected.starts_with(body) {
            return Err("another body");
        }
        // Where its end is told by the connection's, a cut cannot be seen.
        let may_be_short = excused && (!whole || answer.framing == Framing::Close);
        let is_right = may_be_short || (whole && body.len() == expected.len());
        is_right.then_some(()).ok_or("a body that is cut")
    }

    fn brief(&self) -> String {
        match self {
            Self::Answer(head, body) => format!("got {head:?} and {} bytes", body.len()),
            Self::Part(head, body) => format!("got {head:?} and {} bytes of more", body.len()),
            Self::Nothing => "got nothing".to_owned(),
        }
    }
}
