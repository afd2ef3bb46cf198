//! Finds the header blocks among a connection's frames, and puts others in the place
//! of those that are malformed.

use std::collections::BTreeSet;
use std::io::Write as _;

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::message::{Malformed, Message, Part};
use super::{Interim, STREAM_FIELD};
use crate::hpack::{self, Decoder, FIELD_OVERHEAD, Field};

/// Octets of a frame's header (RFC 9113 4.1).
pub(super) const HEADER_BYTES: usize = 9;

/// The most octets of a frame's payload: every peer must take so many, and Sprat asks for no
/// more (RFC 9113 6.5.2).
pub(super) const FRAME_BYTES: usize = 1 << 14;

const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
pub(super) const CONTINUATION: u8 = 9;

/// The flag of SETTINGS that answer the peer's.
pub(super) const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The error code that names no error, which the library takes for the end of a message (RFC 9113
/// 7).
const NO_ERROR: [u8; 4] = 0_u32.to_be_bytes();

/// The error code of a stream that is not wanted any more.
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();

/// Octets of a GOAWAY up to its error code, behind which there may be others (RFC 9113 6.8).
const GOAWAY_BYTES: usize = 8;

/// A field for which the library resets the stream, and goes on with the connection.
const REFUSED: (&[u8], &[u8]) = (b"connection", b"malformed");

/// A header block with an index that no table has, for which the library ends the connection.
const NO_BLOCK: &[u8] = &[0x80];

/// The factor over the allowed size beyond which a list of fields ends the connection, as the
/// library has it. Up to there, a list is only refused.
const LIST_ABUSE: usize = 4;

/// The most octets that the number of its stream adds to a list of fields.
const STREAM_FIELD_BYTES: usize = STREAM_FIELD.len() + 10 + FIELD_OVERHEAD;

/// The identifier of the setting for the largest table that a sender of header blocks may use
/// (RFC 9113 6.5.2).
const HEADER_TABLE_SIZE: u16 = 1;

/// The most streams whose message has begun that are remembered. If one is forgotten, its
/// trailers are not told from anything else, nor a reset in its midst from one after its end.
const STREAMS_MAX: usize = 4096;

/// The party whose bytes are read.
#[derive(Debug)]
pub(super) enum Side {
    /// A client, which sends requests; `last` is the last stream that it has opened.
    Client { last: u32 },
    /// An endpoint, which sends responses.
    Endpoint,
}

/// An event among the frames that the screen acts on.
#[derive(Debug)]
pub(super) enum Event {
    /// A request is malformed, and its stream is reset.
    Malformed(Malformed),
    /// An endpoint has sent an interim response on this stream.
    Interim(u32, Interim),
    /// A client has sent settings, with the last size of a table that they name.
    Settings(Option<u32>),
}

/// The decision about the next bytes.
enum Step {
    /// So many bytes pass as they are.
    Pass(usize),
    /// So many bytes are replaced by those in `Frames::rewritten`.
    Replace(usize),
    /// More bytes must come before a decision.
    Wait,
}

/// The header of a frame.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Header {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let header = bytes.first_chunk::<HEADER_BYTES>()?;
        let [high, middle, low, kind, flags, stream @ ..] = *header;
        Some(Self {
            length: u32::from_be_bytes([0, high, middle, low]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn write(self, payload: &[u8], frames: &mut Vec<u8>) {
        let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
        frames.extend_from_slice(&length);
        frames.extend_from_slice(&[self.kind, self.flags]);
        frames.extend_from_slice(&self.stream.to_be_bytes());
        frames.extend_from_slice(payload);
    }

    /// Writes a header block in as many frames as it needs, the first of which begins with this
    /// header.
    pub(super) fn write_block(mut self, block: &[u8], frames: &mut Vec<u8>) {
        let mut parts = block.chunks(FRAME_BYTES).peekable();
        loop {
            let part = parts.next().unwrap_or_default();
            let is_last = parts.peek().is_none();
            if is_last {
                self.flags |= END_HEADERS;
            }
            self.write(part, frames);
            if is_last {
                return;
            }
            (self.kind, self.flags) = (CONTINUATION, 0);
        }
    }
}

/// A header block, all of whose frames have come.
struct Block {
    /// The header of the block's first frame.
    header: Header,
    /// The bytes of all frames of the block.
    bytes: usize,
}

/// The judgement of a header block.
enum Verdict {
    Sound,
    /// The block is a sound request, and the library is told of its stream.
    Request,
    Malformed,
    Broken,
}

/// The state of one direction of a connection, as far as it has been seen.
#[derive(Debug)]
pub(super) struct Frames {
    side: Side,
    /// The streams whose final head has come, and whose end has not.
    begun: BTreeSet<u32>,
    decoder: Decoder,
    message: Message,
    /// The most octets that a message's fields may have.
    list_max: usize,
    /// Bytes of the preface or a payload that are still to pass.
    passing: usize,
    /// The beginning of a header block, or of a frame's header, that is held back.
    held: Vec<u8>,
    /// Bytes that the library is to read in the place of those that came.
    ready: BytesMut,
    /// The payload of a block in several frames, put together.
    block: Vec<u8>,
    /// Fields that the library gets in another form, as literals.
    literals: Vec<u8>,
    rewritten: Vec<u8>,
    /// The number of a stream, as text.
    digits: Vec<u8>,
    /// Whether the library has not seen every block as it came. Its table is then another than
    /// the sender's, and it gets blocks that need none.
    has_diverged: bool,
    /// Whether the library will end the connection: nothing is looked at any more.
    is_over: bool,
}

impl Frames {
    /// Creates the state of a direction of which nothing has been read, and which begins with a
    /// preface of `preface_bytes`.
    pub(super) fn new(side: Side, preface_bytes: usize, list_max: usize) -> Self {
        Self {
            side,
            begun: BTreeSet::new(),
            decoder: Decoder::new(),
            message: Message::default(),
            list_max,
            passing: preface_bytes,
            held: Vec::new(),
            ready: BytesMut::new(),
            block: Vec::new(),
            literals: Vec::new(),
            rewritten: Vec::new(),
            digits: Vec::new(),
            has_diverged: false,
            is_over: false,
        }
    }

    /// Returns the bytes that the library is to read before any that come.
    pub(super) fn ready(&mut self) -> &mut BytesMut {
        &mut self.ready
    }

    /// Notes that the sender has ended. What was held back is then ready as it came.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        self.ready.extend_from_slice(&self.held);
        self.held.clear();
    }

    /// Takes the next bytes; returns how many of them pass at once, as they are. The others are
    /// held back, or ready in another form.
    pub(super) fn read(&mut self, bytes: &[u8], tell: &mut impl FnMut(Event)) -> usize {
        if self.is_over {
            return bytes.len();
        }
        if self.held.is_empty() {
            let mut passed = 0;
            let rest = self.walk(bytes, tell, |own, at, count| {
                match own.ready.is_empty() && at == passed {
                    true => passed += count,
                    false => own.ready.extend_from_slice(&bytes[at..at + count]),
                }
            });
            self.held.extend_from_slice(&bytes[rest..]);
            return passed;
        }
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let rest = self.walk(&all, tell, |own, at, count| {
            own.ready.extend_from_slice(&all[at..at + count]);
        });
        all.drain(..rest);
        self.held = all;
        0
    }

    /// Goes through `bytes` as far as they can be decided on; returns how far that is.
    fn walk(
        &mut self,
        bytes: &[u8],
        tell: &mut impl FnMut(Event),
        mut pass: impl FnMut(&mut Self, usize, usize),
    ) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            match self.step(&bytes[at..], tell) {
                Step::Pass(count) => {
                    pass(self, at, count);
                    at += count;
                }
                Step::Replace(count) => {
                    self.ready.extend_from_slice(&self.rewritten);
                    at += count;
                }
                Step::Wait => break,
            }
        }
        at
    }

    fn step(&mut self, rest: &[u8], tell: &mut impl FnMut(Event)) -> Step {
        if self.is_over {
            return Step::Pass(rest.len());
        }
        if self.passing > 0 {
            let count = self.passing.min(rest.len());
            self.passing -= count;
            return Step::Pass(count);
        }
        let Some(header) = Header::read(rest) else {
            return Step::Wait;
        };
        match header.kind {
            HEADERS if header.stream > 0 => self.headers(rest, tell),
            // What the library takes from none ends the connection.
            HEADERS | PUSH_PROMISE | CONTINUATION => self.leave(rest),
            SETTINGS if self.is_of_a_client(&header) => self.settings(&header, rest, tell),
            // The library ends the connection for those of another length.
            RST_STREAM if header.length == NO_ERROR.len() => self.reset(&header, rest),
            GOAWAY if self.cuts_streams(&header) => self.go_away(&header, rest),
            _ => {
                if header.kind == DATA && header.has(END_STREAM) {
                    self.begun.remove(&header.stream);
                }
                self.passing = header.length;
                Step::Pass(HEADER_BYTES)
            }
        }
    }

    /// Leaves what comes to the library, which will end the connection.
    fn leave(&mut self, rest: &[u8]) -> Step {
        self.is_over = true;
        Step::Pass(rest.len())
    }

    /// Returns whether settings are a client's own. (An endpoint's say nothing that matters.)
    fn is_of_a_client(&self, header: &Header) -> bool {
        matches!(self.side, Side::Client { .. }) && !header.has(ACK)
    }

    /// Reads the settings that `rest` begins with, and tells of them.
    fn settings(&mut self, header: &Header, rest: &[u8], tell: &mut impl FnMut(Event)) -> Step {
        if header.length > FRAME_BYTES {
            return self.leave(rest);
        }
        let Some(frame) = rest.get(..HEADER_BYTES + header.length) else {
            return Step::Wait;
        };
        let mut table_bytes = None;
        for setting in frame[HEADER_BYTES..].chunks_exact(6) {
            if let [k, l, a, b, c, d] = *setting
                && u16::from_be_bytes([k, l]) == HEADER_TABLE_SIZE
            {
                table_bytes = Some(u32::from_be_bytes([a, b, c, d]));
            }
        }
        tell(Event::Settings(table_bytes));
        Step::Pass(frame.len())
    }

    /// Reads the RST_STREAM that `rest` begins with. One that names no error is replaced if it
    /// cuts a message off: the library would take the part that has come for all of it.
    fn reset(&mut self, header: &Header, rest: &[u8]) -> Step {
        let Some(frame) = rest.get(..HEADER_BYTES + header.length) else {
            return Step::Wait;
        };
        let cuts = self.begun.remove(&header.stream);
        if !cuts || frame[HEADER_BYTES..] != NO_ERROR {
            return Step::Pass(frame.len());
        }
        self.rewritten.clear();
        header.write(&CANCEL, &mut self.rewritten);
        Step::Replace(frame.len())
    }

    /// Returns whether a GOAWAY ends streams. (A client's ends none of its own.)
    fn cuts_streams(&self, header: &Header) -> bool {
        matches!(self.side, Side::Endpoint) && header.length >= GOAWAY_BYTES
    }

    /// Reads the GOAWAY that `rest` begins with. If it names no error, the responses that it cuts
    /// off are reset before it, for the reason that `reset` has.
    fn go_away(&mut self, header: &Header, rest: &[u8]) -> Step {
        let Some(said) = rest[HEADER_BYTES..].first_chunk::<GOAWAY_BYTES>() else {
            return Step::Wait;
        };
        self.passing = header.length - GOAWAY_BYTES;
        let count = HEADER_BYTES + GOAWAY_BYTES;
        let [a, b, c, d, code @ ..] = *said;
        if code != NO_ERROR {
            return Step::Pass(count);
        }
        let last = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff;
        let cut = self.begun.split_off(&(last + 1));
        if cut.is_empty() {
            return Step::Pass(count);
        }
        self.rewritten.clear();
        for stream in cut {
            let header = Header {
                length: CANCEL.len(),
                kind: RST_STREAM,
                flags: 0,
                stream,
            };
            header.write(&CANCEL, &mut self.rewritten);
        }
        self.rewritten.extend_from_slice(&rest[..count]);
        Step::Replace(count)
    }

    /// Reads the header block whose frames `rest` begins with; decides whether they pass or are
    /// replaced.
    fn headers(&mut self, rest: &[u8], tell: &mut impl FnMut(Event)) -> Step {
        let block = match whole(rest) {
            Some(Ok(block)) => block,
            // Bound as the library bounds it: by the frames that a list needs.
            None if rest.len() <= self.block_max() => return Step::Wait,
            None | Some(Err(NoBlock)) => return self.leave(rest),
        };
        let frames = &rest[..block.bytes];
        let Some((first, depends)) = stripped(&frames[..HEADER_BYTES + block.header.length]) else {
            return self.leave(rest);
        };
        let mut joined = std::mem::take(&mut self.block);
        let is_one_frame = block.bytes == HEADER_BYTES + block.header.length;
        if !is_one_frame {
            joined.clear();
            joined.extend_from_slice(first);
            let mut at = HEADER_BYTES + block.header.length;
            while let Some(header) = Header::read(&frames[at..]) {
                let payload = at + HEADER_BYTES;
                joined.extend_from_slice(&frames[payload..payload + header.length]);
                at = payload + header.length;
            }
        }
        let fields = if is_one_frame { first } else { &joined };
        let verdict = self.judge(&block.header, fields, depends, tell);
        let passes = matches!(verdict, Verdict::Sound) && !self.has_diverged;
        if !passes {
            self.replace(&verdict, &block.header, fields);
        }
        self.block = joined;
        match passes {
            true => Step::Pass(block.bytes),
            false => Step::Replace(block.bytes),
        }
    }

    /// Writes what the library gets in the place of a block of `fields`, whose first frame has
    /// the header `first`.
    fn replace(&mut self, verdict: &Verdict, first: &Header, fields: &[u8]) {
        match verdict {
            Verdict::Sound => {}
            Verdict::Request => {
                if !self.has_diverged {
                    self.literals.clear();
                    self.literals.extend_from_slice(fields);
                }
                self.digits.clear();
                // A vector takes all.
                let _ = write!(self.digits, "{}", first.stream);
                let name = STREAM_FIELD.as_bytes();
                hpack::encode_literal(name, &self.digits, &mut self.literals);
            }
            Verdict::Malformed => {
                self.has_diverged = true;
                self.literals.clear();
                hpack::encode_literal(REFUSED.0, REFUSED.1, &mut self.literals);
            }
            Verdict::Broken => {
                self.is_over = true;
                self.literals.clear();
                self.literals.extend_from_slice(NO_BLOCK);
            }
        }
        self.rewritten.clear();
        let header = Header {
            flags: first.flags & END_STREAM,
            ..*first
        };
        header.write_block(&self.literals, &mut self.rewritten);
    }

    /// Returns the most octets that the frames of a header block may have.
    fn block_max(&self) -> usize {
        let frames = (self.list_max / FRAME_BYTES).max(1);
        let frames = (frames + frames / 4).max(5) + 2;
        frames * (HEADER_BYTES + FRAME_BYTES)
    }

    /// Judges a block, and writes its fields to `literals` if its sender's table is not the
    /// library's. `depends` says that the block's stream depends on itself.
    fn judge(
        &mut self,
        header: &Header,
        block: &[u8],
        depends: bool,
        tell: &mut impl FnMut(Event),
    ) -> Verdict {
        let part = self.part(header);
        let list_max = self.list_max;
        let mut list_bytes = 0;
        // Whether the sender has a field of its own by the name of the screen's.
        let mut claims = false;
        self.literals.clear();
        self.message.begin();
        let (message, literals) = (&mut self.message, &mut self.literals);
        let diverged = self.has_diverged;
        let mut early = HeaderMap::new();
        let abuse = list_max.saturating_mul(LIST_ABUSE);
        let decoded = self.decoder.decode(block, abuse, |field| {
            // The library only counts what is over the bound.
            if diverged && list_bytes <= list_max {
                hpack::encode_literal(field.name, field.value, literals);
            }
            list_bytes += field.bytes();
            claims |= field.name == STREAM_FIELD.as_bytes();
            if part == Part::Response && message.interim().is_some() && list_bytes <= list_max {
                add(&mut early, &field);
            }
            message.field(part, &field)
        });
        if decoded.is_err() {
            return Verdict::Broken;
        }
        let depends = depends.then_some("the stream depends on itself");
        let is_request = matches!(part, Part::Request { .. });
        let has_room = list_bytes + STREAM_FIELD_BYTES <= list_max;
        // It would be taken for the screen's. (The library passes on no list that reaches the
        // bound.)
        let is_taken = is_request && claims && !has_room && list_bytes < list_max;
        let claimed = is_taken.then_some("the number of a stream is the client's own");
        let fault = self.message.fault(part).or(depends).or(claimed);
        self.progress(header, part, fault.is_some());
        let Some(fault) = fault else {
            let is_early = part == Part::Response && !header.has(END_STREAM);
            if let Some(status) = self.message.interim().filter(|_| is_early)
                && status != StatusCode::SWITCHING_PROTOCOLS
                && list_bytes <= list_max
            {
                let headers = early;
                tell(Event::Interim(header.stream, Interim { status, headers }));
            }
            return match is_request && has_room {
                true => Verdict::Request,
                false => Verdict::Sound,
            };
        };
        match part {
            Part::Request { .. } => tell(Event::Malformed(self.message.malformed(fault))),
            _ => tracing::debug!(fault, stream = header.stream, "a message is malformed"),
        }
        Verdict::Malformed
    }

    fn part(&self, header: &Header) -> Part {
        match &self.side {
            _ if self.begun.contains(&header.stream) => Part::Trailers,
            Side::Client { last } if header.stream > *last => Part::Request {
                is_whole: header.has(END_STREAM),
            },
            Side::Client { .. } => Part::Stray,
            Side::Endpoint => Part::Response,
        }
    }

    /// Notes what the stream's next block is to be taken for.
    fn progress(&mut self, header: &Header, part: Part, is_malformed: bool) {
        if let Side::Client { last } = &mut self.side {
            *last = header.stream.max(*last);
        }
        let has_begun = match part {
            Part::Request { .. } => true,
            Part::Response => self.message.has_status() && self.message.interim().is_none(),
            Part::Trailers | Part::Stray => false,
        };
        if header.has(END_STREAM) || is_malformed {
            self.begun.remove(&header.stream);
        } else if has_begun {
            self.begun.insert(header.stream);
            if self.begun.len() > STREAMS_MAX {
                self.begun.pop_first();
            }
        }
    }
}

