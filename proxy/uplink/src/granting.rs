//! The task of a worker that makes the grants that are due.

use std::rc::Rc;

use tokio::task::{AbortHandle, spawn_local};

use super::Uplink;
use super::link::LinkDriver;

/// A worker's task that makes the grants that are due, if its uplink needs one. The task ends
/// when this is dropped.
pub struct Granting(Option<Driving>);

struct Driving {
    driver: Rc<LinkDriver>,
    task: AbortHandle,
}

impl Granting {
    /// Returns whether no connection sends through the worker's link.
    pub fn is_unused(&self) -> bool {
        let own = self.0.as_ref();
        own.is_none_or(|own| own.driver.is_unused())
    }
}

impl Drop for Driving {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Uplink {
    /// Starts the task that grants whenever the link gets free.
    pub fn start(&self) -> Granting {
        Granting(match self {
            Self::Unlimited | Self::Kernel(_) => None,
            Self::Paced(worker) => {
                let driver = worker.driver();
                let task = spawn_local(Rc::clone(&driver).run()).abort_handle();
                Some(Driving { driver, task })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sprat_scheduler::{Discipline, EgressPolicy, FlowSpec, Pacer, Size, WireCost};
    use tokio::task::LocalSet;

    use super::*;
    use crate::flow::Flow;
    use crate::link::{PacedLink, WorkerLink};

    #[tokio::test]
    async fn grants_are_made_until_none_sends_on_the_link_nor_could() {
        let link = PacedLink::new(
            Pacer::exact(8_000_000),
            EgressPolicy {
                max_flows: 8,
                ..EgressPolicy::new(Discipline::Srpt)
            },
        );
        let other = WorkerLink::new(Arc::clone(&link)).unwrap();
        let spec = FlowSpec::new(0, Size::Exact(100_000), WireCost::ETHERNET_IPV4);
        let in_another = Flow::opened(&other, spec).unwrap();
        let uplink = Uplink::Paced(WorkerLink::new(link).unwrap());
        let work = LocalSet::new();
        let granting = work.run_until(async { uplink.start() }).await;
        let of_a_connection = uplink.clone();
        drop(uplink);
        assert!(!granting.is_unused(), "a connection has it");
        drop(of_a_connection);
        assert!(
            !granting.is_unused(),
            "another worker may wait for its timer"
        );
        drop(in_another);
        assert!(granting.is_unused());
    }
}
