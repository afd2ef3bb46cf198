use proptest::prelude::*;

use super::*;
use crate::{ClassSpec, Cutoffs, Desk, Lane, Precedence, Size, WireCost};

/// The link's rate in bits per second: a byte takes a microsecond, so that no time is rounded.
const RATE: u64 = 8_000_000;

/// The cost on the wire, without headers. A quantum is three segments of 100 bytes: 300 us.
const COST: WireCost = WireCost {
    mss: 100,
    segment_overhead: 0,
    connection_overhead: 0,
    record_overhead: 0,
};

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

/// The times at which responses come, in microseconds, and their bytes.
type Trace = Vec<(u64, u64)>;

/// An uplink whose writers have all of their responses at hand.
struct World {
    desk: Desk<usize>,
    /// The flows of the responses, and the bytes that each has left.
    responses: Vec<(FlowId, u64)>,
    now: Time,
}

impl World {
    fn new(discipline: Discipline) -> Self {
        Self::with(EgressPolicy::new(discipline), RATE)
    }

    fn with(policy: EgressPolicy, rate_bits_per_s: u64) -> Self {
        let pacer = Pacer::exact(rate_bits_per_s);
        let counterfactual = Counterfactual::new(Time::ZERO, &pacer, &policy, &[1000]);
        let mut desk = Desk::new(Egress::new(pacer, policy));
        desk.set_counterfactual(Some(counterfactual));
        Self {
            desk,
            responses: Vec::new(),
            now: Time::ZERO,
        }
    }

    fn fair(&mut self) -> &mut Counterfactual {
        self.desk.counterfactual().unwrap()
    }

    fn arrive(&mut self, spec: FlowSpec) {
        let bytes = spec.size.bytes().unwrap();
        let flow = self.desk.open(self.now, spec).unwrap();
        self.desk.set_waker(flow, self.responses.len());
        self.responses.push((flow, bytes));
        self.desk.wait(self.now, flow, bytes);
        self.run(self.now);
    }

    /// Serves a response at once if it needs no flow, and returns whether it did.
    fn arrive_at_once(&mut self, spec: FlowSpec) -> bool {
        let bytes = spec.size.bytes().unwrap();
        let is_served = self.desk.serve_at_once(self.now, spec, bytes);
        if !is_served {
            self.arrive(spec);
        }
        is_served
    }

    /// Makes the grants that are due by `until`, each at its time.
    fn run(&mut self, until: Time) {
        loop {
            while let Some(&index) = self.desk.next(self.now) {
                self.write(index);
            }
            match self.desk.next_wakeup().filter(|&at| at <= until) {
                Some(at) => self.now = self.now.max(at),
                None => break,
            }
        }
        self.now = until;
    }

    fn write(&mut self, index: usize) {
        let (flow, left) = &mut self.responses[index];
        let turn = self.desk.take(self.now, *flow).unwrap();
        *left -= turn.bytes;
        if *left > 0 {
            self.desk.wait(self.now, *flow, *left);
        } else {
            self.desk.complete(*flow);
            self.desk.close(self.now, *flow);
        }
    }

    fn play(mut self, trace: &Trace) -> Self {
        for &(us, bytes) in trace {
            self.run(at(us));
            self.arrive(FlowSpec::new(0, Size::Exact(bytes), COST));
        }
        self.run(at(u64::MAX / 2000));
        self
    }

    /// Returns how many responses were counted, and the sums of their times, in microseconds.
    fn times_us(&mut self) -> (u64, u64, u64) {
        let now = self.now;
        let times: Times = self.fair().tally(now).times(now, Span::Start).sum();
        let us = |seconds: f64| (seconds * 1e6).round() as u64;
        (times.responses as u64, us(times.actual_s), us(times.fair_s))
    }
}

#[test]
fn two_responses_of_one_size_share_the_link() {
    let mut world = World::new(Discipline::Srpt).play(&vec![(0, 3000), (0, 3000)]);
    // One after the other: 3,000 and 6,000. In turns, the first ends a quantum earlier.
    assert_eq!(world.times_us(), (2, 3000 + 6000, 5700 + 6000));
}

