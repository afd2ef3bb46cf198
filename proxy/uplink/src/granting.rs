//! A worker's task that makes the grants that are due.

use std::rc::Rc;

use tokio::task::{AbortHandle, spawn_local};

use super::Uplink;

/// The task that grants what is due; it ends when this is dropped.
pub struct Granting {
    uplink: Uplink,
    task: Option<AbortHandle>,
}

impl Granting {
    /// Holds on a worker's link: this one's, and its task's.
    const OWN_HOLDS: usize = 2;

    /// Returns whether no connection sends through the worker's link.
    pub fn is_unused(&self) -> bool {
        match &self.uplink {
            Uplink::Unlimited | Uplink::Kernel(_) => true,
            Uplink::Paced(worker) => worker.is_unused(Self::OWN_HOLDS),
        }
    }
}

impl Drop for Granting {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Uplink {
    /// Grants whenever the link gets free, in a task of its own.
    pub fn start(&self) -> Granting {
        let task = match self {
            Self::Unlimited | Self::Kernel(_) => None,
            Self::Paced(worker) => Some(spawn_local(Rc::clone(worker).run()).abort_handle()),
        };
        Granting {
            uplink: self.clone(),
            task,
        }
    }
}
