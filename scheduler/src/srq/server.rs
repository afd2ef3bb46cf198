//! A server whose requests can be preempted: what SRQ06 schedules in a kernel, and here in a
//! simulation.

use super::line::Line;
use super::ranking::Ranking;
use crate::classes::ClassSpec;
use crate::discipline::FlowView;
use crate::queue::{Positions, Rank, RankQueue};
use crate::slots::Slots;
use crate::srq::{Progress, Queues};
use crate::{Discipline, Mark, Size, Time};

/// The order of requests at a server of one or more processors, by
/// [`Discipline::Srq`], [`Discipline::Edf`] or [`Discipline::Vrd`].
///
/// A driver reports that a request has come ([`Server::arrive`]), takes the next one for each
/// processor that is free ([`Server::take`]), and reports that its time is up
/// ([`Server::put_back`]) or that it is over ([`Server::done`], [`Server::cancel`]). Service is in
/// nanoseconds.
#[derive(Clone, Debug)]
pub struct Server {
    ranking: Ranking,
    line: Line,
    positions: Positions,
    requests: Slots<FlowView>,
    next_seq: u64,
    /// The waiting requests whose keys change by themselves, by the time at which they do.
    changes: RankQueue,
}

/// The service that a request got, of the time that it was taken for ([`Server::take`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Used {
    /// The service in nanoseconds.
    pub nanos: u64,
    /// The service that the request was taken for, in nanoseconds.
    pub of_nanos: u64,
}

impl Server {
    /// Returns a server without requests; `None` if the discipline goes by no deadlines. At least
    /// one class must be given.
    pub fn new(discipline: &Discipline, classes: &[ClassSpec]) -> Option<Self> {
        let ranking = Ranking::new(discipline, classes)?;
        let share = ranking
            .queues()
            .map(|(queues, _)| queues.config().first_share_percent);
        Some(Self {
            ranking,
            line: Line::new(share),
            positions: Positions::default(),
            requests: Slots::default(),
            next_seq: 0,
            changes: RankQueue::default(),
        })
    }

    /// Takes in a request of a class, which waits, and returns its number, unique among the present
    /// requests. Its deadlines count from the time at which it `arrived`, perhaps somewhere else.
    pub fn arrive(&mut self, now: Time, arrived: Time, class: u8) -> u32 {
        let progress = self.ranking.queues_mut().map(Queues::arrive);
        let request = FlowView {
            level: 0,
            seq: self.next_seq,
            arrival: arrived,
            size: Size::Unknown,
            attained: 0,
            turn: 0,
            mark: Mark::In,
            class,
            progress: progress.unwrap_or_default(),
        };
        self.next_seq += 1;
        let number = self.requests.insert(request).slot();
        self.wait(now, number);
        number
    }

    /// Takes the request whose turn it is out of the waiting ones, for `nanos` of service at most.
    pub fn take(&mut self, now: Time, nanos: u64) -> Option<u32> {
        self.catch_up(now);
        let (rank, number) = self.line.first()?;
        self.line.charge(&rank, nanos);
        self.line.remove(&mut self.positions, number);
        self.changes.remove(number);
        Some(number)
    }

    /// Puts back a request that is not complete.
    pub fn put_back(&mut self, now: Time, number: u32, used: Used) {
        self.settle(number, used);
        let request = &mut self.requests[number];
        if let Some(queues) = self.ranking.queues_mut() {
            queues.served(&mut request.progress, request.attained);
        }
        self.wait(now, number);
    }

    /// Ends a request that is complete.
    pub fn done(&mut self, number: u32, used: Used) {
        self.settle(number, used);
        let request = self.requests[number];
        if let Some(queues) = self.ranking.queues_mut() {
            queues.done(request.progress, request.attained, request.attained);
        }
        self.requests.remove(number);
    }

    /// Ends a request that waits, or was taken, and is not complete.
    pub fn cancel(&mut self, number: u32) {
        self.line.remove(&mut self.positions, number);
        self.changes.remove(number);
        let request = self.requests[number];
        if let Some(queues) = self.ranking.queues_mut() {
            queues.cancel(request.progress);
        }
        self.requests.remove(number);
    }