#[test]
fn a_small_response_gets_its_share_beside_a_large_one() {
    // In turns of 300 bytes: the small one of 600 waits for one turn that is under way and
    // for one between its own: from 900 to 2,100. The large one has 6,600 bytes before it.
    let trace = vec![(0, 6000), (1000, 600)];
    let mut world = World::new(Discipline::Srpt).play(&trace);
    assert_eq!(world.times_us(), (2, 6600 + 800, 6600 + 1100));
    let sizes: Vec<Times> = {
        let now = world.now;
        let tally = world.fair().tally(now);
        tally.times(now, Span::Start).collect()
    };
    let gains = sizes.iter().map(|times| times.gain().unwrap());
    assert_eq!(gains.collect::<Vec<_>>(), [1.375, 1.0]);
}

#[test]
fn what_is_served_at_once_waits_on_the_virtual_link_if_that_is_not_free() {
    // Without an order by size, what has begun goes on in turns beside the second; with one the
    // second is over first, and the first has ended when the third comes.
    let trace = [(0, 3000), (500, 600), (3700, 300), (9000, 300)];
    let mut worlds = [false, true].map(|tries| {
        let mut world = World::with(EgressPolicy::new(Discipline::Srpt), RATE);
        let mut at_once = 0;
        // The virtual link has lost time that the real one had.
        let behind = world.now;
        world.fair().debit(behind, 500);
        for (us, bytes) in trace {
            world.run(at(us));
            let spec = FlowSpec::new(0, Size::Exact(bytes), COST);
            match tries {
                true => at_once += usize::from(world.arrive_at_once(spec)),
                false => world.arrive(spec),
            }
        }
        world.run(at(100_000));
        assert_eq!(at_once, if tries { 2 } else { 0 });
        world
    });
    let [plain, tried] = worlds.each_mut().map(World::times_us);
    assert_eq!(plain, tried);
    assert_eq!(plain.0, 4);
    assert!(plain.2 > plain.1 + 400, "{plain:?}");
}

proptest! {
    /// Checks that times are the same whether a response has a flow or is served at once.
    #[test]
    fn what_is_served_at_once_has_the_times_that_it_would_have(
        trace in prop::collection::vec((0_u64..900, 1_u64..900), 1..60),
    ) {
        let [plain, tried] = [false, true].map(|tries| {
            let mut world = World::new(Discipline::Srpt);
            let mut now = 0;
            for &(us, bytes) in &trace {
                now += us;
                world.run(at(now));
                let spec = FlowSpec::new(0, Size::Exact(bytes), COST);
                match tries {
                    true => drop(world.arrive_at_once(spec)),
                    false => world.arrive(spec),
                }
            }
            world.run(at(u64::MAX / 2000));
            world.times_us()
        });
        prop_assert_eq!((plain.0, plain.1), (tried.0, tried.1));
        // Turns on the virtual link begin with those that are in it: a turn sooner or later.
        let is_near = plain.2.abs_diff(tried.2) <= 300 * plain.0;
        prop_assert!(is_near, "{plain:?} {tried:?}");
    }
}

#[test]
fn a_network_has_the_times_of_its_clients() {
    let [one, other] = [1, 2].map(|number| Some(Network([number; 17])));
    let mut world = World::new(Discipline::Srpt);
    world.fair().tell_networks(1);
    // As above: in turns of 300 bytes the small one ends 300 us later.
    for (us, bytes, network) in [(0, 6000, one), (1000, 600, other)] {
        world.run(at(us));
        let spec = FlowSpec::new(0, Size::Exact(bytes), COST);
        world.arrive(spec.of_network(network));
    }
    world.run(at(1_000_000));
    let now = world.now;
    let networks = world.fair().tally(now).networks();
    // The first to end has the place.
    let each: Vec<_> = networks.each(now, Span::Start).collect();
    assert_eq!(each.len(), 1);
    assert_eq!((Some(each[0].0), each[0].1.gain()), (other, Some(1.375)));
    let rest = networks.other(now, Span::Start).unwrap();
    assert_eq!((rest.responses, rest.gain()), (1.0, Some(1.0)));
}

#[test]
fn a_link_that_was_idle_begins_anew() {
    let trace = vec![(0, 300), (5000, 1200), (5000, 1200)];
    let mut world = World::new(Discipline::Srpt).play(&trace);
    let (actual, fair) = (300 + 1200 + 2400, 300 + 1800 + 2400);
    assert_eq!(world.times_us(), (3, actual, fair));
}

