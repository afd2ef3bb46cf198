//! A station under any requests, in any order, next to a model that knows who is
//! where.

use std::collections::BTreeMap;
use std::time::Duration;

use sprat_scheduler::dispatch::{Dispatch, EndpointSpec, Intervals};
use sprat_scheduler::station::{
    Again, Arrival, EndpointLoad, Event, Order, Scope, Station, StationConfig, Ticket, Verdict,
};
use sprat_scheduler::{ClassSpec, Size, Time};

use crate::bytes::Bytes;

const ENDPOINTS: usize = 3;
const CLASSES: usize = 3;
const MAX_WAITING: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Waiting,
    At(usize),
}

struct Model {
    station: Station,
    now: Time,
    /// The most requests in service at an endpoint: under SRQ, those beyond its places included.
    max_running: usize,
    scope: Scope,
    present: BTreeMap<usize, (Ticket, Place)>,
    arrived: u64,
}

/// Runs what the bytes say, then lets everybody finish.
pub(crate) fn run(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let Some(mut model) = Model::new(&mut bytes) else {
        return;
    };
    while model.step(&mut bytes).is_some() {
        model.check();
    }
    model.finish_all();
}

impl Model {
    fn new(bytes: &mut Bytes<'_>) -> Option<Self> {
        let dispatch = match bytes.below(10)? {
            0 => Dispatch::RoundRobin,
            1 => Dispatch::Random,
            2 => Dispatch::P2c,
            3 => Dispatch::LeastRequest,
            4 => Dispatch::Psqf,
            5 => Dispatch::Rpsq { reserved: 1 },
            6 => Dispatch::LeastWork,
            7 => Dispatch::Sita(Intervals::Fixed(vec![100, 10_000])),
            8 => Dispatch::RingHash,
            _ => Dispatch::Maglev,
        };
        let order = [
            Order::Size,
            Order::Fcfs,
            Order::Edf,
            Order::Value,
            Order::Vrd,
            Order::Srq(Box::default()),
        ];
        let order = order[usize::from(bytes.below(6)?)].clone();
        let beyond = matches!(order, Order::Srq(_));
        let scope = match bytes.below(2)? {
            0 => Scope::Cluster,
            _ => Scope::Endpoint,
        };
        let max_requests = usize::from(bytes.below(3)?) + 1;
        let concurrency = usize::from(bytes.below(4)?);
        let class = |index: usize| ClassSpec {
            level: index as u8,
            deadline: (index == 1).then_some(Duration::from_millis(50)),
            timeout: Some(Duration::from_millis(40)),
            max_concurrency: match concurrency {
                0 => usize::MAX,
                bound => bound,
            },
            ..ClassSpec::default()
        };
        let endpoint = |index: usize| EndpointSpec {
            weight: index as u32 + 1,
            reserved: false,
            size_range: None,
            identity: index as u64,
            priority: 0,
        };
        let station = Station::new(StationConfig {
            max_requests,
            order,
            scope,
            slow_start: Duration::from_millis(20),
            ..StationConfig::new(
                dispatch,
                (0..ENDPOINTS).map(endpoint).collect(),
                (0..CLASSES).map(class).collect(),
                MAX_WAITING,
            )
        });
        Some(Self {
            station,
            now: Time::ZERO,
            max_running: max_requests * if beyond { 2 } else { 1 },
            scope,
            present: BTreeMap::new(),
            arrived: 0,
        })
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        match bytes.below(10)? {
            0..4 => self.arrive(bytes)?,
            4..6 => {
                let ticket = self.pick(bytes)?;
                let size = bytes.amount()?;
                self.station.finish(self.now, ticket, size);
                if matches!(self.present.get(&ticket.index()), Some((_, Place::At(_)))) {
                    self.present.remove(&ticket.index());
                }
            }
            6 => {
                let ticket = self.pick(bytes)?;
                self.station.cancel(self.now, ticket);
                self.present.remove(&ticket.index());
            }
            7 => {
                let ticket = self.pick(bytes)?;
                let sent = bytes.below(2)? == 1;
                self.fail(ticket, sent);
            }
            8 => {
                let ticket = self.pick(bytes)?;
                let size = Size::Exact(bytes.amount()?);
                self.station.resize(ticket, size);
                self.station.reached(self.now, ticket);
            }
            _ => {
                self.now = self.now + Duration::from_millis(u64::from(bytes.next()?));
                self.station.expire(self.now);
            }
        }
        self.poll();
        Some(())
    }

