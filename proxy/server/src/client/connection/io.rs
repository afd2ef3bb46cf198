//! A client's socket, which reports what passes through it, and TLS on it.

use std::future::Future;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use sprat_net::forward_stream;
use sprat_net::slices::poll_write_slices;
use sprat_net::sys;
use sprat_uplink::Outlet;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::server::TlsStream;

use super::wire::Wire;

/// The part of a connection that its socket knows, and to which the socket reports what passes.
pub(crate) trait SocketWatch {
    /// Returns the sending side of the connection's socket.
    fn wire(&self) -> &Wire;

    /// Returns whether the next bytes begin a request, and all requests before it are answered.
    fn takes_turns(&self) -> bool;

    /// Looks at bytes that have just been read, and may correct what HTTP reads of them.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not to be read on: the request that they belong to fails.
    fn on_read(&self, bytes: &mut [u8]) -> io::Result<()>;

    /// Notes that the socket has just taken `bytes` bytes.
    fn on_written(&self, bytes: usize);

    /// Notes that the socket takes no more for now.
    fn on_write_blocked(&self, socket: BorrowedFd<'_>);

    /// Notes that the socket has taken all that was offered.
    fn on_flushed(&self);
}

/// A client's socket, which reports to its connection and the gauge what it puts on the wire.
pub(crate) struct Socket<W: SocketWatch> {
    reader: Reader,
    writer: OwnedWriteHalf,
    connection: Rc<W>,
}

/// The receiving side of a socket.
enum Reader {
    /// The client's sending side is open, and is read from.
    Open(OwnedReadHalf),
    /// All that the client had to send was read; a future may wait for the connection's failure.
    Ended(Option<Failing>),
}

/// A future that ends when the kernel reports that a connection has failed.
type Failing = Pin<Box<dyn Future<Output = ()>>>;

impl<W: SocketWatch> Socket<W> {
    /// Wraps an accepted socket.
    pub(crate) fn new(stream: TcpStream, connection: Rc<W>) -> Self {
        let (reader, writer) = stream.into_split();
        Self {
            reader: Reader::Open(reader),
            writer,
            connection,
        }
    }

    fn stream(&self) -> &TcpStream {
        self.writer.as_ref()
    }

    /// Waits until something has come, and returns its first byte, which stays to be read;
    /// none at the end.
    ///
    /// # Errors
    ///
    /// Fails if the socket has failed: nothing more is going to come.
    pub(crate) async fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        // An accepted socket is taken for readable until it was read.
        let bytes = self.stream().peek(&mut byte).await?;
        Ok((bytes > 0).then_some(byte[0]))
    }

    /// Waits until the connection of a client that sends nothing more has failed: a
    /// reset, say. An end of sending stays readable, so that reading would not tell.
    fn poll_failure(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if matches!(self.reader, Reader::Open(_))
            && let Reader::Open(half) = std::mem::replace(&mut self.reader, Reader::Ended(None))
        {
            self.reader = Reader::Ended(Some(Box::pin(async move {
                // An error: the event loop ends, and the connection with it.
                let _ = half.ready(Interest::ERROR).await;
            })));
        }
        if let Reader::Ended(Some(failing)) = &mut self.reader {
            ready!(failing.as_mut().poll(cx));
            self.reader = Reader::Ended(None);
        }
        let error = self.stream().take_error().ok().flatten();
        Poll::Ready(error.unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()))
    }

    /// Gives the socket the marks that its next bytes are to bear. Bytes that it has not
    /// sent would go with another code point, so they are waited for.
    fn poll_mark(&self, cx: &mut Context<'_>) -> Poll<()> {
        let stream = self.stream();
        if let Some(mark) = self.connection.wire().mark().filter(|mark| mark.is_stale()) {
            loop {
                // An error is the write's to tell.
                if ready!(stream.poll_write_ready(cx)).is_err() {
                    break;
                }
                match stream.try_io(Interest::WRITABLE, || mark.all_sent(stream)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    _ => break,
                }
            }
            mark.apply(stream);
        }
        if let Outlet::Marked(mark) = self.connection.wire().outlet() {
            mark.apply(stream.as_fd());
        }
        Poll::Ready(())
    }

    /// Takes the code point off the socket once nothing unsent is to bear it.
    fn unmark(&self) {
        let over = self.connection.wire().mark().filter(|mark| mark.is_over());
        if let Some(mark) = over
            && sys::unsent(self.stream()).is_ok_and(|bytes| bytes == 0)
        {
            mark.apply(self.stream());
        }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.connection.on_written(bytes);
                if let Some(gauge) = self.connection.wire().gauge() {
                    gauge.wrote(bytes, self.stream().as_fd());
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.connection.on_write_blocked(self.stream().as_fd()),
        }
        written
    }
}

