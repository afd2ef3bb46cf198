//! A macro for streams that wrap another stream, or one of several, and pass most calls on to it.

/// Writes the named methods into an `impl` of `AsyncRead` or `AsyncWrite`: each calls the same
/// method of the stream that is wrapped.
///
/// A struct names the field of that stream: `stream: poll_flush, poll_shutdown`. An enum names its
/// variants, which hold a stream each, or something that has it in a field:
/// `Plain | Tls.stream: poll_flush, poll_shutdown`.
#[macro_export]
macro_rules! forward_stream {
    ($field:tt: $($method:ident),+) => {
        $crate::forward_stream!(@each { own => own.$field } $($method),+);
    };
    ($($variant:ident $(.$field:ident)?)|+: $($method:ident),+) => {
        $crate::forward_stream!(
            @each { $(Self::$variant(own) => (*own)$(.$field)?),+ } $($method),+
        );
    };
    // As one tree, since each method of the one repetition needs all streams of the other.
    (@each $streams:tt $($method:ident),+) => {
        $($crate::forward_stream!(@$method $streams);)+
    };
    (@poll_read { $($own:pat => $stream:expr),+ }) => {
        fn poll_read(
            self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            buffer: &mut ::tokio::io::ReadBuf<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            match ::std::pin::Pin::get_mut(self) {
                $($own => {
                    let stream = ::std::pin::Pin::new(&mut $stream);
                    ::tokio::io::AsyncRead::poll_read(stream, cx, buffer)
                })+
            }
        }
    };
    (@poll_write { $($own:pat => $stream:expr),+ }) => {
        fn poll_write(
            self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            bytes: &[u8],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            match ::std::pin::Pin::get_mut(self) {
                $($own => {
                    let stream = ::std::pin::Pin::new(&mut $stream);
                    ::tokio::io::AsyncWrite::poll_write(stream, cx, bytes)
                })+
            }
        }
    };
    (@poll_write_vectored { $($own:pat => $stream:expr),+ }) => {
        fn poll_write_vectored(
            self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            slices: &[::std::io::IoSlice<'_>],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            match ::std::pin::Pin::get_mut(self) {
                $($own => {
                    let stream = ::std::pin::Pin::new(&mut $stream);
                    ::tokio::io::AsyncWrite::poll_write_vectored(stream, cx, slices)
                })+
            }
        }
    };
    (@is_write_vectored { $($own:pat => $stream:expr),+ }) => {
        fn is_write_vectored(&self) -> bool {
            match self {
                $($own => ::tokio::io::AsyncWrite::is_write_vectored(&$stream),)+
            }
        }
    };
    (@poll_flush { $($own:pat => $stream:expr),+ }) => {
        fn poll_flush(
            self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            match ::std::pin::Pin::get_mut(self) {
                $($own => {
                    let stream = ::std::pin::Pin::new(&mut $stream);
                    ::tokio::io::AsyncWrite::poll_flush(stream, cx)
                })+
            }
        }
    };
    (@poll_shutdown { $($own:pat => $stream:expr),+ }) => {
        fn poll_shutdown(
            self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            match ::std::pin::Pin::get_mut(self) {
                $($own => {
                    let stream = ::std::pin::Pin::new(&mut $stream);
                    ::tokio::io::AsyncWrite::poll_shutdown(stream, cx)
                })+
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{self, IoSlice};
    use std::pin::Pin;
    use std::rc::Rc;
    use std::task::{Context, Poll, Waker};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    /// A stream that notes the calls on it.
    struct Called(Rc<RefCell<Vec<&'static str>>>);

    impl Called {
        fn note(&self, call: &'static str) {
            self.0.borrow_mut().push(call);
        }
    }

    impl AsyncRead for Called {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.note("poll_read");
            buffer.put_slice(b"read");
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Called {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.note("poll_write");
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.note("poll_write_vectored");
            Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
        }

        fn is_write_vectored(&self) -> bool {
            self.note("is_write_vectored");
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.note("poll_flush");
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.note("poll_shutdown");
            Poll::Ready(Ok(()))
        }
    }

    /// A stream in a field that has a name.
    struct Named {
        stream: Called,
    }

    impl AsyncRead for Named {
        forward_stream!(stream: poll_read);
    }

    impl AsyncWrite for Named {
        forward_stream!(
            stream: poll_write, poll_write_vectored, is_write_vectored, poll_flush, poll_shutdown
        );
    }

    /// A stream in a field that has a number.
    struct Numbered(Called);

    impl AsyncRead for Numbered {
        forward_stream!(0: poll_read);
    }

    impl AsyncWrite for Numbered {
        forward_stream!(
            0: poll_write, poll_write_vectored, is_write_vectored, poll_flush, poll_shutdown
        );
    }

    /// A stream that is one of three.
    enum OneOf {
        Plain(Called),
        Boxed(Box<Called>),
        Within(Box<Named>),
    }

    impl AsyncRead for OneOf {
        forward_stream!(Plain | Boxed | Within.stream: poll_read);
    }

    impl AsyncWrite for OneOf {
        forward_stream!(
            Plain | Boxed | Within.stream:
            poll_write, poll_write_vectored, is_write_vectored, poll_flush, poll_shutdown
        );
    }

    /// Makes each call once on what `wrap` makes of a stream; returns those that have reached it.
    fn reached<S: AsyncRead + AsyncWrite + Unpin>(
        wrap: impl FnOnce(Called) -> S,
    ) -> Vec<&'static str> {
        let calls = Rc::new(RefCell::new(Vec::new()));
        let mut stream = wrap(Called(Rc::clone(&calls)));
        let cx = &mut Context::from_waker(Waker::noop());
        let mut room = [0; 8];
        let mut buffer = ReadBuf::new(&mut room);
        let read = Pin::new(&mut stream).poll_read(cx, &mut buffer);
        assert!(matches!(read, Poll::Ready(Ok(()))));
        assert_eq!(buffer.filled(), b"read");
        let written = Pin::new(&mut stream).poll_write(cx, b"one");
        assert!(matches!(written, Poll::Ready(Ok(3))));
        let slices = [IoSlice::new(b"two"), IoSlice::new(b"four")];
        let written = Pin::new(&mut stream).poll_write_vectored(cx, &slices);
        assert!(matches!(written, Poll::Ready(Ok(7))));
        assert!(stream.is_write_vectored());
        assert!(Pin::new(&mut stream).poll_flush(cx).is_pending());
        let shut = Pin::new(&mut stream).poll_shutdown(cx);
        assert!(matches!(shut, Poll::Ready(Ok(()))));
        calls.take()
    }

    #[test]
    fn each_call_reaches_the_same_method_of_the_stream() {
        let all = [
            "poll_read",
            "poll_write",
            "poll_write_vectored",
            "is_write_vectored",
            "poll_flush",
            "poll_shutdown",
        ];
        assert_eq!(reached(|stream| Named { stream }), all);
        assert_eq!(reached(Numbered), all);
        assert_eq!(reached(OneOf::Plain), all);
        assert_eq!(reached(|stream| OneOf::Boxed(Box::new(stream))), all);
        let within = |stream| OneOf::Within(Box::new(Named { stream }));
        assert_eq!(reached(within), all);
    }
}