    fn arrive(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        let class = usize::from(bytes.below(CLASSES as u8)?);
        let amount = bytes.amount()?;
        let arrival = Arrival {
            class,
            size: match amount % 3 {
                0 => Size::Unknown,
                _ => Size::Exact(amount),
            },
            hash: u64::from(bytes.next()?) << 56,
            random: u64::from(bytes.next()?) << 56,
            channel_backlog: Duration::ZERO,
            channel_ahead: Duration::ZERO,
        };
        self.arrived += 1;
        let verdict = self.station.arrive(self.now, &arrival);
        self.settle(verdict);
        Some(())
    }

    fn settle(&mut self, verdict: Verdict) {
        let (ticket, place) = match verdict {
            Verdict::Start { ticket, endpoint } => (ticket, Place::At(endpoint)),
            Verdict::Wait { ticket } => (ticket, Place::Waiting),
            Verdict::Refuse(_) => return,
        };
        let before = self.present.insert(ticket.index(), (ticket, place));
        assert!(before.is_none(), "{ticket:?} is somebody else's place");
    }

    /// Returns the ticket of a request that is there.
    fn pick(&self, bytes: &mut Bytes<'_>) -> Option<Ticket> {
        let index = usize::from(bytes.next()?);
        let index = index.checked_rem(self.present.len())?;
        self.present.values().nth(index).map(|(ticket, _)| *ticket)
    }

    fn fail(&mut self, ticket: Ticket, sent: bool) {
        if let Some((_, Place::At(_))) = self.present.get(&ticket.index()) {
            self.present.remove(&ticket.index());
            if !sent {
                self.station.unreached(ticket);
            }
            let again = self.station.step_back(self.now, ticket, sent);
            if !matches!(again, Again::Denied | Again::Nowhere) {
                let verdict = self.station.again(self.now, ticket);
                self.settle(verdict);
            }
        }
    }

    /// Notes which of the waiting requests were started or refused.
    fn poll(&mut self) {
        while let Some(event) = self.station.poll() {
            match event {
                Event::Started { ticket, endpoint } => {
                    let known = self.present.get_mut(&ticket.index()).unwrap();
                    assert_eq!(*known, (ticket, Place::Waiting));
                    known.1 = Place::At(endpoint);
                }
                Event::Refused { ticket, .. } => {
                    let known = self.present.remove(&ticket.index());
                    assert_eq!(known, Some((ticket, Place::Waiting)));
                }
            }
        }
    }

    fn count(&self, place: Place) -> usize {
        let places = self.present.values().map(|(_, place)| *place);
        places.filter(|other| *other == place).count()
    }

    fn check(&self) {
        let waiting = self.count(Place::Waiting);
        assert_eq!(self.station.waiting(), waiting);
        let queues = match self.scope {
            Scope::Cluster => 1,
            Scope::Endpoint => ENDPOINTS,
        };
        assert!(waiting <= queues * MAX_WAITING);
        for endpoint in 0..ENDPOINTS {
            let running = self.count(Place::At(endpoint));
            let load = self.station.load(endpoint);
            assert_eq!(load.running, running);
            assert!(running <= self.max_running);
            assert!(load.requests >= running);
        }
        let wakeup = self.station.next_wakeup();
        assert!(waiting > 0 || wakeup.is_none(), "a time-out of nobody");
        let arrived: u64 = self.station.stats().iter().map(|c| c.arrived).sum();
        assert_eq!(arrived, self.arrived);
    }

    /// Ends all requests, and checks that none is stuck and nothing is left.
    fn finish_all(&mut self) {
        let mut rounds = 0;
        while let Some((ticket, place)) = self.present.values().next().copied() {
            rounds += 1;
            assert!(rounds < 10_000, "somebody is stuck");
            let running = self.present.values().find(|(_, p)| *p != Place::Waiting);
            let (ticket, place) = running.copied().unwrap_or((ticket, place));
            match place {
                Place::At(_) => self.station.finish(self.now, ticket, 1),
                // Nobody is served, and yet somebody waits.
                Place::Waiting => self.station.cancel(self.now, ticket),
            }
            assert_ne!(
                place,
                Place::Waiting,
                "an idle station lets {ticket:?} wait"
            );
            self.present.remove(&ticket.index());
            self.poll();
            self.check();
        }
        for endpoint in 0..ENDPOINTS {
            assert_eq!(self.station.load(endpoint), EndpointLoad::default());
        }
        assert!(self.station.next_wakeup().is_none());
    }
}
