//! Encoders for the content codings of RFC 9110 8.4.1: one type over those of three libraries. They
//! write to memory, where nothing fails.
//!
//! The crate stands alone, behind a trait object: the libraries' code is generic, and would be
//! compiled into each crate that drops a body.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sprat_config::resolved::Algorithm;

/// The compression levels: each takes about a millisecond of CPU for 100 KB of text. That is half
/// of what levels meant for files take, for a result within a few per cent of theirs.
const GZIP_LEVEL: u32 = 5;
const BROTLI_QUALITY: u32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// The binary logarithm of the window: 256 KB, of which an encoder's memory is a small multiple.
const WINDOW_LOG: u32 = 18;

/// The encoder of a body, which is given to it piece by piece.
pub struct Encoder(Box<dyn Encode>);

/// The operations that each library's encoder has, whatever its coding.
trait Encode: Write {
    /// Returns the buffer of encoded bytes that the caller has not taken.
    fn encoded(&mut self) -> &mut Vec<u8>;

    /// Encodes the end of the body, and returns the bytes that the caller has not taken.
    fn end(self: Box<Self>) -> io::Result<Vec<u8>>;
}

/// The gzip encoder of `flate2` (RFC 1952).
impl Encode for GzEncoder<Vec<u8>> {
    fn encoded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        self.finish()
    }
}

/// The Brotli encoder of `brotli` (RFC 7932).
impl Encode for brotli::CompressorWriter<Vec<u8>> {
    fn encoded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        Ok(self.into_inner())
    }
}

/// The Zstandard encoder of `zstd` (RFC 8878).
impl Encode for zstd::stream::write::Encoder<'static, Vec<u8>> {
    fn encoded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        self.finish()
    }
}

impl Encoder {
    /// Creates an encoder; none if there is no memory for it.
    pub fn new(algorithm: Algorithm) -> Option<Self> {
        Some(Self(match algorithm {
            Algorithm::Gzip => Box::new(GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL))),
            Algorithm::Brotli => Box::new(brotli::CompressorWriter::new(
                Vec::new(),
                4096,
                BROTLI_QUALITY,
                WINDOW_LOG,
            )),
            Algorithm::Zstd => {
                let encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL);
                let mut encoder = encoder.ok()?;
                encoder.window_log(WINDOW_LOG).ok()?;
                Box::new(encoder)
            }
        }))
    }

    /// Encodes the next piece of a body.
    pub fn write(&mut self, data: &[u8]) {
        let written = self.0.write_all(data);
        written.expect("memory takes what is written");
    }

    /// Completes the encoding of all bytes written so far, so that a client can read them.
    pub fn flush(&mut self) {
        self.0.flush().expect("memory takes what is written");
    }

    /// Takes all encoded bytes, if there are at least `least` of them.
    pub fn take(&mut self, least: usize) -> Option<Bytes> {
        let out = self.0.encoded();
        (out.len() >= least).then(|| std::mem::take(out).into())
    }

    /// Ends the encoded body, and returns the bytes that were not taken.
    pub fn finish(self) -> Bytes {
        let out = self.0.end();
        out.expect("memory takes what is written").into()
    }
}
