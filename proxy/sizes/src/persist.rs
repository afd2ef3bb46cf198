//! The memory's snapshots: learnt sizes saved to a file, and restored from it.

use std::path::Path;

use tokio::time::Instant;

use super::memory::Memory;
use super::snapshot;

impl Memory {
    /// Restores learnt sizes from a snapshot. A snapshot that cannot be used is left alone, and the
    /// log says why. An instance that shares a store keeps the secret of its keys.
    pub(super) fn restore(&mut self, path: &Path, shares: bool) {
        let header = match snapshot::verify(path) {
            Ok(Some(header)) => header,
            Ok(None) => return tracing::info!(?path, "no snapshot of sizes yet"),
            Err(error) => {
                return tracing::warn!(?path, "the snapshot of sizes is not used: {error:#}");
            }
        };
        if header.vary != self.vary_names() {
            let then = header.vary.join(", ");
            return tracing::warn!(
                ?path,
                "the snapshot of sizes is not used: it was made with `vary: [{then}]`"
            );
        }
        if shares && header.hasher != self.hasher {
            return tracing::warn!(
                ?path,
                "the snapshot of sizes is not used: it was made without the shared store's phrase"
            );
        }
        self.hasher = header.hasher;
        let now_s = self.now_s();
        let mut entries = 0_usize;
        let read = snapshot::each(path, |packed, asked_again| {
            entries += usize::from(self.learnt.restore(packed, asked_again, now_s));
        });
        match read {
            Ok(()) => tracing::info!(?path, entries, "sizes restored"),
            Err(error) => tracing::warn!(?path, entries, "the snapshot was cut short: {error:#}"),
        }
    }

    fn vary_names(&self) -> Vec<String> {
        self.vary.clone()
    }

    fn header(&self) -> snapshot::Header {
        snapshot::Header {
            hasher: self.hasher,
            saved_s: self.now_s(),
            vary: self.vary_names(),
        }
    }

    /// Replaces the snapshot with the present learnt sizes, and returns their number.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the one that is there stays.
    pub(super) fn save(&self, path: &Path) -> anyhow::Result<usize> {
        let mut writer = snapshot::Writer::create(path, &self.header())?;
        let (now_s, mut entries) = (self.now_s(), 0);
        for part in 0..self.learnt.parts() {
            let part = self.learnt.entries(part, now_s);
            entries += part.len();
            writer.write(&part)?;
        }
        writer.finish()?;
        Ok(entries)
    }

    /// Saves the learnt sizes as [`Memory::save`] does, and logs the result.
    pub(super) fn save_or_complain(&self, path: &Path) {
        let began = Instant::now();
        match self.save(path) {
            Ok(entries) => {
                let ms = began.elapsed().as_millis();
                tracing::debug!(?path, entries, ms, "sizes saved");
            }
            Err(error) => tracing::error!(?path, "the sizes cannot be saved: {error:#}"),
        }
    }
}
