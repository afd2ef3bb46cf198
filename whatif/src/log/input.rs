//! The input of logs: files and standard input, plain or compressed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

/// The bytes that are read at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// The bytes that compressed streams begin with (RFC 1952 2.3.1, RFC 8878 3.1.1 and 3.1.2).
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];

/// Returns whether a path stands for standard input.
pub(super) fn is_stdin(path: &Path) -> bool {
    path == Path::new("-")
}

/// Opens a log; `-` is `stdin`.
pub(super) fn open<'a>(
    path: &Path,
    stdin: &'a mut (dyn Read + 'a),
) -> io::Result<Box<dyn BufRead + 'a>> {
    match is_stdin(path) {
        true => decompressed(stdin),
        false => decompressed(File::open(path)?),
    }
}

/// Decompresses an input if its first bytes say that it is compressed.
fn decompressed<'a>(mut input: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut first = Vec::with_capacity(4);
    (&mut input).take(4).read_to_end(&mut first)?;
    let is_gzip = first.starts_with(&GZIP);
    let is_zstd =
        first == ZSTD || (first.get(1..) == Some(&ZSTD_SKIPPABLE[..]) && first[0] & 0xf0 == 0x50);
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(first).chain(input));
    if is_gzip {
        let decoder = flate2::bufread::MultiGzDecoder::new(whole);
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)));
    }
    if is_zstd {
        let decoder = zstd::stream::read::Decoder::with_buffer(whole)?;
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)));
    }
    Ok(Box::new(whole))
}
