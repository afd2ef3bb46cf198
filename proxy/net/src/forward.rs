//! A macro for streams that wrap another stream and pass most calls on to it.

/// Writes the named methods into an `impl` of `AsyncRead` or `AsyncWrite`: each calls the same
/// method of the stream in the named field.
#[macro_export]
macro_rules! forward_stream {
    ($field:ident: $($method:ident),+) => {
        $($crate::forward_stream!(@$method $field);)+
    };
    (@poll_read $field:ident) => {
        fn poll_read(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            buffer: &mut ::tokio::io::ReadBuf<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::tokio::io::AsyncRead::poll_read(::std::pin::Pin::new(&mut self.$field), cx, buffer)
        }
    };
    (@poll_write $field:ident) => {
        fn poll_write(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            bytes: &[u8],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            ::tokio::io::AsyncWrite::poll_write(::std::pin::Pin::new(&mut self.$field), cx, bytes)
        }
    };
    (@poll_write_vectored $field:ident) => {
        fn poll_write_vectored(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            slices: &[::std::io::IoSlice<'_>],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            let stream = ::std::pin::Pin::new(&mut self.$field);
            ::tokio::io::AsyncWrite::poll_write_vectored(stream, cx, slices)
        }
    };
    (@is_write_vectored $field:ident) => {
        fn is_write_vectored(&self) -> bool {
            ::tokio::io::AsyncWrite::is_write_vectored(&self.$field)
        }
    };
    (@poll_flush $field:ident) => {
        fn poll_flush(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::tokio::io::AsyncWrite::poll_flush(::std::pin::Pin::new(&mut self.$field), cx)
        }
    };
    (@poll_shutdown $field:ident) => {
        fn poll_shutdown(
            mut self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::tokio::io::AsyncWrite::poll_shutdown(::std::pin::Pin::new(&mut self.$field), cx)
        }
    };
}