impl<W: SocketWatch> Drop for Socket<W> {
    fn drop(&mut self) {
        if let Some(gauge) = self.connection.wire().gauge() {
            gauge.close(self.stream().as_fd());
        }
    }
}

impl<W: SocketWatch> AsyncRead for Socket<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.unmark();
        let before = buffer.filled().len();
        match &mut self.reader {
            Reader::Open(half) => ready!(Pin::new(half).poll_read(cx, buffer))?,
            Reader::Ended(_) => {}
        }
        if let Some(gauge) = self.connection.wire().gauge() {
            let bytes = buffer.filled().len() - before;
            gauge.read(bytes, self.connection.takes_turns(), self.stream().as_fd());
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: SocketWatch> AsyncWrite for Socket<W> {
    forward_stream!(writer: is_write_vectored, poll_flush, poll_shutdown);

    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match self.poll_mark(cx) {
            Poll::Ready(()) => Pin::new(&mut self.writer).poll_write(cx, bytes),
            Poll::Pending => Poll::Pending,
        };
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = match self.poll_mark(cx) {
            Poll::Ready(()) => poll_write_slices(Pin::new(&mut self.writer), cx, slices),
            Poll::Pending => Poll::Pending,
        };
        self.note(written)
    }
}

/// The stream over which HTTP is spoken with a client. The connection is told what is read,
/// and when the socket has taken all that was written.
pub(crate) struct Io<W: SocketWatch>(Layer<W>);

enum Layer<W: SocketWatch> {
    Plain(Socket<W>),
    /// TLS on the socket, boxed so that a connection without it does not carry its room.
    Tls(Box<TlsStream<Socket<W>>>),
}

impl<W: SocketWatch> Layer<W> {
    fn socket(&self) -> &Socket<W> {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Returns whether TLS keeps something that the socket has not taken.
    fn has_unwritten(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.get_ref().1.wants_write())
    }
}

impl<W: SocketWatch> AsyncRead for Layer<W> {
    forward_stream!(Plain | Tls: poll_read);
}

impl<W: SocketWatch> AsyncWrite for Layer<W> {
    forward_stream!(
        Plain | Tls:
        poll_write, poll_write_vectored, is_write_vectored, poll_flush, poll_shutdown
    );
}

impl<W: SocketWatch> Io<W> {
    /// Makes the stream of a connection without TLS.
    pub(crate) fn plain(socket: Socket<W>) -> Self {
        Self(Layer::Plain(socket))
    }

    /// Makes the stream of a connection after its TLS handshake.
    pub(crate) fn tls(stream: TlsStream<Socket<W>>) -> Self {
        Self(Layer::Tls(Box::new(stream)))
    }

    /// Waits until there may be something to read, which is left where it is.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.socket().stream().poll_read_ready(cx)
    }

    /// Waits until the connection of a client that sends nothing more has failed.
    pub(crate) fn poll_failure(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        match &mut self.0 {
            Layer::Plain(socket) => socket.poll_failure(cx),
            Layer::Tls(stream) => stream.get_mut().0.poll_failure(cx),
        }
    }

    fn connection(&self) -> &W {
        &self.0.socket().connection
    }

    /// Notes how many of the `offered` bytes were taken. With TLS that does not mean that
    /// the socket has them.
    fn note(&self, taken: Poll<io::Result<usize>>, offered: usize) -> Poll<io::Result<usize>> {
        let all = matches!(taken, Poll::Ready(Ok(bytes)) if bytes == offered);
        if all && !self.0.has_unwritten() {
            self.connection().on_flushed();
        }
        taken
    }
}

impl<W: SocketWatch> AsyncRead for Io<W> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.0).poll_read(cx, buffer))?;
        Poll::Ready(
            self.connection()
                .on_read(&mut buffer.filled_mut()[before..]),
        )
    }
}

impl<W: SocketWatch> AsyncWrite for Io<W> {
    forward_stream!(0: is_write_vectored, poll_shutdown);

    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.0).poll_write(cx, bytes);
        self.note(taken, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.0).poll_write_vectored(cx, slices);
        self.note(taken, slices.iter().map(|slice| slice.len()).sum())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let kept = self.0.has_unwritten();
        ready!(Pin::new(&mut self.0).poll_flush(cx))?;
        if kept {
            self.connection().on_flushed();
        }
        Poll::Ready(Ok(()))
    }
}
