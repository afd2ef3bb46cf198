//! The files of certificates, which are renewed while Sprat runs: they are looked at again and
//! again, and read when they have changed. Open connections go on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sprat_config::resolved::FileAt;

use crate::background::Background;
use crate::problem::Problem;
use crate::stamp::Stamp;

/// The time between two looks at the files; the same as for manifests.
const INTERVAL: Duration = Duration::from_secs(2);

/// Something made of files that may change.
pub(super) trait Reloadable: Send + Sync {
    /// Returns the name for the log.
    fn title(&self) -> String;

    /// Returns the files, as they were before they were read last.
    fn files(&self) -> &Files;

    /// Returns whether there is more to read than these files, which is looked at only when the
    /// configuration is reloaded.
    fn has_more(&self) -> bool;

    /// Returns whether a file could not be used when they were read last, and its former contents
    /// stayed in use while the others were taken. No reload comes for what an authority has issued,
    /// so each look tries again.
    fn lacks(&self) -> bool;

    /// Reads the files again and takes what they hold; returns warnings. Unless `is_new`, they
    /// hold what is in use already, but for what was lacking.
    ///
    /// # Errors
    ///
    /// The files cannot be used; nothing changes then.
    fn reload(&self, is_new: bool) -> Result<Vec<Problem>, Vec<Problem>>;
}

/// Files, and what was found at the last look at them. The lock is held while they are read, so
/// that another thread that looks then finds nothing new.
pub(super) struct Files(Mutex<LastLook>);

/// The outcome of the last look at files.
struct LastLook {
    seen: Vec<Seen>,
    /// Whether the files could not be used when they were read last. It may have been for a reason
    /// that no stamp shows, so a reload tries them again; the interval does not, to spare the log.
    has_failed: bool,
}

/// A file and what it was like when it was looked at last.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    path: PathBuf,
    /// The stamp of the file; none if it was not there.
    stamp: Option<Stamp>,
}

impl Seen {
    /// Looks at a file as it is now.
    fn now(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            stamp: Stamp::of(path).ok(),
        }
    }
}

impl Files {
    /// Looks at the files as they are now. To be called before they are read.
    pub(super) fn now<'a>(all: impl Iterator<Item = &'a FileAt>) -> Self {
        Self(Mutex::new(LastLook {
            seen: all.map(|file| Seen::now(&file.path)).collect(),
            has_failed: false,
        }))
    }
}

/// The occasion on which files are looked at.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Occasion {
    /// The interval since the last look is over.
    Interval,
    /// The configuration is reloaded.
    Reload,
}

/// Reads the files again if one has changed, or lacks something; at a reload, also if they could
/// not be used the last time, or if there is more to read.
pub(super) fn look(of: &dyn Reloadable, occasion: Occasion) {
    // Held while they are read: another that looks then finds nothing new.
    let mut last = of.files().0.lock().unwrap_or_else(PoisonError::into_inner);
    let now: Vec<_> = last.seen.iter().map(|own| Seen::now(&own.path)).collect();
    let is_asked = last.has_failed || of.lacks() || of.has_more();
    let is_news = now != last.seen || (occasion == Occasion::Reload && is_asked);
    if !is_news && !of.lacks() {
        return;
    }
    last.seen = now;
    // After a failure, what had changed by then is not in use yet.
    let read = of.reload(is_news || last.has_failed);
    last.has_failed = read.is_err();
    if !is_news && (read.is_err() || of.lacks()) {
        // The log has it already.
        return;
    }
    let title = of.title();
    match read {
        Ok(warnings) => {
            tracing::info!("{title}: read again");
            for warning in warnings {
                tracing::warn!("{title}: {warning}");
            }
        }
        Err(problems) => {
            for problem in problems {
                tracing::error!("{title}: what was read before stays in use: {problem}");
            }
        }
    }
}

/// Starts a thread that looks at all these files at an interval; returns `None` if there are
/// none.
pub(super) fn watch(all: Vec<Arc<dyn Reloadable>>) -> std::io::Result<Option<Background>> {
    if all.is_empty() {
        return Ok(None);
    }
    let work = move || all.iter().for_each(|of| look(&**of, Occasion::Interval));
    Background::start("tls-files", INTERVAL, work, || ()).map(Some)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    use sprat_config::resolved::Span;

    use super::*;

    /// Something made of a file that can be used at times.
    struct Moody {
        files: Files,
        is_good: AtomicBool,
        lacks: AtomicBool,
        reads: AtomicUsize,
    }

    impl Moody {
        fn new(file: &FileAt) -> Self {
            Self {
                files: Files::now([file].into_iter()),
                is_good: AtomicBool::new(false),
                lacks: AtomicBool::new(false),
                reads: AtomicUsize::new(0),
            }
        }

        fn reads_after(&self, occasion: Occasion) -> usize {
            look(self, occasion);
            self.reads.load(Relaxed)
        }
    }

    fn key_in(directory: &Path) -> FileAt {
        FileAt {
            path: directory.join("site.key"),
            span: Span::default(),
        }
    }

    impl Reloadable for Moody {
        fn title(&self) -> String {
            "TLS".to_owned()
        }

        fn files(&self) -> &Files {
            &self.files
        }

        fn has_more(&self) -> bool {
            false
        }

        fn lacks(&self) -> bool {
            self.lacks.load(Relaxed)
        }

        fn reload(&self, _: bool) -> Result<Vec<Problem>, Vec<Problem>> {
            self.reads.fetch_add(1, Relaxed);
            match self.is_good.load(Relaxed) {
                true => Ok(Vec::new()),
                false => Err(Vec::new()),
            }
        }
    }

    #[test]
    fn a_reload_tries_again_what_could_not_be_used() {
        let directory = tempfile::tempdir().unwrap();
        let file = key_in(directory.path());
        let moody = Moody::new(&file);
        let reads_after = |occasion| moody.reads_after(occasion);
        assert_eq!(reads_after(Occasion::Reload), 0);
        std::fs::write(&file.path, "a key").unwrap();
        assert_eq!(reads_after(Occasion::Interval), 1);
        // The log has it already.
        assert_eq!(reads_after(Occasion::Interval), 1);
        moody.is_good.store(true, Relaxed);
        assert_eq!(reads_after(Occasion::Reload), 2);
        assert_eq!(reads_after(Occasion::Reload), 2);
    }

    #[test]
    fn what_is_lacking_is_tried_again_at_each_look() {
        let directory = tempfile::tempdir().unwrap();
        let moody = Moody::new(&key_in(directory.path()));
        moody.is_good.store(true, Relaxed);
        moody.lacks.store(true, Relaxed);
        assert_eq!(moody.reads_after(Occasion::Interval), 1);
        assert_eq!(moody.reads_after(Occasion::Interval), 2);
        moody.lacks.store(false, Relaxed);
        assert_eq!(moody.reads_after(Occasion::Interval), 2);
    }
}
