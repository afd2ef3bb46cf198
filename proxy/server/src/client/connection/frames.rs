//! The watch over HTTP/2's frames on their way in, for floods. Such frames cost the client
//! nothing, and the server an answer or a look (CVE-2019-9512, -9513, -9515, -9518;
//! CVE-2023-44487; CVE-2025-8671).

use tokio::time::Instant;

/// Octets of a frame's header (RFC 9113 4.1).
const HEADER_BYTES: usize = 9;

/// Octets of the connection preface, which comes before all frames (RFC 9113 3.4).
const PREFACE_BYTES: usize = 24;

/// The most control frames that a client may send beyond those that its traffic earns.
const CONTROL_MAX: f64 = 1000.0;

/// Control frames earned by each second of the connection's life.
const EARNED_PER_S: f64 = 20.0;

/// Control frames earned by each frame that brings a request, or a part of its body.
const EARNED_PER_FRAME: f64 = 4.0;

/// Control frames earned by each byte that the client has taken: window updates answer data.
const EARNED_PER_BYTE: f64 = 0.01;

/// The most requests that a client may cancel, beyond those of which it got something.
/// Cancelled requests are forgotten by time, as control frames are.
const CANCELLED_MAX: f64 = 200.0;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 0x4;
const END_STREAM: u8 = 0x1;

/// The state of a watch over a connection.
#[derive(Debug)]
pub(super) struct FrameWatch {
    /// The bytes still to come of the preface or of a payload.
    passing: usize,
    header: [u8; HEADER_BYTES],
    /// The bytes of a frame's header that have come so far.
    known: usize,
    /// The time since which a header block has been incomplete.
    block_since: Option<Instant>,
    /// Whether the payload still to come is the end of the header block.
    ends_block: bool,
    /// The control frames that are held against the client.
    control: f64,
    earned_at: Instant,
    /// The bytes that the client had taken at `earned_at`.
    earned_bytes: u64,
    cancelled: f64,
    /// The count of RST_STREAM frames for streams whose end the watch has not been told. They are
    /// forgotten with `cancelled`: no end is ever told of a stream that was closed before.
    resets: f64,
}

