//! A connection to an endpoint, in plain text or under TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use sprat_net::slices::poll_write_slices;
use sprat_net::tls::EndpointStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::heard::MayRefuse;

/// The stream over which HTTP is spoken with an endpoint.
pub(super) enum Transport {
    /// A connection without TLS.
    Plain(TcpStream),
    /// A connection after a TLS handshake.
    Tls(Box<EndpointStream>),
}

impl MayRefuse for Transport {
    fn may_refuse(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(secured) => secured.may_be_refused(),
        }
    }
}

/// Makes a call on the stream of a transport, with TLS or without.
macro_rules! either {
    ($transport:expr, $stream:ident => $call:expr) => {
        match $transport.get_mut() {
            Self::Plain($stream) => {
                let $stream = Pin::new($stream);
                $call
            }
            Self::Tls(secured) => {
                let $stream = Pin::new(&mut secured.stream);
                $call
            }
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => poll_write_slices(Pin::new(stream), cx, slices),
            Self::Tls(secured) => Pin::new(&mut secured.stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(secured) => secured.stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}
