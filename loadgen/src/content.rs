//! The bodies of the origin: bytes that a client can check by their offset.
//!
//! Every origin path `/size/<bytes>/<id>` has its own content: one fixed
//! sequence, entered at a place that depends on the path, so that a body that
//! is cut, shifted or another response's is told from the right one. Files
//! written for another server hold the same bytes.

use std::sync::LazyLock;

use bytes::Bytes;

/// The number of bytes after which the sequence repeats: a prime, so that the loss of whole pages
/// or segments shows.
const PERIOD: usize = 65_521;

/// The most bytes that one slice holds.
pub const SLICE_BYTES_MAX: usize = 65_536;

/// The sequence of bodies in letters and digits, which a reader can look at. It is long enough that
/// a full slice may begin anywhere in the period.
static BLOCK: LazyLock<Bytes> = LazyLock::new(|| {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let period: Vec<u8> = (0..PERIOD as u64)
        .map(|index| ALPHABET[(mix(index) & 63) as usize])
        .collect();
    period
        .iter()
        .copied()
        .cycle()
        .take(PERIOD + SLICE_BYTES_MAX)
        .collect()
});

/// The sequence of bodies in words and markup, which a content coder makes smaller.
static WORDS: LazyLock<Bytes> = LazyLock::new(|| {
    let mut period = Vec::with_capacity(PERIOD + 64);
    for index in 0.. {
        if period.len() >= PERIOD {
            break;
        }
        write_word(&mut period, mix(index));
    }
    period.truncate(PERIOD);
    period
        .iter()
        .copied()
        .cycle()
        .take(PERIOD + SLICE_BYTES_MAX)
        .collect()
});

/// Appends a word of one to four syllables to `text`, with a tag before one in twelve.
fn write_word(text: &mut Vec<u8>, mut random: u64) {
    const SYLLABLES: [&[u8]; 32] = [
        b"the", b"a", b"in", b"re", b"ti", b"on", b"er", b"to", b"com", b"of", b"and", b"en",
        b"is", b"pro", b"al", b"con", b"de", b"ly", b"ing", b"ment", b"per", b"sub", b"ver", b"ta",
        b"no", b"mi", b"lo", b"qui", b"gra", b"form", b"ness", b"out",
    ];
    let mut draw = |below: u64| {
        let drawn = random % below;
        random /= below;
        drawn as usize
    };
    match draw(24) {
        0 => text.extend_from_slice(b"</p>\n<p class=\"text\">"),
        1 => text.extend_from_slice(b"<a href=\"/page\">"),
        _ => {}
    }
    for _ in 0..=draw(4) {
        // The smaller of two: as in a language, a few are frequent.
        let syllable = draw(32).min(draw(32));
        text.extend_from_slice(SYLLABLES[syllable]);
    }
    text.push(b' ');
}

/// Hashes an index by SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(index: u64) -> u64 {
    let z = index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The body that an origin serves at one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    /// Size of the body, in bytes.
    pub bytes: u64,
    /// The place in the sequence at which the body begins.
    phase: usize,
    /// Whether the body is words, which compress, rather than letters and digits, which hardly do.
    words: bool,
}

