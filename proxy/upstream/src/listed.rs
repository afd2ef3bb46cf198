//! The endpoints in a cluster's file, which is looked at again and again.
//!
//! A file is looked at by its number, size and time, and read when one of these has changed: so
//! it may be replaced (rename(2)) or written over. If it cannot be read, the endpoints stay as
//! they are.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use anyhow::{Context as _, anyhow};
use sprat_config::resolved::{Cluster, Endpoint, EndpointsFile};
use sprat_net::problem::Problem;

/// The ways in which reading a file may end, in the order in which [`Listing::reads`] counts them.
pub const LISTING_RESULTS: [&str; 2] = ["applied", "refused"];

/// The outcomes of reading a cluster's file of endpoints, shared by all stations of the cluster.
/// What was seen of the file is each station's own, since a new one may come to nothing.
#[derive(Debug, Default)]
pub struct Listing {
    /// Whether the last look found a file that is refused, or none.
    is_refused: AtomicBool,
    /// The number of times that the file was read, in the order of [`LISTING_RESULTS`].
    pub reads: [AtomicU64; LISTING_RESULTS.len()],
}

/// The state in which a look found a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Seen {
    #[default]
    Nothing,
    /// The file's device, inode number, size, and time of modification (s, ns). Not the time of
    /// the last change of its status, which a file that is being replaced gets as well: it would
    /// be taken for another.
    File(u64, u64, u64, (i64, i64)),
}

impl Seen {
    fn of(file: &Metadata) -> Self {
        let time = (file.mtime(), file.mtime_nsec());
        Self::File(file.dev(), file.ino(), file.len(), time)
    }
}

/// The endpoints that a station begins with, and the state in which their file was seen.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) seen: Seen,
}

/// The endpoints in a file, or what is wrong with it, as the log says it.
pub(super) type Read = Result<Vec<Endpoint>, String>;

/// Reads a file, unless it is still the one that was `seen`, or is being written. One that cannot
/// be opened has not been seen.
pub(super) fn look(path: &Path, seen: Seen, cluster: &Cluster) -> Option<(Seen, Read)> {
    let found = |path: &Path| io::Result::Ok(Seen::of(&std::fs::metadata(path)?));
    let before = match found(path) {
        Ok(now) if now == seen => return None,
        Ok(now) => now,
        Err(error) => return Some((Seen::Nothing, Err(error.to_string()))),
    };
    // For a while, perhaps: it may be the same when there is a descriptor, or the right to it.
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Some((Seen::Nothing, Err(error.to_string()))),
    };
    let read = sprat_config::read_endpoints(file, path, cluster);
    // One that is being written is looked at again.
    let after = found(path).unwrap_or_default();
    let read = read.map_err(|errors| errors.lines().next().unwrap_or_default());
    (before == after || read.is_err()).then_some((before, read))
}

impl Listing {
    /// Returns whether the last look found a file that is in use.
    pub fn is_good(&self) -> bool {
        !self.is_refused.load(Relaxed)
    }

    /// Counts a look at the file, which has changed since the look before if `is_other`. Returns
    /// false, and counts nothing, if the file is refused, was before, and is the same.
    pub(super) fn note(&self, is_other: bool, is_good: bool) -> bool {
        let was_refused = self.is_refused.swap(!is_good, Relaxed);
        let is_news = is_good || !was_refused || is_other;
        if is_news {
            self.reads[usize::from(!is_good)].fetch_add(1, Relaxed);
        }
        is_news
    }

    /// Returns the endpoints that a cluster begins with. If its file is refused, they are those
    /// of the station `before`, if that had the same file.
    ///
    /// # Errors
    ///
    /// The file is refused, and there are no endpoints from before, or the cluster cannot have
    /// them.
    pub(super) fn first(
        &self,
        file: &EndpointsFile,
        cluster: &Cluster,
        before: Option<Listed>,
    ) -> anyhow::Result<Listed> {
        let path = &file.at.path;
        let Some((seen, read)) = look(path, Seen::Nothing, cluster) else {
            // It is being written: the next look finds it.
            return Ok(Listed {
                endpoints: before.map(|own| own.endpoints).unwrap_or_default(),
                seen: Seen::Nothing,
            });
        };
        if let (Err(_), Some(before)) = (&read, &before) {
            check(&before.endpoints, cluster)?;
        }
        let seen_before = before.as_ref().map(|own| own.seen).unwrap_or_default();
        // Without endpoints from before the station comes to nothing: the file in use is another.
        if read.is_ok() || before.is_some() {
            self.note(seen != seen_before, read.is_ok());
        }
        match (read, before) {
            (Ok(endpoints), _) => Ok(Listed { endpoints, seen }),
            (Err(error), Some(before)) => {
                refused(&cluster.name, path, &error);
                let endpoints = before.endpoints;
                Ok(Listed { endpoints, seen })
            }
            (Err(error), None) => Err(anyhow!(error)).with_context(|| {
                let path = path.display();
                format!(
                    "cannot use {path}, the endpoints_file of the cluster `{}`",
                    cluster.name
                )
            }),
        }
    }
}

/// Checks that a cluster can have the endpoints that its file gave it before.
///
/// # Errors
///
/// It cannot have them, as it is configured now.
pub(super) fn check(listed: &[Endpoint], cluster: &Cluster) -> anyhow::Result<()> {
    let checked = sprat_config::check_listed(listed, cluster);
    checked.map_err(|error| {
        anyhow!(
            "the cluster `{}` cannot keep its endpoints: {error}",
            cluster.name
        )
    })
}

/// Warns in the log that a file is refused.
pub(super) fn refused(cluster: &str, path: &Path, error: &str) {
    let path = path.display();
    tracing::warn!(%cluster, %path, error, "an endpoints file is refused: those before it stay");
}

/// Returns the problem with a cluster's file of endpoints, if there is one. A cluster that has
/// endpoints serves on by them: whether it has, [`Listing::first`] knows.
pub(super) fn inspect(cluster: &Cluster) -> Option<Problem> {
    let file = cluster.endpoints_file.as_ref()?;
    let errors = sprat_config::load_endpoints(&file.at.path, cluster).err()?;
    let message = errors.lines().next().unwrap_or_default();
    let help = "write a list of endpoints there, or an address in each line";
    Some(Problem::missing(&file.at.span, message).help(help))
}
