//! The core's counterfactual against runs of the link under `fair`, on the same arrivals.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::time::Duration;

use sprat_measure::link::VirtualLink;
use sprat_scheduler::counterfactual::{Span, Times};
use sprat_scheduler::{
    Counterfactual, Desk, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Pacer, Size, Time,
    WireCost,
};

const RATE_BITS_PER_S: u64 = 10_000_000;

const COST: WireCost = WireCost::ETHERNET_IPV4;

/// What a proxy has in hand of a response.
const CHUNK_BYTES: u64 = 16 << 10;

/// What a slow client takes.
const SLOW_BYTES_PER_S: f64 = 250_000.0;

const RESPONSES: usize = 6_000;

/// A linear congruential generator, with Knuth's constants for MMIX.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.next())
    }

    /// The sizes of TOCS03's World Cup hour: the median 1 KB, the largest 3% half of all.
    fn bytes(&mut self) -> u64 {
        let bytes = match self.next() {
            share if share < 0.5 => self.log_uniform(41.0, 1e3),
            share if share < 0.9 => self.log_uniform(1e3, 9.3e3),
            _ => (9.3e3 * self.next().max(1e-9).powf(-1.0 / 1.2)).min(2e6),
        };
        bytes as u64 + 220
    }

    fn micros(&mut self, most: f64) -> Duration {
        Duration::from_secs_f64(self.next() * most / 1e6)
    }
}

/// When responses arrive, and their bytes.
fn arrivals(load: f64, seed: u64) -> Vec<(Time, u64)> {
    let mut random = Random(seed);
    let sizes: Vec<u64> = (0..RESPONSES).map(|_| random.bytes()).collect();
    let wire_bytes: u64 = sizes.iter().map(|&bytes| COST.bytes(bytes)).sum();
    let mean_s = wire_bytes as f64 * 8.0 / RATE_BITS_PER_S as f64 / RESPONSES as f64;
    let mut now = Time::ZERO;
    let arrival = |bytes| {
        let gap = -random.next().max(1e-12).ln() * mean_s / load;
        now = now + Duration::from_secs_f64(gap);
        (now, bytes)
    };
    sizes.into_iter().map(arrival).collect()
}

/// The mean response time of a run in virtual time, in seconds.
fn simulated_mean_s(discipline: Discipline, arrivals: &[(Time, u64)]) -> f64 {
    let policy = EgressPolicy::new(discipline);
    let mut link = VirtualLink::new(RATE_BITS_PER_S, policy, COST);
    let (mut now, mut next, mut sum) = (Time::ZERO, 0, Duration::ZERO);
    loop {
        let step = link.next_step(now);
        match (step, arrivals.get(next)) {
            (Some(step), arrival) if arrival.is_none_or(|&(at, _)| step <= at) => {
                now = step;
                sum += link.step(now).map_or(Duration::ZERO, |sent| sent.took);
            }
            (_, Some(&(at, bytes))) => {
                now = at;
                link.arrive(now, bytes, 0, next).unwrap();
                next += 1;
            }
            (_, None) => return sum.as_secs_f64() / arrivals.len() as f64,
        }
    }
}

/// What a driver does besides what the scheduler decides.
#[derive(Clone, Copy)]
struct Driver {
    link: fn(u64) -> Pacer,
    /// How late its timer is at most, and how long it takes to write, in microseconds.
    late_us: f64,
    write_us: f64,
    /// The sizes of every so-manieth response are unknown; of none if 0.
    unknown: usize,
    /// Every so-manieth client takes 2 Mbit/s at most; none if 0.
    slow: usize,
}

/// Timers that are never late, writes that take no time.
const EXACT: Driver = Driver {
    link: Pacer::exact,
    late_us: 0.0,
    write_us: 0.0,
    unknown: 0,
    slow: 0,
};

/// A proxy, whose timers and writes take their time.
const PROXY: Driver = Driver {
    link: Pacer::new,
    late_us: 120.0,
    write_us: 100.0,
    unknown: 0,
    slow: 0,
};

#[derive(Clone, Copy)]
enum Event {
    Arrive,
    Write(usize),
    Timer,
}

struct Run<'a> {
    driver: Driver,
    arrivals: &'a [(Time, u64)],
    desk: Desk<usize>,
    flows: Vec<(FlowId, u64)>,
    events: BTreeMap<(Time, u64), Event>,
    numbered: u64,
    timer_at: Option<Time>,
    random: Random,
}

impl<'a> Run<'a> {
    fn new(driver: Driver, discipline: Discipline, arrivals: &'a [(Time, u64)]) -> Self {
        let (link, policy) = (
            (driver.link)(RATE_BITS_PER_S),
            EgressPolicy::new(discipline),
        );
        let counterfactual = Counterfactual::new(Time::ZERO, &link, &policy, &[]);
        let mut desk = Desk::new(Egress::new(link, policy));
        desk.set_counterfactual(Some(counterfactual));
        Self {
            driver,
            arrivals,
            desk,
            flows: Vec::new(),
            events: BTreeMap::new(),
            numbered: 0,
            timer_at: None,
            random: Random(1),
        }
    }

    fn at(&mut self, time: Time, event: Event) {
        self.events.insert((time, self.numbered), event);
        self.numbered += 1;
    }

    /// Returns the times of all responses, as they were and under `fair`.
    fn play(mut self) -> Times {
        self.at(self.arrivals[0].0, Event::Arrive);
        let mut now = Time::ZERO;
        while let Some(((at, _), event)) = self.events.pop_first() {
            now = at;
            match event {
                Event::Arrive => self.arrive(now),
                Event::Write(index) => self.ask(now, index),
                Event::Timer => self.timer_at = None,
            }
            self.grant(now);
        }
        let end = now + Duration::from_secs(60);
        let counterfactual = self.desk.counterfactual().unwrap();
        counterfactual.tally(end).times(end, Span::Start).sum()
    }

