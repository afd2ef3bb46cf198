//! A server of two processors, as Linux shares it among threads and as the core orders
//! requests on it; all behind one admission control.

use std::collections::VecDeque;

use anyhow::ensure;
use sprat_scheduler::srq::{self, Queues, Used};
use sprat_scheduler::station::Order;
use sprat_scheduler::{ClassSpec, Discipline, Time};

use super::places;
use super::workload::ServiceRequest;

/// The number of processors: SRQ06's machines are dual Pentium III.
const PROCESSORS: usize = 2;

/// The most requests that wait, beside those that threads serve: with it, the two columns of Linux
/// in table IV are both of a full server (Little's law).
pub(super) const WAITING: usize = 47;

/// Nanoseconds that a thread runs before another has its turn: the default of Linux 2.6.11,
/// which the paper changed and compares with, for threads of ordinary priority.
const TIME_SLICE: u64 = 100_000_000;

/// A way to serve: what orders the requests, and the threads that they wait for.
#[derive(Clone, Debug)]
pub(super) enum Scheme {
    /// Threads that share the processors by time slices; a request waits for a thread.
    Linux { threads: usize },
    /// The core's order, of all requests that are there or of those that have a thread.
    Core {
        discipline: Discipline,
        threads: Option<usize>,
        /// The nanoseconds after which a processor looks for another request.
        slice: u64,
    },
    /// A station before threads that share the processors: so many requests at a time, and what
    /// its order lets start beyond that.
    Places { order: Order, places: usize },
}

/// The results of the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerOutcome {
    /// The seconds from arrival to end, by request; `None` if it was refused.
    pub(super) response_s: Vec<Option<f64>>,
    /// The number of SRQ's queues at the end, their quanta in ms, splits and merges.
    pub(super) queues: Option<String>,
}

/// The default pool of threads, and with [`WAITING`] the bound of schemes without threads.
pub(super) const THREADS: usize = 20;

impl Scheme {
    /// Serves requests, in order of their coming.
    ///
    /// # Errors
    ///
    /// The core breaks an invariant.
    pub(super) fn serve(&self, requests: &[ServiceRequest]) -> anyhow::Result<ServerOutcome> {
        match self {
            &Self::Linux { threads } => Ok(share(requests, threads)),
            Self::Core {
                discipline,
                threads,
                slice,
            } => order(requests, discipline, *threads, *slice),
            Self::Places { order, places } => places::serve(requests, order, *places),
        }
    }
}

/// A worker thread: the request that it serves, and what is left of that and of its time slice.
#[derive(Clone, Copy, Default)]
struct WorkerThread {
    request: usize,
    left: u64,
    slice: u64,
}

/// The server's threads, scheduled as Linux 2.6 does those that never sleep: each has a time slice.
/// Threads that used theirs up wait, with a new one, until all others have.
pub(super) struct LinuxThreads<'a> {
    requests: &'a [ServiceRequest],
    threads: Vec<WorkerThread>,
    /// Threads without a request.
    idle: VecDeque<usize>,
    /// Threads that have some of their slice left; those in `expired` have used one up, and have a
    /// new one.
    active: VecDeque<usize>,
    expired: VecDeque<usize>,
    /// The thread on each processor, and when it leaves it.
    processors: [Option<(usize, u64)>; PROCESSORS],
    /// Requests that wait for a thread.
    waiting: VecDeque<usize>,
    response_s: Vec<Option<f64>>,
}

/// Serves requests by threads that share the processors.
fn share(requests: &[ServiceRequest], threads: usize) -> ServerOutcome {
    let mut linux = LinuxThreads::new(requests, threads);
    let (mut next, mut now) = (0, 0);
    loop {
        linux.fill(now);
        let comes = requests.get(next).map(|request| request.at);
        let Some(at) = linux.next_leave().into_iter().chain(comes).min() else {
            break;
        };
        now = at;
        while requests.get(next).is_some_and(|request| request.at == now) {
            linux.arrive(next);
            next += 1;
        }
        linux.leave(now);
    }
    ServerOutcome {
        response_s: linux.response_s,
        queues: None,
    }
}

