//! A simulated client, which judges the answers that it gets.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use sprat_server::simulation::Simulated;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::http;
use crate::http2;
use crate::judge::Got;
use crate::plan::{self, ClientPlan, Framing, RequestPlan};
use crate::planted::Way;
use crate::tunnel;
use crate::wire::{Halves, Over, Reader, Writer, pair};
use crate::world::World;

/// A time longer than any answer takes.
const HANGS: Duration = Duration::from_secs(1_800);

/// The time for which the proxy must not reset a client that goes on sending.
const NO_RESET: Duration = Duration::from_millis(900);

/// The progress of a client's sending and receiving, which each direction tells the other.
#[derive(Default)]
struct Progress {
    /// The time at which each request began.
    begun_ms: RefCell<Vec<u64>>,
    opened_ms: u64,
    /// The time at which the last answer was read.
    answered_ms: Cell<u64>,
    /// The messages of a conversation that have come back.
    heard: Cell<usize>,
    answered: Cell<usize>,
    changed: Notify,
}

/// Connects a client, sends its requests, and judges the answers.
pub(crate) async fn run(world: Rc<World>, proxy: Rc<Simulated>, plan: ClientPlan) {
    sleep(Duration::from_millis(plan.at_ms)).await;
    let mut rng = world.plan.rng("client wire", plan.number);
    let name = format!("client {}", plan.number);
    let (theirs, mut wire) =
        pair(&world, name.clone(), Way::ToClient, plan.fault, &mut rng).unwrap();
    let address = [192, 168, 0, plan.number as u8 + 1];
    proxy
        .accept(plan.worker, 0, theirs, SocketAddr::from((address, 50_000)))
        .unwrap();
    let talk = async {
        match &plan.http2 {
            None => speak((&world, &name), &plan, wire.halves()).await,
            Some(http2) => {
                http2::client::speak((&world, &name), &plan, http2, wire.halves()).await;
            }
        }
    };
    if timeout(HANGS, talk).await.is_err() {
        world.wrong(&name, "waits in vain for an answer, or the end");
    }
    world.client_closed(wire.taken());
    world.trace(&name, "closes");
}

/// Plays a client of HTTP/1.1 on a connection.
async fn speak((world, name): (&World, &str), plan: &ClientPlan, halves: Halves<'_>) {
    let client = Client {
        world,
        name,
        plan,
        progress: Progress {
            opened_ms: world.mark(),
            ..Progress::default()
        },
    };
    let Halves { reader, writer } = halves;
    tokio::select! {
        biased;
        () = client.send_all(writer) => {}
        () = client.receive_all(reader) => {}
    }
}

struct Client<'a> {
    world: &'a World,
    name: &'a str,
    plan: &'a ClientPlan,
    progress: Progress,
}

