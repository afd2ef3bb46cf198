use proptest::prelude::*;
use sprat_scheduler::Cutoffs;

use super::*;

/// A link on which a byte takes a microsecond, so that no time is rounded.
const RATE: u64 = 8_000_000;

/// The cost without headers; a quantum is three segments, 300 us.
const COST: WireCost = WireCost {
    mss: 100,
    segment_overhead: 0,
    connection_overhead: 0,
    record_overhead: 0,
};

const QUANTUM: u64 = 300;

/// The times at which responses come, in microseconds, and their bytes.
type Trace = Vec<(u64, u64)>;

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

fn policy(discipline: &Discipline, floor_percent: u8) -> EgressPolicy {
    EgressPolicy {
        floor_percent,
        ..EgressPolicy::new(discipline.clone())
    }
}

/// Returns how long each response takes in runs, in microseconds.
fn in_runs(discipline: &Discipline, floor_percent: u8, trace: &Trace) -> Vec<u64> {
    let mut link = VirtualLink::new(RATE, policy(discipline, floor_percent), COST);
    assert_eq!(link.quantum_bytes, QUANTUM);
    let mut took = vec![0; trace.len()];
    let mut now = Time::ZERO;
    let mut arrivals = trace.iter().enumerate().peekable();
    loop {
        let arrival = arrivals.peek().map(|(_, (us, _))| at(*us));
        match (link.next_step(now), arrival) {
            (Some(step), next) if next.is_none_or(|next| step <= next) => {
                now = step;
                if let Some(sent) = link.step(step) {
                    let us: &mut u64 = &mut took[sent.response];
                    assert_eq!(*us, 0, "response {} is over twice", sent.response);
                    *us = sent.took.as_micros() as u64;
                }
            }
            (_, Some(next)) => {
                now = next;
                let (index, (_, bytes)) = arrivals.next().unwrap();
                link.arrive(now, *bytes, 0, index).unwrap();
            }
            (_, None) => break,
        }
    }
    let total: u64 = trace.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(link.egress().stats().granted_bytes, total);
    assert_eq!(link.egress().stats().wire_bytes, total);
    assert_eq!(link.egress().open_flows(), 0);
    took
}

/// Returns how long each response takes quantum after quantum, in microseconds, as the proxy drives
/// the egress.
fn in_quanta(discipline: &Discipline, floor_percent: u8, trace: &Trace) -> Vec<u64> {
    let mut egress = Egress::new(Pacer::exact(RATE), policy(discipline, floor_percent));
    let mut took = vec![0; trace.len()];
    let mut flows: Vec<(FlowId, u64)> = Vec::new();
    let mut sending: Option<(usize, u64)> = None;
    let mut now = Time::ZERO;
    loop {
        let step = match sending {
            Some(_) => Some(egress.pacer().next_grant_at()),
            None => egress.next_wakeup().map(|at| at.max(now)),
        };
        let arrival = trace.get(flows.len()).map(|(us, _)| at(*us));
        match (step, arrival) {
            (Some(step), next) if next.is_none_or(|next| step <= next) => {
                now = step;
                if let Some((index, bytes)) = sending.take() {
                    let (flow, left) = &mut flows[index];
                    egress.written(now, *flow, bytes);
                    *left -= bytes;
                    if *left > 0 {
                        egress.offer(now, *flow, *left);
                    } else {
                        egress.close(now, *flow);
                        took[index] = now.since(at(trace[index].0)).as_micros() as u64;
                    }
                }
                if let Grant::Send { flow, bytes } = egress.grant(now) {
                    let index = flows.iter().rposition(|(other, _)| *other == flow).unwrap();
                    sending = Some((index, bytes));
                }
            }
            (_, Some(next)) => {
                now = next;
                let bytes = trace[flows.len()].1;
                let spec = FlowSpec::new(0, Size::Exact(bytes), COST);
                let flow = egress.open(now, spec).unwrap();
                flows.push((flow, bytes));
                egress.offer(now, flow, bytes);
            }
            (_, None) => break,
        }
    }
    took
}

