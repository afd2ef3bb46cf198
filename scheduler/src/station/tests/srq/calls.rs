//! A test of when a driver calls its station.

use proptest::prelude::*;

use super::*;

/// A driver that calls its station whenever that wants to be called, and at other times.
struct EagerDriver {
    station: Station,
    /// The other times in milliseconds, the next one last.
    more: Vec<u64>,
    tickets: Vec<Ticket>,
    running: Vec<usize>,
    /// The times in milliseconds at which requests started, with their numbers.
    starts: Vec<(u64, usize)>,
}

impl EagerDriver {
    fn start(&mut self, ms: u64, number: usize) {
        self.running.push(number);
        self.starts.push((ms, number));
    }

    fn poll(&mut self, ms: u64) {
        while let Some(event) = self.station.poll() {
            let Event::Started { ticket, .. } = event else {
                panic!("{event:?}");
            };
            let number = self.tickets.iter().position(|&own| own == ticket);
            self.start(ms, number.unwrap());
        }
    }

    /// Makes the calls that are due by a time.
    fn advance(&mut self, until: u64) {
        loop {
            let wakes = self.station.next_wakeup();
            let wakes = wakes.map(|at| at.as_nanos().div_ceil(1_000_000));
            let more = self.more.last().copied();
            let next = wakes.into_iter().chain(more).min();
            let Some(ms) = next.filter(|&ms| ms <= until) else {
                return;
            };
            if more == Some(ms) {
                self.more.pop();
            }
            self.station.expire(at(ms));
            self.poll(ms);
        }
    }

    /// Lets a request come, end, or be given up, as `what` says.
    fn change(&mut self, ms: u64, what: u8) {
        let index = usize::from(what / 4);
        match what % 4 {
            2 if !self.running.is_empty() => {
                let number = self.running.remove(index % self.running.len());
                self.station.finish(at(ms), self.tickets[number], 1);
            }
            3 if !self.tickets.is_empty() => {
                let number = index % self.tickets.len();
                self.running.retain(|&own| own != number);
                self.station.cancel(at(ms), self.tickets[number]);
            }
            _ => match self.station.arrive(at(ms), &sized(1)) {
                Verdict::Start { ticket, .. } => {
                    self.tickets.push(ticket);
                    self.start(ms, self.tickets.len() - 1);
                }
                Verdict::Wait { ticket } => self.tickets.push(ticket),
                Verdict::Refuse(refusal) => panic!("{refusal:?}"),
            },
        }
        self.poll(ms);
    }
}

proptest! {
    /// Checks that a driver that calls more often than it has to changes nothing.
    #[test]
    fn more_calls_change_nothing(
        changes in prop::collection::vec((0u64..60, any::<u8>()), 1..80),
        more in prop::collection::vec(0u64..3_000, 0..80),
        is_conditional in any::<bool>(),
    ) {
        let outcome = |mut more: Vec<u64>| {
            more.sort_unstable();
            more.reverse();
            let station = Station::new(srq(2, |order| {
                order.queues.interval = Duration::from_millis(200);
                order.queues.samples_min = 2;
                order.queues.t_desc = 0.2;
                order.queues.adj_d = 0.5;
                order.queues.quanta = vec![30_000_000, 90_000_000];
                if is_conditional {
                    order.queues.trigger = Trigger::Waiting(2);
                }
            }));
            let mut driver = EagerDriver {
                station,
                more,
                tickets: Vec::new(),
                running: Vec::new(),
                starts: Vec::new(),
            };
            // The first request begins the first interval.
            driver.change(0, 0);
            let mut ms = 0;
            for &(gap, what) in &changes {
                ms += gap;
                driver.advance(ms);
                driver.change(ms, what);
            }
            let end = ms + 10_000;
            driver.advance(end);
            driver.station.expire(at(end));
            driver.poll(end);
            let (queues, is_on) = driver.station.queues().unwrap();
            let told = (queues.quanta().to_vec(), *queues.stats(), is_on);
            (driver.starts, told)
        };
        prop_assert_eq!(outcome(more), outcome(Vec::new()));
    }
}
