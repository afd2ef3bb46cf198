//! Room for bodies that are buffered: memory and temporary files, which all workers share.

mod files;
mod scratch;

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};

use sprat_config::resolved::{BufferTotals, Config, ResponseBuffer};

use self::files::FileThreads;
pub use self::scratch::{Batch, Scratch};
use crate::permit::{Permit, Permits};
use crate::problem::Problem;

/// The reason why no more of a body is buffered: the rest passes at its client's pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// The route's `memory` is full, and there is no file.
    Memory,
    /// The body's file has reached `max_size`.
    MaxSize,
    /// All bodies together have reached `max_total_memory`, and there is no file.
    TotalMemory,
    /// All files together have reached `max_total_file`.
    TotalFile,
    /// The file cannot be made or written.
    Io,
}

impl Fallback {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::MaxSize,
        Self::TotalMemory,
        Self::TotalFile,
        Self::Io,
    ];

    /// Returns the reason's name in metrics: the configuration's key of the bound, or `io`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::MaxSize => "max_size",
            Self::TotalMemory => "max_total_memory",
            Self::TotalFile => "max_total_file",
            Self::Io => "io",
        }
    }
}

/// The room for a process's buffered bodies, and the counts of its use.
#[derive(Debug, Default)]
pub struct Buffers {
    memory: Permits,
    memory_max: AtomicUsize,
    file: Permits,
    file_max: AtomicUsize,
    early: AtomicU64,
    fallbacks: [AtomicU64; Fallback::ALL.len()],
    /// Whether the log was warned that files cannot be written, and no file was written since.
    has_warned: AtomicBool,
    /// The threads that read and write files, started for the first file.
    files: OnceLock<FileThreads>,
}

impl Buffers {
    /// Returns room with these bounds, all of it free.
    pub fn new(totals: BufferTotals) -> Arc<Self> {
        let own = Self::default();
        own.commit(totals);
        Arc::new(own)
    }

    /// Sets the bounds of the room, for which nothing is to be prepared. Bytes held beyond them
    /// stay until they are passed on.
    pub fn commit(&self, totals: BufferTotals) {
        self.memory_max.store(totals.memory_bytes, Relaxed);
        let file_bytes = usize::try_from(totals.file_bytes).unwrap_or(usize::MAX);
        self.file_max.store(file_bytes, Relaxed);
    }

    /// Returns a permit for memory that holds no bytes yet.
    pub fn memory(&self) -> Permit {
        self.memory.none(self.memory_max.load(Relaxed))
    }

    /// Returns a permit for room in files that holds no bytes yet.
    fn files_share(&self) -> Permit {
        self.file.none(self.file_max.load(Relaxed))
    }

    /// Returns how many bytes of bodies are in memory.
    pub fn memory_bytes(&self) -> usize {
        self.memory.used()
    }

    /// Returns how many bytes the files of bodies take.
    pub fn file_bytes(&self) -> usize {
        self.file.used()
    }

    /// Returns how many responses were finished by their endpoints before their clients had
    /// them.
    pub fn early(&self) -> u64 {
        self.early.load(Relaxed)
    }

    /// Returns how many bodies were buffered no further for this reason.
    pub fn fallbacks(&self, reason: Fallback) -> u64 {
        self.fallbacks[reason as usize].load(Relaxed)
    }

    /// Counts a response that its endpoint has finished before its client has it.
    pub fn ends_early(&self) {
        self.early.fetch_add(1, Relaxed);
    }

    /// Counts a body that is buffered no further, by its reason.
    pub fn falls_back(&self, reason: Fallback) {
        self.fallbacks[reason as usize].fetch_add(1, Relaxed);
    }

    /// Warns in the log that a file cannot be written, once until a file is written again.
    fn warn(&self, directory: &Path, error: &std::io::Error) {
        if !self.has_warned.swap(true, Relaxed) {
            let path = directory.display();
            tracing::warn!(%path, %error, "no body can be buffered in a file");
        }
    }

    fn works(&self) {
        self.has_warned.store(false, Relaxed);
    }

    fn files(&self) -> &FileThreads {
        self.files.get_or_init(FileThreads::start)
    }

    /// Keeps all files waiting until what is returned is dropped.
    #[cfg(test)]
    pub(crate) fn hang(&self) -> Vec<std::sync::mpsc::Sender<()>> {
        self.files().hang()
    }
}

/// Returns a problem for each buffer directory of a route in which no file can be made.
pub fn inspect(config: &Config) -> impl Iterator<Item = Problem> {
    let files = config.routes.iter().flat_map(|route| {
        let response = match &route.buffer.response {
            ResponseBuffer::On(own) => own.file.as_ref(),
            ResponseBuffer::Auto | ResponseBuffer::Off => None,
        };
        let request = (route.buffer.request.as_ref()).and_then(|own| own.file.as_ref());
        request.into_iter().chain(response)
    });
    let mut seen = Vec::new();
    files.filter_map(move |file| {
        let (path, span) = (&file.directory.path, &file.directory.span);
        // Routes that name none have that of the whole file. By the path: all spans are equal.
        if seen.contains(&path) {
            return None;
        }
        seen.push(path);
        let error = tempfile::tempfile_in(path).err()?;
        let message = format!("cannot buffer bodies in {}: {error}", path.display());
        let help = "make the directory, let Sprat's user write to it, or leave `file` out";
        Some(Problem::at(span, message).help(help))
    })
}
