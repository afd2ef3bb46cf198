//! Properties of a screen that hold whatever comes, for the fuzzer and the tests.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::hpack::{Decoder, encode_literal};
use crate::screen::{Interim, Malformed, Peer, Screened};

/// The number of an input's first bytes, which say how the others come.
pub(crate) const HOW_BYTES: usize = 6;

/// The most octets of a list of fields: few, so that the bound is reached.
const LIST_MAX: usize = 400;

/// The most octets that are held back: the frames of the largest header block.
const HELD_MAX: usize = 7 * (9 + (1 << 14));

/// The most octets of a header block that is written anew in the place of another: its list, a
/// field from the table that is over the bound, and their lengths.
const REWRITTEN_MAX: usize = 2 * LIST_MAX + 4096 + 200;

/// The stream of the interim responses that are written between frames.
const OWN_STREAM: u32 = 0x7fff_fff1;

/// A stream that gives and takes bytes in parts.
struct Parts<'a> {
    given: &'a [u8],
    /// The sizes of the parts, in turn.
    sizes: &'a [u8],
    turn: usize,
    taken: Vec<u8>,
}

impl<'a> Parts<'a> {
    fn of(given: &'a [u8], sizes: &'a [u8]) -> Self {
        Self {
            given,
            sizes,
            turn: 0,
            taken: Vec::new(),
        }
    }

    fn next(&mut self) -> usize {
        let size = self.sizes.get(self.turn % self.sizes.len().max(1));
        self.turn += 1;
        size.map_or(usize::MAX, |size| usize::from(*size).max(1))
    }
}

impl AsyncRead for Parts<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let size = self.next().min(buffer.remaining()).min(self.given.len());
        let (part, rest) = self.given.split_at(size);
        buffer.put_slice(part);
        self.given = rest;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Parts<'_> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let size = self.next().min(bytes.len());
        self.taken.extend_from_slice(&bytes[..size]);
        Poll::Ready(Ok(size))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The events that a screen has told of.
#[derive(Default)]
struct Told {
    events: RefCell<Vec<String>>,
    malformed: RefCell<usize>,
    /// Interim responses that are still to be written.
    interims: RefCell<usize>,
}

impl Peer for &Told {
    fn malformed(&self, request: Malformed) {
        *self.malformed.borrow_mut() += 1;
        self.events.borrow_mut().push(format!("{request:?}"));
    }

    fn interim(&self, stream: u32, interim: Interim) {
        assert!(interim.status.is_informational());
        assert_ne!(interim.status, StatusCode::SWITCHING_PROTOCOLS);
        let event = format!("{stream} {interim:?}");
        self.events.borrow_mut().push(event);
    }

    fn next_interim(&self) -> Option<(u32, Vec<u8>)> {
        let mut left = self.interims.borrow_mut();
        *left = left.checked_sub(1)?;
        Some((OWN_STREAM, b"own".to_vec()))
    }
}

/// Returns what is read through a screen, and what the screen has told. The bytes come in parts
/// of these sizes, and are read with a buffer of `buffer` bytes.
fn read(is_client: bool, bytes: &[u8], sizes: &[u8], buffer: usize) -> (Vec<u8>, Vec<String>) {
    let (told, parts) = (Told::default(), Parts::of(bytes, sizes));
    let mut screened = match is_client {
        true => Screened::client(parts, LIST_MAX, &told),
        false => Screened::endpoint(parts, LIST_MAX, &told),
    };
    let mut out = Vec::new();
    let mut room = vec![0; buffer];
    let cx = &mut Context::from_waker(Waker::noop());
    loop {
        let mut buffer = ReadBuf::new(&mut room);
        let polled = Pin::new(&mut screened).poll_read(cx, &mut buffer);
        assert!(matches!(polled, Poll::Ready(Ok(()))));
        if buffer.filled().is_empty() {
            break;
        }
        out.extend_from_slice(buffer.filled());
        let came = bytes.len() - screened.stream.given.len();
        assert!(
            came <= out.len() + HELD_MAX + room.len(),
            "too much is held"
        );
    }
    let blocks = bytes.len() / 9;
    assert!(out.len() <= 2 * bytes.len() + blocks * REWRITTEN_MAX);
    drop(screened);
    (out, told.events.into_inner())
}