impl Content {
    /// Returns the content of an origin path; `None` for any other path. A prefix before `/size/`
    /// does not count, so that a gateway may take it off. Of the query, `text=1` alone counts: the
    /// body is words.
    pub fn of_path(path: &str) -> Option<Self> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let rest = &path[path.find("/size/")? + "/size/".len()..];
        let (bytes, id) = rest.split_once('/').unwrap_or((rest, ""));
        if id.contains('/') || !bytes.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self {
            bytes: bytes.parse().ok()?,
            phase: phase(rest),
            words: query.split('&').any(|knob| knob == "text=1"),
        })
    }

    /// Returns this content at the same size, in words or in letters and digits.
    pub(crate) fn in_words(self, words: bool) -> Self {
        Self { words, ..self }
    }

    /// Returns the content's media type, for the field `Content-Type`.
    pub fn media_type(&self) -> &'static str {
        if self.words {
            "text/html; charset=utf-8"
        } else {
            "application/octet-stream"
        }
    }

    fn sequence(&self) -> &'static Bytes {
        if self.words { &WORDS } else { &BLOCK }
    }

    /// Returns the body's bytes from `offset` on, at most `bytes_max` and at most a slice; empty at
    /// the end.
    pub fn slice(&self, offset: u64, bytes_max: usize) -> Bytes {
        let left = self.bytes.saturating_sub(offset);
        self.stretch(
            offset,
            bytes_max.min(left.min(SLICE_BYTES_MAX as u64) as usize),
        )
    }

    /// Returns `len` bytes (at most a slice) from `offset` on, as if the body had no end.
    pub(crate) fn stretch(&self, offset: u64, len: usize) -> Bytes {
        let start = self.position(offset);
        self.sequence()
            .slice(start..start + len.min(SLICE_BYTES_MAX))
    }

    /// Returns whether the content has `body` at `offset`.
    pub fn matches(&self, offset: u64, body: &[u8]) -> bool {
        let mut offset = offset;
        body.chunks(SLICE_BYTES_MAX).all(|chunk| {
            let start = self.position(offset);
            offset += chunk.len() as u64;
            self.sequence()[start..start + chunk.len()] == *chunk
        })
    }

    fn position(&self, offset: u64) -> usize {
        ((offset % PERIOD as u64) as usize + self.phase) % PERIOD
    }
}

/// Hashes a path's text to its place in the period, by FNV-1a.
fn phase(text: &str) -> usize {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash % PERIOD as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(content: &Content) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let slice = content.slice(body.len() as u64, 10_000);
            if slice.is_empty() {
                return body;
            }
            body.extend_from_slice(&slice);
        }
    }

    #[test]
    fn a_body_is_as_long_as_its_path_says_and_matches_itself() {
        for bytes in [0, 1, 65_520, 65_521, 65_536, 300_000] {
            let content = Content::of_path(&format!("/size/{bytes}/7")).unwrap();
            let body = body(&content);
            assert_eq!(body.len() as u64, bytes);
            assert!(content.matches(0, &body));
        }
    }

    #[test]
    fn a_shifted_cut_or_foreign_body_does_not_match() {
        let content = Content::of_path("/size/200000/7").unwrap();
        let body = body(&content);
        assert!(!content.matches(0, &body[1..]));
        assert!(!content.matches(4096, &body[8192..]));
        assert!(!content.matches(0, &body[65_536..]));
        assert!(content.matches(65_536, &body[65_536..]));
        let mut wrong = body.clone();
        wrong[150_000] ^= 1;
        assert!(!content.matches(0, &wrong));
        assert!(
            !Content::of_path("/size/200000/8")
                .unwrap()
                .matches(0, &body)
        );
    }

    #[test]
    fn words_are_text_of_the_same_size_that_a_coder_makes_smaller() {
        let words = Content::of_path("/size/200000/7?delay=1s&text=1").unwrap();
        let plain = Content::of_path("/size/200000/7").unwrap();
        assert_eq!(plain.in_words(true), words);
        let text = body(&words);
        assert_eq!(text.len(), 200_000);
        assert!(text.is_ascii());
        assert!(words.matches(0, &text) && !plain.matches(0, &text));
        let small = |body: &[u8]| {
            let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            std::io::Write::write_all(&mut coder, body).unwrap();
            coder.finish().unwrap().len()
        };
        assert!(small(&text) < text.len() / 2);
        assert!(small(&body(&plain)) > plain.bytes as usize * 7 / 10);
    }

    #[test]
    fn only_origin_paths_have_content() {
        let plain = Content::of_path("/size/10/a");
        assert_eq!(plain, Content::of_path("/size/10/a?delay=1s"));
        assert_eq!(plain, Content::of_path("/prefix/size/10/a"));
        assert_eq!(Content::of_path("/size/10").unwrap().bytes, 10);
        for path in [
            "/",
            "/size/",
            "/size/x",
            "/size/+1/a",
            "/size/1/a/b",
            "/size/99999999999999999999",
        ] {
            assert_eq!(Content::of_path(path), None, "{path}");
        }
    }
}
