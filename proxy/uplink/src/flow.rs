//! Flows: the claims of responses on the uplink.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sprat_scheduler::{AtCapacity, FlowId, FlowSpec, Mark, Size};

use super::link::WorkerLink;

/// A response's claim on the uplink, given up when this is dropped.
pub(crate) struct Flow {
    worker: Rc<WorkerLink>,
    /// The flow's number at the desk; `None` before it is open, and if its response was served
    /// at once.
    id: Option<FlowId>,
    waited: Duration,
    /// The bytes that the flow was granted.
    granted: u64,
    /// The number of grants that the flow had.
    grants: u64,
    /// The mark of the last grant, if flows are marked.
    mark: Option<Mark>,
    /// Whether all of the response has been asked for.
    is_complete: bool,
}

/// The grants that a response had on the uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The number of grants that the response had.
    pub grants: u64,
    /// The bytes of the grants, with those of the response's head unless that went ahead.
    pub bytes: u64,
    /// The time that the bytes waited for their turns.
    pub waited: Duration,
}

impl Flow {
    /// Returns a flow that is still to be opened.
    pub(crate) fn new(worker: &Rc<WorkerLink>) -> Self {
        Self {
            worker: Rc::clone(worker),
            id: None,
            waited: Duration::ZERO,
            granted: 0,
            grants: 0,
            mark: None,
            is_complete: false,
        }
    }

    /// Returns an open flow, which has nothing to send yet.
    pub(crate) fn opened(worker: &Rc<WorkerLink>, spec: FlowSpec) -> Result<Self, AtCapacity> {
        let mut flow = Self::new(worker);
        flow.open(spec)?;
        Ok(flow)
    }

    /// Opens the flow, which has nothing to send yet. Returns its number if it needs one of its
    /// class's places, which are bounded.
    pub(crate) fn open(&mut self, spec: FlowSpec) -> Result<Option<FlowId>, AtCapacity> {
        let now = self.worker.now();
        let mut state = self.worker.link.lock();
        let id = state.desk.open(now, spec)?;
        self.id = Some(id);
        let is_limited = state.desk.egress().is_limited(spec.class);
        Ok(is_limited.then_some(id))
    }

    /// Serves the response at once with all of its `bytes`, if it needs no flow; returns whether
    /// that was done.
    pub(crate) fn serve_at_once(&mut self, spec: FlowSpec, bytes: u64) -> bool {
        let now = self.worker.now();
        let mut state = self.worker.link.lock();
        let is_served = state.desk.serve_at_once(now, spec, bytes);
        if is_served {
            self.granted = bytes;
            self.grants = 1;
        }
        is_served
    }