#[test]
fn a_change_of_the_rate_counts_for_what_is_under_way() {
    let mut world = World::new(Discipline::Srpt);
    world.arrive(FlowSpec::new(0, Size::Exact(3000), COST));
    world.arrive(FlowSpec::new(0, Size::Exact(3000), COST));
    world.run(at(3000));
    let now = world.now;
    world.desk.set_rate(now, RATE / 2);
    world.run(at(1_000_000));
    // What is left, 3,000 bytes, takes twice as long. A quantum is 200 bytes then, and the
    // last of each 100, which take 200 us.
    assert_eq!(world.times_us(), (2, 3000 + 9000, 8800 + 9000));
}

#[test]
fn what_is_debited_delays_both() {
    let mut world = World::new(Discipline::Srpt);
    world.desk.connect(at(0), 100);
    assert!(world.desk.fast_path(at(0), 200));
    world.desk.debit(at(0), 300);
    world.desk.refund(at(0), 50);
    world.arrive(FlowSpec::new(0, Size::Exact(300), COST));
    world.run(at(10_000));
    assert_eq!(world.times_us(), (1, 850, 850));
    // What waits in the lane of the fast path is no response, and takes its time.
    world.arrive(FlowSpec::new(0, Size::Exact(300), COST).in_lane(Lane::Express));
    world.arrive(FlowSpec::new(0, Size::Exact(300), COST));
    world.run(at(20_000));
    assert_eq!(world.times_us(), (2, 850 + 600, 850 + 600));
}

#[test]
fn a_response_that_is_cut_short_is_left_out_and_leaves_the_link() {
    let mut world = World::new(Discipline::Srpt);
    world.arrive(FlowSpec::new(0, Size::Exact(30_000), COST));
    world.run(at(1000));
    let (cut, _) = world.responses[0];
    world.desk.close(at(1000), cut);
    world.arrive(FlowSpec::new(0, Size::Exact(300), COST));
    world.run(at(100_000));
    // It waits for the quantum that is under way, and no longer.
    assert_eq!(world.times_us(), (1, 500, 500));
    let left_out = world.fair().tally(at(100_000)).left_out();
    let wanted = LeftOut {
        cut: 1,
        ..LeftOut::default()
    };
    assert_eq!(left_out, wanted);
    assert_eq!(world.fair().egress().open_flows(), 0);
}

/// A counterfactual that is told of flows one by one, and the uplink that names them.
struct Told {
    fair: Counterfactual,
    names: Egress,
}

impl Told {
    fn new() -> Self {
        Self::with(EgressPolicy::new(Discipline::Srpt))
    }

    fn with(policy: EgressPolicy) -> Self {
        Self {
            fair: Counterfactual::new(Time::ZERO, &Pacer::exact(RATE), &policy, &[]),
            names: Egress::new(Pacer::exact(RATE), policy),
        }
    }

    fn open(&mut self, us: u64, size: Size) -> FlowId {
        self.open_of(0, us, size)
    }

    fn open_of(&mut self, class: usize, us: u64, size: Size) -> FlowId {
        let spec = FlowSpec::new(class, size, COST);
        let flow = self.names.open(at(us), spec).unwrap();
        self.fair.open(at(us), flow, spec);
        flow
    }

    /// Offers `bytes` that are granted at once, on a link that is free.
    fn send(&mut self, us: u64, flow: FlowId, bytes: u64) {
        self.fair.offer(at(us), flow, bytes);
        self.fair.grant(at(us), flow, bytes, at(us + bytes));
    }

    fn end(&mut self, us: u64, flow: FlowId) {
        self.fair.complete(flow);
        self.fair.close(at(us), flow, 0);
        self.names.close(at(us), flow);
    }

    fn sent_by(&mut self, us: u64) -> u64 {
        self.fair.tally(at(us));
        self.fair.egress.stats().granted_bytes
    }

    fn times_us(&mut self, us: u64) -> (u64, u64) {
        let tally = self.fair.tally(at(us));
        let times: Times = tally.times(at(us), Span::Start).sum();
        let us = |seconds: f64| (seconds * 1e6).round() as u64;
        (us(times.actual_s), us(times.fair_s))
    }
}

