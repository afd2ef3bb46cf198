//! The snapshot file: learnt sizes that survive a restart.
//!
//! Little-endian throughout:
//!
//! | bytes | what |
//! | --- | --- |
//! | 8 | `SPRATSZ` and a zero |
//! | 4 | version of the format, 1 |
//! | 16 | the secret of the keys |
//! | 4 | when it was saved, seconds of Unix time |
//! | 2, then so many | the names of the `vary` fields, with commas between them |
//! | 4, then 17 for each | a count, and as many entries: 16 bytes, and 1 if it was asked for again or 0; repeated |
//! | 4 | the end: a count of 2³² - 1 |
//! | 8 | SipHash-1-3 of all before it |
//!
//! A file is read twice: first it is verified whole, then its entries are taken.

use std::fs::{self, File, OpenOptions};
use std::hash::Hasher as _;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use siphasher::sip::SipHasher13;
use sprat_config::resolved::Snapshot;
use sprat_net::problem::Problem;
use sprat_net::writable::replaceable;
use sprat_scheduler::catalogue::{KeyHasher, Packed};

const MAGIC: [u8; 8] = *b"SPRATSZ\0";
const VERSION: u32 = 1;
const END: u32 = u32::MAX;

/// The most entries in one piece of the file, so that a wrong count costs no memory.
const MAX_PIECE: usize = 1 << 16;

/// Returns the problems of the snapshot's file: it must be replaceable, and readable if it exists.
pub(super) fn inspect(config: &Snapshot) -> Vec<Problem> {
    let path = config.path.display();
    let written = replaceable(&config.path).err().map(|wrong| {
        let message = format!("cannot write the snapshot {path}: {wrong}");
        let help = "make the directory, and let the user that Sprat runs as write there";
        Problem::missing(&config.span, message).help(help)
    });
    let read = match written {
        None => verify(&config.path).err(),
        Some(_) => None,
    };
    let read = read.map(|error| {
        let message = format!("cannot read the snapshot {path}: {error:#}");
        let help = "sizes are learnt anew, and it is overwritten";
        Problem::doubtful(&config.span, message).help(help)
    });
    written.into_iter().chain(read).collect()
}

/// The header of a snapshot, which stands before the entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The hasher of the keys, whose secret the file has.
    pub hasher: KeyHasher,
    /// The time at which the catalogue was saved, in seconds of Unix time.
    pub saved_s: u32,
    /// The names of the fields by which variants are told apart, in order.
    pub vary: Vec<String>,
}

/// A reader or writer that hashes all bytes that pass through it.
struct Hashed<T> {
    inner: T,
    hash: SipHasher13,
}

impl<T> Hashed<T> {
    fn new(inner: T) -> Self {
        let hash = SipHasher13::new();
        Self { inner, hash }
    }
}

impl<R: Read> Hashed<R> {
    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.hash.write(&bytes);
        Ok(bytes)
    }

    fn header(&mut self) -> anyhow::Result<Header> {
        ensure!(
            self.array()? == MAGIC,
            "it is no snapshot of Sprat's catalogue"
        );
        let version = u32::from_le_bytes(self.array()?);
        ensure!(
            version == VERSION,
            "its format has version {version}, and this Sprat reads version {VERSION}"
        );
        let [k0, k1] = [self.array()?, self.array()?].map(u64::from_le_bytes);
        let saved_s = u32::from_le_bytes(self.array()?);
        let mut names = vec![0; usize::from(u16::from_le_bytes(self.array()?))];
        self.inner.read_exact(&mut names)?;
        self.hash.write(&names);
        let names = String::from_utf8(names).context("its header is damaged")?;
        let names = names.split(',').filter(|name| !name.is_empty());
        Ok(Header {
            hasher: KeyHasher::new(k0, k1),
            saved_s,
            vary: names.map(str::to_owned).collect(),
        })
    }

    fn entries(&mut self, mut each: impl FnMut(Packed, bool)) -> anyhow::Result<()> {
        loop {
            let count = u32::from_le_bytes(self.array()?);
            if count == END {
                return Ok(());
            }
            ensure!(count as usize <= MAX_PIECE, "it is damaged");
            for _ in 0..count {
                let words = [self.array()?, self.array()?].map(u64::from_le_bytes);
                let [asked_again] = self.array()?;
                each(Packed(words), asked_again == 1);
            }
        }
    }
}

fn open(path: &Path) -> io::Result<Hashed<BufReader<File>>> {
    File::open(path).map(|file| Hashed::new(BufReader::new(file)))
}

/// Verifies the whole file, and returns its header; none if there is no file.
///
/// # Errors
///
/// The file cannot be read, is no snapshot, is of another version, or is not whole.
pub fn verify(path: &Path) -> anyhow::Result<Option<Header>> {
    let mut file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match read(&mut file) {
        Ok(header) => Ok(Some(header)),
        Err(error) => match error.downcast_ref::<io::Error>() {
            Some(cause) if cause.kind() == ErrorKind::UnexpectedEof => bail!("it is cut short"),
            _ => Err(error),
        },
    }
}

