//! Interim responses of an endpoint (1xx) on their way to the client. A proxy passes them
//! on, but for those that it has asked for itself (RFC 9110 15.2).

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Request, StatusCode};
use sprat_net::headers;
use sprat_net::hpack::FIELD_OVERHEAD;
use sprat_net::screen::Interim;
use sprat_net::upload::{Ask, GateOpener, RequestBody};
use sprat_upstream::Hear;

use super::in_place::InPlace;
use super::plan::Plan;
use crate::exchange::answer;

/// The most interim responses of one request that are passed on. Those that tell how far a
/// long request has got come every few seconds.
const INTERIM_MAX: usize = 100;

/// A step that an interim response leads to; steps are taken in the order of the responses.
enum InterimStep {
    PassOn(Interim),
    /// The endpoint asks for the request's body.
    Open(GateOpener),
}

/// Interim responses that have come and were not passed on yet.
#[derive(Clone)]
pub(super) struct Interims(Arc<Mutex<InterimSteps>>);

struct InterimSteps {
    waiting: VecDeque<InterimStep>,
    /// The number of responses that have come.
    came: usize,
    /// The bytes that are left for the fields of further responses.
    bytes_left: usize,
    /// The waker of the task that passes the responses on.
    waker: Option<Waker>,
}

impl Interims {
    /// Makes an empty queue. The fields of all its responses may count `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Mutex::new(InterimSteps {
            waiting: VecDeque::new(),
            came: 0,
            bytes_left: bytes_max,
            waker: None,
        })))
    }

    /// Returns what asks the client for the request's body: it queues a 100 (Continue).
    pub(super) fn asking(&self) -> Ask {
        let interims = self.clone();
        Ask::new(move || {
            interims.add(|queue| {
                queue.waiting.push_back(InterimStep::PassOn(Interim {
                    status: StatusCode::CONTINUE,
                    headers: HeaderMap::new(),
                }));
            });
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut InterimSteps) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds steps to the queue, and wakes the task that takes them.
    fn add(&self, add: impl FnOnce(&mut InterimSteps)) {
        let waker = self.with(|queue| {
            add(queue);
            match queue.waiting.is_empty() {
                true => None,
                false => queue.waker.take(),
            }
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn push(&self, status: StatusCode, headers: &HeaderMap) {
        let fields = headers.iter();
        let bytes: usize = fields
            .map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD)
            .sum();
        self.add(|queue| {
            queue.came += 1;
            if queue.came > INTERIM_MAX || bytes > queue.bytes_left {
                return;
            }
            queue.bytes_left -= bytes;
            let headers = headers.clone();
            let interim = Interim { status, headers };
            queue.waiting.push_back(InterimStep::PassOn(interim));
        });
    }

    /// Notes that the endpoint has asked for the request's body, after the steps that came before.
    fn open(&self, opener: &GateOpener) {
        self.add(|queue| {
            queue.came += 1;
            match queue.came > INTERIM_MAX {
                true => opener.open(),
                false => queue.waiting.push_back(InterimStep::Open(opener.clone())),
            }
        });
    }
}

/// The receiver of interim responses to a request.
struct Hearer {
    interims: Option<Interims>,
    opener: Option<GateOpener>,
}

impl Hearer {
    fn hear(&self, status: StatusCode, headers: &HeaderMap) {
        match (&self.interims, &self.opener) {
            (Some(interims), Some(opener)) if status == StatusCode::CONTINUE => {
                interims.open(opener);
            }
            (None, Some(opener)) if status == StatusCode::CONTINUE => opener.open(),
            (Some(interims), _) if status != StatusCode::CONTINUE => interims.push(status, headers),
            _ => {}
        }
    }
}

/// Listens for interim responses to a request that is about to be sent; a 100 (Continue) has the
/// opener ask for the body. hyper reports the responses of HTTP/1.1, the connection itself others.
pub(super) fn listen(
    interims: Option<&Interims>,
    opener: Option<&GateOpener>,
    plan: &Plan<'_>,
    request: &mut Request<RequestBody>,
) {
    if interims.is_none() && opener.is_none() {
        return;
    }
    let (interims, opener) = (interims.cloned(), opener.cloned());
    let hearer = Hearer { interims, opener };
    if plan.upstream.is_http2() {
        let hear = Hear::new(move |interim| hearer.hear(interim.status, &interim.headers));
        request.extensions_mut().insert(hear);
    } else {
        hyper::ext::on_informational(request, move |interim| {
            hearer.hear(interim.status(), interim.headers());
        });
    }
}

/// Waits until the answer to a request is there, and passes interim responses before it on to
/// the client. If that takes longer than the answer, only the client is waited for: `is_there`
/// says so.
pub(super) async fn relay<F: Future>(
    interims: Option<&Interims>,
    plan: &Plan<'_>,
    answer: &mut InPlace<'_, F>,
    is_there: &Cell<bool>,
) {
    let Some(interims) = interims else {
        return poll_fn(|cx| answer.poll(cx)).await;
    };
    loop {
        let is_answered = poll_fn(|cx| {
            if answer.poll(cx).is_ready() {
                return Poll::Ready(true);
            }
            interims.with(|queue| {
                if queue.waiting.is_empty() {
                    queue.waker = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(false)
            })
        })
        .await;
        while let Some(step) = interims.with(|queue| queue.waiting.pop_front()) {
            match step {
                InterimStep::PassOn(interim) => {
                    let mut passing = pin!(pass_on(plan, interim));
                    poll_fn(|cx| {
                        is_there.set(answer.poll(cx).is_ready());
                        passing.as_mut().poll(cx)
                    })
                    .await;
                }
                InterimStep::Open(opener) => opener.open(),
            }
        }
        if is_answered {
            return;
        }
    }
}

async fn pass_on(plan: &Plan<'_>, mut interim: Interim) {
    headers::strip_hop_by_hop(&mut interim.headers);
    // It has no body to tell the length of (RFC 9110 8.6).
    interim.headers.remove(CONTENT_LENGTH);
    answer::interim(plan.stream, plan.class, &interim).await;
}