#[test]
fn a_response_of_unknown_size_gets_no_further_than_what_it_has_in_hand() {
    let mut told = Told::new();
    let flow = told.open(0, Size::Unknown);
    told.fair.offer(at(0), flow, 500);
    assert_eq!(told.sent_by(10_000), 500);
    told.fair.grant(at(10_000), flow, 300, at(10_300));
    told.fair.offer(at(10_000), flow, 400);
    assert_eq!(told.sent_by(20_000), 700);
    told.fair.grant(at(20_000), flow, 400, at(20_400));
    told.end(20_000, flow);
    // The 200 bytes that came at 10,000 were sent then.
    assert_eq!(told.times_us(20_000), (20_400, 10_200));
}

#[test]
fn a_client_that_takes_no_more_holds_its_response_on_both_links() {
    let mut told = Told::new();
    let flow = told.open(0, Size::Exact(900));
    told.send(0, flow, 300);
    assert_eq!(told.sent_by(50_000), 300);
    told.send(50_000, flow, 300);
    told.send(100_000, flow, 300);
    told.end(100_000, flow);
    assert_eq!(told.times_us(200_000), (100_300, 100_300));
}

#[test]
fn a_response_is_no_faster_than_its_client_where_it_waits_for_the_link() {
    let mut told = Told::new();
    let flow = told.open(0, Size::Exact(9000));
    // Held for 10 ms, it has sent 300 bytes: 30 bytes in a millisecond.
    told.send(0, flow, 300);
    told.fair.offer(at(10_000), flow, 300);
    assert_eq!(told.sent_by(10_000), 600, "what it has in hand");
    assert_eq!(told.sent_by(30_000), 900);
    assert_eq!(told.sent_by(100_000), 3000);
    assert!(told.fair.watched.len() <= 1);
    told.fair.grant(at(100_000), flow, 300, at(100_300));
    assert_eq!(told.sent_by(200_000), 3000, "held");
}

#[test]
fn time_that_the_driver_loses_is_lost_on_both_links() {
    let mut world = World::new(Discipline::Srpt);
    world.arrive(FlowSpec::new(0, Size::Exact(900), COST));
    world.arrive(FlowSpec::new(0, Size::Exact(600), COST));
    // The next grant is due at 300, and made at 1,000.
    world.now = at(1000);
    world.run(at(10_000));
    // From then on 600 bytes by 1,600, 900 by 2,200; in turns by 1,900 and 2,200.
    let (responses, actual, fair) = world.times_us();
    assert_eq!((responses, actual), (2, 1600 + 2200));
    assert_eq!(fair, 1900 + 2200);
    // A link that no writer waited for has lost nothing.
    world.arrive(FlowSpec::new(0, Size::Exact(300), COST));
    world.run(at(20_000));
    assert_eq!(world.times_us(), (3, actual + 300, fair + 300));
}

#[test]
fn nothing_leaves_before_it_is_granted() {
    let mut told = Told::new();
    let flow = told.open(1000, Size::Exact(300));
    told.fair.offer(at(1000), flow, 300);
    // The link was idle, and its clock runs after the time by 200 us.
    told.fair.grant(at(1000), flow, 300, at(1100));
    told.end(1000, flow);
    assert_eq!(told.times_us(2000), (300, 300));
}

#[test]
fn a_stream_is_left_out() {
    let mut told = Told::new();
    let flow = told.open(0, Size::Unknown);
    told.send(0, flow, 300);
    told.fair.pause(at(1000), flow);
    told.send(101_000, flow, 300);
    told.end(101_000, flow);
    // A pause that is shorter is a slow source's.
    let flow = told.open(200_000, Size::Unknown);
    told.send(200_000, flow, 300);
    told.fair.pause(at(200_000), flow);
    told.send(299_999, flow, 300);
    told.end(299_999, flow);
    assert_eq!(told.times_us(1_000_000), (100_299, 100_299));
    let tally = told.fair.tally(at(1_000_000));
    assert_eq!(tally.left_out().streams, 1);
    assert_eq!(told.fair.egress.open_flows(), 0);
}

