//! What holds of classes, connections, clients and changes of them, after any
//! operations in any order: above all that each flow that is ready is served in the end.

use std::time::Duration;

use proptest::prelude::*;
use sprat_scheduler::{
    ClassSpec, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, GroupId, Lane, Pacer,
    Precedence, Size, Time,
};

use crate::driver::{disciplines, egress_of, plain, share};

/// Connections with several responses.
const GROUPS: usize = 3;

/// A sequence of operations on classes; flows and classes round and round.
#[derive(Clone, Debug)]
enum Op {
    Open {
        class: usize,
        bytes: u64,
        client: Option<u64>,
    },
    Ready {
        flow: usize,
    },
    Pause {
        flow: usize,
    },
    Serve {
        part: u64,
    },
    Close {
        flow: usize,
    },
    /// On a connection, with what its client says.
    OpenIn {
        class: usize,
        bytes: u64,
        group: usize,
        urgency: u8,
        client: Option<u64>,
    },
    CloseGroup {
        group: usize,
    },
    Resize {
        flow: usize,
        bytes: u64,
    },
    /// Whether clients share the link.
    Share(bool),
    Announce,
    Retract,
    SetRate {
        bits_per_s: u64,
    },
    Reconfigure {
        discipline: Discipline,
        classes: Vec<ClassSpec>,
    },
    Pass(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0usize..8, 1u64..40, client()).prop_map(
            |(class, bytes, client)| Op::Open { class, bytes, client }
        ),
        2 => (0usize..40).prop_map(|flow| Op::Ready { flow }),
        2 => (0usize..40).prop_map(|flow| Op::Pause { flow }),
        10 => prop_oneof![3 => Just(u64::MAX), 1 => 0u64..2].prop_map(|part| Op::Serve { part }),
        1 => (0usize..40).prop_map(|flow| Op::Close { flow }),
        3 => (0usize..8, 1u64..40, 0usize..GROUPS, 0u8..8, client()).prop_map(
            |(class, bytes, group, urgency, client)| {
                Op::OpenIn { class, bytes, group, urgency, client }
            }
        ),
        1 => any::<bool>().prop_map(Op::Share),
        1 => (0usize..GROUPS).prop_map(|group| Op::CloseGroup { group }),
        1 => (0usize..40, 0u64..80).prop_map(|(flow, bytes)| Op::Resize { flow, bytes }),
        1 => (4_000u64..80_000).prop_map(|bits_per_s| Op::SetRate { bits_per_s }),
        1 => (prop::sample::select(disciplines()), any_classes())
            .prop_map(|(discipline, classes)| Op::Reconfigure { discipline, classes }),
        1 => Just(Op::Announce),
        1 => Just(Op::Retract),
        3 => (0u64..8_000).prop_map(Op::Pass),
    ]
}

fn client() -> impl Strategy<Value = Option<u64>> {
    prop::option::weighted(0.8, 0u64..3)
}

fn any_class() -> impl Strategy<Value = ClassSpec> {
    let pool = prop_oneof![3 => Just(usize::MAX), 1 => 1usize..3];
    let rate = prop_oneof![3 => Just(None), 1 => (500u64..20_000).prop_map(Some)];
    let ms = |ms| Duration::from_millis(ms);
    let deadline = prop::option::of((0u64..40).prop_map(ms));
    let terms = (deadline.clone(), deadline, 0u32..3);
    (
        0u8..3,
        1u32..4,
        pool,
        rate,
        prop::bool::weighted(0.2),
        terms,
    )
        .prop_map(
            |(level, weight, max_concurrency, rate_bits_per_s, idle_only, terms)| ClassSpec {
                deadline: terms.0,
                soft_deadline: terms.1,
                value: terms.2,
                level,
                weight,
                max_concurrency,
                rate_bits_per_s,
                idle_only,
                ..ClassSpec::default()
            },
        )
}

fn any_classes() -> impl Strategy<Value = Vec<ClassSpec>> {
    prop::collection::vec(any_class(), 1..6)
}

struct Flow {
    id: FlowId,
    class: usize,
    left: u64,
    ready: bool,
    open: bool,
    /// Has been granted something.
    begun: bool,
}

struct Sent {
    at: Time,
    wire_bytes: u64,
    /// The time that the class had had something to send by then.
    waited: Duration,
}

struct Model {
    classes: Vec<ClassSpec>,
    egress: Egress,
    now: Time,
    flows: Vec<Flow>,
    groups: [GroupId; GROUPS],
    announced: usize,
    /// By class, at its present rate.
    sent: Vec<Vec<Sent>>,
    /// The time that each class has had something to send, so far.
    waited: Vec<Duration>,
    /// All that was sent.
    sent_bytes: u64,
}

impl Model {
    fn new(classes: Vec<ClassSpec>) -> Self {
        let mut egress = egress_of(Discipline::Srpt, Pacer::exact(8000), classes.clone());
        Self {
            groups: [(); GROUPS].map(|()| egress.open_group()),
            egress,
            now: Time::ZERO,
            flows: Vec::new(),
            announced: 0,
            sent: classes.iter().map(|_| Vec::new()).collect(),
            waited: vec![Duration::ZERO; classes.len()],
            sent_bytes: 0,
            classes,
        }
    }

