//! A simulated backend, which answers or fails as the plan says.

use std::future::pending;
use std::net::IpAddr;
use std::rc::Rc;

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::health::{self, Instead};
use crate::http::{self, Head};
use crate::http2;
use crate::plan::{self, Answer, BackendFault, Framing};
use crate::tunnel;
use crate::wire::{Halves, Over, Reader, Wire, Writer};
use crate::world::World;

/// A time longer than the proxy waits for an answer, or for more of it.
pub(crate) const SILENCE: Duration = Duration::from_secs(200);

/// Serves a connection to its end, in the protocol that it begins with.
pub(crate) async fn serve(world: Rc<World>, name: String, endpoint: IpAddr, mut wire: Wire) {
    let Halves { mut reader, writer } = wire.halves();
    if is_http2(&mut reader).await {
        let halves = Halves { reader, writer };
        http2::backend::serve((&world, &name), endpoint, halves).await;
        return world.trace(&name, "closes");
    }
    let mut connection = Connection {
        world: &world,
        name: &name,
        endpoint,
        reader,
        writer,
    };
    while let Ok(true) = connection.serve_one().await {}
    world.trace(&name, "closes");
}

struct Connection<'a> {
    world: &'a World,
    name: &'a str,
    endpoint: IpAddr,
    reader: Reader<'a>,
    writer: Writer<'a>,
}

impl Connection<'_> {
    /// Serves one request, and returns whether the connection goes on.
    async fn serve_one(&mut self) -> Result<bool, Over> {
        let Some(head) = http::head(&mut self.reader).await? else {
            return Ok(false);
        };
        let path = head.start.split(' ').nth(1).unwrap();
        if let Some(instead) = health::instead(self.world, self.name, self.endpoint, path) {
            return self.answer_instead(instead).await;
        }
        let id = number(path);
        let attempt = self.world.attempt(id);
        let repeated = head.start.starts_with("GET") || head.start.starts_with("HEAD");
        self.world.take(self.name, id, repeated);
        let fault = self.world.plan.backend_fault(id, attempt);
        if let Some(fault) = fault {
            self.world
                .fault(self.name, Some(id), &format!("{fault:?} at {id}"));
        }
        match fault {
            Some(BackendFault::CloseAtHead) => return Ok(false),
            Some(BackendFault::Early) => {}
            _ => self.take_body(id, &head).await?,
        }
        let (answered, body) = self.world.plant.answered(id);
        let answer = self.world.plan.answer(answered);
        sleep(Duration::from_millis(answer.delay_ms)).await;
        let is_head = head.start.starts_with("HEAD");
        let bytes = composed((answered, body), &answer, is_head);
        let part = |thousandths: u64| &bytes[..bytes.len() * thousandths as usize / 1_000];
        match fault {
            Some(BackendFault::CloseAtEnd) => return Ok(false),
            Some(BackendFault::Garbage) => {
                self.writer.send(b"220 mail.example ESMTP\r\n\r\n").await?;
                return Ok(false);
            }
            Some(BackendFault::Silent) => return self.silence().await,
            _ if head.field("upgrade").is_some() => return self.converse(id, fault).await,
            Some(BackendFault::CutAnswer(thousandths)) => {
                self.writer.send(part(thousandths)).await?;
                return Ok(false);
            }
            Some(BackendFault::StallAnswer(thousandths)) => {
                self.writer.send(part(thousandths)).await?;
                return self.silence().await;
            }
            _ => self.writer.send(&bytes).await?,
        }
        self.world.trace(self.name, &format!("has answered {id}"));
        let closes = matches!(fault, Some(BackendFault::Early | BackendFault::CloseAfter));
        if closes {
            // The next request may be on its way already.
            self.world.fault(self.name, None, "closes without a word");
        }
        Ok(!closes && answer.framing != Framing::Close)
    }

    async fn answer_instead(&mut self, instead: Instead) -> Result<bool, Over> {
        let Instead::Answer(status) = instead else {
            return Ok(false);
        };
        let is_well = status == 204;
        let fields = match is_well {
            true => "",
            // The request's body is not read.
            false => "Content-Length: 0\r\nConnection: close\r\n",
        };
        let head = format!("HTTP/1.1 {status} Instead\r\n{fields}\r\n");
        self.writer.send(head.as_bytes()).await?;
        Ok(is_well)
    }

    /// Switches protocols, and sends the bytes that come back, to the conversation's end.
    async fn converse(&mut self, id: u64, fault: Option<BackendFault>) -> Result<bool, Over> {
        let head = format!(
            "HTTP/1.1 101 Planned\r\nX-Id: {id}\r\n\
             Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"
        );
        self.writer.send(head.as_bytes()).await?;
        let total = tunnel::total(self.world.plan.request(id));
        let part = match fault {
            Some(BackendFault::CutAnswer(part) | BackendFault::StallAnswer(part)) => {
                total * part / 1_000
            }
            _ => u64::MAX,
        };
        tunnel::echo(&mut self.reader, &mut self.writer, part).await?;
        match fault {
            Some(BackendFault::StallAnswer(_)) => self.silence().await,
            _ => Ok(false),
        }
    }

    async fn take_body(&mut self, id: u64, head: &Head) -> Result<(), Over> {
        let framing = head.framing();
        if framing.0 == Framing::Close {
            return Ok(());
        }
        let mut body = Vec::new();
        let taken = http::body(&mut self.reader, framing, &mut body).await;
        self.world.uploaded(self.name, id, &body, taken.is_ok());
        taken
    }

    /// Says nothing until the proxy waits no longer.
    async fn silence(&mut self) -> Result<bool, Over> {
        let gone = async {
            while self.reader.fill().await.is_ok() {}
            // Who has closed reads nothing more.
            pending::<()>().await;
        };
        let _ = timeout(SILENCE, gone).await;
        Ok(false)
    }
}

/// Returns whether a connection begins as HTTP/2 does.
async fn is_http2(reader: &mut Reader<'_>) -> bool {
    while reader.buffered().len() < 4 {
        if reader.fill().await.is_err() {
            return false;
        }
    }
    reader.buffered().starts_with(b"PRI ")
}

/// Returns the number of a request, which is in its target.
pub(crate) fn number(path: &str) -> u64 {
    path.rsplit('/').next().unwrap().parse().unwrap()
}

fn composed((id, body): (u64, u64), answer: &Answer, is_head: bool) -> Vec<u8> {
    let Answer {
        status,
        length,
        framing,
        ..
    } = *answer;
    let hints = match answer.has_hints {
        true => "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        false => "",
    };
    let fields = match status {
        204 | 304 => String::new(),
        _ => http::framing_field(framing, length),
    };
    let head = format!("{hints}HTTP/1.1 {status} Planned\r\nX-Id: {id}\r\n{fields}\r\n");
    let mut bytes = head.into_bytes();
    if !is_head {
        bytes.extend(http::framed(&plan::body(body, true, length), framing));
    }
    bytes
}