#[test]
fn what_is_written_instead_of_a_grant_is_what_counts() {
    let mut told = Told::new();
    let flow = told.open(0, Size::Exact(600));
    told.fair.offer(at(0), flow, 600);
    told.fair.grant(at(0), flow, 600, at(600));
    told.fair.written(at(0), flow, 600, 200);
    assert_eq!(told.sent_by(10_000), 300, "a quantum went at once");
    told.fair.offer(at(10_000), flow, 400);
    // Granted and not written: it has not ended.
    told.fair.grant(at(10_000), flow, 400, at(10_400));
    told.fair.complete(flow);
    told.fair.close(at(10_000), flow, 400);
    assert_eq!(told.times_us(20_000), (0, 0));
    assert_eq!(told.fair.tally(at(20_000)).left_out().cut, 1);
}

#[test]
fn the_virtual_link_is_bounded() {
    let mut told = Told::new();
    let flows: Vec<FlowId> = (0..=FLOWS_MAX)
        .map(|_| told.open(0, Size::Exact(300)))
        .collect();
    assert_eq!(told.fair.tally(at(0)).left_out().crowded, 1);
    assert_eq!(told.fair.responses.len(), FLOWS_MAX);
    for flow in flows {
        told.send(0, flow, 300);
        told.end(0, flow);
    }
    // All but the first are to be made up for at once, which is too much.
    let left = FLOWS_MAX as u64 - 1 - u64::from(STEPS_MAX);
    assert_eq!(
        told.fair.tally(at(300 * 20_000)).left_out().crowded,
        1 + left
    );
    assert_eq!(told.fair.egress.open_flows(), 0);
    // And it goes on.
    let now = 300 * 20_000;
    let before = told.times_us(now);
    let flow = told.open(now, Size::Exact(300));
    told.send(now, flow, 300);
    told.end(now, flow);
    let after = told.times_us(now + 300);
    assert_eq!(after.1 - before.1, 300);
}

#[test]
fn a_response_weighs_little() {
    assert!(size_of::<Response>() <= 168, "{}", size_of::<Response>());
}

#[test]
fn a_connections_streams_are_in_its_clients_order_on_both_links() {
    let mut world = World::new(Discipline::Srpt);
    let group = world.desk.egress_mut().open_group();
    let stream = |urgency, bytes| {
        let precedence = Precedence {
            urgency,
            incremental: false,
        };
        FlowSpec::new(0, Size::Exact(bytes), COST).in_lane(Lane::Grouped(group, precedence))
    };
    world.arrive(stream(5, 900));
    world.arrive(stream(3, 600));
    world.arrive(FlowSpec::new(0, Size::Exact(600), COST));
    world.run(at(10_000));
    // The stream of urgency 5 has the link for a quantum until the others come. By `fair`
    // that of urgency 3 takes turns with the other response, and the rest of urgency 5 in
    // its place when it is over.
    let (responses, actual, fair) = world.times_us();
    assert_eq!((responses, actual), (3, 900 + 1500 + 2100));
    assert_eq!(fair, 1200 + 1800 + 2100);
    let now = world.now;
    world.desk.close_group(now, group);
    assert!(world.fair().groups.iter().all(Option::is_none));
}

#[test]
fn classes_keep_their_part_of_the_link() {
    let class = |level| ClassSpec {
        level,
        ..ClassSpec::default()
    };
    let policy = EgressPolicy {
        classes: vec![class(1), class(0)],
        ..EgressPolicy::new(Discipline::Srpt)
    };
    let mut world = World::with(policy, RATE);
    world.arrive(FlowSpec::new(0, Size::Exact(600), COST));
    world.arrive(FlowSpec::new(1, Size::Exact(6000), COST));
    world.arrive(FlowSpec::new(1, Size::Exact(3000), COST));
    world.run(at(20_000));
    // The first has the link for a quantum until the others come. Their level is first on
    // both links, and shared by `fair`.
    assert_eq!(
        world.times_us(),
        (3, 3300 + 9300 + 9600, 6300 + 9300 + 9600)
    );
}

#[test]
fn a_response_is_whole_that_is_complete_or_has_all_of_a_known_size() {
    let mut told = Told::new();
    for (size, bytes) in [
        (Size::Exact(300), 300),
        (Size::Exact(600), 300),
        (Size::Unknown, 300),
    ] {
        let flow = told.open(0, size);
        told.send(0, flow, bytes);
        // Without a word that it is complete.
        told.fair.close(at(0), flow, 0);
        told.names.close(at(0), flow);
    }
    assert_eq!(told.times_us(10_000), (300, 300));
    assert_eq!(told.fair.tally(at(10_000)).left_out().cut, 2);
}