/// Returns the offsets between frames in these bytes, but for those within a header block.
fn boundaries(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut ends) = (0, vec![0]);
    while let Some([high, middle, low, kind, flags]) = bytes.get(at..at + 5) {
        at += 9 + u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        if !matches!(kind, 1 | 9) || flags & 4 != 0 {
            ends.push(at);
        }
    }
    ends
}

/// Checks that interim responses among the library's bytes leave all of these in their order,
/// and cut none of its frames.
fn write(bytes: &[u8], sizes: &[u8], interims: usize) {
    let told = Told::default();
    let mut screened = Screened::client(Parts::of(&[], sizes), LIST_MAX, &told);
    let cx = &mut Context::from_waker(Waker::noop());
    let (mut rest, mut own, mut at) = (bytes, Vec::new(), Vec::new());
    let ends = boundaries(bytes);
    for turn in 0.. {
        *told.interims.borrow_mut() = usize::from(turn < interims);
        let before = screened.stream.taken.len();
        let polled = match rest {
            [] => Pin::new(&mut screened).poll_flush(cx).map_ok(|()| 0),
            rest => Pin::new(&mut screened).poll_write(cx, rest),
        };
        let Poll::Ready(Ok(count)) = polled else {
            panic!("the stream takes all");
        };
        let added = screened.stream.taken.len() - before - count;
        if added > 0 {
            own.extend_from_slice(&screened.stream.taken[before..before + added]);
            at.push(bytes.len() - rest.len());
        }
        rest = &rest[count..];
        if rest.is_empty() && turn >= interims {
            break;
        }
    }
    assert!(at.iter().all(|at| ends.contains(at)), "a frame is cut");
    assert_eq!(screened.stream.taken.len(), bytes.len() + own.len());
    let frame = b"\x00\x00\x03\x01\x04\x7f\xff\xff\xf1own";
    assert!(own.chunks(frame.len()).all(|own| own == frame));
}

/// Checks that a header block means the same when its fields are written anew.
fn again(block: &[u8]) {
    let list = |block: &[u8]| {
        let mut fields = Vec::new();
        let mut bytes = 0;
        let decoded = Decoder::new().decode(block, usize::MAX, |field| {
            // A small block may stand for a large list.
            bytes += field.bytes();
            if bytes < 1 << 16 {
                fields.push((field.name.to_vec(), field.value.to_vec()));
            }
            true
        });
        (decoded.is_ok(), fields)
    };
    let (_, fields) = list(block);
    let mut anew = Vec::new();
    for (name, value) in &fields {
        encode_literal(name, value, &mut anew);
    }
    assert_eq!(list(&anew), (true, fields));
}

/// Checks a screen on an input, whose first bytes say how the others come.
pub(crate) fn run(data: &[u8]) {
    let Some((how, bytes)) = data.split_first_chunk::<HOW_BYTES>() else {
        return;
    };
    let [side, buffer, sizes @ ..] = how;
    let is_client = side & 1 == 0;
    let buffer = usize::from(*buffer).max(1);
    let preface = [b'-'; 24];
    let bytes = match is_client {
        true => &[&preface, bytes].concat()[..],
        false => bytes,
    };
    let whole = read(is_client, bytes, &[], bytes.len().max(1));
    let parts = read(is_client, bytes, sizes, buffer);
    assert_eq!(
        whole, parts,
        "the parts in which bytes come change something"
    );
    if !is_client {
        let passed = read(false, &whole.0, &[], whole.0.len().max(1));
        assert_eq!(passed.0, whole.0, "what has passed does not pass again");
    }
    write(bytes, sizes, usize::from(side >> 4));
    again(bytes);
}
