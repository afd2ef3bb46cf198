//! The pace of a replay: the arrivals of a trace, users, or a closed loop.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Context;
use indicatif::ProgressBar;
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use super::client::ReplayClient;
use super::plan::{Pace, Replay};
use crate::results::Outcome;
use crate::trace::Trace;

/// The most arrivals that wait between the clock and the client.
const ARRIVALS_WAITING_MAX: usize = 4096;

/// The time from the start of the clock to time 0 of the trace, for the client
/// to be ready.
pub(super) const LEAD: Duration = Duration::from_millis(50);

/// Replays `trace` and returns the outcome of each request, in the trace's order.
///
/// # Errors
/// When a thread or the runtime cannot be started.
pub fn replay(
    trace: &Trace,
    plan: &Replay,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Outcome>> {
    // A closed loop begins at once: what it asked for before time 0 would be
    // taken for having begun at it.
    let lead = match plan.pace {
        Pace::Trace => LEAD,
        Pace::Closed(_) => Duration::ZERO,
    };
    replay_from(trace, &[], plan, Instant::now() + lead, progress)
}

/// Replays like [`replay`], with time 0 of the trace at `begun`, and from an address for each
/// request. The kernel picks the address of a request that `sources` has none for.
pub(super) fn replay_from(
    trace: &Trace,
    sources: &[Ipv4Addr],
    plan: &Replay,
    begun: Instant,
    progress: &ProgressBar,
) -> anyhow::Result<Vec<Outcome>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the client")?;
    let run = Rc::new(ReplayRun {
        client: ReplayClient::new(plan, begun),
        trace: trace.clone(),
        sources: sources.to_vec(),
        outcomes: RefCell::new(vec![None; trace.requests.len()]),
        open: Cell::new(0),
        open_max: plan.open_max,
        progress: progress.clone(),
    });
    let local = LocalSet::new();
    match plan.pace {
        Pace::Closed(clients) => local.block_on(&runtime, closed_loop(run.clone(), clients)),
        Pace::Trace => {
            let sessions = sessions(trace);
            let starts_s = sessions.iter().map(|s| trace.requests[s[0]].t_s).collect();
            let (sender, arrivals) = mpsc::channel(ARRIVALS_WAITING_MAX);
            std::thread::Builder::new()
                .name("arrivals".to_owned())
                .spawn(move || tell_arrivals(begun, starts_s, &sender))
                .context("cannot start the arrivals")?;
            local.block_on(&runtime, open_loop(run.clone(), sessions, arrivals));
        }
    }
    progress.finish_and_clear();
    let outcomes = run.outcomes.take();
    Ok(outcomes
        .into_iter()
        .map(|outcome| outcome.expect("every request is tried or refused"))
        .collect())
}

/// Returns the requests that follow each other: those of a user, or one without a user by itself.
/// They are in the order of their first arrival.
pub(super) fn sessions(trace: &Trace) -> Vec<Vec<usize>> {
    let mut sessions: Vec<Vec<usize>> = Vec::new();
    let mut of_user: HashMap<u32, usize> = HashMap::new();
    for (index, request) in trace.requests.iter().enumerate() {
        let known = request.user.and_then(|user| of_user.get(&user).copied());
        match known {
            Some(session) => sessions[session].push(index),
            None => {
                if let Some(user) = request.user {
                    of_user.insert(user, sessions.len());
                }
                sessions.push(vec![index]);
            }
        }
    }
    sessions
}

/// Sends the number of each session at its start. This has a thread of its own, because the
/// runtime's timers are a millisecond coarse, which is more than many a response takes. It ends
/// with the last arrival, or when the replay no longer listens.
fn tell_arrivals(begun: Instant, starts_s: Vec<f64>, arrivals: &mpsc::Sender<usize>) {
    for (index, start_s) in starts_s.into_iter().enumerate() {
        let due = begun + Duration::from_secs_f64(start_s);
        let wait = due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        if arrivals.blocking_send(index).is_err() {
            return;
        }
    }
}

/// The state that all requests of a replay share.
struct ReplayRun {
    client: ReplayClient,
    trace: Trace,
    sources: Vec<Ipv4Addr>,
    outcomes: RefCell<Vec<Option<Outcome>>>,
    open: Cell<u32>,
    open_max: u32,
    progress: ProgressBar,
}

impl ReplayRun {
    /// Makes the requests of a session one after the other.
    async fn session(&self, indices: Vec<usize>) {
        for index in indices {
            self.ask(index).await;
        }
        self.open.set(self.open.get() - 1);
    }

    async fn ask(&self, index: usize) {
        let source = self.sources.get(index).copied();
        let outcome = (self.client)
            .fetch(&self.trace.requests[index], source)
            .await;
        self.record(index, outcome);
    }

    fn record(&self, index: usize, outcome: Outcome) {
        self.outcomes.borrow_mut()[index] = Some(outcome);
        self.progress.inc(1);
    }
}

async fn open_loop(
    run: Rc<ReplayRun>,
    sessions: Vec<Vec<usize>>,
    mut arrivals: mpsc::Receiver<usize>,
) {
    let mut sessions: Vec<Option<Vec<usize>>> = sessions.into_iter().map(Some).collect();
    let mut tasks = tokio::task::JoinSet::new();
    while let Some(number) = arrivals.recv().await {
        let indices = sessions[number].take().expect("each session arrives once");
        if run.open.get() < run.open_max {
            run.open.set(run.open.get() + 1);
            let run = run.clone();
            tasks.spawn_local(async move { run.session(indices).await });
        } else {
            for index in indices {
                run.record(index, run.client.refuse(&run.trace.requests[index]));
            }
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

async fn closed_loop(run: Rc<ReplayRun>, clients: u32) {
    let next = Rc::new(Cell::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..clients.min(run.open_max) {
        let (run, next) = (run.clone(), next.clone());
        tasks.spawn_local(async move {
            while next.get() < run.trace.requests.len() {
                run.ask(next.replace(next.get() + 1)).await;
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Request;

    #[test]
    fn a_user_has_one_session_and_other_requests_one_each() {
        let request = |user| Request {
            t_s: 0.0,
            bytes: 1,
            path: "/".into(),
            user,
        };
        let users = [5, 2, 5, 2, 9].map(|user| request(Some(user)));
        let trace = Trace {
            requests: users.into(),
        };
        assert_eq!(sessions(&trace), [vec![0, 2], vec![1, 3], vec![4]]);
        let trace = Trace {
            requests: vec![request(None), request(None)],
        };
        assert_eq!(sessions(&trace), [[0], [1]]);
    }
}
