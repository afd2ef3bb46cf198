//! A simulated backend, which answers or fails as the plan says.

use std::future::pending;
use std::rc::Rc;

use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::http::{self, Head};
use crate::plan::{self, Answer, BackendFault, Framing};
use crate::tunnel;
use crate::wire::{Halves, Over, Reader, Wire, Writer};
use crate::world::World;

/// Longer than the proxy waits for an answer, or for more of it.
const SILENCE: Duration = Duration::from_secs(200);

/// Serves a connection to its end.
pub(crate) async fn serve(world: Rc<World>, name: String, mut wire: Wire) {
    let Halves { reader, writer } = wire.halves();
    let mut connection = Connection {
        world: &world,
        name: &name,
        reader,
        writer,
    };
    while let Ok(true) = connection.serve_one().await {}
    world.trace(&name, "closes");
}

struct Connection<'a> {
    world: &'a World,
    name: &'a str,
    reader: Reader<'a>,
    writer: Writer<'a>,
}

impl Connection<'_> {
    /// Whether the connection goes on.
    async fn serve_one(&mut self) -> Result<bool, Over> {
        let Some(head) = http::head(&mut self.reader).await? else {
            return Ok(false);
        };
        let id = id(&head);
        let attempt = self.world.attempt(id);
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
        if attempt > 0 && !head.start.starts_with("GET") && !head.start.starts_with("HEAD") {
            self.world
                .wrong(self.name, &format!("{id}, which may not be repeated, was"));
        }
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

    /// Switches protocols, and sends back what comes to the end.
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
        let expected = plan::body(id, false, body.len());
        if body != expected {
            self.world
                .wrong(self.name, &format!("the body of {id} is another"));
        }
        let sent = self.world.plan.request(id).upload;
        if taken.is_ok() && sent != body.len() {
            self.world.wrong(
                self.name,
                &format!("of {id} came {} bytes of {sent}", body.len()),
            );
        }
        taken
    }

    /// Says nothing until nobody waits any more.
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

/// The number of a request, which is in its target.
fn id(head: &Head) -> u64 {
    let target = head.start.split(' ').nth(1).unwrap();
    target.rsplit('/').next().unwrap().parse().unwrap()
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
