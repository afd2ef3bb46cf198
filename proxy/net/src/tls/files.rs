//! Certificates are renewed while Sprat runs: their files are looked at, and
//! read again when they have changed. What is open goes on.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sprat_config::resolved::FileAt;

use crate::background::Background;
use crate::problem::Problem;
use crate::stamp::Stamp;

/// The time between two looks at the files: as for manifests.
const INTERVAL: Duration = Duration::from_secs(2);

/// Something that is made of files which may change.
pub(super) trait Reloadable: Send + Sync {
    /// Returns its name for the log.
    fn title(&self) -> String;

    /// Returns the files, as they were before they were read last.
    fn files(&self) -> &Files;

    /// Returns whether there is more to it than these files: what is looked at only when the
    /// configuration is read anew.
    fn has_more(&self) -> bool;

    /// Reads them again and takes what they hold; tells what is doubtful.
    ///
    /// # Errors
    ///
    /// They cannot be used, and nothing changes.
    fn reload(&self) -> Result<Vec<Problem>, Vec<Problem>>;
}

/// Files, and what each was like when it was looked at last. It is theirs through
/// reloads of the configuration: looked at by another thread, they are not new.
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
    /// Looks at the files as they are now, before they are read.
    pub(super) fn now<'a>(all: impl Iterator<Item = &'a FileAt>) -> Self {
        Self(Mutex::new(all.map(|file| Seen::now(&file.path)).collect()))
    }
}

/// The occasion on which files are looked at.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Occasion {
    /// Again, after a while.
    Interval,
    /// The configuration is read anew.
    Reload,
}

/// Reads the files of `of` again if one has changed, or if a reload has more to look at.
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

/// Starts a thread that looks at the files of all of these; returns none if there are none.
pub(super) fn watch(all: Vec<Arc<dyn Reloadable>>) -> std::io::Result<Option<Background>> {
    if all.is_empty() {
        return Ok(None);
    }
    let work = move || all.iter().for_each(|of| look(&**of, Occasion::Interval));
    Background::start("tls-files", INTERVAL, work, || ()).map(Some)
}
