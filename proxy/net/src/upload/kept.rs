//! A request's body that is taken from its client before it is sent anywhere.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use sprat_config::resolved::BufferedBody;
use tokio::time::Instant;

use super::{Progress, Upload, UploadError};
use crate::buffer::{Batch, Buffers, Fallback, Scratch};
use crate::error::Reason;
use crate::permit::Permit;
use crate::pieces;

/// The part of a body that is here: in memory, then in a file, then the piece for which neither
/// had room.
#[derive(Debug)]
pub(super) struct Kept {
    first: Vec<Bytes>,
    scratch: Option<Scratch>,
    last: Option<Bytes>,
    trailers: Option<HeaderMap>,
    /// Whether all of the body is here.
    is_whole: bool,
    /// The memory that the part here counts for.
    share: Permit,
    /// The bytes of the body that are here.
    bytes: u64,
    /// The bytes of them that were sent in the present turn.
    sent: u64,
    /// The number of pieces of `first` that were sent in the present turn.
    next: usize,
    /// Whether `last` was sent in the present turn.
    has_sent_last: bool,
    has_sent_trailers: bool,
}

impl Kept {
    fn new(rules: &BufferedBody, buffers: &Arc<Buffers>) -> Self {
        let file = rules.file.as_ref();
        Self {
            first: Vec::new(),
            scratch: file.map(|rules| Scratch::new(buffers, rules)),
            last: None,
            trailers: None,
            is_whole: false,
            share: buffers.memory(),
            bytes: 0,
            sent: 0,
            next: 0,
            has_sent_last: false,
            has_sent_trailers: false,
        }
    }

    /// Returns whether all of the body is here.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns the body's length, if all of it is here and it has no trailers.
    pub(super) fn length(&self) -> Option<u64> {
        (self.is_whole && self.trailers.is_none()).then_some(self.bytes)
    }

    /// Returns how many bytes are still to be sent of what is here.
    pub(super) fn left(&self) -> u64 {
        self.bytes - self.sent
    }

    /// Returns whether all that is here has been sent.
    pub(super) fn is_drained(&self) -> bool {
        self.left() == 0 && (self.trailers.is_none() || self.has_sent_trailers)
    }

    /// Returns whether trailers are here.
    pub(super) fn has_trailers(&self) -> bool {
        self.trailers.is_some()
    }

    /// Begins a new turn, from the body's first byte.
    pub(super) fn rewind(&mut self) {
        (self.next, self.sent) = (0, 0);
        (self.has_sent_last, self.has_sent_trailers) = (false, false);
        if let Some(scratch) = &mut self.scratch {
            scratch.rewind();
        }
    }

    /// Keeps a piece, and waits until it is in the file if it goes there. Returns an error if no
    /// more can be kept after this piece.
    async fn keep(&mut self, data: Bytes, memory_bytes: usize) -> Result<(), Fallback> {
        let before = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        self.bytes += data.len() as u64;
        let has_file = self.scratch.as_ref().is_some_and(|own| !own.is_empty());
        let fits = before.saturating_add(data.len()) <= memory_bytes;
        if !has_file && fits && self.share.extend(data.len()) {
            let rest = match self.first.last_mut() {
                Some(last) => pieces::join(last, data),
                None => Some(data),
            };
            self.first.extend(rest);
            return Ok(());
        }
        let Some(scratch) = &mut self.scratch else {
            self.last = Some(data);
            return Err(match fits {
                true => Fallback::TotalMemory,
                false => Fallback::Memory,
            });
        };
        let share = self.share.split(0);
        let batch = Batch {
            data: vec![data.clone()],
            share,
        };
        if let Err((reason, _)) = scratch.write(batch) {
            self.last = Some(data);
            return Err(reason);
        }
        let written = poll_fn(|cx| scratch.poll_written(cx)).await;
        written.map(drop).map_err(|_| {
            self.last = Some(data);
            Fallback::Io
        })
    }

