//! A server of two processors behind a station: each request that the station starts has a thread,
//! and threads share the processors. So it is an endpoint that shares its capacity, and cannot be
//! told to pause what it has begun.

use anyhow::{Context as _, ensure};
use sprat_scheduler::dispatch::{Dispatch, EndpointSpec};
use sprat_scheduler::station::{Arrival, Event, Order, Station, StationConfig, Ticket, Verdict};
use sprat_scheduler::{ClassSpec, Size, Time};

use super::server::{LinuxThreads, ServerOutcome, WAITING, described};
use super::workload::ServiceRequest;

/// The station, the threads behind it, and which request has which ticket.
struct Places<'a> {
    requests: &'a [ServiceRequest],
    station: Station,
    threads: LinuxThreads<'a>,
    /// The request that has each ticket, by its index.
    holders: Vec<usize>,
    /// The ticket of each request that the station has let in.
    tickets: Vec<Option<Ticket>>,
}

/// Serves requests, in order of their coming: so many at a time, and what the order lets start
/// beyond that.
///
/// # Errors
///
/// The station breaks an invariant.
pub(super) fn serve(
    requests: &[ServiceRequest],
    order: &Order,
    places: usize,
) -> anyhow::Result<ServerOutcome> {
    let mut server = Places::new(requests, order, places);
    let (mut next, mut now) = (0, 0);
    loop {
        server.threads.fill(now);
        let comes = requests.get(next).map(|request| request.at);
        let wakes = server.station.next_wakeup().map(Time::as_nanos);
        let times = [server.threads.next_leave(), comes, wakes];
        let Some(at) = times.into_iter().flatten().min() else {
            break;
        };
        now = at;
        server.station.expire(Time::from_nanos(now));
        server.start()?;
        while requests.get(next).is_some_and(|request| request.at == now) {
            server.arrive(next)?;
            next += 1;
        }
        server.leave(now)?;
    }
    ensure!(server.station.active() == 0, "requests are left");
    Ok(ServerOutcome {
        queues: server.station.queues().map(|(queues, _)| described(queues)),
        response_s: server.threads.into_responses(),
    })
}

impl<'a> Places<'a> {
    fn new(requests: &'a [ServiceRequest], order: &Order, places: usize) -> Self {
        let beyond = match order {
            Order::Srq(order) => order.max_overcommit.unwrap_or(places),
            _ => 0,
        };
        let endpoint = EndpointSpec {
            weight: 1,
            reserved: false,
            size_range: None,
            identity: 0,
            priority: 0,
        };
        let class = ClassSpec {
            // Table I: D and D' are 2 s, C is 1.
            deadline: Some(std::time::Duration::from_secs(2)),
            ..ClassSpec::default()
        };
        Self {
            requests,
            station: Station::new(StationConfig {
                max_requests: places,
                order: order.clone(),
                ..StationConfig::new(Dispatch::LeastRequest, vec![endpoint], vec![class], WAITING)
            }),
            threads: LinuxThreads::new(requests, places + beyond),
            holders: Vec::new(),
            tickets: vec![None; requests.len()],
        }
    }

    fn arrive(&mut self, request: usize) -> anyhow::Result<()> {
        let arrival = Arrival {
            class: 0,
            size: Size::Unknown,
            hash: 0,
            random: 0,
            channel_backlog: std::time::Duration::ZERO,
            channel_ahead: std::time::Duration::ZERO,
        };
        let now = Time::from_nanos(self.requests[request].at);
        match self.station.arrive(now, &arrival) {
            Verdict::Start { ticket, .. } => {
                self.hold(ticket, request);
                self.threads.arrive(request);
            }
            Verdict::Wait { ticket } => self.hold(ticket, request),
            Verdict::Refuse(_) => {}
        }
        self.start()
    }

    fn hold(&mut self, ticket: Ticket, request: usize) {
        let index = ticket.index();
        if self.holders.len() <= index {
            self.holders.resize(index + 1, 0);
        }
        self.holders[index] = request;
        self.tickets[request] = Some(ticket);
    }

    /// Gives threads to the requests that the station has started.
    fn start(&mut self) -> anyhow::Result<()> {
        while let Some(event) = self.station.poll() {
            let Event::Started { ticket, .. } = event else {
                anyhow::bail!("a request that waits is refused");
            };
            self.threads.arrive(self.holders[ticket.index()]);
        }
        Ok(())
    }

    /// Takes the threads off the processors whose slice or request ends now.
    fn leave(&mut self, now: u64) -> anyhow::Result<()> {
        for request in self.threads.leave(now) {
            let ticket = self.tickets[request].context("a request has a ticket")?;
            self.station.finish(Time::from_nanos(now), ticket, 1);
        }
        self.start()
    }
}

#[cfg(test)]
mod tests {
    use sprat_scheduler::station::SrqOrder;

    use super::*;
    use crate::simulate::srq06::server::Scheme;

    const MS: u64 = 1_000_000;

    /// Returns when each request ends, in milliseconds; none if it is refused.
    fn ends_ms(all: &[(u64, u64)], order: Order, places: usize) -> Vec<Option<u64>> {
        let request = |&(at, service): &(u64, u64)| ServiceRequest {
            at: at * MS,
            service: service * MS,
        };
        let requests: Vec<_> = all.iter().map(request).collect();
        let served = Scheme::Places { order, places }.serve(&requests);
        let ends = all.iter().zip(served.unwrap().response_s);
        ends.map(|(&(at, _), s)| s.map(|s| at + (s * 1e3).round() as u64))
            .collect()
    }

    #[test]
    fn with_two_places_long_requests_keep_the_others_waiting_but_for_srq() {
        let all = [(0, 1_000), (0, 1_000), (10, 10)];
        assert_eq!(
            ends_ms(&all, Order::Fcfs, 2),
            [Some(1_000), Some(1_000), Some(1_010)]
        );
        // Both are beyond 50 ms then, and the third starts; at 100 ms the slices of the two end.
        let order = Order::Srq(Box::new(SrqOrder {
            max_overcommit: Some(1),
            ..SrqOrder::default()
        }));
        assert_eq!(
            ends_ms(&all, order, 2),
            [Some(1_000), Some(1_010), Some(110)]
        );
    }

    #[test]
    fn who_finds_no_place_and_no_room_to_wait_is_refused() {
        let all = vec![(0, 10); 100];
        let served = ends_ms(&all, Order::Fcfs, 20);
        assert_eq!(served.iter().flatten().count(), 20 + WAITING);
    }
}
