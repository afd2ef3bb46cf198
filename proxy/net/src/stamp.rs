//! The stamp of a file, which shows whether it is still the one that was looked at.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The properties of a file that change when it does, or the link that leads to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stamp {
    modified_ns: i128,
    len: u64,
    inode: u64,
}

impl Stamp {
    /// Reads the stamp of the file that is there now.
    ///
    /// # Errors
    ///
    /// There is no such file, or it cannot be looked at.
    pub fn of(path: &Path) -> io::Result<Self> {
        let data = path.metadata()?;
        Ok(Self {
            modified_ns: i128::from(data.mtime()) * 1_000_000_000 + i128::from(data.mtime_nsec()),
            len: data.len(),
            inode: data.ino(),
        })
    }
}
