//! A simulated connection in the form of a stream that a library reads and writes.

use std::future::pending;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, split};

use crate::wire::{Halves, Over};

/// The most bytes on their way between the two, in each direction.
pub(super) const BUFFER_BYTES: usize = 16 << 10;

/// Runs `work`, which uses a stream, and passes the stream's bytes over a connection. Ends when the
/// connection does.
pub(super) async fn serve(
    halves: Halves<'_>,
    stream: DuplexStream,
    work: impl Future<Output = ()>,
) {
    let work = async {
        // Dropped, it closes the stream; what it has said still goes out.
        work.await;
        pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = run(halves, stream) => {}
        () = work => {}
    }
}

/// Passes bytes between a connection and a stream. Ends with the connection's fault, or when all
/// bytes written to the stream are on their way.
async fn run(halves: Halves<'_>, stream: DuplexStream) {
    let Halves {
        mut reader,
        mut writer,
    } = halves;
    let (mut said, mut heard) = split(stream);
    let down = async {
        loop {
            let bytes = reader.buffered().to_vec();
            reader.consume(bytes.len());
            // An error: nobody listens any more.
            let _ = heard.write_all(&bytes).await;
            match reader.fill().await {
                Ok(()) => {}
                Err(Over::Fault) => return,
                Err(Over::Closed) => break,
            }
        }
        let _ = heard.shutdown().await;
        pending::<()>().await;
    };
    let up = async {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut is_open = true;
        while let Ok(count @ 1..) = said.read(&mut buffer).await {
            // What nobody takes is lost, and what was said is still heard.
            if is_open {
                match writer.send(&buffer[..count]).await {
                    Ok(()) => {}
                    Err(Over::Fault) => return,
                    Err(Over::Closed) => is_open = false,
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = down => {}
        () = up => {}
    }
}
