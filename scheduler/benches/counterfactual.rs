//! What the counterfactual costs beside what it is told of.
//!
//! `cargo bench -p sprat-scheduler --bench counterfactual`
//!
//! A response's whole way through a desk, with and without: the difference, times the
//! responses in a second, is the part of a core that it takes.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sprat_scheduler::{
    Counterfactual, Desk, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Pacer, Size, Time,
    WireCost,
};

/// Responses that wait at a time.
const WAITING: [usize; 3] = [10, 100, 1_000];

/// Responses of 1 to 64 segments take 31 grants on average on a link that grants segment
/// after segment, and one or two on one that grants 26 at a time.
const RATES: [(&str, u64); 2] = [("10mbit", 10_000_000), ("1gbit", 1_000_000_000)];

const SEGMENT: u64 = WireCost::ETHERNET_IPV4.mss as u64;

/// A desk at which a given number of responses always waits.
struct Uplink {
    desk: Desk<usize>,
    now: Time,
    responses: Vec<(FlowId, u64)>,
    /// State of a linear congruential generator.
    seed: u64,
}

impl Uplink {
    fn new(rate_bits_per_s: u64, waiting: usize, is_told: bool) -> Self {
        let (link, policy) = (
            Pacer::exact(rate_bits_per_s),
            EgressPolicy::new(Discipline::Srpt),
        );
        let bounds = [1 << 10, 10 << 10, 100 << 10, 1 << 20];
        let told = Counterfactual::new(Time::ZERO, &link, &policy, &bounds);
        let mut desk = Desk::new(Egress::new(link, policy));
        desk.set_counterfactual(is_told.then_some(told));
        let mut uplink = Self {
            desk,
            now: Time::ZERO,
            responses: Vec::new(),
            seed: 7,
        };
        for index in 0..waiting {
            uplink.arrive(index);
        }
        // As many as wait have come and gone, so that the virtual link is as full.
        (0..20 * waiting).for_each(|_| uplink.respond());
        uplink
    }

    fn arrive(&mut self, index: usize) {
        // Knuth's MMIX constants.
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005);
        self.seed = self.seed.wrapping_add(1_442_695_040_888_963_407);
        let bytes = ((self.seed >> 58) + 1) * SEGMENT;
        let spec = FlowSpec::new(0, Size::Exact(bytes), WireCost::ETHERNET_IPV4);
        let flow = self.desk.open(self.now, spec);
        let flow = flow.expect("no more than may be are open");
        self.desk.set_waker(flow, index);
        match self.responses.get_mut(index) {
            Some(place) => *place = (flow, bytes),
            None => self.responses.push((flow, bytes)),
        }
        self.desk.wait(self.now, flow, bytes);
    }

    /// Serves until a response is over, in whose place another comes.
    fn respond(&mut self) {
        loop {
            let due = self.desk.next_wakeup();
            self.now = self.now.max(due.expect("some always wait"));
            let Some(&index) = self.desk.next(self.now) else {
                continue;
            };
            let (flow, left) = &mut self.responses[index];
            let turn = self.desk.take(self.now, *flow);
            *left -= turn.map_or(0, |turn| turn.bytes);
            if *left > 0 {
                self.desk.wait(self.now, *flow, *left);
                continue;
            }
            self.desk.complete(*flow);
            self.desk.close(self.now, *flow);
            self.arrive(index);
            return;
        }
    }
}

fn response(criterion: &mut Criterion) {
    for (rate, rate_bits_per_s) in RATES {
        let mut group = criterion.benchmark_group(format!("response_{rate}"));
        group.throughput(Throughput::Elements(1));
        for waiting in WAITING {
            for (name, is_told) in [("alone", false), ("told", true)] {
                let mut uplink = Uplink::new(rate_bits_per_s, waiting, is_told);
                group.bench_function(BenchmarkId::new(name, waiting), |bencher| {
                    bencher.iter(|| uplink.respond());
                });
            }
        }
        group.finish();
    }
}

/// The whole run takes about half a minute.
fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! {
    name = benches;
    config = quick();
    targets = response
}
criterion_main!(benches);