#[test]
fn one_that_offers_nothing_waits_no_longer_and_one_that_sent_nothing_does_not_count() {
    let mut told = Told::new();
    let flow = told.open(0, Size::Unknown);
    told.send(0, flow, 300);
    told.fair.offer(at(0), flow, 0);
    told.end(0, flow);
    let flow = told.open(0, Size::Unknown);
    told.end(0, flow);
    let tally = told.fair.tally(at(1000));
    assert_eq!(tally.left_out(), LeftOut::default());
    let times: Times = tally.times(at(1000), Span::Start).sum();
    assert_eq!(times.responses, 1.0);
}

#[test]
fn a_grant_of_which_nothing_is_sent_takes_no_time() {
    let mut told = Told::new();
    let flow = told.open(0, Size::Exact(300));
    let response = &mut told.fair.responses[0];
    assert_eq!(response.flow.index(), flow.index());
    response.grant(at(0), 300, at(300));
    response.grant_fairly(300, at(400));
    response.grant_fairly(0, at(900));
    let us = Duration::from_micros;
    let took = Took {
        actual: us(300),
        fair: us(400),
    };
    assert_eq!(response.times(), Some((300, took)));
}

#[test]
fn what_a_client_slows_down_is_looked_at_between_the_grants_of_others() {
    let mut told = Told::new();
    let slow = told.open(0, Size::Exact(9000));
    // As above: 30 bytes in a millisecond, looked at each 5 ms.
    told.send(0, slow, 300);
    told.fair.offer(at(10_000), slow, 300);
    assert_eq!(told.sent_by(31_000), 900);
    let other = told.open(31_000, Size::Exact(3000));
    told.send(31_000, other, 3000);
    told.end(31_000, other);
    assert_eq!(told.times_us(34_100), (3000, 3000));
}

#[test]
fn so_many_are_looked_at_and_no_more() {
    let mut told = Told::new();
    let flows: Vec<FlowId> = (0..=LOOKS_MAX)
        .map(|_| told.open(0, Size::Exact(9000)))
        .collect();
    for &flow in &flows {
        told.send(0, flow, 300);
    }
    // Held for ten seconds: 30 bytes in a second, so that all wait for their clients as soon
    // as they have sent what they have in hand.
    let held = 10_000_000;
    told.sent_by(held);
    for &flow in &flows {
        told.fair.offer(at(held), flow, 300);
    }
    for us in (0..200_000).step_by(10_000) {
        told.sent_by(held + us);
    }
    assert_eq!(told.fair.watched.len(), LOOKS_MAX);
    assert_eq!(told.fair.tally(at(held + 200_000)).left_out().crowded, 0);
}

#[test]
fn a_desk_tells_what_is_complete_and_when_a_source_pauses() {
    let estimate = Size::Estimate {
        bytes: 300,
        confidence: 0.5,
    };
    let mut world = World::new(Discipline::Srpt);
    // Its size is not known, so that only its writer can say that it is complete.
    world.arrive(FlowSpec::new(0, estimate, COST));
    world.run(at(1000));
    assert_eq!(world.times_us(), (1, 300, 300));
    let desk = &mut world.desk;
    let flow = desk
        .open(at(1000), FlowSpec::new(0, Size::Unknown, COST))
        .unwrap();
    for us in [1000, 101_000] {
        desk.wait(at(us), flow, 300);
        while desk.next(at(us)).is_some() {}
        assert_eq!(desk.take(at(us), flow).unwrap().bytes, 300);
        desk.pause(at(us), flow);
    }
    desk.complete(flow);
    desk.close(at(101_000), flow);
    let left_out = world.fair().tally(at(200_000)).left_out();
    let wanted = LeftOut {
        streams: 1,
        ..LeftOut::default()
    };
    assert_eq!(left_out, wanted);
}

/// Returns a policy of two classes of one level; the second is `idle_only` if `is_idle`.
fn two_classes(is_idle: bool) -> EgressPolicy {
    let idle = ClassSpec {
        idle_only: is_idle,
        ..ClassSpec::default()
    };
    EgressPolicy {
        classes: vec![ClassSpec::default(), idle],
        ..EgressPolicy::new(Discipline::Srpt)
    }
}

