//! Watches the memory of the process, and sheds load before it runs out.
//!
//! What is counted is what the kernel counts, and would end the process for:
//! resident memory, with every buffer of ours and of the libraries in it. A
//! sum of buffers would miss what lies between them, and cost every chunk.

use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use sprat_config::resolved::{Config, OverloadManager};
use sprat_scheduler::limits::{HeapGuard, HeapState};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::connection::Connection;
use crate::error::Reason;
use crate::sys;
use crate::worker::Worker;

/// Of the open exchanges, this part is ended at each look.
const SHED_PART: usize = 8;

/// The state of the process's memory, shared by all workers.
#[derive(Debug)]
pub(crate) struct Overload {
    config: OverloadManager,
    state: AtomicU8,
    guard: Mutex<(HeapGuard, Option<Instant>)>,
}

impl Overload {
    /// What the configuration asks for, with memory to spare.
    pub(crate) fn of(config: &Config) -> Option<Arc<Self>> {
        let config = config.overload_manager.as_ref()?;
        Some(Arc::new(Self {
            config: config.clone(),
            state: AtomicU8::new(HeapState::Ample as u8),
            guard: Mutex::new((HeapGuard::new(config.heap), None)),
        }))
    }

    /// How short memory is.
    pub(crate) fn state(&self) -> HeapState {
        let index = usize::from(self.state.load(Relaxed));
        HeapState::ALL.get(index).copied().unwrap_or_default()
    }

    /// Looks anew, if no other worker just has.
    fn look(&self) {
        // Taken: another worker is at it.
        let Ok(mut guard) = self.guard.try_lock() else {
            return;
        };
        let (guard, seen) = &mut *guard;
        let now = Instant::now();
        if seen.is_some_and(|seen| now - seen < self.config.refresh_interval / 2) {
            return;
        }
        *seen = Some(now);
        let before = self.state();
        let Some(mut used) = resident_bytes() else {
            return;
        };
        let mut trial = *guard;
        if trial.observe(used) > HeapState::Ample {
            // The allocator may hold what is free.
            sys::release_free_memory();
            used = resident_bytes().unwrap_or(used);
        }
        let state = guard.observe(used);
        self.state.store(state as u8, Relaxed);
        if state > before {
            tracing::warn!(used_bytes = used, ?state, "memory runs short");
        } else if state < before {
            tracing::info!(used_bytes = used, ?state, "memory is less short");
        }
    }
}

/// `VmRSS` of `/proc/self/status` (proc_pid_status(5)).
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Looks at the memory now and then, and ends a worker's exchanges while there
/// is too little; runs as long as the worker.
pub(crate) async fn watch(worker: Rc<Worker>) {
    let Some(overload) = &worker.overload else {
        return;
    };
    let mut ticks = interval(overload.config.refresh_interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        overload.look();
        if overload.state() == HeapState::Shedding {
            shed(&worker);
        }
    }
}

/// Ends every connection that waits for a request, and the newest of those
/// that serve one: who came first has the least left to wait for.
fn shed(worker: &Worker) {
    let connections = worker.connections.borrow();
    let mut open: Vec<&Rc<Connection>> = Vec::new();
    for (_, connection) in &*connections {
        match connection.is_busy() {
            true => open.push(connection),
            false => connection.cut(Reason::HeapFull),
        }
    }
    open.sort_unstable_by_key(|connection| std::cmp::Reverse(connection.accepted));
    let count = open.len().div_ceil(SHED_PART);
    for connection in &open[..count] {
        connection.cut(Reason::HeapFull);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_how_much_is_resident() {
        let before = resident_bytes().unwrap();
        let touched = vec![1_u8; 64 << 20];
        let after = resident_bytes().unwrap();
        assert!(after >= before + (48 << 20), "{before} {after}");
        drop(touched);
    }
}