    fn pick(&self, flow: usize) -> Option<usize> {
        let flow = flow.checked_rem(self.flows.len())?;
        self.flows[flow].open.then_some(flow)
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Open {
                class,
                bytes,
                client,
            } => {
                let spec = self.spec(class, bytes, client);
                let id = self.egress.open(self.now, spec);
                self.begin(id.expect("there is room"), &spec);
            }
            Op::OpenIn {
                class,
                bytes,
                group,
                urgency,
                client,
            } => {
                let spec = self.spec(class, bytes, client);
                let precedence = Precedence {
                    urgency,
                    incremental: urgency % 2 == 1,
                };
                let group = self.groups[group];
                let id = self
                    .egress
                    .open(self.now, spec.in_lane(Lane::Grouped(group, precedence)));
                self.begin(id.expect("there is room"), &spec);
            }
            Op::CloseGroup { group } => {
                let gone = &mut self.groups[group];
                self.egress.close_group(self.now, *gone);
                *gone = self.egress.open_group();
            }
            Op::Ready { flow } => self.set_ready(flow, true),
            Op::Pause { flow } => self.set_ready(flow, false),
            Op::Resize { flow, bytes } => {
                if let Some(flow) = self.pick(flow) {
                    let size = Size::Exact(bytes);
                    self.egress.resize(self.now, self.flows[flow].id, size);
                }
            }
            Op::Serve { part } => {
                self.serve(part);
            }
            Op::Close { flow } => {
                if let Some(flow) = self.pick(flow) {
                    self.close(flow);
                }
            }
            Op::Share(shares) => share(&mut self.egress, self.now, shares),
            Op::Announce => {
                self.announced += 1;
                self.egress.announce(self.now);
            }
            Op::Retract if self.announced > 0 => {
                self.announced -= 1;
                self.egress.retract();
            }
            Op::Retract => {}
            Op::SetRate { bits_per_s } => self.egress.set_rate(self.now, bits_per_s),
            Op::Reconfigure {
                discipline,
                classes,
            } => self.reconfigure(discipline, classes),
            Op::Pass(micros) => self.pass(self.now + Duration::from_micros(micros)),
        }
        let waiting = self.flows.iter().filter(|flow| flow.ready).count();
        assert_eq!(self.egress.waiting_flows(), waiting);
        for (class, stats) in self.egress.class_stats().iter().enumerate() {
            let open = self.flows.iter().filter(|f| f.open && f.class == class);
            assert_eq!(stats.open_flows, open.count());
        }
    }

    fn spec(&self, class: usize, bytes: u64, client: Option<u64>) -> FlowSpec {
        FlowSpec::new(class % self.classes.len(), Size::Exact(bytes), plain(1, 0)).of_client(client)
    }

    fn begin(&mut self, id: FlowId, spec: &FlowSpec) {
        let left = spec.size.bytes().expect("all are known");
        self.egress.offer(self.now, id, left);
        self.flows.push(Flow {
            id,
            class: spec.class,
            left,
            ready: true,
            open: true,
            begun: false,
        });
    }

    fn set_ready(&mut self, flow: usize, ready: bool) {
        if let Some(flow) = self.pick(flow) {
            let flow = &mut self.flows[flow];
            flow.ready = ready;
            let bytes = if ready { flow.left } else { 0 };
            self.egress.offer(self.now, flow.id, bytes);
        }
    }

    /// Classes are what they are from now on, and those that are missing
    /// become plain ones.
    fn reconfigure(&mut self, discipline: Discipline, mut classes: Vec<ClassSpec>) {
        let change = EgressPolicy {
            max_flows: 1000,
            guard_factor: 8.0,
            classes: classes.clone(),
            discipline,
            ..self.egress.policy().clone()
        };
        self.egress.reconfigure(self.now, change);
        classes.resize(classes.len().max(self.classes.len()), ClassSpec::default());
        self.check_rates();
        self.sent.resize_with(classes.len(), Vec::new);
        self.waited.resize(classes.len(), Duration::ZERO);
        let before = self.classes.iter().zip(&classes);
        for ((before, after), sent) in before.zip(&mut self.sent) {
            if before.rate_bits_per_s != after.rate_bits_per_s {
                sent.clear();
            }
        }
        self.classes = classes;
    }

    /// Lets time pass until `to`, in which classes with a ready flow wait.
    fn pass(&mut self, to: Time) {
        for (class, waited) in self.waited.iter_mut().enumerate() {
            if self
                .flows
                .iter()
                .any(|flow| flow.ready && flow.class == class)
            {
                *waited += to.since(self.now);
            }
        }
        self.now = to;
    }

    fn close(&mut self, flow: usize) {
        let flow = &mut self.flows[flow];
        self.egress.close(self.now, flow.id);
        (flow.open, flow.ready) = (false, false);
    }

    /// Whether a flow's class lets it send now, as far as its pool goes.
    fn has_place(&self, flow: &Flow) -> bool {
        let places = self.flows.iter();
        let taken = places.filter(|f| f.open && f.begun && f.class == flow.class);
        flow.begun || taken.count() < self.classes[flow.class].max_concurrency
    }

    fn serve(&mut self, part: u64) -> bool {
        let limited = |class: &ClassSpec| class.rate_bits_per_s.is_some();
        match self.egress.grant(self.now) {
            Grant::Send { flow, bytes } => {
                let granted = self.flows.iter().position(|f| f.id == flow);
                let granted = granted.expect("it was opened");
                self.check_turn(granted);
                let bytes_sent = bytes.min(part);
                self.egress.written(self.now, flow, bytes_sent);
                let flow = &mut self.flows[granted];
                assert!(flow.ready && (1..=flow.left).contains(&bytes));
                flow.left -= bytes_sent;
                flow.begun = true;
                self.sent[flow.class].push(Sent {
                    at: self.now,
                    wire_bytes: bytes_sent,
                    waited: self.waited[flow.class],
                });
                self.sent_bytes += bytes_sent;
                if flow.left == 0 {
                    self.close(granted);
                } else {
                    self.egress.offer(self.now, flow.id, flow.left);
                }
                true
            }
            Grant::Wait { until } => {
                assert!(until > self.now);
                until_is_due(self, until);
                false
            }
            Grant::Idle => {
                // Work conservation: only full pools leave the link idle for
                // good, with somebody ready.
                let mut ready = self.flows.iter().filter(|flow| flow.ready);
                assert!(
                    !ready.any(|flow| self.has_place(flow) && !limited(&self.classes[flow.class]))
                );
                false
            }
        }
    }

    /// Checks that no flow of a higher level could have gone, and that idle-only goes last.
    fn check_turn(&self, granted: usize) {
        let flow = &self.flows[granted];
        assert!(self.has_place(flow), "the pool was full");
        let own = &self.classes[flow.class];
        for other in self.flows.iter().filter(|other| other.ready) {
            let class = &self.classes[other.class];
            if class.rate_bits_per_s.is_none() && self.has_place(other) {
                let before = (class.idle_only, class.level) < (own.idle_only, own.level);
                assert!(!before, "{class:?} should go before {own:?}");
            }
        }
    }

    /// In any window, no more than the rate, one byte, and what the class could not send
    /// within a second before.
    fn check_rates(&self) {
        for (class, sent) in self.classes.iter().zip(&self.sent) {
            let Some(rate) = class.rate_bits_per_s else {
                continue;
            };
            for (index, first) in sent.iter().enumerate() {
                let mut bytes = 0;
                for each in &sent[index..] {
                    bytes += each.wire_bytes;
                    let time = each.at.since(first.at) + first.waited.min(Duration::from_secs(1));
                    let carried = time.as_secs_f64() * rate as f64 / 8.0;
                    assert!(bytes as f64 <= carried + 1.01, "{bytes} in {carried}");
                }
            }
        }
    }

    /// Whatever has happened, all that is ready is sent in the end.
    fn drain(&mut self) {
        while self.announced > 0 {
            self.apply(Op::Retract);
        }
        for flow in 0..self.flows.len() {
            self.apply(Op::Ready { flow });
        }
        let mut waits = 0;
        while self.egress.waiting_flows() > 0 {
            if self.serve(u64::MAX) {
                waits = 0;
                continue;
            }
            waits += 1;
            assert!(waits < 4, "time passes and nothing is sent");
            let wakeup = self.egress.next_wakeup().expect("somebody is ready");
            let Grant::Wait { until } = self.egress.grant(self.now) else {
                panic!("idle though somebody is ready");
            };
            self.pass(until.max(wakeup));
        }
        assert!(
            self.flows
                .iter()
                .all(|flow| !flow.open && flow.left == 0 || !flow.ready)
        );
    }
}

/// Checks that a wait is right: the link is busy, or each flow that is ready is
/// limited or in the background.
fn until_is_due(model: &Model, until: Time) {
    if model.egress.pacer().next_grant_at() > model.now {
        assert_eq!(until, model.egress.pacer().next_grant_at());
        return;
    }
    for flow in model.flows.iter().filter(|flow| flow.ready) {
        let class = &model.classes[flow.class];
        let waits = class.rate_bits_per_s.is_some() || class.idle_only || !model.has_place(flow);
        assert!(waits, "the link is free, and {class:?} may send");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Bytes are conserved, levels and pools and rates are kept, and the link
    /// idles only when a class's own limit, or what has begun, says so.
    #[test]
    fn classes_keep_their_contract(
        classes in any_classes(),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut model = Model::new(classes);
        ops.into_iter().for_each(|op| model.apply(op));
        model.drain();
        model.check_rates();
        prop_assert_eq!(model.egress.stats().granted_bytes, model.sent_bytes);
        let by_class = model.egress.class_stats().iter().map(|stats| stats.granted_bytes);
        prop_assert_eq!(by_class.sum::<u64>(), model.sent_bytes);
    }
}
