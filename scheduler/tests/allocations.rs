//! A grant costs no allocation, and memory is bounded by the number of flows.
//!
//! Counting needs a global allocator, and that is unsafe to implement; it
//! only counts and passes on. It stands in no crate but this test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use sprat_scheduler::{
    ClassSpec, Cutoffs, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, Pacer, Sfd,
    Size, Time, WireCost,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static LIVE_BYTES: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn count(allocations: u64, bytes: i64) {
    ALLOCATIONS.set(ALLOCATIONS.get() + allocations);
    LIVE_BYTES.set(LIVE_BYTES.get() + bytes);
}

// SAFETY: every call goes to the system's allocator as it came; the counters
// are thread-local, are initialised at compile time, and have no destructor,
// so that counting neither allocates nor outlives them.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const FLOWS: usize = 1000;

fn disciplines() -> [Discipline; 10] {
    [
        Discipline::Fcfs,
        Discipline::Fair,
        Discipline::Srpt,
        Discipline::SrptAged {
            ageing_bytes_per_s: 100_000,
        },
        Discipline::Bands(Cutoffs::paper()),
        Discipline::Edf,
        Discipline::Vrd,
        Discipline::Srq(Box::new(sprat_scheduler::srq::Config::bytes())),
        Discipline::Las,
        Discipline::Sfd(Sfd::PAPER),
    ]
}

fn egress(discipline: Discipline) -> Egress {
    Egress::new(
        Pacer::new(1_000_000_000),
        EgressPolicy {
            max_flows: FLOWS,
            guard_factor: 8.0,
            classes: levels(3),
            ..EgressPolicy::new(discipline)
        },
    )
}

/// Gives part of the link to what has waited longest, and has clients share it perhaps.
fn share(egress: &mut Egress, share_between_clients: bool) {
    let policy = EgressPolicy {
        floor_percent: 5,
        share_between_clients,
        ..egress.policy().clone()
    };
    egress.reconfigure(Time::ZERO, policy);
}

/// Classes that differ by level alone.
fn levels(count: u8) -> Vec<ClassSpec> {
    let class = |level| ClassSpec {
        level,
        ..ClassSpec::default()
    };
    (0..count).map(class).collect()
}

fn spec(index: usize) -> FlowSpec {
    FlowSpec::new(
        index % 3,
        match index % 4 {
            0 => Size::Unknown,
            _ => Size::Exact(1 + (index as u64 * 7919) % 200_000),
        },
        WireCost::ETHERNET_IPV4,
    )
}

fn open_all(egress: &mut Egress) -> Vec<FlowId> {
    let open = |index| {
        let flow = egress.open(Time::ZERO, spec(index));
        let flow = flow.expect("no more are opened than may be");
        egress.offer(Time::ZERO, flow, u64::MAX);
        flow
    };
    (0..FLOWS).map(open).collect()
}

