//! Saves the catalogue at an interval, and once more at the end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::Catalogue;

/// The thread that saves. Dropped, it saves a last time and ends.
pub(crate) struct Keeper {
    thread: JoinHandle<()>,
    /// Gone: the end.
    end: Sender<()>,
}

impl Keeper {
    /// Begins to save to `path` at each `interval`.
    ///
    /// # Errors
    ///
    /// No thread can be had.
    pub(crate) fn start(
        catalogue: Arc<Catalogue>,
        path: PathBuf,
        interval: Duration,
    ) -> std::io::Result<Self> {
        let (end, ended) = channel::<()>();
        let keep = move || {
            while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                save(&catalogue, &path);
            }
            save(&catalogue, &path);
        };
        Ok(Self {
            thread: Builder::new().name("catalogue".to_owned()).spawn(keep)?,
            end,
        })
    }

    /// Saves a last time.
    pub(crate) fn join(self) {
        drop(self.end);
        if self.thread.join().is_err() {
            tracing::error!("the thread that saves the catalogue panicked");
        }
    }
}

fn save(catalogue: &Catalogue, path: &std::path::Path) {
    let began = Instant::now();
    match catalogue.save(path) {
        Ok(entries) => {
            let ms = began.elapsed().as_millis();
            tracing::debug!(?path, entries, ms, "sizes saved");
        }
        Err(error) => tracing::error!(?path, "the sizes cannot be saved: {error:#}"),
    }
}
