//! A simulated backend that serves several requests at a time.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{Request, Response};
use tokio::io::duplex;
use tokio::time::{sleep, timeout};

use super::{Tasks, advance, pipe, receive, send};
use crate::backend::{SILENCE, number};
use crate::health::{self, Instead};
use crate::plan::{self, BackendFault, Framing};
use crate::wire::Halves;
use crate::world::World;

/// The effect of a finished request on the connection.
enum Then {
    Nothing,
    /// The connection takes no more requests, and ends with those that it has.
    Leaves,
    /// The connection is cut, with all requests on it.
    Dies,
}

struct Backend<'a> {
    world: &'a World,
    name: &'a str,
    endpoint: IpAddr,
}

/// Serves a connection of HTTP/2 to its end.
pub(crate) async fn serve((world, name): (&World, &str), endpoint: IpAddr, halves: Halves<'_>) {
    let backend = Backend {
        world,
        name,
        endpoint,
    };
    let (ours, theirs) = duplex(pipe::BUFFER_BYTES);
    let is_dead = Cell::new(false);
    let work = async {
        // With the window that HTTP/2 begins with: the library does not let
        // more come when it has made one smaller that was in use already.
        let Ok(mut connection) = h2::server::handshake(ours).await else {
            return;
        };
        let mut streams: Tasks<'_, Then> = Vec::new();
        poll_fn(|cx| {
            loop {
                while let Poll::Ready(accepted) = connection.poll_accept(cx) {
                    let (request, respond) = match accepted {
                        None => return Poll::Ready(()),
                        Some(Err(error)) => {
                            world.trace(name, &format!("ends: {error}"));
                            return Poll::Ready(());
                        }
                        Some(Ok(stream)) => stream,
                    };
                    streams.push(Box::pin(backend.serve_one(request, respond)));
                }
                let ended = advance(&mut streams, cx);
                if ended.is_empty() {
                    return Poll::Pending;
                }
                for then in ended {
                    match then {
                        Then::Nothing => {}
                        Then::Leaves => connection.graceful_shutdown(),
                        Then::Dies => {
                            is_dead.set(true);
                            return Poll::Ready(());
                        }
                    }
                }
            }
        })
        .await;
    };
    pipe::serve(halves, theirs, work).await;
    if is_dead.get() {
        // What it had said was on its way; what came meanwhile is lost.
        backend.fault(None, "is gone");
    }
}

impl Backend<'_> {
    async fn serve_one(
        &self,
        request: Request<RecvStream>,
        mut respond: SendResponse<Bytes>,
    ) -> Then {
        let (head, mut upload) = request.into_parts();
        match health::instead(self.world, self.name, self.endpoint, head.uri.path()) {
            Some(Instead::Close) => return Then::Dies,
            Some(Instead::Answer(status)) => {
                let answer = Response::builder().status(status).body(()).unwrap();
                // An error: nobody waits for it.
                let _ = respond.send_response(answer, true);
                return Then::Nothing;
            }
            None => {}
        }
        let id = number(head.uri.path());
        let fault = self.world.plan.backend_fault(id, self.world.attempt(id));
        match fault {
            // It says that it has done nothing of it.
            Some(BackendFault::CloseAtHead) => {
                self.fault(Some(id), "refuses a request");
                respond.send_reset(Reason::REFUSED_STREAM);
                return Then::Nothing;
            }
            None | Some(BackendFault::CloseAfter) => {}
            Some(fault) => self.fault(Some(id), &format!("{fault:?} at {id}")),
        }
        let is_safe = head.method == "GET" || head.method == "HEAD";
        self.world.take(self.name, id, is_safe);
        if fault != Some(BackendFault::Early) {
            let mut body = Vec::new();
            let taken = receive(&mut upload, &mut body).await;
            self.world.uploaded(self.name, id, &body, taken.is_ok());
            if taken.is_err() {
                return Then::Nothing;
            }
        }
        let answer = self.world.plan.answer(id);
        sleep(Duration::from_millis(answer.delay_ms)).await;
        match fault {
            Some(BackendFault::CloseAtEnd) => {
                respond.send_reset(Reason::INTERNAL_ERROR);
                return Then::Nothing;
            }
            Some(BackendFault::Garbage) => {
                self.fault(None, "dies");
                return Then::Dies;
            }
            Some(BackendFault::Silent) => {
                let given_up = poll_fn(|cx| respond.poll_reset(cx));
                let _ = timeout(SILENCE, given_up).await;
                return Then::Nothing;
            }
            _ => {}
        }
        let body = match head.method == "HEAD" {
            true => Vec::new(),
            false => plan::body(id, true, answer.length),
        };
        let mut response = Response::builder().status(answer.status).header("x-id", id);
        if answer.framing == Framing::Length && !matches!(answer.status, 204 | 304) {
            response = response.header("content-length", answer.length);
        }
        let sent = respond.send_response(response.body(()).unwrap(), body.is_empty());
        let Ok(mut stream) = sent else {
            return Then::Nothing;
        };
        if !body.is_empty() {
            self.send(&mut stream, &body, fault).await;
        }
        self.world.trace(self.name, &format!("has answered {id}"));
        match fault {
            Some(BackendFault::CloseAfter) => Then::Leaves,
            _ => Then::Nothing,
        }
    }

    /// Sends the body of an answer, or as much of it as the fault allows.
    async fn send(&self, stream: &mut SendStream<Bytes>, body: &[u8], fault: Option<BackendFault>) {
        let part = |thousandths: u64| &body[..body.len() * thousandths as usize / 1_000];
        // An error: nobody wants it any more.
        let _ = match fault {
            Some(BackendFault::CutAnswer(thousandths)) => {
                let sent = send(stream, part(thousandths), false).await;
                stream.send_reset(Reason::INTERNAL_ERROR);
                sent
            }
            Some(BackendFault::StallAnswer(thousandths)) => {
                let sent = send(stream, part(thousandths), false).await;
                let given_up = poll_fn(|cx| stream.poll_reset(cx));
                let _ = timeout(SILENCE, given_up).await;
                sent
            }
            _ => send(stream, body, true).await,
        };
    }

    fn fault(&self, id: Option<u64>, what: &str) {
        self.world.fault(self.name, id, what);
    }
}
