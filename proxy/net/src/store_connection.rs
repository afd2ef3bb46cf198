//! The connection to a shared store, which need be neither alive nor friendly:
//! what it says is bounded, and silence ends it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionAddr, RedisError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use crate::forward_stream;

/// The time for opening a connection.
const CONNECT_BOUND: Duration = Duration::from_secs(1);

/// A store that has let questions wait for so long, and answered none since, has
/// its connection closed: it may be one that no longer leads anywhere.
const SILENCE_BOUND: Duration = Duration::from_secs(5);

/// The most bytes that a store may say after we have written: a reply to the longest question
/// has some 10,000.
const REPLY_MAX: usize = 256 << 10;

/// A connection that is open; closed when dropped.
pub struct StoreConnection {
    sender: MultiplexedConnection,
    /// Since when the store has answered nothing that it was asked.
    silent_since: Option<Instant>,
    driver: AbortHandle,
}

impl StoreConnection {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// The store is not there, or does not take who we say we are.
    pub async fn open(client: &Client) -> Result<Self, RedisError> {
        match timeout(CONNECT_BOUND, Self::try_open(client)).await {
            Ok(opened) => opened,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        }
    }

    async fn try_open(client: &Client) -> Result<Self, RedisError> {
        let info = client.get_connection_info();
        let stream = ReplyBound {
            inner: connect(info.addr()).await?,
            left: REPLY_MAX,
        };
        // Each use has a bound of its own.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let settings = info.redis_settings();
        let (sender, driver) =
            MultiplexedConnection::new_with_config(settings, stream, config).await?;
        Ok(Self {
            sender,
            silent_since: None,
            driver: tokio::spawn(driver).abort_handle(),
        })
    }

    /// Returns the handle that questions are asked with.
    pub fn sender(&self) -> MultiplexedConnection {
        self.sender.clone()
    }

    /// Notes that the store has answered something.
    pub fn answered(&mut self) {
        self.silent_since = None;
    }

    /// Notes that what was asked at `since` has had no answer in its time; returns whether the
    /// connection is to be given up.
    pub fn is_silent(&mut self, since: Instant) -> bool {
        let since = *self.silent_since.get_or_insert(since);
        since.elapsed() >= SILENCE_BOUND
    }
}

impl Drop for StoreConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

async fn connect(address: &ConnectionAddr) -> io::Result<Box<dyn Stream>> {
    match address {
        ConnectionAddr::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        ConnectionAddr::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        other => {
            let what = format!("a store cannot be reached at {other}");
            Err(io::Error::new(io::ErrorKind::Unsupported, what))
        }
    }
}

/// A stream that fails once the other end has said too much since we wrote: the
/// library keeps a reply until it is whole.
struct ReplyBound {
    inner: Box<dyn Stream>,
    /// Bytes that may be read before the next write.
    left: usize,
}

impl AsyncRead for ReplyBound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == 0 {
            let what = "the store says more than it was asked";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let read = buffer.filled().len() - before;
        self.left = self.left.saturating_sub(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ReplyBound {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.left = REPLY_MAX;
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    forward_stream!(inner: poll_flush, poll_shutdown);
}
