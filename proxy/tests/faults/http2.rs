//! HTTP/2 as the simulated peers speak it: by a library, on a connection that is as slow, and as
//! often cut, as any other.

pub(crate) mod backend;
pub(crate) mod client;
mod pipe;

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::{RecvStream, SendStream};

use crate::http::Head;

/// The tasks of streams, or of rows of them, until each has ended.
type Tasks<'a, T> = Vec<Pin<Box<dyn Future<Output = T> + 'a>>>;

/// Polls all tasks, removes those that have ended, and returns their outputs.
fn advance<T>(tasks: &mut Tasks<'_, T>, cx: &mut Context<'_>) -> Vec<T> {
    let mut ended = Vec::new();
    tasks.retain_mut(|task| match task.as_mut().poll(cx) {
        Poll::Ready(output) => {
            ended.push(output);
            false
        }
        Poll::Pending => true,
    });
    ended
}

/// Sends a body as far as the other end's window allows.
async fn send(stream: &mut SendStream<Bytes>, body: &[u8], ends: bool) -> Result<(), h2::Error> {
    let mut left = Bytes::copy_from_slice(body);
    while !left.is_empty() {
        stream.reserve_capacity(left.len());
        let Some(room) = poll_fn(|cx| stream.poll_capacity(cx)).await else {
            return Err(h2::Reason::CANCEL.into());
        };
        let piece = left.split_to(room?.min(left.len()));
        stream.send_data(piece, false)?;
    }
    match ends {
        true => stream.send_data(Bytes::new(), true),
        false => Ok(()),
    }
}

/// Reads a body into `body`. If the body is cut short, that keeps the part that came.
async fn receive(stream: &mut RecvStream, body: &mut Vec<u8>) -> Result<(), h2::Error> {
    while let Some(piece) = stream.data().await {
        let piece = piece?;
        stream.flow_control().release_capacity(piece.len())?;
        body.extend_from_slice(&piece);
    }
    Ok(())
}

/// Returns the head of a response in the form of HTTP/1.1.
fn head(parts: &http::response::Parts) -> Head {
    let fields = parts.headers.iter().map(|(name, value)| {
        let value = value.to_str().expect("a field's value");
        (name.as_str().to_owned(), value.to_owned())
    });
    Head::new(
        format!("HTTP/2 {}", parts.status.as_u16()),
        fields.collect(),
    )
}
