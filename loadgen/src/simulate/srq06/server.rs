//! A server of two processors, as Linux shares it among threads and as the core orders
//! requests on it; all behind one admission control.

use std::collections::VecDeque;

use anyhow::ensure;
use sprat_scheduler::srq::{self, Queues, Used};
use sprat_scheduler::{ClassSpec, Discipline, Time};

use super::workload::ServiceRequest;

/// Processors: SRQ06's machines are dual Pentium III.
const PROCESSORS: usize = 2;

/// Requests that wait at most, beside those that threads serve: with it, the two columns of
/// Linux in table IV are both of a full server (Little's law).
pub(super) const WAITING: usize = 47;

/// A way to serve: what orders the requests, and the threads that they wait for.
#[derive(Clone, Debug)]
pub(super) enum Scheme {
    /// Threads that share the processors evenly; a request waits for a thread.
    Linux { threads: usize },
    /// The core's order, of all requests that are there or of those that have a thread.
    Core {
        discipline: Discipline,
        threads: Option<usize>,
        /// The processors look for another request after so many nanoseconds.
        slice: u64,
    },
}

/// The results of the requests.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerOutcome {
    /// The seconds from arrival to end, by request; none if it was refused.
    pub(super) response_s: Vec<Option<f64>>,
    /// The number of SRQ's queues at the end, their quanta in ms, splits and merges.
    pub(super) queues: Option<String>,
}

/// Threads that the other schemes have, and the bound that follows from it.
const THREADS: usize = 20;

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
        }
    }
}

/// Serves requests by threads that share the processors.
fn share(requests: &[ServiceRequest], threads: usize) -> ServerOutcome {
    let mut response_s = vec![None; requests.len()];
    let mut running: Vec<(usize, f64)> = Vec::with_capacity(threads);
    let mut waiting = VecDeque::new();
    let mut next = 0;
    let mut now = 0.0_f64;
    loop {
        let rate = (PROCESSORS as f64 / running.len().max(1) as f64).min(1.0);
        let least = running
            .iter()
            .map(|&(_, left)| left)
            .fold(f64::MAX, f64::min);
        let end = (!running.is_empty()).then(|| now + least / rate);
        let comes = requests.get(next).map(|request| request.at as f64);
        let at = match (end, comes) {
            (None, None) => break,
            (Some(end), Some(comes)) => end.min(comes),
            (end, comes) => end.or(comes).unwrap_or(now),
        };
        let served = (at - now) * rate;
        running.iter_mut().for_each(|(_, left)| *left -= served);
        now = at;
        if comes == Some(at) {
            let service = requests[next].service as f64;
            if running.len() < threads {
                running.push((next, service));
            } else if waiting.len() < WAITING {
                waiting.push_back(next);
            }
            next += 1;
            continue;
        }
        // To a nanosecond.
        while let Some(place) = running.iter().position(|&(_, left)| left < 0.5) {
            let (ended, _) = running.swap_remove(place);
            response_s[ended] = Some((now - requests[ended].at as f64) / 1e9);
            if let Some(first) = waiting.pop_front() {
                running.push((first, requests[first].service as f64));
            }
        }
    }
    ServerOutcome {
        response_s,
        queues: None,
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

/// Requests in the core's order.
struct Ordered<'a> {
    requests: &'a [ServiceRequest],
    server: srq::Server,
    slice: u64,
    processors: [Option<Slice>; PROCESSORS],
    /// The request of each number at the server, and what it has left.
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

    /// Ends the slices that end now; returns how many requests are over by that.
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

fn described(queues: &Queues) -> String {
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
    fn threads_share_two_processors() {
        let all = requests(&[(0, 100), (0, 100), (0, 50)]);
        let of = |threads| {
            let outcome = Scheme::Linux { threads }.serve(&all).unwrap();
            ends_ms(&outcome, &all)
        };
        // Three share two: the short one has two thirds of one.
        assert_eq!(of(3), [Some(125), Some(125), Some(75)]);
        assert_eq!(of(2), [Some(100), Some(100), Some(150)]);
        assert_eq!(of(1), [Some(100), Some(200), Some(250)]);
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
