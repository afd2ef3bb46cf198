//! The filter of one stream: the desk receives its request and may hold it, and the link paces its
//! response.

mod response;

use std::sync::Arc;

use sprat_config::fields::Fields as AnyFields;
use sprat_filter::{Answer, ResponseHead, ResponseSpec, StreamId};
use sprat_scheduler::{Size, Time};

use crate::desk::{Desk, Verdict};
use crate::head::{HeadOf, read, status};
use crate::host::{Fields, Host};
use crate::link::Link;
use crate::orders::Go;
use crate::timer::{self, Ticking};
use response::Response;

/// The step that a hook asks of Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Pass on what the hook brought, and all that was held before.
    Continue,
    /// Hold what the hook brought, and all that was held before.
    Hold,
}

/// The step that is due for a stream that was woken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// There is nothing to do: the stream was woken once too often.
    Nothing,
    /// The request goes on to its pool.
    Request,
    /// The request is answered by the filter.
    Answer(Box<Answer>),
    /// All that is held of the response goes on.
    Response,
}

/// The filter of one stream.
pub(crate) struct Filter {
    /// The desk that receives the request; none if requests are not decided about.
    desk: Option<Arc<Ticking<Desk>>>,
    id: StreamId,
    /// Whether the desk knows of the stream.
    received: bool,
    /// Whether the request is held.
    held: bool,
    /// Whether the request has come in whole.
    asked: bool,
    /// The probe that was sent from the stream and is under way.
    probe: Option<u32>,
    class: usize,
    response: Response,
    /// The bytes of the response's body that were passed on.
    passed: u64,
    /// Whether the desk knows that the response has come in whole.
    whole: bool,
}

impl Filter {
    /// Creates the filter of a stream. The desk receives its request, and its response goes under
    /// the uplink.
    pub(crate) fn new(
        uplink: Option<Arc<Ticking<Link>>>,
        desk: Option<Arc<Ticking<Desk>>>,
    ) -> Self {
        Self {
            id: desk.as_ref().map_or(0, |desk| desk.stream()),
            desk,
            received: false,
            held: false,
            asked: false,
            probe: None,
            class: 0,
            response: Response::new(uplink),
            passed: 0,
            whole: false,
        }
    }

    /// Takes the request's head, which is the whole request if `end`.
    pub(crate) fn on_request_head(
        &mut self,
        host: &mut impl Host,
        now: Time,
        end: bool,
    ) -> Verdict {
        self.asked = end;
        self.response.on_request(host, now);
        let Some(desk) = self.desk.clone() else {
            return Verdict::Continue;
        };
        let read = read(desk.reader(), host, timer::chance(self.id));
        self.class = read.class();
        self.received = true;
        let (verdict, mut orders) = desk.request(now, self.id, host, read);
        self.probe = orders.probe;
        self.held = verdict == Verdict::Hold;
        orders.carry_out(host);
        verdict
    }

    /// Notes that the request has ended.
    pub(crate) fn on_request_end(&mut self) {
        self.asked = true;
    }

    /// Takes the answer to a probe that was sent from this stream; none if the probe failed.
    pub(crate) fn on_answer(
        &mut self,
        host: &impl Host,
        now: Time,
        answer: Option<(u16, &dyn AnyFields)>,
    ) {
        if let (Some(desk), Some(probe)) = (&self.desk, self.probe.take()) {
            desk.probed(now, self.id, probe, host, answer);
        }
    }

    /// Takes the response's head, which is the whole response if `end`.
    pub(crate) fn on_response_head(&mut self, host: &mut impl Host, now: Time, end: bool) -> Step {
        if self.held {
            // Envoy answers by itself, as after a timeout: the request goes to no pool any more,
            // and a second answer would cut this one short.
            self.leave(Some(&*host), now);
        }
        let mut spec = ResponseSpec {
            class: self.class,
            size: Size::Unknown,
        };
        if let Some(desk) = self.desk.as_ref().filter(|_| self.received) {
            let head = ResponseHead {
                status: status(host),
                fields: &HeadOf(host, Fields::Response),
                end,
            };
            let (told, mut orders) = desk.response(now, self.id, host, &head);
            spec = told.unwrap_or(spec);
            orders.carry_out(host);
        }
        self.whole |= end;
        self.response.may_hold = host.holds_apart() || (self.asked && !host.is_resuming());
        self.response.on_head(host, now, spec, end)
    }

    /// Takes a part of the response's body.
    pub(crate) fn on_response_body(&mut self, host: &impl Host, now: Time, end: bool) -> Step {
        let in_hand = self.in_hand(host, host.received_bytes(), end, now);
        let step = self.response.on_body(host, now, end);
        self.pass(step, in_hand)
    }

    /// Takes the response's trailers.
    pub(crate) fn on_response_trailers(&mut self, host: &impl Host, now: Time) -> Step {
        let in_hand = self.in_hand(host, 0, true, now);
        let step = self.response.on_trailers(host, now);
        self.pass(step, in_hand)
    }

    /// Returns the bytes of body that Envoy holds, with those that a hook brings. At the response's
    /// end it tells the desk, which frees the place at the pool.
    fn in_hand(&mut self, host: &impl Host, received: u64, end: bool, now: Time) -> u64 {
        let Some(desk) = self.desk.as_ref().filter(|_| !self.whole) else {
            return 0;
        };
        let in_hand = host.held_bytes() + received;
        if end && self.received {
            self.whole = true;
            desk.received(now, self.id, host, self.passed + in_hand);
        }
        in_hand
    }

    fn pass(&mut self, step: Step, bytes: u64) -> Step {
        if step == Step::Continue {
            self.passed += bytes;
        }
        step
    }

    /// Handles a wake-up of the stream: there are orders for a held request, or the response has
    /// its turn.
    pub(crate) fn on_woken(&mut self, host: &mut impl Host, now: Time) -> Woken {
        let desk = self.desk.as_ref().filter(|_| self.held);
        if let Some(mut orders) = desk.and_then(|desk| desk.collect(self.id, host)) {
            self.held = false;
            return match orders.go.take() {
                Some(Go::Answered(answer)) => Woken::Answer(answer),
                Some(Go::On) | None => {
                    orders.carry_out(host);
                    Woken::Request
                }
            };
        }
        let bytes = host.held_bytes();
        match self.response.on_woken(host, now) {
            Step::Continue => {
                self.passed += bytes;
                Woken::Response
            }
            Step::Hold => Woken::Nothing,
        }
    }

    /// Notes that the stream has ended, in whatever way.
    pub(crate) fn on_complete(&mut self, host: Option<&dyn Host>, now: Time) {
        self.response.on_complete(now);
        self.leave(host, now);
    }

    /// Gives up the filter, which cannot be trusted after a panic. Its stream goes on without it,
    /// with all that was held.
    pub(crate) fn give_up(&mut self, now: Time) -> Woken {
        let held = std::mem::take(&mut self.held);
        self.response.give_up(now);
        self.leave(None, now);
        self.desk = None;
        match held {
            true => Woken::Request,
            false => Woken::Response,
        }
    }

    fn leave(&mut self, host: Option<&dyn Host>, now: Time) {
        self.held = false;
        let received = std::mem::take(&mut self.received);
        if let Some(desk) = self.desk.as_ref().filter(|_| received) {
            desk.done(now, self.id, host);
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        if self.received {
            self.leave(None, timer::now());
        }
    }
}

#[cfg(test)]
mod tests;
