//! A client's socket that tells what passes through it.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::Outlet;
use crate::connection::Connection;

/// A client's socket. What it reads and writes is told to its [`Connection`],
/// and what it puts on the wire to the connection's gauge.
pub(crate) struct Io {
    stream: TcpStream,
    connection: Rc<Connection>,
}

impl Io {
    /// Wraps an accepted socket.
    pub(crate) fn new(stream: TcpStream, connection: Rc<Connection>) -> Self {
        Self { stream, connection }
    }

    fn mark(&self) {
        if let Outlet::Marked(mark) = self.connection.outlet() {
            mark.apply(self.stream.as_fd());
        }
    }

    /// Of `offered` bytes some were written, or none.
    fn note(&self, written: Poll<io::Result<usize>>, offered: usize) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(bytes)) => {
                self.connection.on_written(bytes, offered);
                match self.connection.outlet() {
                    Outlet::Plain => {}
                    Outlet::Gauged(gauge) => gauge.wrote(bytes, offered, self.stream.as_fd()),
                    Outlet::Marked(mark) => mark.wrote(bytes, offered),
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.connection.on_write_blocked(self.stream.as_fd()),
        }
        written
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if let Some(gauge) = self.connection.gauge() {
            gauge.close(self.stream.as_fd());
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.connection.on_read(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.mark();
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.mark();
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.note(written, slices.iter().map(|slice| slice.len()).sum())
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
