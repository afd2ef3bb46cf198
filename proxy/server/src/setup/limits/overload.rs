//! The watch over the memory of the process, by which load is shed before memory runs out.
//!
//! Sprat counts resident memory, by which the kernel's out-of-memory killer decides, too. Every
//! buffer of Sprat and of its libraries is in it. A sum of buffers would miss what lies between
//! them, and would cost something with every chunk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sprat_config::resolved::{Config, OverloadManager};
use sprat_net::sys;
use sprat_scheduler::limits::{HeapGuard, HeapState};
use tokio::time::Instant;

/// The state of the process's memory, shared by all workers.
#[derive(Debug)]
pub(crate) struct Overload {
    config: OverloadManager,
    state: AtomicU8,
    watch: Mutex<HeapWatch>,
}

/// The state that is kept between two looks at the memory.
#[derive(Debug)]
struct HeapWatch {
    guard: HeapGuard,
    looked_at: Option<Instant>,
    memory: Memory,
    /// Whether the memory could not be seen the last time.
    blind: bool,
}

impl Overload {
    /// Makes the watch that the configuration asks for, with ample memory at first.
    pub(crate) fn of(config: &Config) -> Option<Arc<Self>> {
        let config = config.overload_manager.as_ref()?;
        Some(Arc::new(Self {
            config: config.clone(),
            state: AtomicU8::new(HeapState::Ample as u8),
            watch: Mutex::new(HeapWatch {
                guard: HeapGuard::new(config.heap),
                looked_at: None,
                memory: Memory::open(),
                blind: false,
            }),
        }))
    }

    /// Returns how short memory is.
    pub(crate) fn state(&self) -> HeapState {
        let index = usize::from(self.state.load(Relaxed));
        HeapState::ALL.get(index).copied().unwrap_or_default()
    }

    /// Returns the time between two looks at the memory.
    pub(crate) fn refresh_interval(&self) -> Duration {
        self.config.refresh_interval
    }

    /// Looks at the memory anew, if no other worker just has.
    pub(crate) fn look(&self) {
        // Taken: another worker is at it.
        let Ok(mut watch) = self.watch.try_lock() else {
            return;
        };
        let now = Instant::now();
        let least = self.config.refresh_interval / 2;
        if watch.looked_at.is_some_and(|at| now - at < least) {
            return;
        }
        watch.looked_at = Some(now);
        let before = self.state();
        let Some(mut used) = watch.used() else {
            return;
        };
        let mut trial = watch.guard;
        if trial.observe(used) > HeapState::Ample {
            // The allocator may hold what is free.
            sys::release_free_memory();
            used = watch.used().unwrap_or(used);
        }
        let state = watch.guard.observe(used);
        self.state.store(state as u8, Relaxed);
        if state > before {
            tracing::warn!(used_bytes = used, ?state, "memory runs short");
        } else if state < before {
            tracing::info!(used_bytes = used, ?state, "memory is less short");
        }
    }
}

impl HeapWatch {
    /// Returns the resident bytes; none, and a word in the log, if they cannot be seen.
    fn used(&mut self) -> Option<u64> {
        let used = self.memory.resident_bytes();
        let was_blind = std::mem::replace(&mut self.blind, used.is_err());
        if let Err(error) = &used
            && !was_blind
        {
            tracing::error!(%error, "the process's memory cannot be seen: nothing is shed");
        }
        used.ok()
    }
}

/// The file `/proc/self/status` (proc_pid_status(5)), kept open: memory may be short when
/// there are no descriptors left either.
#[derive(Debug)]
struct Memory(Option<File>);

impl Memory {
    /// Opens the file, if that is possible now.
    fn open() -> Self {
        Self(File::open("/proc/self/status").ok())
    }

    /// Returns the memory in use, `VmRSS` of proc(5).
    fn resident_bytes(&mut self) -> io::Result<u64> {
        let file = match &mut self.0 {
            Some(file) => file,
            none => none.insert(File::open("/proc/self/status")?),
        };
        // Some 1,500 bytes, made anew for each read from the beginning.
        let mut status = [0; 8 << 10];
        let bytes = file.read_at(&mut status, 0)?;
        let status = String::from_utf8_lossy(&status[..bytes]);
        let mut lines = status.lines();
        let line = lines.find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.map(|kib| kib * 1024)
            .ok_or_else(|| io::Error::other("/proc/self/status has no VmRSS"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_much_is_resident() {
        // One file, opened before: none is opened for a look.
        let mut memory = Memory::open();
        let before = memory.resident_bytes().unwrap();
        let touched = vec![1_u8; 64 << 20];
        let after = memory.resident_bytes().unwrap();
        assert!(after >= before + (48 << 20), "{before} {after}");
        drop(touched);
    }
}
