//! Frames of Sprat's own among those that the library writes to a client.
//!
//! Sprat's frames carry interim responses, which the library has no way to send. They never cut
//! a frame of the library's, nor a header block in several frames. Their header blocks leave the
//! client's table as the library has it.

use std::collections::VecDeque;

use super::frames::{ACK, CONTINUATION, END_HEADERS, HEADER_BYTES, HEADERS, Header};
use super::frames::{RST_STREAM, SETTINGS};
use crate::hpack::{self, TABLE_BYTES};

/// The most settings of a client that wait for the library's answer. The library reads no more
/// before it has answered, so that a read of the socket bounds how many wait.
const SETTINGS_MAX: usize = 4096;

/// The state of the direction to a client, and Sprat's frames in it.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    header: [u8; HEADER_BYTES],
    /// The bytes of `header` that were seen so far.
    known: usize,
    /// The bytes of a payload that are still to come.
    passing: usize,
    /// Whether a header block goes on in the next frame.
    in_block: bool,
    table: TableSize,
    block: Vec<u8>,
    /// Sprat's frames that the socket does not have yet, from `written` on.
    frames: Vec<u8>,
    written: usize,
}

impl Outgoing {
    /// Follows what the library writes, and tells `reset` of the streams that it resets.
    pub(super) fn pass(&mut self, mut bytes: &[u8], reset: &mut impl FnMut(u32)) {
        while !bytes.is_empty() {
            let used = match self.passing {
                0 => self.begin(bytes, reset),
                passing => {
                    let used = passing.min(bytes.len());
                    self.passing -= used;
                    used
                }
            };
            bytes = &bytes[used..];
        }
    }

    fn begin(&mut self, bytes: &[u8], reset: &mut impl FnMut(u32)) -> usize {
        let used = (HEADER_BYTES - self.known).min(bytes.len());
        self.header[self.known..self.known + used].copy_from_slice(&bytes[..used]);
        self.known += used;
        let whole = Header::read(&self.header).filter(|_| self.known == HEADER_BYTES);
        let Some(header) = whole else { return used };
        (self.known, self.passing) = (0, header.length);
        match header.kind {
            HEADERS | CONTINUATION => {
                self.in_block = !header.has(END_HEADERS);
                self.table.said();
            }
            RST_STREAM => reset(header.stream),
            SETTINGS if header.has(ACK) => self.table.answered(),
            _ => {}
        }
        used
    }

    /// Notes that the client has sent settings.
    pub(super) fn settings(&mut self, table_bytes: Option<u32>) {
        self.table.asked(table_bytes);
    }

    /// Returns whether a frame of Sprat's may begin here.
    pub(super) fn is_between_frames(&self) -> bool {
        self.known == 0 && self.passing == 0 && !self.in_block
    }

    /// Returns whether the size of the client's table is unknown, so that no head can be written
    /// any more.
    pub(super) fn is_lost(&self) -> bool {
        self.table.is_lost
    }

    /// Queues a head of these fields, on a stream that goes on after it.
    pub(super) fn write(&mut self, stream: u32, fields: &[u8]) {
        self.block.clear();
        self.table.say(&mut self.block);
        self.block.extend_from_slice(fields);
        let header = Header {
            length: 0,
            kind: HEADERS,
            flags: 0,
            stream,
        };
        header.write_block(&self.block, &mut self.frames);
    }

    /// Returns the bytes to be written before the library's next.
    pub(super) fn unwritten(&self) -> &[u8] {
        &self.frames[self.written..]
    }

    /// Notes that the socket has taken so many unwritten bytes; returns whether those were all.
    pub(super) fn advance(&mut self, bytes: usize) -> bool {
        self.written += bytes;
        let is_all = self.written == self.frames.len();
        if is_all {
            self.frames.clear();
            self.written = 0;
        }
        is_all
    }
}

/// The size of the client's table, as the library's header blocks have it. If the client has
/// asked for a smaller one, the next block must begin with that change (RFC 7541 4.2), be it the
/// library's or Sprat's.
#[derive(Debug)]
struct TableSize {
    /// The size that the client was told last, in octets.
    bytes: usize,
    /// The least and the last of the sizes that the client has asked for since.
    change: Option<(usize, usize)>,
    /// The settings that are not answered, each with the size that it asks for, if any.
    asked: VecDeque<Option<usize>>,
    /// Whether too many settings were not answered.
    is_lost: bool,
}

impl Default for TableSize {
    fn default() -> Self {
        Self {
            bytes: TABLE_BYTES,
            change: None,
            asked: VecDeque::new(),
            is_lost: false,
        }
    }
}

impl TableSize {
    fn asked(&mut self, bytes: Option<u32>) {
        self.is_lost |= self.asked.len() >= SETTINGS_MAX;
        if !self.is_lost {
            // The library makes it no larger than it was.
            let bytes = bytes.map(|bytes| (bytes as usize).min(TABLE_BYTES));
            self.asked.push_back(bytes);
        }
    }