    /// Returns SRQ's queues, if it orders by them.
    pub fn queues(&self) -> Option<&Queues> {
        self.ranking.queues().map(|(queues, _)| queues)
    }

    /// Returns the number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.line.len()
    }

    fn rank(&self, number: u32) -> Rank {
        let request = &self.requests[number];
        Rank {
            level: 0,
            band: self.ranking.band(request),
            key: self.ranking.key(request),
            seq: request.seq,
        }
    }

    /// Adds to the service that a request has attained, and takes back what it did not need.
    fn settle(&mut self, number: u32, used: Used) {
        let rank = self.rank(number);
        let unused_nanos = used.of_nanos.saturating_sub(used.nanos);
        self.line.refund(&rank, unused_nanos);
        let request = &mut self.requests[number];
        request.attained = request.attained.saturating_add(used.nanos);
    }

    fn wait(&mut self, now: Time, number: u32) {
        self.ranking.set_now(now);
        let rank = self.rank(number);
        self.line.insert(&mut self.positions, number, rank);
        let request = &self.requests[number];
        if let Some(at) = self.ranking.changes_at(request) {
            let rank = Rank {
                level: 0,
                band: 0,
                key: at.as_nanos(),
                seq: request.seq,
            };
            self.changes.insert(number, rank);
        }
    }

    /// Adapts the queues and renews the keys that are due by `now`.
    fn catch_up(&mut self, now: Time) {
        self.ranking.set_now(now);
        let queues = self.ranking.queues_mut();
        if queues.is_some_and(|queues| queues.is_due(now) && queues.adapt(0)) {
            self.renew_places(now);
        }
        while let Some((rank, number)) = self.changes.first() {
            if rank.key > now.as_nanos() {
                break;
            }
            self.changes.remove(number);
            self.wait(now, number);
        }
    }

    /// Moves the members of a last queue that was merged into the one before it.
    fn renew_places(&mut self, now: Time) {
        for number in self.requests.numbers() {
            if !self.requests.is_taken(number) {
                continue;
            }
            let mut progress: Progress = self.requests[number].progress;
            if let Some((queues, _)) = self.ranking.queues() {
                queues.renew(&mut progress);
            }
            self.requests[number].progress = progress;
            if self.line.remove(&mut self.positions, number) {
                self.wait(now, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::srq::Config;
    use proptest::prelude::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * MS)
    }

    /// Returns a use of `ms`, of the 10 ms that a request was taken for.
    fn used(ms: u64) -> Used {
        Used {
            nanos: ms * MS,
            of_nanos: 10 * MS,
        }
    }

    fn server(change: impl FnOnce(&mut Config)) -> Server {
        let mut config = Config::nanoseconds();
        change(&mut config);
        let discipline = Discipline::Srq(Box::new(config));
        Server::new(&discipline, &[ClassSpec::default()]).expect("it goes by deadlines")
    }

    #[test]
    fn a_request_has_the_processor_until_its_quantum_is_used_up_and_another_comes() {
        let mut server = server(|_| {});
        let long = server.arrive(at(0), at(0), 0);
        for slice in 0..5 {
            assert_eq!(server.take(at(10 * slice), 10 * MS), Some(long));
            assert_eq!(server.take(at(10 * slice), 10 * MS), None);
            server.put_back(at(10 * slice + 10), long, used(10));
        }
        // 50 ms, after which SRQ06's figure 3 has it lose its priority.
        let short = server.arrive(at(50), at(50), 0);
        assert_eq!(server.take(at(50), 10 * MS), Some(short));
        server.done(short, used(10));
        assert_eq!(server.take(at(60), 10 * MS), Some(long));
        assert_eq!(
            server.queues().map(|queues| queues.stats().moved[0]),
            Some(1)
        );
    }

    #[test]
    fn edf_and_vrd_are_what_they_say() {
        let class = |soft_ms, value| ClassSpec {
            deadline: Some(Duration::from_millis(soft_ms)),
            value,
            ..ClassSpec::default()
        };
        let classes = [class(100, 1), class(40, 1), class(100, 5)];
        let order = |discipline| {
            let mut server = Server::new(&discipline, &classes).expect("by deadlines");
            for class in 0..3 {
                server.arrive(at(0), at(0), class);
            }
            (0..3)
                .map_while(|_| server.take(at(1), MS))
                .collect::<Vec<_>>()
        };
        assert_eq!(order(Discipline::Edf), [1, 0, 2]);
        assert_eq!(order(Discipline::Vrd), [2, 1, 0]);
        assert!(Server::new(&Discipline::Srpt, &classes).is_none());
    }

    fn with_deadline(ms: u64) -> ClassSpec {
        ClassSpec {
            deadline: Some(Duration::from_millis(ms)),
            ..ClassSpec::default()
        }
    }

    #[test]
    fn one_that_becomes_late_is_behind_from_then_on() {
        for (now, expected) in [(99, 0), (100, 1)] {
            let mut server = Server::new(&Discipline::Vrd, &[with_deadline(100)]).unwrap();
            server.arrive(at(0), at(0), 0);
            server.arrive(at(50), at(50), 0);
            assert_eq!(server.take(at(now), MS), Some(expected), "{now}");
        }
    }

    #[test]
    fn queues_adapt_once_an_interval_and_those_of_a_merged_one_are_in_the_one_before() {
        let mut server = server(|config| config.interval = Duration::from_secs(1));
        let mut now = 0;
        // Into the last queue after 550 ms, and into the second after 50.
        for (name, slices) in [(0, 60), (1, 6)] {
            assert_eq!(server.arrive(at(now), at(now), 0), name);
            for _ in 0..slices {
                assert_eq!(server.take(at(now), 10 * MS), Some(name));
                now += 10;
                server.put_back(at(now), name, used(10));
            }
        }
        assert_eq!(server.take(at(now), 10 * MS), Some(1), "nine tenths");
        server.put_back(at(now), 1, used(0));
        assert_eq!(server.queues().map(Queues::count), Some(3));
        // None has ended in the last: the two are in one, and the first to come is due.
        assert_eq!(server.take(at(1_000), 10 * MS), Some(0));
        assert_eq!(server.queues().map(Queues::count), Some(2));
    }

    proptest! {
        /// Checks that no processor is free while a request waits, and that all end.
        #[test]
        fn work_is_conserved(
            arrivals in prop::collection::vec((0u64..40, 1u64..900, any::<bool>()), 1..60),
            slice_ms in 1u64..40,
        ) {
            let mut server = server(|config| {
                config.interval = Duration::from_millis(200);
                config.samples_min = 2;
            });
            let mut left = std::collections::BTreeMap::new();
            let mut now = 0;
            let mut next = arrivals.iter();
            let mut served = 0;
            let mut total = 0;
            loop {
                if let Some(&(_, ms, is_cut)) = next.next() {
                    let number = server.arrive(at(now), at(now), 0);
                    if is_cut {
                        server.cancel(number);
                    } else {
                        left.insert(number, ms);
                        total += ms;
                    }
                }
                prop_assert_eq!(server.waiting(), left.len());
                let Some(number) = server.take(at(now), slice_ms * MS) else {
                    prop_assert!(left.is_empty());
                    if next.len() == 0 {
                        break;
                    }
                    now += 1;
                    continue;
                };
                let used = left[&number].min(slice_ms);
                now += used;
                served += used;
                let took = Used {
                    nanos: used * MS,
                    of_nanos: slice_ms * MS,
                };
                if left[&number] == used {
                    left.remove(&number);
                    server.done(number, took);
                } else {
                    left.insert(number, left[&number] - used);
                    server.put_back(at(now), number, took);
                }
            }
            prop_assert_eq!(served, total);
            let members = server.queues().expect("SRQ has queues").stats().members;
            prop_assert_eq!(members.iter().sum::<u64>(), 0);
        }
    }
}
