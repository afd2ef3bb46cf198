//! A connection to an endpoint that is heard out when it takes nothing more.
//!
//! A server of HTTP/2 that leaves (`GOAWAY`) may close when it has sent its last response, while
//! we still tell it of room for more. If the library cannot write to a connection, it ends the
//! connection, and loses what has arrived and was not read yet.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use sprat_net::forward_stream;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection that ends when nothing more can be read, even if nothing can be written.
pub(super) struct HearOut<S> {
    stream: S,
    /// Whether the endpoint takes nothing more, so that what is written is lost.
    is_deaf: bool,
}

impl<S> HearOut<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            is_deaf: false,
        }
    }
}

impl<S: AsyncWrite + Unpin> HearOut<S> {
    /// Writes to the stream. Once that has failed, returns `lost`, as if all had been written.
    fn write<T>(
        &mut self,
        lost: T,
        write: impl FnOnce(Pin<&mut S>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if !self.is_deaf {
            match write(Pin::new(&mut self.stream)) {
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "an endpoint takes nothing more");
                    self.is_deaf = true;
                }
                polled => return polled,
            }
        }
        Poll::Ready(Ok(lost))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HearOut<S> {
    forward_stream!(stream: poll_read);
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HearOut<S> {
    forward_stream!(stream: is_write_vectored);

    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(bytes.len(), |stream| stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        self.write(bytes, |stream| stream.poll_write_vectored(cx, slices))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write((), |stream| stream.poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write((), |stream| stream.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn what_an_endpoint_said_before_it_closed_is_read() {
        let (ours, mut theirs) = duplex(64);
        theirs.write_all(b"the last response").await.unwrap();
        drop(theirs);
        let mut heard = HearOut::new(ours);
        heard.write_all(b"room for more").await.unwrap();
        heard.flush().await.unwrap();
        let mut text = String::new();
        heard.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "the last response");
        heard.shutdown().await.unwrap();
    }
}