/// How many allocations `work` makes.
fn allocations_in(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn the_counter_counts() {
    assert_eq!(
        allocations_in(|| drop(std::hint::black_box(Box::new(7)))),
        1
    );
    let live = LIVE_BYTES.get();
    let held = std::hint::black_box(vec![0u8; 1000]);
    assert_eq!(LIVE_BYTES.get() - live, 1000);
    drop(held);
    assert_eq!(LIVE_BYTES.get(), live);
}

#[test]
fn a_grant_cycle_does_not_allocate() {
    for discipline in disciplines() {
        let mut egress = egress(discipline.clone());
        open_all(&mut egress);
        let mut now = Time::ZERO;
        let mut cycles = || {
            for cycle in 0..10_000 {
                now = now.max(egress.pacer().next_grant_at());
                let Grant::Send { flow, bytes } = egress.grant(now) else {
                    panic!("all are ready");
                };
                egress.written(now, flow, bytes / (1 + cycle % 2));
                egress.resize(now, flow, Size::Exact(300_000 + cycle));
                egress.offer(now, flow, u64::MAX);
                egress.fast_path(now, 66);
                assert!(matches!(egress.grant(now), Grant::Wait { .. }));
            }
        };
        if matches!(discipline, Discipline::Srq(_)) {
            // Its queues have grown once all flows have come to the last.
            cycles();
        }
        assert_eq!(allocations_in(cycles), 0, "{discipline:?}");
    }
}

/// Nor does the choice between classes that have weights, rates and pools.
#[test]
fn a_grant_cycle_between_classes_does_not_allocate() {
    let mut classes = vec![ClassSpec::default(); 3];
    classes[1].max_concurrency = 10;
    classes[1].weight = 3;
    classes[2].rate_bits_per_s = Some(1_000_000);
    let mut egress = Egress::new(
        Pacer::exact(1_000_000_000),
        EgressPolicy {
            max_flows: FLOWS,
            guard_factor: 8.0,
            classes,
            ..EgressPolicy::new(Discipline::Srpt)
        },
    );
    open_all(&mut egress);
    let mut now = Time::ZERO;
    let mut cycle = |egress: &mut Egress| {
        now = now.max(egress.pacer().next_grant_at());
        let Grant::Send { flow, bytes } = egress.grant(now) else {
            panic!("two classes have no limit");
        };
        egress.written(now, flow, bytes / 2);
        egress.offer(now, flow, u64::MAX);
    };
    // Until the pool is full.
    for _ in 0..1000 {
        cycle(&mut egress);
    }
    let allocations = allocations_in(|| (0..10_000).for_each(|_| cycle(&mut egress)));
    assert_eq!(allocations, 0);
}

/// Nor do turns among clients that share the link, each with some flows.
#[test]
fn a_grant_cycle_between_clients_does_not_allocate() {
    let mut egress = egress(Discipline::Srpt);
    share(&mut egress, true);
    let open = |index: usize| {
        let client = Some(index as u64 % 50);
        let spec = FlowSpec {
            client,
            ..spec(index)
        };
        let flow = egress.open(Time::ZERO, spec).unwrap();
        egress.offer(Time::ZERO, flow, u64::MAX);
    };
    (0..FLOWS).for_each(open);
    let mut now = Time::from_nanos(2_000_000_000);
    let allocations = allocations_in(|| {
        for cycle in 0..10_000 {
            now = now.max(egress.pacer().next_grant_at());
            let Grant::Send { flow, bytes } = egress.grant(now) else {
                panic!("all are ready");
            };
            egress.written(now, flow, bytes / (1 + cycle % 2));
            egress.offer(now, flow, u64::MAX);
        }
    });
    assert_eq!(allocations, 0);
}

/// Clients come and go, with many flows or few: their places and heaps are bounded by the
/// flows that are open.
#[test]
fn clients_cost_no_more_than_their_flows() {
    let before = LIVE_BYTES.get();
    let mut egress = egress(Discipline::Srpt);
    share(&mut egress, true);
    let open = |egress: &mut Egress, index: usize, client: usize| {
        let client = Some(client as u64);
        let spec = FlowSpec {
            client,
            ..spec(index)
        };
        let flow = egress.open(Time::ZERO, spec).unwrap();
        egress.offer(Time::ZERO, flow, 1);
        flow
    };
    // Each in turn has all the places that are left, and keeps one.
    for client in 0..FLOWS {
        let flows: Vec<_> = (client..FLOWS)
            .map(|index| open(&mut egress, index, client))
            .collect();
        for &flow in &flows[1..] {
            egress.close(Time::ZERO, flow);
        }
    }
    let each = (LIVE_BYTES.get() - before) / FLOWS as i64;
    assert!(each <= 1000, "{each} bytes a flow");
    assert_eq!(egress.waiting_flows(), FLOWS);
}

/// A hundred thousand clients, of whom each waits with a flow: what that costs beyond the
/// flows.
#[test]
fn a_client_is_known_in_a_hundred_bytes() {
    const CLIENTS: u64 = 100_000;
    let live_bytes = |shares| {
        let before = LIVE_BYTES.get();
        let mut egress = Egress::new(
            Pacer::new(1_000_000_000),
            EgressPolicy {
                max_flows: CLIENTS as usize,
                guard_factor: 8.0,
                classes: levels(3),
                ..EgressPolicy::new(Discipline::Srpt)
            },
        );
        share(&mut egress, shares);
        for client in 0..CLIENTS {
            let spec = FlowSpec {
                // In the order of a hash.
                client: Some(client.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
                ..spec(client as usize)
            };
            let flow = egress.open(Time::ZERO, spec).unwrap();
            egress.offer(Time::ZERO, flow, 1);
        }
        LIVE_BYTES.get() - before
    };
    let (shared, alone) = (live_bytes(true), live_bytes(false));
    let each = (shared - alone) as f64 / CLIENTS as f64;
    println!(
        "{each} bytes each, beside {} a flow",
        alone as f64 / CLIENTS as f64
    );
    assert!(each <= 100.0, "{each}");
}

/// A flow that takes the place of another costs none either.
#[test]
fn reusing_a_flows_place_does_not_allocate() {
    for discipline in disciplines() {
        let mut egress = egress(discipline.clone());
        for flow in open_all(&mut egress) {
            egress.close(Time::ZERO, flow);
        }
        let allocations = allocations_in(|| {
            for index in 0..10_000 {
                let flow = egress.open(Time::ZERO, spec(index)).unwrap();
                egress.offer(Time::ZERO, flow, 100);
                egress.close(Time::ZERO, flow);
            }
        });
        assert_eq!(allocations, 0, "{discipline:?}");
    }
}

#[test]
fn memory_is_bounded_by_the_number_of_flows() {
    let learnt = Discipline::Bands(Cutoffs::Learnt { classes: 16 });
    for discipline in disciplines().into_iter().chain([learnt]) {
        let before = LIVE_BYTES.get();
        let mut egress = egress(discipline.clone());
        let mut flows = open_all(&mut egress);
        let full = LIVE_BYTES.get();
        assert!(egress.open(Time::ZERO, spec(0)).is_err());
        for round in 0..100 {
            for (index, flow) in flows.iter_mut().enumerate() {
                egress.close(Time::ZERO, *flow);
                *flow = egress.open(Time::ZERO, spec(index + round)).unwrap();
                egress.offer(Time::ZERO, *flow, 1);
            }
            flows
                .iter()
                .rev()
                .for_each(|&flow| egress.close(Time::ZERO, flow));
            flows = open_all(&mut egress);
        }
        // The list of vacant places has grown to all of them, 4 bytes each,
        // and at most as much again by doubling.
        let grown = LIVE_BYTES.get() - full;
        assert!(grown <= 8 * FLOWS as i64, "{grown} bytes, {discipline:?}");
        let each = (LIVE_BYTES.get() - before) / FLOWS as i64;
        assert!(each <= 400, "{each} bytes a flow, {discipline:?}");
    }
}
