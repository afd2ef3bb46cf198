//! Whether a file is still the one that was read.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stamp {
    modified_ns: i128,
    len: u64,
    inode: u64,
}

impl Stamp {
    /// Of the file at `path`, through links.
    ///
    /// # Errors
    ///
    /// There is none, or it may not be looked at.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let data = path.metadata()?;
        Ok(Self {
            modified_ns: i128::from(data.mtime()) * 1_000_000_000 + i128::from(data.mtime_nsec()),
            len: data.len(),
            inode: data.ino(),
        })
    }
}
