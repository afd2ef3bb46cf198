//! The connection to a shared store, which may be dead or hostile: the length of its replies is
//! bounded, and its silence ends the connection.

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

/// The time within which a connection must open.
const CONNECT_BOUND: Duration = Duration::from_secs(1);

/// The time after which a store that has answered no waiting question has its connection closed:
/// it may no longer lead anywhere.
const SILENCE_BOUND: Duration = Duration::from_secs(5);

/// The most bytes that a store may send after a write. The reply to the longest question has
/// some 10,000.
const REPLY_MAX: usize = 256 << 10;

/// An open connection, which is closed when this is dropped.
pub struct StoreConnection {
    sender: MultiplexedConnection,
    /// The time since which the store has answered nothing that it was asked.
    silent_since: Option<Instant>,
    driver: AbortHandle,
}

impl StoreConnection {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// The store is not there, or refuses our credentials.
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

    /// Returns a handle for asking the store.
    pub fn sender(&self) -> MultiplexedConnection {
        self.sender.clone()
    }

    /// Notes that the store has answered something.
    pub fn answered(&mut self) {
        self.silent_since = None;
    }

    /// Notes that a question asked at `since` got no answer in its time; returns whether the
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

/// A stream that fails once the other end has sent too much since the last write: the library
/// keeps a reply in memory until it is whole.
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
