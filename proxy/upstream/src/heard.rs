//! A record of what an endpoint has said, which shows whether it can have looked at a request
//! whose connection has ended.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use sprat_net::clock;
use sprat_net::forward_stream;
use sprat_net::gather::Unheard;
use sprat_net::tls::ClusterTls;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::members::Member;

/// The time within which a worker sees that the endpoint had closed a connection before it got a
/// request. A request that is sent there is answered with a reset, or meets the end that is on
/// its way already, so within a round trip. Later the endpoint has had the time to read the
/// request, and may have done what it asks for.
const END_IS_SEEN_WITHIN: Duration = Duration::from_millis(250);

/// A record of what the endpoint has said over a connection.
#[derive(Debug, Default)]
pub(super) struct Heard {
    bytes: AtomicU64,
    unheard: Arc<Unheard>,
    /// Whether the endpoint has refused our certificate, or the lack of one.
    refused: AtomicBool,
}

impl Heard {
    /// Returns the count of small pieces that have passed since anything was read.
    pub(super) fn unheard(&self) -> &Arc<Unheard> {
        &self.unheard
    }

    /// Begins the silence after a request that is sent now; it ends with anything that is read.
    pub(super) fn silence(self: &Arc<Self>) -> Silence {
        Silence {
            heard: Arc::clone(self),
            bytes: self.bytes.load(Relaxed),
            since: clock::now(),
        }
    }
}

/// An endpoint's silence since a request was sent to it.
#[derive(Clone)]
pub struct Silence {
    heard: Arc<Heard>,
    bytes: u64,
    since: Instant,
}

impl Silence {
    /// Returns whether nothing was heard since the request was sent.
    pub fn has_heard_nothing(&self) -> bool {
        self.heard.bytes.load(Relaxed) == self.bytes
    }

    /// Returns whether the first thing that was heard is a refusal: the endpoint does not take
    /// our certificate, or wants one. With TLS 1.3 it looks at that when the handshake is over
    /// for us, and reads no request before.
    pub fn is_refused(&self) -> bool {
        self.heard.refused.load(Relaxed)
    }

    /// Returns whether the silence goes on, and has lasted longer than a round trip takes.
    pub(super) fn is_long(&self) -> bool {
        self.has_heard_nothing() && clock::now() - self.since > END_IS_SEEN_WITHIN
    }

    /// Returns whether a connection that has just ended had been closed before the request
    /// came, as far as can be told.
    pub fn was_dead(&self) -> bool {
        self.has_heard_nothing() && !self.is_long()
    }
}

/// A connection that records what is read from it.
pub(super) struct Listening<S> {
    stream: S,
    heard: Arc<Heard>,
    /// The TLS connection that is told of the first read; `None` after that, and without TLS.
    unproven: Option<Box<Unproven>>,
}

/// A stream that an endpoint may end because it refuses our certificate.
pub(super) trait MayRefuse {
    /// Returns whether the endpoint may still refuse our certificate.
    fn may_refuse(&self) -> bool;
}

/// A TLS connection whose endpoint was not heard since the handshake.
pub(super) struct Unproven {
    tls: Arc<ClusterTls>,
    member: Arc<Member>,
}

impl Unproven {
    pub(super) fn new(tls: &Arc<ClusterTls>, member: &Arc<Member>) -> Box<Self> {
        Box::new(Self {
            tls: Arc::clone(tls),
            member: Arc::clone(member),
        })
    }

    /// Notes the first read, of so many bytes. Returns whether it is a refusal of our
    /// certificate, if the endpoint `may_refuse` that still.
    fn is_refused(&self, read: &io::Result<()>, bytes: usize, may_refuse: bool) -> bool {
        if bytes > 0 {
            self.tls.proven();
        }
        let error = read.as_ref().err();
        may_refuse && error.is_some_and(|error| self.tls.is_refusal(&self.member.address, error))
    }
}

impl<S> Listening<S> {
    pub(super) fn new(stream: S, unproven: Option<Box<Unproven>>) -> (Self, Arc<Heard>) {
        let heard = Arc::<Heard>::default();
        let own = Self {
            stream,
            heard: Arc::clone(&heard),
            unproven,
        };
        (own, heard)
    }
}

impl<S: AsyncRead + MayRefuse + Unpin> AsyncRead for Listening<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let bytes = buffer.filled().len() - before;
        // No other task counts.
        let heard = self.heard.bytes.load(Relaxed);
        self.heard.bytes.store(heard + bytes as u64, Relaxed);
        if bytes > 0 {
            self.heard.unheard.end();
        }
        if let Poll::Ready(read) = &polled
            && let Some(unproven) = self.unproven.take()
            && unproven.is_refused(read, bytes, self.stream.may_refuse())
        {
            self.heard.refused.store(true, Relaxed);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Listening<S> {
    forward_stream!(
        stream: poll_write, poll_write_vectored, is_write_vectored, poll_flush, poll_shutdown
    );
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::advance;

    use super::*;

    impl MayRefuse for DuplexStream {
        fn may_refuse(&self) -> bool {
            false
        }
    }

    #[tokio::test]
    async fn anything_that_is_read_ends_what_is_unheard() {
        let (ours, mut theirs) = duplex(64);
        let (mut ours, heard) = Listening::new(ours, None);
        let at_first = heard.unheard().pass();
        let then = (0..1_000).map(|_| heard.unheard().pass()).max().unwrap();
        assert!(at_first < then);
        theirs.write_all(b"H").await.unwrap();
        ours.read_u8().await.unwrap();
        assert_eq!(heard.unheard().pass(), at_first);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_says_anything_or_takes_its_time_was_there() {
        let (ours, mut theirs) = duplex(64);
        let (mut ours, heard) = Listening::new(ours, None);
        let before = heard.silence();
        assert!(before.was_dead() && before.has_heard_nothing());
        theirs.write_all(b"H").await.unwrap();
        ours.read_u8().await.unwrap();
        assert!(!before.was_dead() && !before.has_heard_nothing());
        let next = heard.silence();
        assert!(next.was_dead());
        assert!(!next.is_long());
        advance(END_IS_SEEN_WITHIN + Duration::from_millis(1)).await;
        assert!(!next.was_dead() && next.has_heard_nothing());
        // Of one that was heard there is nothing to be said.
        assert!(next.is_long() && !before.is_long());
    }
}