fn read(file: &mut Hashed<BufReader<File>>) -> anyhow::Result<Header> {
    let header = file.header()?;
    file.entries(|_, _| {})?;
    let hash = file.hash.finish();
    ensure!(
        u64::from_le_bytes(file.array()?) == hash,
        "it is damaged: its checksum is wrong"
    );
    ensure!(
        file.inner.read(&mut [0])? == 0,
        "something stands after its end"
    );
    Ok(header)
}

/// Gives `take` each entry of a file that was verified, and whether it was asked for again.
///
/// # Errors
///
/// The file cannot be read, or has changed meanwhile.
pub fn each(path: &Path, take: impl FnMut(Packed, bool)) -> anyhow::Result<()> {
    let mut file = open(path)?;
    file.header()?;
    file.entries(take)
}

/// A snapshot in the making. It takes the place of the old one once it is whole and on the disk.
pub struct Writer {
    out: Hashed<BufWriter<File>>,
    path: PathBuf,
    temporary: PathBuf,
}

impl Writer {
    /// Creates a file beside `path`, and writes its header. No other user may read it: a reader of
    /// the secret can aim requests at one place of the table.
    pub fn create(path: &Path, header: &Header) -> anyhow::Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options
            .open(&temporary)
            .with_context(|| format!("cannot write {}", temporary.display()))?;
        let mut writer = Self {
            out: Hashed::new(BufWriter::new(file)),
            path: path.to_owned(),
            temporary,
        };
        let names = header.vary.join(",");
        writer.put(&MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        for word in header.hasher.secret() {
            writer.put(&word.to_le_bytes())?;
        }
        writer.put(&header.saved_s.to_le_bytes())?;
        writer.put(&u16::try_from(names.len())?.to_le_bytes())?;
        writer.put(names.as_bytes())?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.hash.write(bytes);
        self.out.inner.write_all(bytes)
    }

    /// Adds entries to the file.
    pub fn write(&mut self, entries: &[(Packed, bool)]) -> anyhow::Result<()> {
        for piece in entries.chunks(MAX_PIECE) {
            self.put(&u32::try_from(piece.len())?.to_le_bytes())?;
            for (packed, asked_again) in piece {
                self.put(&packed.0[0].to_le_bytes())?;
                self.put(&packed.0[1].to_le_bytes())?;
                self.put(&[u8::from(*asked_again)])?;
            }
        }
        Ok(())
    }

    /// Ends the file, and puts it in the place of the old one.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.put(&END.to_le_bytes())?;
        let hash = self.out.hash.finish();
        self.put(&hash.to_le_bytes())?;
        self.out.inner.flush()?;
        self.out.inner.get_ref().sync_all()?;
        fs::rename(&self.temporary, &self.path)
            .with_context(|| format!("cannot replace {}", self.path.display()))?;
        // The rename itself is on the disk once the directory is.
        let directory = self
            .path
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            hasher: KeyHasher::new(1, u64::MAX),
            saved_s: 77,
            vary: vec!["accept-encoding".to_owned(), "origin".to_owned()],
        }
    }

    fn entries() -> Vec<(Packed, bool)> {
        let entry = |n: u64| (Packed::from_parts(n, 2 * n, 1, 2, 3), n.is_multiple_of(3));
        (0..1000).map(entry).collect()
    }

    fn written() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sizes");
        let mut writer = Writer::create(&path, &header()).unwrap();
        for piece in entries().chunks(300) {
            writer.write(piece).unwrap();
        }
        writer.finish().unwrap();
        (directory, path)
    }

    #[test]
    fn what_is_written_is_read() {
        let (directory, path) = written();
        assert_eq!(verify(&path).unwrap(), Some(header()));
        let mut read = Vec::new();
        each(&path, |packed, again| read.push((packed, again))).unwrap();
        assert_eq!(read, entries());
        let files = fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 1, "nothing is left behind");
        assert!(verify(&directory.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn whatever_is_wrong_is_refused() {
        let (_directory, path) = written();
        let good = fs::read(&path).unwrap();
        let refused = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            verify(&path).unwrap_err().to_string()
        };
        for length in [0, 7, 20, 40, good.len() / 2, good.len() - 1] {
            assert_eq!(refused(&good[..length]), "it is cut short", "{length}");
        }
        // Each byte counts.
        for at in (0..good.len()).step_by(37) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            refused(&bad);
        }
        let mut other = good.clone();
        other[8] = 2;
        assert_eq!(
            refused(&other),
            "its format has version 2, and this Sprat reads version 1"
        );
        assert!(refused(b"<!doctype html>").contains("no snapshot"));
        assert!(refused(&[&good[..], b"x"].concat()).contains("after its end"));
    }
}
