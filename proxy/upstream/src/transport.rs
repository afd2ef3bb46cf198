//! A connection to an endpoint, in plain text or under TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use sprat_net::forward_stream;
use sprat_net::slices::poll_write_slices;
use sprat_net::tls::EndpointStream;
use tokio::io::{AsyncRead, AsyncWrite};
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

impl AsyncRead for Transport {
    forward_stream!(Plain | Tls.stream: poll_read);
}

impl AsyncWrite for Transport {
    forward_stream!(
        Plain | Tls.stream: poll_write, is_write_vectored, poll_flush, poll_shutdown
    );

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
}
