//! The desk, where requests are received, held, and released: one [`sprat_filter::Filter`] for all
//! workers, behind a mutex.
//!
//! A stream may be touched on its own worker alone, but the filter may decide about any stream in
//! any worker's hook. So the desk stores a decision about another stream as [`Orders`], and wakes
//! that stream.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sprat_config::fields::Fields as AnyFields;
use sprat_filter::metrics::{Counter, Gauge};
use sprat_filter::{Answer, Filter, Read, Reader, ResponseHead, ResponseSpec, Step, StreamId};
use sprat_scheduler::Time;
use sprat_scheduler::station::ChannelBacklog;

use crate::host::{Fields, Host, Wake};
use crate::link::Link;
use crate::orders::{Go, Orders};
use crate::timer::{Tick, Ticking};

/// The desk of all workers, which receives their requests.
pub(crate) struct Desk {
    reader: Arc<Reader>,
    link: Option<Arc<Ticking<Link>>>,
    next_id: AtomicU64,
    state: Mutex<DeskState>,
}

struct DeskState {
    filter: Filter,
    /// The requests that are held, with their orders.
    held: BTreeMap<StreamId, Held>,
    untold: Untold,
    last_probe: u32,
}

struct Held {
    waker: Arc<dyn Wake>,
    orders: Orders,
}

/// The counts of events that happened while no stream's host could count them.
#[derive(Default)]
struct Untold {
    counters: Vec<(Counter, u64)>,
    gauges: [Option<u64>; Gauge::ALL.len()],
}

/// The desk's decision about a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The stream goes on.
    Continue,
    /// The request is held. Its stream is woken when there are orders for it.
    Hold,
    /// The request is answered by the filter.
    Answer(Answer),
}

impl Desk {
    /// Creates the desk of a filter, beside the link if there is one.
    pub(crate) fn new(filter: Filter, link: Option<Arc<Ticking<Link>>>) -> Self {
        Self {
            reader: Arc::clone(filter.reader()),
            link,
            next_id: AtomicU64::new(1),
            state: Mutex::new(DeskState {
                filter,
                held: BTreeMap::new(),
                untold: Untold::default(),
                last_probe: 0,
            }),
        }
    }