impl<'a> LinuxThreads<'a> {
    pub(super) fn new(requests: &'a [ServiceRequest], threads: usize) -> Self {
        let worker = WorkerThread {
            slice: TIME_SLICE,
            ..WorkerThread::default()
        };
        Self {
            requests,
            threads: vec![worker; threads],
            idle: (0..threads).collect(),
            active: VecDeque::new(),
            expired: VecDeque::new(),
            processors: [None; PROCESSORS],
            waiting: VecDeque::new(),
            response_s: vec![None; requests.len()],
        }
    }

    /// Returns when a processor next comes free, if one is not.
    pub(super) fn next_leave(&self) -> Option<u64> {
        let leave = self.processors.iter().flatten();
        leave.map(|&(_, at)| at).min()
    }

    /// Returns the seconds from arrival to end, by request.
    pub(super) fn into_responses(self) -> Vec<Option<f64>> {
        self.response_s
    }

    /// Gives a request a thread, or has it wait for one; there may be no room.
    pub(super) fn arrive(&mut self, index: usize) {
        if let Some(thread) = self.idle.pop_front() {
            self.begin(thread, index);
            self.active.push_back(thread);
        } else if self.waiting.len() < WAITING {
            self.waiting.push_back(index);
        }
    }

    fn begin(&mut self, thread: usize, index: usize) {
        let thread = &mut self.threads[thread];
        thread.request = index;
        thread.left = self.requests[index].service;
    }

    /// Gives each processor that is free the next thread.
    pub(super) fn fill(&mut self, now: u64) {
        for place in 0..PROCESSORS {
            if self.processors[place].is_some() {
                continue;
            }
            if self.active.is_empty() {
                std::mem::swap(&mut self.active, &mut self.expired);
            }
            let Some(thread) = self.active.pop_front() else {
                return;
            };
            self.run(place, thread, now);
        }
    }

    fn run(&mut self, place: usize, thread: usize, now: u64) {
        let WorkerThread { left, slice, .. } = self.threads[thread];
        self.processors[place] = Some((thread, now + left.min(slice)));
    }

    /// Takes the threads off the processors whose slice or request ends now, and returns the
    /// requests that end. A thread whose request is over goes on with one that waits, for what is
    /// left of its slice (SRQ06 III A).
    pub(super) fn leave(&mut self, now: u64) -> Vec<usize> {
        let mut over = Vec::new();
        for place in 0..PROCESSORS {
            let Some((number, _)) = self.processors[place].take_if(|&mut (_, at)| at == now) else {
                continue;
            };
            let thread = &mut self.threads[number];
            let served = thread.left.min(thread.slice);
            thread.left -= served;
            thread.slice -= served;
            let is_expired = thread.slice == 0;
            if is_expired {
                thread.slice = TIME_SLICE;
            }
            if thread.left == 0 {
                let ended = thread.request;
                over.push(ended);
                self.response_s[ended] = Some((now - self.requests[ended].at) as f64 / 1e9);
                let Some(first) = self.waiting.pop_front() else {
                    self.idle.push_back(number);
                    continue;
                };
                self.begin(number, first);
            }
            match is_expired {
                true => self.expired.push_back(number),
                false => self.run(place, number, now),
            }
        }
        over
    }
}

/// A processor's present request: its number at the server, when its slice ends, and how
/// long that is.
#[derive(Clone, Copy)]
struct Slice {
    number: u32,
    ends: u64,
    nanos: u64,
}

/// The requests on the processors and in the core's order.
struct Ordered<'a> {
    requests: &'a [ServiceRequest],
    server: srq::Server,
    slice: u64,
    processors: [Option<Slice>; PROCESSORS],
    /// The request of each number at the server, and the nanoseconds that it has left.
    present: Vec<(usize, u64)>,
    response_s: Vec<Option<f64>>,
}

