//! Interim responses of an endpoint (1xx) on their way to the client: a proxy passes
//! them on, but for those that it has asked for itself (RFC 9110 15.2).

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

use http::{HeaderMap, Request, StatusCode};

use super::exchange::Exchange;
use crate::headers;
use crate::upload::{GateOpener, RequestBody};

/// Interim responses of one request that are passed on. Those that say how far a long
/// one has got come every few seconds.
const INTERIM_MAX: usize = 100;

/// An interim response's head.
struct Interim {
    status: StatusCode,
    headers: HeaderMap,
}

/// Interim responses that have come and were not passed on yet.
#[derive(Clone, Default)]
pub(super) struct Interims(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Interim>,
    /// How many have come.
    came: usize,
    /// Who passes them on.
    waker: Option<Waker>,
}

impl Interims {
    fn with<T>(&self, work: impl FnOnce(&mut Queue) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn push(&self, interim: impl FnOnce() -> Interim) {
        let waker = self.with(|queue| {
            queue.came += 1;
            if queue.came > INTERIM_MAX {
                return None;
            }
            queue.waiting.push_back(interim());
            queue.waker.take()
        });
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Exchange<'_> {
    /// Listens for interim responses to a request that is about to be sent; hyper tells
    /// of those of HTTP/1.1.
    pub(super) fn listen(&self, request: &mut Request<RequestBody>) {
        let (interims, opener) = (self.interims.clone(), self.opener.clone());
        if interims.is_none() && opener.is_none() {
            return;
        }
        hyper::ext::on_informational(request, move |interim| {
            let status = interim.status();
            if status == StatusCode::CONTINUE {
                opener.iter().for_each(GateOpener::open);
            } else if let Some(interims) = &interims {
                interims.push(|| Interim {
                    status,
                    headers: interim.headers().clone(),
                });
            }
        });
    }

    /// Waits for the answer to a request; interim responses before it are passed on.
    pub(super) async fn relay<T>(&self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        let Some(interims) = &self.interims else {
            return answer.await;
        };
        loop {
            let (answered, next) = poll_fn(|cx| {
                let answered = answer.as_mut().poll(cx);
                interims.with(|queue| match (answered, queue.waiting.pop_front()) {
                    (Poll::Pending, None) => {
                        queue.waker = Some(cx.waker().clone());
                        Poll::Pending
                    }
                    (Poll::Pending, next) => Poll::Ready((None, next)),
                    (Poll::Ready(answer), next) => Poll::Ready((Some(answer), next)),
                })
            })
            .await;
            let mut next = next;
            while let Some(interim) = next {
                self.pass_on(interim).await;
                next = interims.with(|queue| queue.waiting.pop_front());
            }
            if let Some(answer) = answered {
                return answer;
            }
        }
    }

    async fn pass_on(&self, mut interim: Interim) {
        headers::strip_hop_by_hop(&mut interim.headers);
        let plan = &self.plan;
        let head = text(&interim);
        let uplink = &plan.generation.uplink;
        uplink.interim(plan.stream, plan.class, &head).await;
    }
}

/// The head as HTTP/1.1 has it.
fn text(interim: &Interim) -> Vec<u8> {
    let status = interim.status;
    let reason = status.canonical_reason().unwrap_or("");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    for (name, value) in &interim.headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}