    /// Notes that the library has answered the client's oldest settings, and goes by them from
    /// now on.
    fn answered(&mut self) {
        if let Some(Some(bytes)) = self.asked.pop_front() {
            let least = self.change.map_or(bytes, |(least, _)| least.min(bytes));
            self.change = Some((least, bytes));
        }
    }

    /// Notes that the library has written a block, and with it any change of the size.
    fn said(&mut self) {
        if let Some((_, last)) = self.change.take() {
            self.bytes = last;
        }
    }

    /// Begins a block with the change of the size, if it must be told. The library tells it
    /// again.
    fn say(&self, block: &mut Vec<u8>) {
        let Some((least, last)) = self.change.filter(|(least, _)| *least < self.bytes) else {
            return;
        };
        hpack::encode_table_size(least, block);
        if last > least {
            hpack::encode_table_size(last, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
        let mut frame = [&length[..], &[kind, flags], &stream.to_be_bytes()].concat();
        frame.extend_from_slice(payload);
        frame
    }

    fn written(outgoing: &mut Outgoing, stream: u32, fields: &[u8]) -> Vec<u8> {
        outgoing.write(stream, fields);
        let frames = outgoing.unwritten().to_vec();
        assert!(!outgoing.advance(1));
        assert_eq!(outgoing.unwritten(), &frames[1..]);
        assert!(outgoing.advance(frames.len() - 1));
        frames
    }

    #[test]
    fn a_frame_begins_where_none_of_the_librarys_is_under_way() {
        let frames = [
            (frame(SETTINGS, 0, 0, &[0; 6]), true),
            (frame(HEADERS, 0, 1, &[0x88]), false),
            (frame(CONTINUATION, 0, 1, &[]), false),
            (frame(CONTINUATION, END_HEADERS, 1, &[0x88; 3]), true),
            (frame(0, 0, 1, &[7; 300]), true),
            (frame(RST_STREAM, 0, 5, &[0; 4]), true),
        ];
        for part in [1, 2, 8, 9, 400] {
            let (mut outgoing, mut resets) = (Outgoing::default(), Vec::new());
            for (frame, is_between) in &frames {
                for bytes in frame[..frame.len() - 1].chunks(part) {
                    outgoing.pass(bytes, &mut |stream| resets.push(stream));
                    assert!(!outgoing.is_between_frames());
                }
                outgoing.pass(&frame[frame.len() - 1..], &mut |stream| resets.push(stream));
                assert_eq!(outgoing.is_between_frames(), *is_between);
            }
            assert_eq!(resets, [5]);
        }
    }

    #[test]
    fn a_long_head_goes_on_in_further_frames() {
        let mut outgoing = Outgoing::default();
        let fields = [1; 20_000];
        let long = written(&mut outgoing, 3, &fields);
        let expected = [
            frame(HEADERS, 0, 3, &fields[..16_384]),
            frame(CONTINUATION, END_HEADERS, 3, &fields[16_384..]),
        ];
        assert_eq!(long, expected.concat());
        assert_eq!(
            written(&mut outgoing, 5, b"x"),
            frame(HEADERS, END_HEADERS, 5, b"x")
        );
    }

    #[test]
    fn a_table_that_shrinks_is_told_of_with_the_first_block() {
        let ack = frame(SETTINGS, ACK, 0, &[]);
        let none = &mut |_| ();
        let mut outgoing = Outgoing::default();
        let mut said = |asked: &[Option<u32>], answered: usize, library: bool| {
            asked.iter().for_each(|bytes| outgoing.settings(*bytes));
            (0..answered).for_each(|_| outgoing.pass(&ack, none));
            if library {
                outgoing.pass(&frame(HEADERS, END_HEADERS, 1, &[0x88]), none);
            }
            written(&mut outgoing, 3, b"x")[HEADER_BYTES..].to_vec()
        };
        // Not before the library has said that it knows; a larger one is its own affair.
        assert_eq!(said(&[Some(10)], 0, false), b"x");
        assert_eq!(said(&[], 1, false), b"\x2ax");
        assert_eq!(said(&[], 0, false), b"\x2ax");
        assert_eq!(said(&[], 0, true), b"x");
        assert_eq!(said(&[Some(10), None, Some(9000)], 3, false), b"x");
        assert_eq!(said(&[], 0, true), b"x");
        // Both the least and the last.
        assert_eq!(said(&[Some(0), Some(20)], 2, false), b"\x20\x34x");
        assert_eq!(said(&[Some(4096)], 1, true), b"x");
    }

    #[test]
    fn settings_without_answers_are_bounded() {
        let mut outgoing = Outgoing::default();
        (0..SETTINGS_MAX).for_each(|_| outgoing.settings(None));
        assert!(!outgoing.is_lost());
        (0..SETTINGS_MAX).for_each(|_| outgoing.settings(None));
        assert!(outgoing.is_lost());
        assert_eq!(outgoing.table.asked.len(), SETTINGS_MAX);
    }
}