fn traces() -> impl Strategy<Value = Trace> {
    let bytes = prop_oneof![1..2000_u64, Just(QUANTUM), 1..60_000_u64];
    // Never at the very moment that a grant ends, where either may come first.
    let gaps = prop_oneof![1..50_u64, 1..1500_u64, 1..20_000_u64];
    prop::collection::vec((gaps, bytes), 1..40).prop_map(|arrivals| {
        let mut us = 0;
        let step = |(gap, bytes)| {
            us += gap;
            (us, bytes)
        };
        arrivals.into_iter().map(step).collect()
    })
}

const AGED: Discipline = Discipline::SrptAged {
    ageing_bytes_per_s: 10_000,
};

proptest! {
    /// Checks that runs come to the same times as quanta, response by response, where the flow that
    /// is first stays first.
    #[test]
    fn runs_are_quanta_where_no_turns_are_taken(trace in traces()) {
        for discipline in [Discipline::Fcfs, Discipline::Srpt, AGED] {
            let (runs, quanta) = (in_runs(&discipline, 0, &trace), in_quanta(&discipline, 0, &trace));
            prop_assert_eq!(runs, quanta, "{:?}", discipline);
        }
    }

    /// Checks that runs come to about the same times as quanta where flows take turns: of two that
    /// are under way together, each may come a turn earlier or later. No byte is lost, and the sum
    /// of all times is nearly the same.
    #[test]
    fn runs_are_about_quanta_where_turns_are_taken(trace in traces()) {
        for discipline in [Discipline::Fair, Discipline::Bands(Cutoffs::paper())] {
            let runs = in_runs(&discipline, 5, &trace);
            let quanta = in_quanta(&discipline, 5, &trace);
            let ends = trace.iter().zip(&quanta).map(|((us, _), took)| us + took);
            let together = ends.enumerate().map(|(i, end)| {
                trace[i + 1..].iter().take_while(|(us, _)| *us < end).count() as u64
            });
            let turns = (together.sum::<u64>() * 2 * QUANTUM) as f64;
            let sum = |took: Vec<u64>| took.into_iter().sum::<u64>() as f64;
            let (runs, quanta) = (sum(runs), sum(quanta));
            prop_assert!((runs - quanta).abs() <= 0.02 * quanta + turns, "{} {}", runs, quanta);
        }
    }
}

#[test]
fn an_arrival_waits_for_the_quantum_and_no_longer() {
    // 3000 bytes from 0; 100 bytes come at 400 us, in the second quantum, which ends at
    // 600 us.
    let trace = vec![(0, 3000), (400, 100)];
    assert_eq!(in_runs(&Discipline::Srpt, 0, &trace), [3100, 300]);
    assert_eq!(in_runs(&Discipline::Fcfs, 0, &trace), [3000, 2700]);
    assert_eq!(in_runs(&Discipline::Fair, 0, &trace), [3100, 300]);
}

#[test]
fn a_set_up_delays_what_follows_it() {
    let mut link = VirtualLink::new(RATE, policy(&Discipline::Srpt, 0), COST);
    link.arrive(at(0), 100, 330, "first").unwrap();
    assert_eq!(link.next_step(at(0)), Some(at(330)));
    assert_eq!(link.step(at(330)), None);
    assert_eq!(link.next_step(at(330)), Some(at(430)));
    let sent = Sent {
        response: "first",
        took: Duration::from_micros(430),
    };
    assert_eq!(link.step(at(430)), Some(sent));
    assert_eq!(link.next_step(at(430)), None);
}

#[test]
fn a_bound_on_open_responses_is_an_error() {
    let policy = EgressPolicy {
        max_flows: 1,
        ..policy(&Discipline::Srpt, 0)
    };
    let mut link = VirtualLink::new(RATE, policy, COST);
    link.arrive(at(0), 100, 0, 1).unwrap();
    assert!(link.arrive(at(1), 100, 0, 2).is_err());
}