    /// Returns the reader of requests' heads.
    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// Returns the number of a new stream.
    pub(crate) fn stream(&self) -> StreamId {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes over the sizes that another desk has learnt.
    pub(crate) fn learn_from(&self, now: Time, other: &Self) {
        // The other's lock alone is taken below this one, and it is older.
        let mut own = self.lock();
        own.filter.learn_from(now, &mut other.lock().filter);
    }

    fn lock(&self) -> MutexGuard<'_, DeskState> {
        // A panic in here leaves an order wrong at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the filter of an event, in the hook of a stream or in none. Returns the filter's
    /// answer, and the time of its next tick.
    fn tell<T>(
        &self,
        state: &mut DeskState,
        current: Option<(StreamId, &dyn Host)>,
        orders: &mut Orders,
        tell: impl FnOnce(&mut Filter, &mut Calls<'_>) -> T,
    ) -> (T, Option<Time>) {
        if let Some((_, host)) = current {
            state.untold.tell(host);
        }
        let mut calls = Calls {
            current,
            orders,
            held: &mut state.held,
            untold: &mut state.untold,
            last_probe: &mut state.last_probe,
            link: self.link.as_deref(),
        };
        let told = tell(&mut state.filter, &mut calls);
        (told, state.filter.next_wakeup())
    }
}

impl Ticking<Desk> {
    /// Decides about a request whose head has come.
    pub(crate) fn request(
        &self,
        now: Time,
        id: StreamId,
        host: &impl Host,
        read: Read,
    ) -> (Verdict, Orders) {
        let mut orders = Orders::default();
        let mut state = self.lock();
        let told = self.tell(
            &mut state,
            Some((id, host)),
            &mut orders,
            |filter, calls| filter.request(now, id, read, calls),
        );
        let verdict = match told.0 {
            Step::Continue => Verdict::Continue,
            Step::Answer(answer) => Verdict::Answer(answer),
            Step::Hold => {
                let waker = host.waker();
                if orders.go.is_some() {
                    // Let go before it was held. Envoy tells the stream later,
                    // when it is.
                    waker.wake();
                }
                let probe = orders.probe.take();
                let orders = std::mem::replace(&mut orders, Orders::of_probe(probe));
                state.held.insert(id, Held { waker, orders });
                Verdict::Hold
            }
        };
        drop(state);
        self.arm(told.1);
        (verdict, orders)
    }

    /// Returns the orders of a stream that was woken, if they release it.
    pub(crate) fn collect(&self, id: StreamId, host: &dyn Host) -> Option<Orders> {
        let mut state = self.lock();
        state.untold.tell(host);
        let ready = state
            .held
            .get(&id)
            .is_some_and(|own| own.orders.go.is_some());
        let held = ready.then(|| state.held.remove(&id)).flatten();
        held.map(|held| held.orders)
    }

    /// Takes a response's head. Returns the class and size that its turn depends on.
    pub(crate) fn response(
        &self,
        now: Time,
        id: StreamId,
        host: &impl Host,
        head: &ResponseHead<'_>,
    ) -> (Option<ResponseSpec>, Orders) {
        let mut orders = Orders::default();
        let (spec, due) = self.tell(
            &mut self.lock(),
            Some((id, host)),
            &mut orders,
            |filter, calls| filter.response(now, id, head, calls),
        );
        self.arm(due);
        (spec, orders)
    }

    /// Notes that a response has come in whole, with a body of `bytes` bytes.
    pub(crate) fn received(&self, now: Time, id: StreamId, host: &impl Host, bytes: u64) {
        let ((), due) = self.tell(
            &mut self.lock(),
            Some((id, host)),
            &mut Orders::default(),
            |filter, calls| {
                // It holds nothing here.
                filter.response_body(now, id, bytes, true, calls);
            },
        );
        self.arm(due);
    }

    /// Takes the answer to a probe that was sent from a stream; none if the probe failed.
    pub(crate) fn probed(
        &self,
        now: Time,
        id: StreamId,
        probe: u32,
        host: &impl Host,
        answer: Option<(u16, &dyn AnyFields)>,
    ) {
        let ((), due) = self.tell(
            &mut self.lock(),
            Some((id, host)),
            &mut Orders::default(),
            |filter, calls| filter.probed(now, probe, answer, calls),
        );
        self.arm(due);
    }

    /// Notes that a stream has ended.
    pub(crate) fn done(&self, now: Time, id: StreamId, host: Option<&dyn Host>) {
        let mut state = self.lock();
        state.held.remove(&id);
        let ((), due) = self.tell(
            &mut state,
            host.map(|host| (id, host)),
            &mut Orders::default(),
            |filter, calls| filter.done(now, id, calls),
        );
        drop(state);
        self.arm(due);
    }
}

impl Tick for Desk {
    fn tick(&self, now: Time) -> Option<Time> {
        let mut orders = Orders::default();
        let ((), due) = self.tell(&mut self.lock(), None, &mut orders, |filter, calls| {
            filter.tick(now, calls);
        });
        due
    }
}

impl Untold {
    /// Adds the counts to the host's statistics.
    fn tell(&mut self, host: &dyn Host) {
        for (counter, by) in self.counters.drain(..) {
            host.add(counter, by);
        }
        for (gauge, value) in Gauge::ALL.into_iter().zip(&mut self.gauges) {
            if let Some(value) = value.take() {
                host.set_gauge(gauge, value);
            }
        }
    }
}

/// The host that the filter calls while the desk tells it of an event.
struct Calls<'a> {
    /// The stream of the present hook, if there is one.
    current: Option<(StreamId, &'a dyn Host)>,
    /// The orders for that stream.
    orders: &'a mut Orders,
    held: &'a mut BTreeMap<StreamId, Held>,
    untold: &'a mut Untold,
    last_probe: &'a mut u32,
    link: Option<&'a Ticking<Link>>,
}

impl Calls<'_> {
    /// Returns the orders of a stream, if it is held or is that of the present hook.
    fn orders(&mut self, id: StreamId) -> Option<&mut Orders> {
        // One that is held and at hand has been told to wait by an earlier
        // hook: there it looks for its orders.
        match self.held.get_mut(&id) {
            Some(held) => Some(&mut held.orders),
            None => {
                let own = self.current.is_some_and(|(current, _)| current == id);
                own.then_some(&mut *self.orders)
            }
        }
    }

    fn go(&mut self, id: StreamId, go: Go) {
        if let Some(orders) = self.orders(id) {
            orders.go = Some(go);
        }
        // Under the lock: a stream that ends takes it too, so that none is
        // woken after it is gone.
        if let Some(held) = self.held.get(&id) {
            held.waker.wake();
        }
    }

    fn host(&self, id: StreamId) -> Option<&dyn Host> {
        let own = self.current.filter(|(current, _)| *current == id);
        own.map(|(_, host)| host)
    }
}

impl sprat_filter::Host for Calls<'_> {
    /// Returns no value: there is one filter, and no workers share values by keys.
    fn shared(&mut self, _: &str) -> (Option<Vec<u8>>, u32) {
        (None, 0)
    }

