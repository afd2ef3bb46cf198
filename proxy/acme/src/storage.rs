//! The files of the storage: the account, certificates with their keys, answers for the authority,
//! and records of failures.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use sprat_config::resolved::{Acme, IssuedCertificate};

/// The most answers that are read; at a time there are those of one certificate.
pub(crate) const MAX_ANSWERS: usize = 256;

/// The most bytes of a file; a certificate with its chain has a few thousand.
const MAX_BYTES: u64 = 256 << 10;

/// The storage of the certificates of one authority, and of the account there.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    root: PathBuf,
    account: PathBuf,
}

/// The right to ask the authority, held by one of the processes that share the storage. It is given
/// back when this is dropped, or when the process ends.
pub(crate) struct Lock(#[expect(dead_code, reason = "to be dropped")] File);

/// The record of failed attempts for one certificate, for other processes and for later ones.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Failures {
    /// The number of failures in a row.
    pub(crate) count: u32,
    /// The time of the next attempt, in seconds since 1970.
    pub(crate) retry_at_s: i64,
    /// The error of the last attempt.
    pub(crate) error: String,
}

impl Storage {
    pub(crate) fn of(acme: &Acme) -> Self {
        Self {
            root: acme.storage.path.clone(),
            account: acme.account(),
        }
    }

    /// Creates the directories of the storage that are missing.
    pub(crate) fn create(&self) -> io::Result<()> {
        let parts = [&self.root, &self.certificates(), &self.answers()];
        let mut maker = DirBuilder::new();
        maker.recursive(true).mode(0o700);
        parts.into_iter().try_for_each(|part| maker.create(part))?;
        maker.create(self.account.parent().unwrap_or(&self.root))
    }

    fn certificates(&self) -> PathBuf {
        self.root.join("certificates")
    }

    fn answers(&self) -> PathBuf {
        self.root.join("challenges")
    }

    /// Takes the right to ask the authority; none if another process has it.
    pub(crate) fn lock(&self) -> io::Result<Option<Lock>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(self.root.join("lock"))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the saved account; none if there is none.
    pub(crate) fn account(&self) -> io::Result<Option<Vec<u8>>> {
        found(read(&self.account))
    }

    pub(crate) fn save_account(&self, text: &[u8]) -> io::Result<()> {
        write(&self.account, text)
    }

    /// Removes the account, which the authority no longer knows: the next attempt creates another.
    pub(crate) fn forget_account(&self) {
        forget(&self.account);
    }

    /// Saves a certificate and its key to the file where the listeners look.
    pub(crate) fn save(&self, certificate: &IssuedCertificate, text: &[u8]) -> io::Result<()> {
        write(&certificate.file.path, text)
    }

    /// Returns the record of failures since the certificate was last issued.
    pub(crate) fn failures(&self, certificate: &IssuedCertificate) -> Failures {
        let text = read(&failures_of(certificate)).unwrap_or_default();
        // A file that was damaged is as good as none.
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(crate) fn save_failures(
        &self,
        certificate: &IssuedCertificate,
        failures: &Failures,
    ) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(failures)?;
        write(&failures_of(certificate), &text)
    }

    pub(crate) fn forget_failures(&self, certificate: &IssuedCertificate) {
        forget(&failures_of(certificate));
    }

    /// Puts an answer where every process finds it. The answer is removed when the value is
    /// dropped.
    pub(crate) fn put_answer(&self, name: &str, text: &[u8]) -> io::Result<Answer> {
        let path = self.answers().join(name);
        write(&path, text)?;
        Ok(Answer(path))
    }

    /// Returns all answers in the storage, with their files' names.
    pub(crate) fn all_answers(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(entries) = fs::read_dir(self.answers()) else {
            return Vec::new();
        };
        let read = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            // One that is being written.
            let whole = !name.starts_with('.');
            Some((whole.then_some(name)?, read(&entry.path()).ok()?))
        };
        let entries = entries.take(MAX_ANSWERS).filter_map(Result::ok);
        entries.filter_map(read).collect()
    }

    /// Removes the answers that a killed process has left. The caller must hold the lock.
    pub(crate) fn clear_answers(&self, _: &Lock) {
        for entry in fs::read_dir(self.answers()).into_iter().flatten().flatten() {
            forget(&entry.path());
        }
    }
}

/// An answer in the storage, whose file is removed when this is dropped.
pub(crate) struct Answer(PathBuf);

impl Drop for Answer {
    fn drop(&mut self) {
        forget(&self.0);
    }
}

fn failures_of(certificate: &IssuedCertificate) -> PathBuf {
    certificate.file.path.with_extension("failures.json")
}

fn forget(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "cannot remove a file of ACME's storage");
        }
        _ => {}
    }
}

fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Reads a file of the storage, of at most 256 KB.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut file = File::open(path)?.take(MAX_BYTES + 1);
    file.read_to_end(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other("it is larger than 256 KB")),
        false => Ok(text),
    }
}

/// Replaces a file as a whole: a reader finds the old one or the new one, even after a crash.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    let written = options.open(&new).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&new, path))
        .inspect_err(|_| {
            let _ = fs::remove_file(&new);
        })?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn storage(root: &Path) -> Storage {
        let own = Storage {
            root: root.join("acme"),
            account: root.join("acme/accounts/a.json"),
        };
        own.create().unwrap();
        own
    }

    #[test]
    fn what_is_written_is_for_its_owner_alone_and_leaves_nothing_beside() {
        let directory = tempfile::tempdir().unwrap();
        let storage = storage(directory.path());
        assert_eq!(storage.account().unwrap(), None);
        storage.save_account(b"one").unwrap();
        storage.save_account(b"two").unwrap();
        assert_eq!(storage.account().unwrap().unwrap(), b"two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&storage.account), 0o600);
        assert_eq!(mode(&storage.root), 0o700);
        let beside = fs::read_dir(storage.account.parent().unwrap()).unwrap();
        assert_eq!(beside.count(), 1);
        storage.forget_account();
        assert_eq!(storage.account().unwrap(), None);
    }

    #[test]
    fn one_at_a_time_has_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let storage = storage(directory.path());
        let held = storage.lock().unwrap();
        assert!(held.is_some());
        assert!(storage.lock().unwrap().is_none());
        drop(held);
        assert!(storage.lock().unwrap().is_some());
    }

    #[test]
    fn an_answer_is_there_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let storage = storage(directory.path());
        let answer = storage.put_answer("abc.token", b"abc.def").unwrap();
        let found = [("abc.token".to_owned(), b"abc.def".to_vec())];
        assert_eq!(storage.all_answers(), found);
        drop(answer);
        assert!(storage.all_answers().is_empty());
        std::mem::forget(storage.put_answer("left", b"behind").unwrap());
        let lock = storage.lock().unwrap().unwrap();
        storage.clear_answers(&lock);
        assert!(storage.all_answers().is_empty());
    }
}
