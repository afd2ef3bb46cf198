//! The generation that a worker's connections are served by, and the counters that they are
//! counted in.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::observe::stats::{ListenerStats, WorkerStats};
use crate::setup::generation::Generation;
use crate::setup::limits::Overload;
use crate::setup::listener::ListenerState;

/// A worker's counters and its present generation.
pub(crate) struct Serving {
    /// The index of the worker.
    worker: usize,
    /// The counters of the worker.
    pub(crate) stats: Arc<WorkerStats>,
    /// The watch over memory; none if there is none.
    pub(crate) overload: Option<Arc<Overload>>,
    generation: RefCell<Rc<Generation>>,
}

impl Serving {
    /// Makes the state of a worker that serves by `generation` at first.
    pub(crate) fn new(
        worker: usize,
        stats: Arc<WorkerStats>,
        overload: Option<Arc<Overload>>,
        generation: Generation,
    ) -> Self {
        Self {
            worker,
            stats,
            overload,
            generation: RefCell::new(Rc::new(generation)),
        }
    }

    /// Returns the worker's counters of a listener.
    pub(crate) fn stats_of<'a>(&self, listener: &'a ListenerState) -> &'a ListenerStats {
        &listener.shared.stats[self.worker]
    }

    /// Returns the generation that requests which begin now are served by.
    pub(crate) fn generation(&self) -> Rc<Generation> {
        Rc::clone(&self.generation.borrow())
    }

    /// Makes another generation the one that requests are served by from now on.
    pub(crate) fn serve_by(&self, next: Generation) {
        self.generation.replace(Rc::new(next));
    }
}