fn order(
    requests: &[ServiceRequest],
    discipline: &Discipline,
    threads: Option<usize>,
    slice: u64,
) -> anyhow::Result<ServerOutcome> {
    let class = ClassSpec {
        // Table I: D and D' are 2 s, C is 1.
        deadline: Some(std::time::Duration::from_secs(2)),
        ..ClassSpec::default()
    };
    let server = srq::Server::new(discipline, &[class]);
    let server = server.ok_or_else(|| anyhow::anyhow!("no order by deadlines"))?;
    let mut ordered = Ordered {
        requests,
        server,
        slice,
        processors: [None; PROCESSORS],
        present: Vec::new(),
        response_s: vec![None; requests.len()],
    };
    let mut waiting = VecDeque::new();
    let (mut next, mut there) = (0, 0);
    let most = threads.unwrap_or(THREADS + WAITING);
    let waits = if threads.is_some() { WAITING } else { 0 };
    let mut now = 0;
    loop {
        ordered.fill(now);
        let ends = ordered.processors.iter().flatten().map(|slice| slice.ends);
        let comes = requests.get(next).map(|request| request.at);
        let Some(at) = ends.chain(comes).min() else {
            break;
        };
        now = at;
        while requests.get(next).is_some_and(|request| request.at == now) {
            if there < most {
                ordered.arrive(now, next);
                there += 1;
            } else if waiting.len() < waits {
                waiting.push_back(next);
            }
            next += 1;
        }
        for _ in 0..ordered.end_slices(now) {
            match waiting.pop_front() {
                Some(first) => ordered.arrive(now, first),
                None => there -= 1,
            }
        }
    }
    ensure!(
        there == 0 && ordered.server.waiting() == 0,
        "requests are left"
    );
    Ok(ServerOutcome {
        queues: ordered.server.queues().map(described),
        response_s: ordered.response_s,
    })
}

impl Ordered<'_> {
    fn arrive(&mut self, now: u64, index: usize) {
        let ServiceRequest { at, service } = self.requests[index];
        let (now, arrived) = (Time::from_nanos(now), Time::from_nanos(at));
        let number = self.server.arrive(now, arrived, 0) as usize;
        if self.present.len() <= number {
            self.present.resize(number + 1, (0, 0));
        }
        self.present[number] = (index, service);
    }

    /// Gives each processor that is free the next request.
    fn fill(&mut self, now: u64) {
        for processor in &mut self.processors {
            if processor.is_some() {
                continue;
            }
            let Some(number) = self.server.take(Time::from_nanos(now), self.slice) else {
                return;
            };
            let nanos = self.present[number as usize].1.min(self.slice);
            *processor = Some(Slice {
                number,
                ends: now + nanos,
                nanos,
            });
        }
    }

    /// Ends the slices that end now; returns how many requests are over with them.
    fn end_slices(&mut self, now: u64) -> usize {
        let mut over = 0;
        for processor in &mut self.processors {
            let Some(slice) = processor.take_if(|slice| slice.ends == now) else {
                continue;
            };
            let (index, left) = &mut self.present[slice.number as usize];
            *left -= slice.nanos;
            let used = Used {
                nanos: slice.nanos,
                of_nanos: self.slice,
            };
            if *left > 0 {
                let now = Time::from_nanos(now);
                self.server.put_back(now, slice.number, used);
                continue;
            }
            self.server.done(slice.number, used);
            self.response_s[*index] = Some((now - self.requests[*index].at) as f64 / 1e9);
            over += 1;
        }
        over
    }
}

