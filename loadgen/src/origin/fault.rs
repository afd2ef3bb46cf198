//! Responses that no HTTP library would send, written on the raw socket.

use std::io;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::recipe::{Fault, Recipe};
use crate::content::{Content, SLICE_BYTES_MAX};

/// The longest time that a fault holds its connection.
const HOLD_MAX: Duration = Duration::from_secs(600);

/// The wait before a reset, in which the kernel sends what was written: a reset throws away what is
/// still queued.
const BEFORE_RESET: Duration = Duration::from_millis(50);

/// The bytes of a head that is cut in the middle, where the knob `at` does not say.
const HEAD_BYTES_DEFAULT: u64 = 20;
const EXCESS_BYTES_DEFAULT: u64 = 100;
const GARBAGE_BYTES_DEFAULT: u64 = 1000;
const FLOOD_BYTES_DEFAULT: u64 = 16 * 1024 * 1024;

/// Sends the broken response and ends the connection.
pub(super) async fn perform(mut stream: TcpStream, fault: Fault, recipe: &Recipe) {
    // The client may leave at any point: that ends the fault, and is no error.
    let _ = tokio::time::timeout(HOLD_MAX, break_response(&mut stream, fault, recipe)).await;
}

async fn break_response(stream: &mut TcpStream, fault: Fault, recipe: &Recipe) -> io::Result<()> {
    let content = recipe.content;
    let head = head(recipe);
    let in_head = recipe
        .at
        .unwrap_or(HEAD_BYTES_DEFAULT)
        .min(head.len() as u64) as usize;
    let in_body = recipe.at.unwrap_or(content.bytes / 2).min(content.bytes);
    match fault {
        Fault::ResetHead => {
            stream.write_all(&head[..in_head]).await?;
            reset(stream).await
        }
        Fault::ResetBody => {
            send(stream, &head, content, in_body).await?;
            reset(stream).await
        }
        Fault::Short => send(stream, &head, content, in_body).await,
        Fault::Long => {
            let excess = recipe.at.unwrap_or(EXCESS_BYTES_DEFAULT);
            send(stream, &head, content, content.bytes.saturating_add(excess)).await
        }
        Fault::Garbage => {
            send(
                stream,
                b"",
                content,
                recipe.at.unwrap_or(GARBAGE_BYTES_DEFAULT),
            )
            .await
        }
        Fault::StallHead => {
            stream.write_all(&head[..in_head]).await?;
            until_closed(stream).await
        }
        Fault::StallBody => {
            send(stream, &head, content, in_body).await?;
            until_closed(stream).await
        }
        Fault::HeaderFlood => flood(stream, recipe.at.unwrap_or(FLOOD_BYTES_DEFAULT)).await,
    }
}

fn head(recipe: &Recipe) -> Vec<u8> {
    format!(
        "HTTP/1.1 {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        recipe.status, recipe.content.bytes
    )
    .into_bytes()
}

/// Sends `head` and then `bytes` bytes of the content, continued beyond its end if need be. Head
/// and first slice leave in one write.
async fn send(stream: &mut TcpStream, head: &[u8], content: Content, bytes: u64) -> io::Result<()> {
    let mut first = head.to_vec();
    let mut offset = bytes.min(SLICE_BYTES_MAX as u64);
    first.extend_from_slice(&content.stretch(0, offset as usize));
    stream.write_all(&first).await?;
    while offset < bytes {
        let slice = content.stretch(
            offset,
            (bytes - offset).min(SLICE_BYTES_MAX as u64) as usize,
        );
        stream.write_all(&slice).await?;
        offset += slice.len() as u64;
    }
    Ok(())
}

/// Makes the connection close with a RST instead of a FIN, once the stream is dropped.
async fn reset(stream: &TcpStream) -> io::Result<()> {
    tokio::time::sleep(BEFORE_RESET).await;
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

async fn until_closed(stream: &mut TcpStream) -> io::Result<()> {
    let mut sink = [0; 1024];
    while stream.read(&mut sink).await? > 0 {}
    Ok(())
}

/// Sends header fields, at least `bytes` bytes of them, and never the end of the head.
async fn flood(stream: &mut TcpStream, bytes: u64) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
    let line = format!("x-flood: {}\r\n", "f".repeat(1000));
    let mut sent = 0;
    while sent < bytes {
        stream.write_all(line.as_bytes()).await?;
        sent += line.len() as u64;
    }
    Ok(())
}
