//! Encoders of Sprat's proxy for the content codings of RFC 9110 8.4.1: those of the
//! libraries, as one. They write to memory, where nothing fails.
//!
//! A crate of its own, behind a trait object: the libraries' code is generic, and would be
//! in each crate that drops a body.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use sprat_config::resolved::Algorithm;

/// The levels that take a millisecond of CPU for some 100 KB of text: twice as fast as what
/// files are compressed with, and within a few per cent of its size.
const GZIP_LEVEL: u32 = 5;
const BROTLI_QUALITY: u32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// Windows of 256 KB: what an encoder takes of memory is a small multiple.
const WINDOW_LOG: u32 = 18;

/// Encodes a body, piece by piece.
pub struct Encoder(Box<dyn Encode>);

/// The work of a library's encoder, whichever coding it has.
trait Encode: Write {
    /// Returns what has been encoded and not been taken.
    fn encoded(&mut self) -> &mut Vec<u8>;

    /// Encodes the end; returns what has not been taken.
    fn end(self: Box<Self>) -> io::Result<Vec<u8>>;
}

/// Gzip, as RFC 1952 has it.
impl Encode for GzEncoder<Vec<u8>> {
    fn encoded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        self.finish()
    }
}

/// Brotli, as RFC 7932 has it.
impl Encode for brotli::CompressorWriter<Vec<u8>> {
    fn encoded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        Ok(self.into_inner())
    }
}

/// Zstandard, as RFC 8878 has it.
impl Encode for zstd::stream::write::Encoder<'static, Vec<u8>> {
    fn encoded(&mut self) -> &mut Vec<u8> {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Vec<u8>> {
        self.finish()
    }
}

impl Encoder {
    /// Returns an encoder; none if there is no memory for one.
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

    /// Encodes all that has been written, so that a client can read it.
    pub fn flush(&mut self) {
        self.0.flush().expect("memory takes what is written");
    }

    /// Takes what has been encoded, if there are so many bytes.
    pub fn take(&mut self, least: usize) -> Option<Bytes> {
        let out = self.0.encoded();
        (out.len() >= least).then(|| std::mem::take(out).into())
    }

    /// Returns what is left of the encoded body.
    pub fn finish(self) -> Bytes {
        let out = self.0.end();
        out.expect("memory takes what is written").into()
    }
}
