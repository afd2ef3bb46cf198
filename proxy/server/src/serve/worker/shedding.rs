//! The connections that a worker ends while memory is short.

use std::rc::Rc;

use sprat_net::error::Reason;
use sprat_scheduler::limits::HeapState;
use tokio::time::{MissedTickBehavior, interval};

use super::Worker;
use crate::client::connection::Connection;

/// The part of the open exchanges that is ended at each look: one in this many.
const SHED_PART: usize = 8;

/// Looks at the memory now and then, and ends a worker's exchanges while there
/// is too little; runs as long as the worker.
pub(super) async fn watch(worker: Rc<Worker>) {
    let Some(overload) = &worker.serving.overload else {
        return;
    };
    let mut ticks = interval(overload.refresh_interval());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        overload.look();
        if overload.state() == HeapState::Shedding {
            shed(&worker);
        }
    }
}

/// Ends every connection that waits for a request, and the newest of those that
/// serve one: the oldest have the least left to wait for.
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
