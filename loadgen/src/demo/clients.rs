//! The clients of one system, which repeat the trace's requests without end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use sprat_measure::wire::Connection;
use tokio::task::LocalSet;

use super::ShownSystem;
use super::board::{Board, Snapshot};
use crate::network;
use crate::replay::{Pace, Received, Replay, ReplayClient};
use crate::trace::{Request, Trace};

/// The time between two snapshots of a system.
pub(super) const SNAPSHOT_EVERY: Duration = Duration::from_millis(100);

/// The most requests of a system under way at once; a request beyond that fails.
const OPEN_MAX: usize = 4_000;

/// The time after which a request fails if its response is not whole.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The requests that each system is to answer.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// The trace of requests, which is repeated without end.
    pub(super) trace: Arc<Trace>,
    /// The size, in bytes, above which a response counts as large.
    pub(super) large_bytes: u64,
    /// The time at which the first request is made.
    pub(super) begun: Instant,
}

/// The snapshot of a system as it was last made.
pub(super) type SharedSnapshot = Arc<Mutex<Snapshot>>;

/// Sends the demand's requests to `system` until the process ends.
///
/// # Errors
/// When its namespace cannot be entered or the runtime not be started.
pub(super) fn drive(
    system: &ShownSystem,
    demand: &Demand,
    shown: &SharedSnapshot,
) -> anyhow::Result<()> {
    if let Some(namespace) = &system.namespace {
        network::enter(namespace)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the clients")?;
    let plan = Replay {
        target: system.target.clone(),
        connection: Connection::New,
        http2: None,
        fields: String::new(),
        timeout: TIMEOUT,
        open_max: OPEN_MAX as u32,
        pace: Pace::Trace,
    };
    let clients = Rc::new(Clients {
        client: ReplayClient::new(&plan, demand.begun),
        board: RefCell::default(),
        begun: demand.begun,
    });
    LocalSet::new().block_on(&runtime, async {
        tokio::join!(
            ask(&clients, &demand.trace),
            show(&clients, demand.large_bytes, shown)
        );
    });
    Ok(())
}

struct Clients {
    client: ReplayClient,
    board: RefCell<Board>,
    begun: Instant,
}

impl Clients {
    fn now_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    async fn one(&self, request: Request) {
        let (id, received) = self.board.borrow_mut().begin(self.now_s(), request.bytes);
        let expected = Received::new(&request.path, request.bytes).watched(received);
        let outcome = self.client.fetch_into(expected, &request, None).await;
        let whole = outcome.error.is_none();
        self.board.borrow_mut().end(self.now_s(), id, whole);
    }
}

/// Makes the trace's requests at their times, and repeats the trace when it is over.
async fn ask(clients: &Rc<Clients>, trace: &Trace) {
    // As long again as the mean gap between two, so that no two rounds meet.
    let round_s = trace.duration_s() * (1.0 + 1.0 / trace.requests.len() as f64);
    for round in 0_u32.. {
        for request in &trace.requests {
            let due_s = f64::from(round) * round_s + request.t_s;
            let due = clients.begun + Duration::from_secs_f64(due_s);
            tokio::time::sleep_until(due.into()).await;
            let open = clients.board.borrow().open();
            if open >= OPEN_MAX {
                clients.board.borrow_mut().refuse();
                continue;
            }
            let (clients, request) = (clients.clone(), request.clone());
            tokio::task::spawn_local(async move { clients.one(request).await });
        }
    }
}

async fn show(clients: &Rc<Clients>, large_bytes: u64, shown: &SharedSnapshot) {
    let mut ticks = tokio::time::interval(SNAPSHOT_EVERY);
    loop {
        ticks.tick().await;
        let snapshot = (clients.board.borrow_mut()).snapshot(clients.now_s(), large_bytes);
        *shown
            .lock()
            .expect("no thread panics with a snapshot in hand") = snapshot;
    }
}