impl FrameWatch {
    /// Makes the watch over a connection of which nothing has been seen, the preface included.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            passing: PREFACE_BYTES,
            header: [0; HEADER_BYTES],
            known: 0,
            block_since: None,
            ends_block: false,
            control: 0.0,
            earned_at: now,
            earned_bytes: 0,
            cancelled: 0.0,
            resets: 0.0,
        }
    }

    /// Reads the next bytes from the client, which has taken `taken` bytes so far.
    pub(super) fn read(&mut self, now: Instant, mut bytes: &[u8], taken: u64) {
        let seconds = now.saturating_duration_since(self.earned_at).as_secs_f64();
        let more = taken.saturating_sub(self.earned_bytes) as f64;
        self.earn(seconds * EARNED_PER_S + more * EARNED_PER_BYTE);
        self.cancelled = (self.cancelled - seconds * EARNED_PER_S).max(0.0);
        self.resets = self.resets.min(self.cancelled);
        (self.earned_at, self.earned_bytes) = (now, taken);
        while !bytes.is_empty() {
            let used = match self.passing {
                0 => self.header(now, bytes),
                passing => {
                    let used = passing.min(bytes.len());
                    self.passing -= used;
                    self.settle();
                    used
                }
            };
            bytes = &bytes[used..];
        }
    }

    /// Notes the end of a request of which the client, by its own doing, got nothing.
    /// Either the client has cancelled it, which has been counted, or has broken it, so
    /// that the library reset it (CVE-2025-8671).
    pub(super) fn given_up(&mut self) {
        if self.resets > 0.0 {
            // A part of one that is left stands for all of it.
            self.resets = (self.resets - 1.0).max(0.0);
        } else {
            self.cancelled += 1.0;
        }
    }

    /// Notes that a request was answered, so that cancelling it is no abuse.
    pub(super) fn answered(&mut self) {
        self.cancelled = (self.cancelled - 1.0).max(0.0);
    }

    /// Returns whether the client has sent too many control frames or cancelled too many requests.
    pub(super) fn is_flooded(&self) -> bool {
        self.control > CONTROL_MAX || self.cancelled > CANCELLED_MAX
    }

    /// Returns since when a request's head has been incomplete.
    pub(super) fn block_since(&self) -> Option<Instant> {
        self.block_since
    }

    fn earn(&mut self, frames: f64) {
        self.control = (self.control - frames).max(0.0);
    }

    fn header(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let used = (HEADER_BYTES - self.known).min(bytes.len());
        self.header[self.known..self.known + used].copy_from_slice(&bytes[..used]);
        self.known += used;
        if self.known == HEADER_BYTES {
            self.known = 0;
            self.frame(now);
        }
        used
    }

    /// Notes the end of a header block, once all of its last payload has come.
    fn settle(&mut self) {
        if self.passing == 0 && std::mem::take(&mut self.ends_block) {
            self.block_since = None;
        }
    }

    fn frame(&mut self, now: Instant) {
        let [high, middle, low, kind, flags, ..] = self.header;
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.passing = length;
        match kind {
            DATA if length > 0 || flags & END_STREAM != 0 => self.earn(EARNED_PER_FRAME),
            HEADERS => {
                self.earn(EARNED_PER_FRAME);
                self.block_since = Some(now);
                self.ends_block = flags & END_HEADERS != 0;
            }
            CONTINUATION => {
                self.control += 1.0;
                self.ends_block = flags & END_HEADERS != 0;
            }
            RST_STREAM => {
                self.control += 1.0;
                self.cancelled += 1.0;
                self.resets += 1.0;
            }
            _ => self.control += 1.0,
        }
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let [_, high, middle, low] = (payload as u32).to_be_bytes();
        let mut frame = vec![high, middle, low, kind, flags, 0, 0, 0, 1];
        frame.resize(HEADER_BYTES + payload, 0x55);
        frame
    }

    /// Returns a watch that has seen the preface and these frames, in parts of `part` bytes.
    fn watch(now: Instant, frames: &[Vec<u8>], part: usize) -> FrameWatch {
        let mut watch = FrameWatch::new(now);
        watch.read(now, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0);
        for bytes in frames.concat().chunks(part) {
            watch.read(now, bytes, 0);
        }
        watch
    }

    #[test]
    fn frames_are_told_apart_however_they_come() {
        let now = Instant::now();
        let frames = [
            frame(6, 0, 8),
            frame(4, 0, 0),
            frame(HEADERS, END_HEADERS, 30),
            frame(DATA, 0, 300),
            frame(RST_STREAM, 0, 4),
            frame(2, 0, 5),
        ];
        for part in [1, 2, 9, 10, 4000] {
            let watch = watch(now, &frames, part);
            assert_eq!(watch.control, 2.0, "in parts of {part}");
            assert_eq!(watch.cancelled, 1.0);
            assert_eq!(watch.block_since(), None);
        }
    }

    #[test]
    fn control_frames_alone_are_a_flood_and_time_and_traffic_excuse_them() {
        let now = Instant::now();
        for kind in [2, 4, 6, 8, CONTINUATION, 0x10, 0xff] {
            let mut watch = watch(now, &vec![frame(kind, 0, 8); 1000], 4000);
            assert!(!watch.is_flooded(), "{kind}");
            watch.read(now, &frame(kind, 0, 8), 0);
            assert!(watch.is_flooded(), "{kind}");
            watch.read(now + Duration::from_secs(1), &[], 0);
            assert!(!watch.is_flooded(), "{kind}");
        }
        let updates = [frame(8, 0, 4), frame(8, 0, 4)].concat();
        let mut watch = watch(now, &[], 1);
        for taken in 1..10_000 {
            watch.read(now, &updates, taken * 1400);
        }
        assert!(!watch.is_flooded());
    }

    #[test]
    fn empty_data_is_a_flood_and_requests_are_not() {
        let now = Instant::now();
        assert!(watch(now, &vec![frame(DATA, 0, 0); 1001], 4000).is_flooded());
        let request = frame(HEADERS, END_HEADERS | END_STREAM, 20);
        assert!(!watch(now, &vec![request; 5000], 4000).is_flooded());
    }

    #[test]
    fn cancelling_more_than_is_answered_is_a_flood_until_time_has_passed() {
        let now = Instant::now();
        let cancelled = [
            frame(HEADERS, END_HEADERS | END_STREAM, 20),
            frame(RST_STREAM, 0, 4),
        ];
        let cancelled = cancelled.concat();
        let mut watch = watch(now, &vec![cancelled.clone(); 200], 4000);
        assert!(!watch.is_flooded());
        watch.answered();
        watch.read(now, &cancelled, 0);
        assert!(!watch.is_flooded());
        watch.read(now, &cancelled, 0);
        assert!(watch.is_flooded());
        // A client may cancel twenty a second.
        let later = now + Duration::from_secs(1);
        watch.read(later, &cancelled.repeat(19), 0);
        assert!(!watch.is_flooded());
        watch.read(later, &cancelled.repeat(2), 0);
        assert!(watch.is_flooded());
    }

    #[test]
    fn what_the_server_had_to_reset_counts_as_cancelled_and_nothing_twice() {
        let now = Instant::now();
        let reset = frame(RST_STREAM, 0, 4);
        let mut watch = watch(now, &[reset.clone(), reset], 4000);
        assert_eq!(watch.cancelled, 2.0);
        // Those two, and one of which no frame has come.
        for _ in 0..3 {
            watch.given_up();
        }
        assert_eq!(watch.cancelled, 3.0);
    }

    #[test]
    fn resets_of_closed_streams_cannot_be_saved_up() {
        let mut now = Instant::now();
        let mut watch = watch(now, &[], 1);
        // As many as a client may send; the library takes no notice of them.
        for _ in 0..50 {
            now += Duration::from_secs(1);
            watch.read(now, &frame(RST_STREAM, 0, 4).repeat(20), 0);
            assert!(!watch.is_flooded());
        }
        watch.read(now + Duration::from_secs(1), &[], 0);
        // Then it breaks its requests.
        for _ in 0..200 {
            watch.given_up();
        }
        assert!(!watch.is_flooded());
        watch.given_up();
        assert!(watch.is_flooded());
    }

    #[test]
    fn a_head_in_parts_is_timed() {
        let now = Instant::now();
        let begun = [frame(HEADERS, 0, 20), frame(CONTINUATION, 0, 20)];
        let mut watch = watch(now, &begun, 7);
        assert_eq!(watch.block_since(), Some(now));
        watch.read(now, &frame(CONTINUATION, END_HEADERS, 0), 0);
        assert_eq!(watch.block_since(), None);
    }

    #[test]
    fn a_head_in_one_frame_is_timed_until_its_last_byte() {
        let now = Instant::now();
        let whole = frame(HEADERS, END_HEADERS | END_STREAM, 20);
        let mut watch = watch(now, &[], 1);
        for (second, byte) in (0..).zip(&whole) {
            let came = now + Duration::from_secs(second);
            watch.read(came, std::slice::from_ref(byte), 0);
            let begun = now + Duration::from_secs(HEADER_BYTES as u64 - 1);
            let is_under_way = (HEADER_BYTES as u64 - 1..28).contains(&second);
            assert_eq!(
                watch.block_since(),
                is_under_way.then_some(begun),
                "{second}"
            );
        }
    }
}