    /// Asks for the link with `available` bytes to send; ready with how many of them may be
    /// written now. A response that was served at once does not wait.
    pub(crate) fn poll_grant(&mut self, cx: &mut Context<'_>, available: u64) -> Poll<u64> {
        let Some(id) = self.id else {
            return Poll::Ready(available);
        };
        let now = self.worker.now();
        let mut state = self.worker.link.lock();
        let is_news = state.desk.ask(now, id, available);
        // Where no timer is set the worker whose it was may be gone.
        let woken = match is_news || state.timer_at.is_none() {
            true => self.worker.grant_due(&mut state, now),
            false => Vec::new(),
        };
        let turn = state.desk.take(now, id);
        let mark = state.desk.egress().granted_mark(id);
        if turn.is_none() && !is_woken_by(state.desk.waker(id), cx.waker()) {
            state.desk.set_waker(id, cx.waker().clone());
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        let Some(turn) = turn else {
            return Poll::Pending;
        };
        self.waited += turn.waited;
        self.granted += turn.bytes;
        self.grants += 1;
        self.mark = mark;
        Poll::Ready(turn.bytes)
    }

    /// Notes that the endpoint has nothing more for now.
    pub(crate) fn pause(&mut self) {
        let Some(id) = self.id else { return };
        let now = self.worker.now();
        self.worker.link.lock().desk.pause(now, id);
    }

    /// Notes that all of the response has been asked for. The uplink is told when the flow ends,
    /// which is when it matters.
    pub(crate) fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Notes that `bytes` of the response are left beside what was granted, so that its size is
    /// now known exactly.
    pub(crate) fn has_left(&mut self, bytes: u64) {
        let Some(id) = self.id else { return };
        let (now, size) = (self.worker.now(), Size::Exact(self.granted + bytes));
        let mut state = self.worker.link.lock();
        state.desk.egress_mut().resize(now, id, size);
    }

    /// Returns the mark of the last grant, if flows are marked.
    pub(crate) fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// Counts, towards the flow's mark, bytes of its response that went ahead of it.
    pub(crate) fn count_ahead(&self, bytes: u64) {
        let Some(id) = self.id else { return };
        let now = self.worker.now();
        let mut state = self.worker.link.lock();
        state.desk.egress_mut().count_ahead(now, id, bytes);
    }

    /// Returns how long the flow's bytes have waited for the uplink.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the grants that the flow had so far.
    pub(crate) fn granted(&self) -> Granted {
        Granted {
            grants: self.grants,
            bytes: self.granted,
            waited: self.waited,
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let now = self.worker.now();
        let mut state = self.worker.link.lock();
        if self.is_complete {
            state.desk.complete(id);
        }
        state.desk.close(now, id);
        let woken = self.worker.grant_due(&mut state, now);
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }
}

fn is_woken_by(known: Option<&Waker>, waker: &Waker) -> bool {
    known.is_some_and(|known| known.will_wake(waker))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Arc;

    use sprat_scheduler::{ClassSpec, Discipline, EgressPolicy, Pacer, WireCost};
    use tokio::task::{LocalSet, spawn_local};
    use tokio::time::timeout;

    use super::*;
    use crate::link::PacedLink;

    const MS: Duration = Duration::from_millis(1);

    fn eight_flows() -> EgressPolicy {
        EgressPolicy {
            max_flows: 8,
            ..EgressPolicy::new(Discipline::Srpt)
        }
    }

    fn open(worker: &Rc<WorkerLink>) -> Flow {
        let spec = FlowSpec::new(0, Size::Exact(100_000), WireCost::ETHERNET_IPV4);
        Flow::opened(worker, spec).unwrap()
    }

    async fn grant(flow: &mut Flow) -> u64 {
        poll_fn(|cx| flow.poll_grant(cx, 1_000)).await
    }

    #[tokio::test]
    async fn what_is_served_at_once_has_no_flow_and_is_on_the_link() {
        let link = PacedLink::new(Pacer::exact(8_000_000), eight_flows());
        let worker = WorkerLink::new(Arc::clone(&link)).unwrap();
        let spec = FlowSpec::new(0, Size::Exact(100), WireCost::ETHERNET_IPV4);
        let (mut flow, mut next) = (Flow::new(&worker), Flow::new(&worker));
        assert!(flow.serve_at_once(spec, 100));
        assert!(!next.serve_at_once(spec, 100), "the link is not free");
        let (granted, none) = (flow.granted(), next.granted());
        assert_eq!((granted.grants, granted.bytes), (1, 100));
        assert_eq!((none.grants, none.bytes), (0, 0));
        assert_eq!(grant(&mut flow).await, 1_000, "it waits for nothing");
        let wire_bytes = WireCost::ETHERNET_IPV4.bytes(100);
        let sums = || (link.status().open_flows, link.status().stats.wire_bytes);
        assert_eq!(sums(), (0, wire_bytes));
        drop((flow, next));
        assert_eq!(sums(), (0, wire_bytes));
    }

    /// Returns the bytes that the second of two flows is granted within ten seconds if `change`
    /// comes while it waits.
    async fn granted_after(link: Arc<PacedLink>, change: impl FnOnce(&PacedLink)) -> u64 {
        let work = LocalSet::new();
        let served = work.run_until(async {
            let worker = WorkerLink::new(Arc::clone(&link)).unwrap();
            let grants = spawn_local(worker.driver().run());
            let (mut first, mut second) = (open(&worker), open(&worker));
            grant(&mut first).await;
            let waits = spawn_local(async move { grant(&mut second).await });
            tokio::time::sleep(MS).await;
            change(&link);
            let served = timeout(10_000 * MS, waits).await;
            grants.abort();
            served
        });
        served.await.unwrap().unwrap()
    }

    /// Returns what [`granted_after`] does if the only class loses its bounds.
    async fn granted_after_freeing(class: ClassSpec) -> u64 {
        let policy = EgressPolicy {
            classes: vec![class],
            ..eight_flows()
        };
        let link = PacedLink::new(Pacer::exact(100_000_000), policy);
        granted_after(link, |link| link.change(eight_flows())).await
    }

    #[tokio::test]
    async fn who_waits_at_a_low_rate_is_served_soon_once_it_rises() {
        // 1,000 bytes take more than a minute.
        let link = PacedLink::new(Pacer::exact(100), eight_flows());
        let bytes = granted_after(link, |link| link.set_rate(100_000_000)).await;
        assert_eq!(bytes, 1_000);
    }

    #[tokio::test]
    async fn who_waits_for_a_class_s_own_rate_is_served_soon_once_it_has_none() {
        let slow = ClassSpec {
            rate_bits_per_s: Some(100),
            ..ClassSpec::default()
        };
        assert_eq!(granted_after_freeing(slow).await, 1_000);
    }

    #[tokio::test]
    async fn who_waits_for_a_place_is_served_soon_once_its_class_has_no_bound() {
        let pool_of_one = ClassSpec {
            max_concurrency: 1,
            ..ClassSpec::default()
        };
        assert_eq!(granted_after_freeing(pool_of_one).await, 1_000);
    }

    #[tokio::test]
    async fn who_waits_for_the_timer_of_a_worker_that_ends_is_served_all_the_same() {
        // 1,000 bytes take about 0.2 s.
        let link = PacedLink::new(Pacer::exact(40_000), eight_flows());
        let work = LocalSet::new();
        let served = work.run_until(async {
            let one = WorkerLink::new(Arc::clone(&link)).unwrap();
            let other = WorkerLink::new(Arc::clone(&link)).unwrap();
            let grants = spawn_local(other.driver().run());
            let (mut first, mut second) = (open(&one), open(&other));
            grant(&mut first).await;
            // The first to wait arms the timer of its worker.
            assert!(timeout(MS, grant(&mut first)).await.is_err());
            let waits = spawn_local(async move { grant(&mut second).await });
            tokio::time::sleep(MS).await;
            drop((first, one));
            let served = timeout(10_000 * MS, waits).await;
            grants.abort();
            served
        });
        assert_eq!(served.await.unwrap().unwrap(), 1_000);
    }
}
