//! A file with the number of the process, for programs that send it signals.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use sprat_net::writable::replaceable;

/// The process's pid file, removed when this is dropped, unless another process has written
/// it since.
pub(super) struct PidFile(PathBuf);

/// Checks that the pid file can be written, and leaves it as it is.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn inspect(path: &Path) -> anyhow::Result<()> {
    let may = replaceable(path).map_err(anyhow::Error::msg);
    may.with_context(|| format!("cannot write the pid file {}", path.display()))
}

impl PidFile {
    /// Writes the file as a whole, in the place of the one that is there.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub(super) fn write(path: PathBuf) -> anyhow::Result<Self> {
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(".new");
        fs::write(&fresh, format!("{}\n", std::process::id()))
            .and_then(|()| fs::rename(&fresh, &path))
            .with_context(|| format!("cannot write the pid file {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        let own = std::process::id().to_string();
        let is_own = fs::read_to_string(&self.0).is_ok_and(|text| text.trim() == own);
        if is_own && let Err(error) = fs::remove_file(&self.0) {
            tracing::warn!(%error, path = ?self.0, "the pid file stays");
        }
    }
}