    fn set_shared(&mut self, _: &str, _: &[u8], _: u32) -> bool {
        true
    }

    fn set_request_field(&mut self, id: StreamId, name: &str, value: &str) {
        if let Some(orders) = self.orders(id) {
            orders.field(Fields::Request, name, Some(value));
        }
    }

    fn remove_request_field(&mut self, id: StreamId, name: &str) {
        if let Some(orders) = self.orders(id) {
            orders.field(Fields::Request, name, None);
        }
    }

    fn set_pool_metadata(&mut self, id: StreamId, key: &str, pool: &str) {
        if let Some(orders) = self.orders(id) {
            orders.metadata(key, pool);
        }
    }

    fn set_response_field(&mut self, id: StreamId, name: &str, value: &str) {
        if let Some(orders) = self.orders(id) {
            orders.field(Fields::Response, name, Some(value));
        }
    }

    fn resume_request(&mut self, id: StreamId) {
        self.go(id, Go::On);
    }

    /// Does nothing: the link holds responses, not the filter.
    fn resume_response(&mut self, _: StreamId) {}

    fn answer(&mut self, id: StreamId, answer: &Answer) {
        self.go(id, Go::Answered(Box::new(answer.clone())));
    }

    fn request_fields(&mut self, id: StreamId) -> Vec<(String, String)> {
        self.host(id)
            .map_or_else(Vec::new, |host| host.request_fields())
    }

    fn ask(&mut self, cluster: &str, head: &[(&str, &str)], timeout: Duration) -> Option<u32> {
        let (_, host) = self.current?;
        if !host.ask(cluster, head, timeout) {
            return None;
        }
        *self.last_probe = self.last_probe.wrapping_add(1);
        self.orders.probe = Some(*self.last_probe);
        self.orders.probe
    }

    fn backlog(&mut self, now: Time, class: usize) -> ChannelBacklog {
        self.link
            .map_or_else(ChannelBacklog::default, |link| link.backlog(now, class))
    }

    fn count(&mut self, counter: Counter, by: u64) {
        match self.current {
            Some((_, host)) => host.add(counter, by),
            None => self.untold.counters.push((counter, by)),
        }
    }

    fn gauge(&mut self, gauge: Gauge, value: u64) {
        match self.current {
            Some((_, host)) => host.set_gauge(gauge, value),
            None => self.untold.gauges[gauge as usize] = Some(value),
        }
    }
}