    /// Returns the next frame of the part that is here; `None` if all of it was sent.
    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Reason>>> {
        let data = match &mut self.scratch {
            _ if self.next < self.first.len() => {
                self.next += 1;
                self.first[self.next - 1].clone()
            }
            Some(scratch) if scratch.unread() > 0 => match ready!(scratch.poll_read(cx)) {
                Ok(data) => data,
                Err(error) => {
                    tracing::warn!(%error, "a buffered request cannot be read");
                    return Poll::Ready(Some(Err(Reason::BufferLost)));
                }
            },
            _ => match (&self.last, &self.trailers) {
                (Some(last), _) if !self.has_sent_last => {
                    self.has_sent_last = true;
                    last.clone()
                }
                (_, Some(trailers)) if !self.has_sent_trailers => {
                    self.has_sent_trailers = true;
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers.clone()))));
                }
                _ => return Poll::Ready(None),
            },
        };
        self.sent += data.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl Upload {
    /// Takes the body from its client before it is sent anywhere: all of it, or as much as
    /// there is room for; the rest is passed on as it comes.
    ///
    /// # Errors
    ///
    /// The client does not send the body, or sends too much.
    pub async fn keep(&self, rules: &BufferedBody, buffers: &Arc<Buffers>) -> Result<(), Reason> {
        let mut kept = Kept::new(rules, buffers);
        while !kept.is_whole {
            let came = poll_fn(|cx| self.poll_client(cx)).await;
            let Some((frame, is_last)) = came.transpose().map_err(|UploadError(reason)| reason)?
            else {
                kept.is_whole = true;
                break;
            };
            let outcome = match frame.into_data() {
                Ok(data) => {
                    // The file's time begins anew with each piece, the last one's too.
                    let since = Instant::now();
                    self.progress.set(Progress::FileOwes { since });
                    kept.keep(data, rules.memory_bytes).await
                }
                Err(frame) => {
                    kept.trailers = frame.into_trailers().ok();
                    Ok(())
                }
            };
            kept.is_whole = is_last;
            if let (Err(reason), false) = (outcome, is_last) {
                buffers.falls_back(reason);
                break;
            }
        }
        if kept.is_whole {
            self.has_come.set(true);
            self.copies_end();
        }
        let since = Instant::now();
        self.progress.set(Progress::UpstreamOwes { since });
        self.kept.replace(Some(Box::new(kept)));
        Ok(())
    }

    /// Returns whether all of the body has been taken from the client, be it with the upstream
    /// or not.
    pub fn has_come(&self) -> bool {
        self.has_come.get() || (self.is_done() && self.has_ended())
    }

    /// Returns whether the client has ended a body that is not read any more, since its last byte
    /// is with the upstream.
    fn has_ended(&self) -> bool {
        let mut body = self.body.borrow_mut();
        if !body.is_end_stream() {
            // An HTTP/2 client may have told the end in a frame of its own. It is of no interest
            // to anyone when that comes later.
            let mut cx = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut *body).poll_frame(&mut cx);
        }
        body.is_end_stream()
    }

    /// Returns the length of a body that is here as a whole, without trailers.
    pub fn kept_length(&self) -> Option<u64> {
        self.kept.borrow().as_ref()?.length()
    }

    /// Returns whether the body can be sent again, since all of it is here.
    pub fn is_repeatable(&self) -> bool {
        let kept = self.kept.borrow();
        let is_whole = kept.as_ref().is_some_and(|own| own.is_whole());
        is_whole && self.failure.get().is_none() && !self.over.get()
    }

    /// Frees what was kept to be sent again, if all of the body is with the upstream.
    pub fn forget(&self) {
        if self.is_done() {
            self.kept.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::{Future as _, pending};
    use std::path::Path;
    use std::pin::pin;
    use std::rc::Rc;
    use std::time::Duration;

    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Empty};
    use hyper::body::Incoming;
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use sprat_config::resolved::{BufferFile, BufferTotals, FileAt, HeadersWithUnderscores, Span};
    use tokio::io::{AsyncWriteExt as _, DuplexStream};
    use tokio::sync::mpsc;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::super::RequestBody;
    use super::*;

    /// The time that everything has that is to come.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Returns a body of ten bytes as a server gets it, and its client, which has sent the
    /// `first` of them.
    async fn incoming(first: &str) -> (Incoming, DuplexStream) {
        let (mut client, io) = tokio::io::duplex(1 << 10);
        let (bodies, mut came) = mpsc::unbounded_channel();
        let service = service_fn(move |request: Request<Incoming>| {
            let _ = bodies.send(request.into_body());
            pending::<Result<Response<Empty<Bytes>>, Infallible>>()
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(io), service));
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n";
        let request = format!("{head}{first}");
        client.write_all(request.as_bytes()).await.unwrap();
        (came.recv().await.unwrap(), client)
    }

    /// Returns rules by which bodies are kept in a file of this directory.
    fn in_file(directory: &Path) -> BufferedBody {
        BufferedBody {
            memory_bytes: 1,
            file: Some(BufferFile {
                directory: FileAt {
                    path: directory.to_owned(),
                    span: Span::default(),
                },
                max_bytes: 100,
            }),
        }
    }

    fn upload_of(body: Incoming) -> Rc<Upload> {
        let underscores = HeadersWithUnderscores::default();
        RequestBody::streaming(body, false, None, None, underscores).1
    }

    #[tokio::test]
    async fn the_last_piece_of_a_body_has_a_time_of_its_own_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let rules = in_file(directory.path());
        let buffers = Buffers::new(BufferTotals::default());
        let (body, mut client) = incoming("01234").await;
        let upload = upload_of(body);
        let since = || match upload.progress() {
            Progress::FileOwes { since } => Some(since),
            _ => None,
        };
        let hanging = buffers.hang();
        let mut keeping = pin!(upload.keep(&rules, &buffers));
        let first = poll_fn(|cx| {
            assert!(keeping.as_mut().poll(cx).is_pending());
            since().map_or(Poll::Pending, Poll::Ready)
        });
        let first = timeout(PATIENCE, first).await.unwrap();
        // The rest is there before the file has taken the first piece, and hangs in its turn.
        client.write_all(b"56789").await.unwrap();
        for _ in 0..10 {
            yield_now().await;
        }
        let hanging_on = buffers.hang();
        drop(hanging);
        let last = poll_fn(|cx| {
            assert!(keeping.as_mut().poll(cx).is_pending());
            let last = since().filter(|last| *last > first);
            last.map_or(Poll::Pending, Poll::Ready)
        });
        timeout(PATIENCE, last).await.unwrap();
        drop(hanging_on);
        timeout(PATIENCE, keeping).await.unwrap().unwrap();
        assert_eq!(upload.kept_length(), Some(10));
    }

    #[test]
    fn a_file_is_at_fault_only_once_it_has_been_waited_for_long() {
        let since = Instant::now();
        let late = |progress: Progress, ms| {
            let now = since + Duration::from_millis(ms);
            progress.is_file_late(now)
        };
        let file = Progress::FileOwes { since };
        assert_eq!(
            [0, 1, 999, 1000].map(|ms| late(file, ms)),
            [false, false, false, true]
        );
        assert!(!late(Progress::UpstreamOwes { since }, 5000));
        assert!(!late(Progress::ClientOwes { since }, 5000));
    }

    #[tokio::test]
    async fn a_file_that_keeps_a_body_waiting_is_neither_the_clients_nor_the_upstreams_fault() {
        let directory = tempfile::tempdir().unwrap();
        let rules = in_file(directory.path());
        let buffers = Buffers::new(BufferTotals::default());
        let (body, _client) = incoming("0123456789").await;
        let upload = upload_of(body);
        let file_owes = || matches!(upload.progress(), Progress::FileOwes { .. });
        let hanging = buffers.hang();
        let mut keeping = pin!(upload.keep(&rules, &buffers));
        let waits = poll_fn(|cx| {
            assert!(keeping.as_mut().poll(cx).is_pending());
            match file_owes() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        });
        timeout(PATIENCE, waits).await.unwrap();
        drop(hanging);
        timeout(PATIENCE, keeping).await.unwrap().unwrap();
        assert!(!file_owes());
        // It is no better when it is read.
        let hanging = buffers.hang();
        let mut sent = upload.again().unwrap();
        let mut next = pin!(sent.frame());
        let polled = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await;
        assert!(polled && file_owes());
        drop(hanging);
        let frame = timeout(PATIENCE, next).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "0123456789");
        assert!(upload.is_done());
    }
}