/// Adds a field to those of an interim response. A field that no map can hold is left out; one
/// that is unsound makes the message malformed.
fn add(headers: &mut HeaderMap, field: &Field<'_>) {
    let name = HeaderName::from_lowercase(field.name);
    if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value)) {
        let _ = headers.try_append(name, value);
    }
}

/// The error of frames that make no header block.
struct NoBlock;

/// Returns the header block that these bytes begin with; `None` until it is all there.
fn whole(bytes: &[u8]) -> Option<Result<Block, NoBlock>> {
    let first = Header::read(bytes)?;
    let (mut header, mut at) = (first, 0);
    loop {
        if header.length > FRAME_BYTES {
            return Some(Err(NoBlock));
        }
        at += HEADER_BYTES + header.length;
        if header.has(END_HEADERS) {
            let block = Block {
                header: first,
                bytes: at,
            };
            return (at <= bytes.len()).then_some(Ok(block));
        }
        header = Header::read(bytes.get(at..)?)?;
        if header.kind != CONTINUATION || header.stream != first.stream {
            return Some(Err(NoBlock));
        }
    }
}

/// Returns the part of a HEADERS frame that belongs to the block, and whether its stream depends
/// on itself; `None` if there is no such part (RFC 9113 6.2).
fn stripped(frame: &[u8]) -> Option<(&[u8], bool)> {
    let header = Header::read(frame)?;
    let mut payload = &frame[HEADER_BYTES..];
    let mut padding = 0;
    if header.has(PADDED) {
        let (length, rest) = payload.split_first()?;
        (padding, payload) = (usize::from(*length), rest);
    }
    let mut depends = false;
    if header.has(PRIORITY) {
        let (priority, rest) = payload.split_first_chunk::<5>()?;
        let [a, b, c, d, _] = *priority;
        depends = u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff == header.stream;
        payload = rest;
    }
    let length = payload.len().checked_sub(padding)?;
    Some((&payload[..length], depends))
}

#[cfg(test)]
#[path = "frames/tests.rs"]
mod tests;