#[test]
fn what_is_announced_holds_the_idle_back_on_both_links_until_it_is_retracted() {
    let mut told = Told::with(two_classes(true));
    told.fair.announce(at(0));
    let flow = told.open_of(1, 0, Size::Exact(300));
    told.fair.offer(at(0), flow, 300);
    assert_eq!(told.sent_by(1000), 0);
    told.fair.retract(at(1000));
    assert_eq!(told.sent_by(1000), 300);
}

#[test]
fn another_order_of_the_classes_is_one_on_both_links() {
    for (is_changed, fair) in [(false, 1200 + 1500), (true, 900 + 1500)] {
        let mut told = Told::with(two_classes(false));
        if is_changed {
            let mut policy = two_classes(false);
            policy.classes[0].level = 1;
            told.fair.reconfigure(at(0), &policy);
        }
        let flows = [(0, 900), (1, 600)].map(|(class, bytes)| {
            let flow = told.open_of(class, 0, Size::Exact(bytes));
            told.send(0, flow, bytes);
            flow
        });
        for flow in flows {
            told.end(0, flow);
        }
        // The first has the link for a quantum until the other comes, and the first turn of
        // two that are equal.
        assert_eq!(told.times_us(10_000).1, fair);
    }
}

#[test]
fn only_policies_that_ask_for_sizes_have_something_to_gain() {
    assert!(!Counterfactual::is_of_use(&Discipline::Fair));
    assert!(!Counterfactual::is_of_use(&Discipline::Fcfs));
    assert!(Counterfactual::is_of_use(&Discipline::Srpt));
    assert!(Counterfactual::is_of_use(&Discipline::Las));
}

fn traces() -> impl Strategy<Value = Trace> {
    let bytes = prop_oneof![1..2000_u64, Just(300), 1..60_000_u64];
    let gaps = prop_oneof![0..50_u64, 1..1500_u64, 1..20_000_u64];
    prop::collection::vec((gaps, bytes), 1..60).prop_map(|arrivals| {
        let mut us = 0;
        let step = |(gap, bytes)| {
            us += gap;
            (us, bytes)
        };
        arrivals.into_iter().map(step).collect()
    })
}

proptest! {
    /// Checks that no time is gained or lost where the link is by `fair` already.
    #[test]
    fn fair_is_fair(trace in traces()) {
        let (count, actual, fair) = World::new(Discipline::Fair).play(&trace).times_us();
        prop_assert_eq!(count, trace.len() as u64);
        prop_assert_eq!(actual, fair);
    }

    /// Checks that the virtual link carries the same bytes as the real one, no sooner and no
    /// later: the last byte of all leaves at the same time, and the rate is never exceeded.
    #[test]
    fn the_virtual_link_carries_the_same(trace in traces(), is_srpt in any::<bool>()) {
        let discipline = match is_srpt {
            true => Discipline::Srpt,
            false => Discipline::Bands(Cutoffs::paper()),
        };
        let mut world = World::new(discipline);
        let mut most = 0;
        for &(us, bytes) in &trace {
            world.run(at(us));
            let carried = world.fair().egress().stats().wire_bytes;
            prop_assert!(carried <= us + 300, "{} bytes in {} us", carried, us);
            prop_assert!(carried >= most);
            most = carried;
            world.arrive(FlowSpec::new(0, Size::Exact(bytes), COST));
        }
        world.run(at(u64::MAX / 2000));
        let (count, ..) = world.times_us();
        prop_assert_eq!(count, trace.len() as u64);
        let total: u64 = trace.iter().map(|(_, bytes)| bytes).sum();
        let real = world.desk.egress().pacer().free_at();
        let fair = world.fair().egress();
        prop_assert_eq!(fair.stats().wire_bytes, total);
        prop_assert_eq!(fair.pacer().free_at(), real);
        prop_assert_eq!(fair.open_flows(), 0);
    }

    /// Checks that the times under `fair` are those of a real run under `fair`, whatever order
    /// the link is in.
    #[test]
    fn it_is_what_a_run_under_fair_has(trace in traces()) {
        let (_, fair, _) = World::new(Discipline::Fair).play(&trace).times_us();
        let (_, _, told) = World::new(Discipline::Srpt).play(&trace).times_us();
        prop_assert_eq!(fair, told);
    }
}
