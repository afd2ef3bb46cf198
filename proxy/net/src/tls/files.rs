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

    /// Reads the files again and takes what they hold; returns warnings.
    ///
    /// # Errors
    ///
    /// The files cannot be used; nothing changes then.
    fn reload(&self) -> Result<Vec<Problem>, Vec<Problem>>;
}

/// Files, and what each was like when it was looked at last. The lock is held while they are
/// read, so that another thread that looks then finds nothing new.
pub(super) struct Files(Mutex<Vec<Seen>>);

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
        Self(Mutex::new(all.map(|file| Seen::now(&file.path)).collect()))
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

/// Reads the files again if one has changed, or if there is more to read at a reload.
pub(super) fn look(of: &dyn Reloadable, occasion: Occasion) {
    // Held while they are read: another that looks then finds nothing new.
    let mut files = of.files().0.lock().unwrap_or_else(PoisonError::into_inner);
    let now: Vec<_> = files.iter().map(|seen| Seen::now(&seen.path)).collect();
    let more = occasion == Occasion::Reload && of.has_more();
    if now == *files && !more {
        return;
    }
    *files = now;
    let title = of.title();
    match of.reload() {
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
