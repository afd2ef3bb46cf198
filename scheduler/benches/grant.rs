//! What a decision costs, by discipline and by the number of open flows.
//!
//! `cargo bench -p sprat-scheduler`

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use sprat_scheduler::{
    Cutoffs, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, Pacer, Sfd, Size, Time,
    WireCost,
};

const OPEN_FLOWS: [usize; 4] = [10, 1_000, 100_000, 1_000_000];

/// Clients that share the link; with none it is not shared.
const CLIENTS: [u64; 5] = [0, 1, 100, 10_000, 100_000];

const SEGMENT: u64 = WireCost::ETHERNET_IPV4.mss as u64;

/// One segment a grant, so that a flow is in the queue many times.
const RATE_BITS_PER_S: u64 = 10_000_000;

fn disciplines() -> [(&'static str, Discipline); 5] {
    [
        ("srpt", Discipline::Srpt),
        ("fair", Discipline::Fair),
        ("bands", Discipline::Bands(Cutoffs::paper())),
        ("sfd", Discipline::Sfd(Sfd::PAPER)),
        (
            "srpt-aged",
            Discipline::SrptAged {
                ageing_bytes_per_s: 100_000,
            },
        ),
    ]
}

/// An uplink on which a given number of responses is always waiting.
struct Uplink {
    egress: Egress,
    now: Time,
    /// Bytes left, by the flow's index.
    left: Vec<u64>,
    /// State of a linear congruential generator.
    seed: u64,
    clients: u64,
}

impl Uplink {
    fn new(discipline: Discipline, flows: usize) -> Self {
        Self::shared(discipline, flows, 0)
    }

    fn shared(discipline: Discipline, flows: usize, clients: u64) -> Self {
        let egress = Egress::new(
            Pacer::exact(RATE_BITS_PER_S),
            EgressPolicy {
                max_flows: flows + 1,
                guard_factor: 8.0,
                share_between_clients: clients > 0,
                ..EgressPolicy::new(discipline)
            },
        );
        let mut uplink = Self {
            egress,
            now: Time::ZERO,
            left: vec![0; flows + 1],
            seed: 7,
            clients,
        };
        for _ in 0..flows {
            uplink.arrive();
        }
        uplink
    }

    /// A response of 1 to 64 segments.
    fn arrive(&mut self) {
        // Knuth's MMIX constants.
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005);
        self.seed = self.seed.wrapping_add(1_442_695_040_888_963_407);
        let bytes = ((self.seed >> 58) + 1) * SEGMENT;
        let flow = self.open(bytes);
        self.left[flow.index()] = bytes;
        self.egress.offer(self.now, flow, bytes);
    }

    fn open(&mut self, bytes: u64) -> FlowId {
        // Bits that the size does not come from, spread as a hash is.
        let client = (self.seed >> 16)
            .checked_rem(self.clients)
            .map(|client| client.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let spec = FlowSpec::new(0, Size::Exact(bytes), WireCost::ETHERNET_IPV4).of_client(client);
        let flow = self.egress.open(self.now, spec);
        flow.expect("at most one more than always waits")
    }

    /// One grant used. A response that is done makes room for another.
    fn cycle(&mut self) {
        self.now = self.now.max(self.egress.pacer().next_grant_at());
        let Grant::Send { flow, bytes } = self.egress.grant(self.now) else {
            unreachable!("the link is free and flows wait");
        };
        self.egress.written(self.now, flow, bytes);
        let left = &mut self.left[flow.index()];
        *left -= bytes;
        if *left > 0 {
            self.egress.offer(self.now, flow, *left);
        } else {
            self.egress.close(self.now, flow);
            self.arrive();
        }
    }
}

/// Grant, sent, and ready again (or close, and another opens).
fn grant_cycle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("grant_cycle");
    group.throughput(Throughput::Elements(1));
    for (name, discipline) in disciplines() {
        for flows in OPEN_FLOWS {
            let mut uplink = Uplink::new(discipline.clone(), flows);
            group.bench_function(BenchmarkId::new(name, flows), |bencher| {
                bencher.iter(|| uplink.cycle());
            });
        }
    }
    group.finish();
}

/// The same where clients share the link, of the same number of flows.
fn grant_cycle_between_clients(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("grant_cycle_between_clients");
    group.throughput(Throughput::Elements(1));
    for clients in CLIENTS {
        let mut uplink = Uplink::shared(Discipline::Srpt, 100_000, clients);
        group.bench_function(BenchmarkId::from_parameter(clients), |bencher| {
            bencher.iter(|| uplink.cycle());
        });
    }
    group.finish();
}

/// A response that is over before its turn: open, ready, close.
fn open_close(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("open_ready_close");
    for flows in OPEN_FLOWS {
        let mut uplink = Uplink::new(Discipline::Srpt, flows);
        group.bench_function(BenchmarkId::from_parameter(flows), |bencher| {
            bencher.iter(|| {
                // Ahead of all, the dearest place to be in a heap.
                let flow = uplink.open(black_box(1));
                uplink.egress.offer(uplink.now, flow, 1);
                uplink.egress.close(uplink.now, flow);
            });
        });
    }
    group.finish();
}

fn fast_path(criterion: &mut Criterion) {
    let mut uplink = Uplink::new(Discipline::Srpt, 1_000);
    criterion.bench_function("fast_path", |bencher| {
        bencher.iter(|| {
            uplink.now = uplink.now + Duration::from_micros(10);
            black_box(uplink.egress.fast_path(uplink.now, black_box(66)))
        });
    });
}

/// The whole run takes about two minutes.
fn quick() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
}

criterion_group! {
    name = benches;
    config = quick();
    targets = grant_cycle, grant_cycle_between_clients, open_close, fast_path
}
criterion_main!(benches);
