//! The stamp of a file, which shows whether it is still the one that was looked at.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The properties of a file that change when it does, or the link that leads to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    modified_ns: i128,
    /// The time of the last change of the file or of its owner and permissions: a file that could
    /// not be read may be one that can.
    changed_ns: i128,
    len: u64,
    device: u64,
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
        let ns = |s: i64, part_ns: i64| i128::from(s) * 1_000_000_000 + i128::from(part_ns);
        Ok(Self {
            modified_ns: ns(data.mtime(), data.mtime_nsec()),
            changed_ns: ns(data.ctime(), data.ctime_nsec()),
            len: data.len(),
            device: data.dev(),
            inode: data.ino(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn other_permissions_make_another_stamp() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let before = Stamp::of(file.path()).unwrap();
        // The file system's clock ticks seldom.
        let is_other = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            set_permissions(file.path(), Permissions::from_mode(0o640)).unwrap();
            Stamp::of(file.path()).unwrap() != before
        });
        assert!(is_other);
    }
}