impl Client<'_> {
    /// Sends all requests of the plan. Returns only when the connection's fault has come.
    async fn send_all(&self, mut writer: Writer<'_>) {
        for (index, request) in self.plan.requests.iter().enumerate() {
            while index >= self.progress.answered.get() + self.plan.pipelined {
                self.progress.changed.notified().await;
            }
            sleep(Duration::from_millis(request.pause_ms)).await;
            self.progress.begun_ms.borrow_mut().push(self.world.mark());
            self.world.trace(self.name, &format!("begins {request:?}"));
            match writer.send(&composed(request)).await {
                Ok(()) => {}
                Err(Over::Fault) => return,
                // What was said before is still to be read.
                Err(Over::Closed) => break,
            }
            if !request.messages.is_empty() && self.say_all(&mut writer, index).await.is_err() {
                break;
            }
        }
        pending::<()>().await;
    }

    /// Sends the messages of a conversation once the protocol is switched.
    async fn say_all(&self, writer: &mut Writer<'_>, index: usize) -> Result<(), Over> {
        let request = &self.plan.requests[index];
        while self.progress.answered.get() <= index {
            self.progress.changed.notified().await;
        }
        for number in 0..request.messages.len() {
            while number >= self.progress.heard.get() + tunnel::AHEAD {
                self.progress.changed.notified().await;
            }
            sleep(Duration::from_millis(request.pause_ms)).await;
            writer.send(&tunnel::message(request, number)).await?;
        }
        Ok(())
    }

    /// Reads the messages of a conversation to its end, and compares each with the one sent.
    async fn hear_all(&self, reader: &mut Reader<'_>, request: &RequestPlan) {
        for number in 0..request.messages.len() {
            let sent = tunnel::message(request, number);
            let heard = tunnel::hear(reader, &sent).await;
            let wrong = match heard {
                Ok(heard) => (heard != sent).then_some("another message than was sent"),
                Err(Over::Fault) => return,
                Err(Over::Closed) => {
                    let excused = reader.has_failed() || self.world.explains(request.id, u64::MAX);
                    let cut = (!excused).then_some("a conversation that is cut");
                    cut.into_iter()
                        .for_each(|what| self.complain(what, request));
                    return;
                }
            };
            wrong
                .into_iter()
                .for_each(|what| self.complain(what, request));
            self.progress.heard.set(number + 1);
            self.progress.changed.notify_one();
        }
    }

    fn complain(&self, what: &str, request: &RequestPlan) {
        self.world.wrong(self.name, &format!("{what}: {request:?}"));
    }

    async fn receive_all(&self, mut reader: Reader<'_>) {
        // A fault that concerned an earlier request may end the connection.
        let mut excused = false;
        for (index, request) in self.plan.requests.iter().enumerate() {
            let got = match receive(&mut reader, request).await {
                Ok(got) => got,
                // It was this client's own doing.
                Err(Over::Fault) => return,
                Err(Over::Closed) => Got::Nothing,
            };
            let begun = self.progress.begun_ms.borrow().get(index).copied();
            excused |=
                reader.has_failed() || begun.is_some_and(|at| self.world.explains(request.id, at));
            if matches!(got, Got::Nothing) {
                let begun_ms = begun.unwrap_or_else(|| self.world.mark());
                let ready_ms = begun_ms.max(self.progress.answered_ms.get());
                excused |= self.world.drained(self.progress.opened_ms, ready_ms);
            }
            got.judge((self.world, self.name), request, begun, excused);
            let Got::Answer(head, _) = &got else { return };
            let is_early = head.is_last() && head.field("proxy-status").is_some();
            if is_early {
                self.has_time_to_read(&mut reader, request).await;
                return;
            }
            if head.is_last() {
                return;
            }
            self.progress.answered.set(index + 1);
            self.progress.answered_ms.set(self.world.mark());
            self.progress.changed.notify_one();
            if head.status() == 101 {
                return self.hear_all(&mut reader, request).await;
            }
        }
    }

    /// Checks that the proxy does not reset the connection soon after an answer that came before
    /// the request's end. TCP would discard the bytes that the client has not read yet.
    async fn has_time_to_read(&self, reader: &mut Reader<'_>, request: &RequestPlan) {
        let read_at = self.world.mark();
        let over = timeout(NO_RESET, async { while reader.fill().await.is_ok() {} }).await;
        if over.is_ok() && reader.was_reset() {
            let what = format!("reset {} ms after an answer", self.world.mark() - read_at);
            self.world.wrong(self.name, &format!("{what}: {request:?}"));
        }
    }
}

async fn receive(reader: &mut Reader<'_>, request: &RequestPlan) -> Result<Got, Over> {
    let head = loop {
        match http::head(reader).await? {
            None => return Ok(Got::Nothing),
            Some(head) if head.status() < 200 && head.status() != 101 => {}
            Some(head) => break head,
        }
    };
    let mut body = Vec::new();
    if request.method == "HEAD" || matches!(head.status(), 101 | 204 | 304) {
        return Ok(Got::Answer(head, body));
    }
    match http::body(reader, head.framing(), &mut body).await {
        Ok(()) => Ok(Got::Answer(head, body)),
        Err(Over::Closed) => Ok(Got::Part(head, body)),
        Err(Over::Fault) => Err(Over::Fault),
    }
}

fn composed(request: &RequestPlan) -> Vec<u8> {
    let RequestPlan {
        id,
        method,
        upload,
        is_chunked,
        is_last,
        ..
    } = *request;
    let framing = if is_chunked {
        Framing::Chunked
    } else {
        Framing::Length
    };
    let close = if is_last { "Connection: close\r\n" } else { "" };
    let fields = match method {
        "POST" => http::framing_field(framing, upload),
        _ if !request.messages.is_empty() => {
            "Connection: Upgrade\r\nUpgrade: websocket\r\n".to_owned()
        }
        _ => String::new(),
    };
    let head = format!("{method} /r/{id} HTTP/1.1\r\nHost: a.example\r\n{close}{fields}\r\n");
    let mut bytes = head.into_bytes();
    if method == "POST" {
        bytes.extend(http::framed(&plan::body(id, false, upload), framing));
    }
    bytes
}