    fn arrive(&mut self, now: Time) {
        let index = self.flows.len();
        let bytes = self.arrivals[index].1;
        let size = match index.checked_rem(self.driver.unknown) {
            Some(0) => Size::Unknown,
            _ => Size::Exact(bytes),
        };
        let flow = self.desk.open(now, FlowSpec::new(0, size, COST)).unwrap();
        self.desk.set_waker(flow, index);
        self.flows.push((flow, bytes));
        self.ask(now, index);
        if let Some(&(at, _)) = self.arrivals.get(index + 1) {
            self.at(at, Event::Arrive);
        }
    }

    fn ask(&mut self, now: Time, index: usize) {
        let (flow, left) = self.flows[index];
        match left {
            0 => {
                self.desk.complete(flow);
                self.desk.close(now, flow);
            }
            _ => _ = self.desk.wait(now, flow, left.min(CHUNK_BYTES)),
        }
    }

    fn grant(&mut self, now: Time) {
        while let Some(&index) = self.desk.next(now) {
            let (flow, left) = &mut self.flows[index];
            let bytes = self.desk.take(now, *flow).unwrap().bytes;
            *left -= bytes;
            let write = match index.checked_rem(self.driver.slow) {
                Some(0) => Duration::from_secs_f64(bytes as f64 / SLOW_BYTES_PER_S),
                _ => self.random.micros(self.driver.write_us),
            };
            match write {
                Duration::ZERO => self.ask(now, index),
                _ => self.at(now + write, Event::Write(index)),
            }
        }
        if let Some(at) = self.desk.next_wakeup()
            && self.timer_at.is_none_or(|timer| at < timer)
        {
            self.timer_at = Some(at);
            let late = self.random.micros(self.driver.late_us);
            self.at(at.max(now) + late, Event::Timer);
        }
    }
}

fn assert_near(what: &str, found: f64, wanted: f64, percent: f64) {
    let off = (found / wanted - 1.0) * 100.0;
    assert!(off.abs() <= percent, "{what}: {found} for {wanted}, {off}%");
}

/// The mean that the counterfactual tells against that of a run under `fair`.
fn assert_told(driver: Driver, percent: f64) {
    for (load, seed) in [(0.5, 1), (0.7, 2), (0.9, 3)] {
        let arrivals = arrivals(load, seed);
        let fair = simulated_mean_s(Discipline::Fair, &arrivals);
        let srpt = simulated_mean_s(Discipline::Srpt, &arrivals);
        let told = Run::new(driver, Discipline::Srpt, &arrivals).play();
        assert_eq!(told.responses as usize, RESPONSES);
        let what = |world| format!("{world} at {load}");
        assert_near(&what("fair"), told.fair_mean_s().unwrap(), fair, percent);
        assert!(fair / srpt > 1.2, "{fair} {srpt}");
        if driver.unknown == 0 && driver.write_us == 0.0 {
            assert_near(&what("srpt"), told.mean_s().unwrap(), srpt, percent);
        }
    }
}

#[test]
fn what_is_told_of_fair_is_what_fair_does() {
    assert_told(EXACT, 3.0);
}

#[test]
fn a_proxys_delays_change_little() {
    assert_told(PROXY, 5.0);
}

#[test]
fn sizes_that_are_unknown_change_little() {
    let unknown = Driver {
        unknown: 4,
        ..EXACT
    };
    assert_told(unknown, 5.0);
}

/// A machine that is too busy loses time on both links.
#[test]
fn a_driver_that_is_late_is_as_late_under_fair() {
    let driver = Driver {
        late_us: 2_000.0,
        ..PROXY
    };
    for (load, seed) in [(0.3, 10), (0.5, 11)] {
        let arrivals = arrivals(load, seed);
        let fair = Run::new(driver, Discipline::Fair, &arrivals).play();
        let told = Run::new(driver, Discipline::Srpt, &arrivals).play();
        assert_near("gain of fair", fair.gain().unwrap(), 1.0, 5.0);
        let (fair, told) = (fair.mean_s().unwrap(), told.fair_mean_s().unwrap());
        assert_near(&format!("fair at {load}"), told, fair, 5.0);
    }
}

/// Clients that are slower than the link bound their responses in both worlds.
#[test]
fn slow_clients_are_as_slow_under_fair() {
    let driver = Driver { slow: 3, ..PROXY };
    for (load, seed) in [(0.5, 7), (0.7, 8), (0.9, 9)] {
        let arrivals = arrivals(load, seed);
        let fair = Run::new(driver, Discipline::Fair, &arrivals).play();
        let told = Run::new(driver, Discipline::Srpt, &arrivals).play();
        let (fair, told) = (fair.mean_s().unwrap(), told.fair_mean_s().unwrap());
        assert_near(&format!("fair at {load}"), told, fair, 5.0);
    }
}

#[test]
fn under_fair_nothing_is_gained() {
    for (load, seed) in [(0.5, 4), (0.7, 5), (0.9, 6)] {
        let arrivals = arrivals(load, seed);
        let exact = Run::new(EXACT, Discipline::Fair, &arrivals).play();
        assert_near("exact", exact.gain().unwrap(), 1.0, 0.001);
        let proxy = Run::new(PROXY, Discipline::Fair, &arrivals).play();
        assert_near("proxy", proxy.gain().unwrap(), 1.0, 5.0);
    }
}
