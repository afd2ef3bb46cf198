//! Certificates are renewed while Sprat runs: their files are looked at, and
//! read again when they have changed. What is open goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::pem::Problem;
use crate::background::Background;
use crate::stamp::Stamp;

/// How often files are looked at: as manifests are.
const INTERVAL: Duration = Duration::from_secs(2);

/// What is made of files that may change.
pub(super) trait Reloadable: Send + Sync {
    /// What it is, for the log.
    fn title(&self) -> String;

    /// The files, as they were before they were read for the first time.
    fn files(&self) -> Vec<Seen>;

    /// Reads them again and takes what they hold; tells what is doubtful.
    ///
    /// # Errors
    ///
    /// They cannot be used, and nothing changes.
    fn reload(&self) -> Result<Vec<Problem>, Vec<Problem>>;
}

/// A file and what it was like when it was looked at last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seen {
    path: PathBuf,
    /// None if it was not there.
    stamp: Option<Stamp>,
}

impl Seen {
    /// As it is now.
    pub(super) fn now(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            stamp: Stamp::of(path).ok(),
        }
    }
}

/// Something and its files as they were when it was read.
struct Watched {
    of: Arc<dyn Reloadable>,
    files: Vec<Seen>,
}

impl Watched {
    fn new(of: Arc<dyn Reloadable>) -> Self {
        let files = of.files();
        Self { of, files }
    }

    fn look(&mut self) {
        let now: Vec<_> = self
            .files
            .iter()
            .map(|seen| Seen::now(&seen.path))
            .collect();
        if now == self.files {
            return;
        }
        self.files = now;
        let title = self.of.title();
        match self.of.reload() {
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
}

/// A thread that looks at the files of all of these; none if there are none.
pub(super) fn watch(all: Vec<Arc<dyn Reloadable>>) -> std::io::Result<Option<Background>> {
    if all.is_empty() {
        return Ok(None);
    }
    let mut watched: Vec<_> = all.into_iter().map(Watched::new).collect();
    let look = move || watched.iter_mut().for_each(Watched::look);
    Background::start("tls-files", INTERVAL, look, || ()).map(Some)
}