pub(super) fn described(queues: &Queues) -> String {
    let ms = |&nanos: &u64| format!("{:.0}", nanos as f64 / 1e6);
    let quanta: Vec<String> = queues.quanta().iter().map(ms).collect();
    let stats = queues.stats();
    format!(
        "{} queues, quanta {} ms; {} split, {} merged, {} grown, {} shrunk",
        queues.count(),
        quanta.join(", "),
        stats.splits,
        stats.merges,
        stats.grown,
        stats.shrunk,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn requests(all: &[(u64, u64)]) -> Vec<ServiceRequest> {
        let request = |&(at, service)| ServiceRequest {
            at: at * MS,
            service: service * MS,
        };
        all.iter().map(request).collect()
    }

    fn ends_ms(outcome: &ServerOutcome, requests: &[ServiceRequest]) -> Vec<Option<u64>> {
        let of = requests.iter().zip(&outcome.response_s);
        of.map(|(request, s)| s.map(|s| request.at / MS + (s * 1e3).round() as u64))
            .collect()
    }

    #[test]
    fn threads_share_two_processors_by_slices_of_100_ms() {
        let all = requests(&[(0, 250), (0, 100), (0, 50)]);
        let of = |threads| {
            let outcome = Scheme::Linux { threads }.serve(&all).unwrap();
            ends_ms(&outcome, &all)
        };
        // The third begins when the second is over, and the first then goes on beside it.
        assert_eq!(of(3), [Some(250), Some(100), Some(150)]);
        assert_eq!(of(2), [Some(250), Some(100), Some(150)]);
        assert_eq!(of(1), [Some(250), Some(350), Some(400)]);
        // Of one long and three short requests, those whose thread has its slice go first.
        let all = requests(&[(0, 300), (0, 300), (0, 50), (0, 50), (0, 50)]);
        let outcome = Scheme::Linux { threads: 5 }.serve(&all).unwrap();
        let ends = ends_ms(&outcome, &all);
        assert_eq!(ends[2..], [Some(150), Some(150), Some(200)]);
    }

    #[test]
    fn a_thread_goes_on_with_what_waits_for_the_rest_of_its_slice() {
        let all = requests(&[(0, 1_000), (0, 1_000), (0, 40), (0, 40), (0, 40)]);
        let outcome = Scheme::Linux { threads: 3 }.serve(&all).unwrap();
        let ends = ends_ms(&outcome, &all);
        // Two of 40 ms and a half of the third fit into a slice, while one of the long ones has
        // its second; the other half follows the other long one, which waited for longer.
        assert_eq!(ends[2..], [Some(140), Some(180), Some(220)]);
    }

    #[test]
    fn who_finds_all_places_taken_is_refused() {
        let all = requests(&vec![(0, 10); 100]);
        for (scheme, served) in [
            (Scheme::Linux { threads: 20 }, 67),
            (Scheme::Linux { threads: 100 }, 100),
            (core(Discipline::Edf, None), 67),
            (core(Discipline::Edf, Some(20)), 67),
        ] {
            let outcome = scheme.serve(&all).unwrap();
            assert_eq!(
                outcome.response_s.iter().flatten().count(),
                served,
                "{scheme:?}"
            );
        }
    }

    fn core(discipline: Discipline, threads: Option<usize>) -> Scheme {
        Scheme::Core {
            discipline,
            threads,
            slice: MS,
        }
    }

    #[test]
    fn srq_has_short_requests_pass_long_ones() {
        let all = requests(&[(0, 1_000), (0, 1_000), (200, 10), (201, 10), (202, 10)]);
        let srq = Discipline::Srq(Box::new(srq::Config::nanoseconds()));
        let ends = ends_ms(&core(srq, None).serve(&all).unwrap(), &all);
        // Three of 10 ms at 0.9 of two processors.
        assert!(
            ends[2..].iter().all(|end| end.is_some_and(|end| end < 225)),
            "{ends:?}"
        );
        // What the short ones took is all that the long ones have lost.
        let long: Vec<_> = ends[..2].iter().flatten().collect();
        assert_eq!(long.iter().copied().sum::<u64>(), 2_030, "{ends:?}");
        let edf = ends_ms(&core(Discipline::Edf, None).serve(&all).unwrap(), &all);
        assert_eq!(edf[..2], [Some(1_000), Some(1_000)]);
    }
}
