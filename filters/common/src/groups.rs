//! Groups of Envoy's clusters: each has a station that decides which requests a pool serves, which
//! wait, and which are refused.
//!
//! The decisions are [`sprat_scheduler::station`]'s; this module finds the streams that they are
//! about. `max_requests` counts the requests of one filter: of one worker, or of all if they share
//! it.

use std::time::Duration;

use sprat_config::resolved::{Admission, Class, FilterCluster};
use sprat_config::stations::{SizeUse, station_config};
use sprat_scheduler::dispatch::{EndpointSpec, stable_hash};
use sprat_scheduler::station::{Arrival, Event, Refusal, Station, Ticket, Verdict};
use sprat_scheduler::{Size, Time};

use crate::host::StreamId;

/// A group of pools, with its station.
#[derive(Debug)]
pub(crate) struct Group {
    station: Station,
    /// The streams of waiting requests, by [`Ticket::index`].
    holders: Vec<Option<StreamId>>,
    pub(crate) wants_size: bool,
}

/// The station's decision about a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Placed {
    /// The request goes to the pool of this index.
    Pool(Ticket, usize),
    /// The request waits for a pool.
    Waits(Ticket),
    /// The request is refused.
    Refused(Refusal),
}

impl Group {
    pub(crate) fn new(config: &FilterCluster, classes: &[Class], admission: &Admission) -> Self {
        let spec = |pool: &sprat_config::resolved::Pool| EndpointSpec {
            weight: pool.weight,
            reserved: pool.reserved,
            size_range: pool.size_range,
            identity: stable_hash(&[pool.name.as_bytes()]),
            priority: 0,
        };
        let pools = config.pools.iter().map(spec).collect();
        let (dispatch, queue) = (&config.dispatch, &config.wait_queue);
        let station = station_config(
            pools,
            config.max_requests,
            dispatch,
            queue,
            Duration::ZERO,
            classes,
            admission,
        );
        let size_use = SizeUse::of(dispatch, config.max_requests, queue, classes, admission);
        Self {
            station: Station::new(station),
            holders: Vec::new(),
            wants_size: size_use.ever(),
        }
    }

    /// Asks the station for a decision about a request that has arrived.
    pub(crate) fn arrive(&mut self, now: Time, id: StreamId, arrival: &Arrival) -> Placed {
        match self.station.arrive(now, arrival) {
            Verdict::Start { ticket, endpoint } => Placed::Pool(ticket, endpoint),
            Verdict::Refuse(refusal) => Placed::Refused(refusal),
            Verdict::Wait { ticket } => {
                let index = ticket.index();
                if self.holders.len() <= index {
                    self.holders.resize(index + 1, None);
                }
                self.holders[index] = Some(id);
                Placed::Waits(ticket)
            }
        }
    }

    /// Returns the next decision about a request that waited. After each other call, the caller
    /// polls until there is none.
    pub(crate) fn poll(&mut self) -> Option<(StreamId, Placed)> {
        loop {
            let (ticket, placed) = match self.station.poll()? {
                Event::Started { ticket, endpoint } => (ticket, Placed::Pool(ticket, endpoint)),
                Event::Refused { ticket, refusal } => (ticket, Placed::Refused(refusal)),
            };
            let holder = self.holders.get_mut(ticket.index()).and_then(Option::take);
            if let Some(id) = holder {
                return Some((id, placed));
            }
        }
    }

    /// Notes a better estimate of the size of a request in service.
    pub(crate) fn resize(&mut self, ticket: Ticket, size: Size) {
        self.station.resize(ticket, size);
    }

    /// Notes that a response of `bytes` bytes has ended.
    pub(crate) fn finish(&mut self, now: Time, ticket: Ticket, bytes: u64) {
        self.station.finish(now, ticket, bytes);
    }

    /// Notes that a request has ended without a response, or that its client has gone.
    pub(crate) fn cancel(&mut self, now: Time, ticket: Ticket) {
        if let Some(holder) = self.holders.get_mut(ticket.index()) {
            *holder = None;
        }
        self.station.cancel(now, ticket);
    }

    /// Refuses the waiting requests whose time is up.
    pub(crate) fn expire(&mut self, now: Time) {
        self.station.expire(now);
    }

    /// Returns the time of the next [`Group::expire`].
    pub(crate) fn next_wakeup(&self) -> Option<Time> {
        self.station.next_wakeup()
    }

    /// Returns the number of requests that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.station.waiting()
    }
}
