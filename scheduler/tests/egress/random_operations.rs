//! Any operations in any order, also on flows that are closed, checked
//! against a model that knows the contract and nothing of heaps.

use std::time::Duration;

use proptest::prelude::*;
use sprat_scheduler::srq::{Terms, Trigger};
use sprat_scheduler::{
    AtCapacity, ClassSpec, Cutoffs, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant,
    Mark, Pacer, Sfd, Size, Time, WireCost, marking::Variant,
};

use crate::driver::{levels, plain, sfd, sfd_of, srq};

const MAX_FLOWS: usize = 12;

/// Bytes that a driver says it has written, less than.
const WRITTEN_MAX: u64 = 1 << 40;
pub(crate) const AGEING: u64 = 1_000_000;
pub(crate) const CUTOFFS: [u64; 3] = [1000, 5000, 20_000];

/// `flow` counts all flows ever opened, round and round.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Open(FlowSpec),
    Ready { flow: usize, bytes: u64 },
    Grant,
    Sent { flow: usize, bytes: u64 },
    Resize { flow: usize, size: Size },
    Close { flow: usize },
    FastPath { wire_bytes: u64 },
    Debit { wire_bytes: u64 },
    Refund { wire_bytes: u64 },
    SetRate { bits_per_s: u64 },
    Reconfigure(Discipline),
    Pass(Duration),
}

fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..3000,
        4 => 0u64..100_000,
        1 => prop::sample::select(vec![0, 1, 1448, 1 << 32, u64::MAX]),
    ]
}

fn size() -> impl Strategy<Value = Size> {
    prop_oneof![
        3 => amount().prop_map(Size::Exact),
        2 => (amount(), any::<f32>())
            .prop_map(|(bytes, confidence)| Size::Estimate { bytes, confidence }),
        1 => Just(Size::Unknown),
    ]
}

fn spec() -> impl Strategy<Value = FlowSpec> {
    let cost = prop_oneof![
        4 => Just(WireCost::ETHERNET_IPV4),
        1 => prop::sample::select(vec![plain(1, 0), plain(9000, 40), plain(0, u32::MAX)]),
    ];
    let class = prop_oneof![4 => Just(0usize), 2 => 0usize..4, 1 => any::<usize>()];
    (class, size(), cost).prop_map(|(class, size, cost)| FlowSpec::new(class, size, cost))
}

fn op() -> impl Strategy<Value = Op> {
    let flow = || 0usize..40;
    let wire_bytes = || 0u64..5000;
    prop_oneof![
        4 => spec().prop_map(Op::Open),
        8 => (flow(), amount()).prop_map(|(flow, bytes)| Op::Ready { flow, bytes }),
        8 => Just(Op::Grant),
        4 => (flow(), amount()).prop_map(|(flow, bytes)| Op::Sent { flow, bytes }),
        2 => (flow(), size()).prop_map(|(flow, size)| Op::Resize { flow, size }),
        2 => flow().prop_map(|flow| Op::Close { flow }),
        1 => wire_bytes().prop_map(|wire_bytes| Op::FastPath { wire_bytes }),
        1 => wire_bytes().prop_map(|wire_bytes| Op::Debit { wire_bytes }),
        1 => wire_bytes().prop_map(|wire_bytes| Op::Refund { wire_bytes }),
        1 => (0u64..100_000_000_000).prop_map(|bits_per_s| Op::SetRate { bits_per_s }),
        1 => discipline().prop_map(Op::Reconfigure),
        4 => (0u64..10_000_000).prop_map(|nanos| Op::Pass(Duration::from_nanos(nanos))),
    ]
}

fn discipline() -> impl Strategy<Value = Discipline> {
    prop::sample::select(vec![
        Discipline::Fcfs,
        Discipline::Fair,
        Discipline::Srpt,
        Discipline::SrptAged {
            ageing_bytes_per_s: AGEING,
        },
        Discipline::Bands(Cutoffs::Fixed(CUTOFFS.to_vec())),
        Discipline::Bands(Cutoffs::Learnt { classes: 4 }),
        Discipline::Edf,
        Discipline::Vrd,
        srq(Trigger::Always),
        srq(Trigger::Waiting(2)),
        Discipline::Las,
        short_first(),
        shared_short_first(),
        sfd(Variant::PSfd, THRESHOLD, 0.5),
    ])
}

/// Bytes up to which flows are short.
const THRESHOLD: u64 = 5_000;

/// Short flows strictly first.
pub(crate) fn short_first() -> Discipline {
    sfd(Variant::Sfd, THRESHOLD, 0.0)
}

/// All that the discipline of short flows has, of which the model knows levels alone.
pub(crate) fn shared_short_first() -> Discipline {
    Discipline::Sfd(Sfd {
        use_size: true,
        ..sfd_of(Variant::SSfd, THRESHOLD, 0.3)
    })
}

/// Classes of which every third has deadlines, and they have different values.
fn classes() -> Vec<ClassSpec> {
    let mut classes = levels(16);
    for (index, class) in (0..).zip(&mut classes) {
        class.value = index;
        if index % 3 != 0 {
            class.deadline = Some(Duration::from_millis(u64::from(index)));
            class.soft_deadline = (index % 3 == 2).then(|| Duration::from_millis(1));
        }
    }
    classes
}

struct ModelFlow {
    id: FlowId,
    spec: FlowSpec,
    arrival: Time,
    open: bool,
    ready: u64,
    outstanding: u64,
    attained: u64,
    /// Bytes sent since the flow was new, under a discipline that asks.
    recent: u64,
    /// When it was granted something last under one.
    marked_at: Option<Time>,
    /// The mark of what is outstanding.
    mark: Option<Mark>,
}

impl ModelFlow {
    fn remaining(&self) -> u64 {
        match self.spec.size {
            Size::Exact(bytes) | Size::Estimate { bytes, .. } if bytes > self.attained => {
                bytes - self.attained
            }
            _ => self.attained,
        }
    }

    fn terms(&self) -> Option<Terms> {
        let class = &classes()[self.spec.class.min(15)];
        let hard = class.deadline?;
        Some(Terms {
            soft: class.soft_deadline.unwrap_or(hard),
            hard,
            value: class.value,
        })
    }

    /// What the discipline orders by, where that is known without a history.
    fn key(&self, discipline: &Discipline, now: Time) -> u64 {
        match discipline {
            Discipline::Fcfs | Discipline::Fair | Discipline::Srq(_) => 0,
            Discipline::Edf => self.terms().map_or(u64::MAX, |own| own.edf(self.arrival)),
            Discipline::Vrd => {
                let key = |own: Terms| own.vrd(self.arrival, now);
                self.terms().map_or(u64::MAX, key)
            }
            Discipline::Srpt => self.remaining(),
            Discipline::SrptAged { .. } => (self.arrival.as_nanos() / (1_000_000_000 / AGEING))
                .saturating_add(self.remaining()),
            Discipline::Bands(Cutoffs::Fixed(_)) => {
                let above = |cutoff: &&u64| **cutoff < self.remaining();
                CUTOFFS.iter().filter(above).count() as u64
            }
            Discipline::Bands(Cutoffs::Learnt { .. }) => 0,
            Discipline::Las => self.attained,
            Discipline::Sfd(sfd) if sfd.out_share == 0.0 => u64::from(self.recent > THRESHOLD),
            Discipline::Sfd(_) => 0,
        }
    }
}

pub(crate) struct Model {
    discipline: Discipline,
    egress: Egress,
    now: Time,
    flows: Vec<ModelFlow>,
    granted: u64,
    refunded: u64,
    sent: u64,
    overhead: u64,
}

impl Model {
    pub(crate) fn new(discipline: Discipline) -> Self {
        let egress = Egress::new(
            Pacer::exact(10_000_000),
            EgressPolicy {
                max_flows: MAX_FLOWS,
                classes: classes(),
                ..EgressPolicy::new(discipline.clone())
            },
        );
        Self {
            discipline,
            egress,
            now: Time::ZERO,
            flows: Vec::new(),
            granted: 0,
            refunded: 0,
            sent: 0,
            overhead: 0,
        }
    }

    pub(crate) fn apply(&mut self, op: Op) {
        let now = self.now;
        match op {
            Op::Open(spec) => self.open(spec),
            Op::Grant => self.grant(),
            Op::Pass(time) => self.now = now + time,
            Op::SetRate { bits_per_s } => self.egress.set_rate(now, bits_per_s),
            Op::Reconfigure(discipline) => {
                let change = EgressPolicy {
                    max_flows: MAX_FLOWS,
                    classes: classes(),
                    ..EgressPolicy::new(discipline.clone())
                };
                self.egress.reconfigure(now, change);
                self.discipline = discipline;
            }
            Op::FastPath { wire_bytes } => {
                if self.egress.fast_path(now, wire_bytes) {
                    self.overhead += wire_bytes;
                }
            }
            Op::Debit { wire_bytes } => {
                self.egress.debit(now, wire_bytes);
                self.overhead += wire_bytes;
            }
            Op::Refund { wire_bytes } => {
                self.egress.refund(now, wire_bytes);
                self.overhead = self.overhead.saturating_sub(wire_bytes);
            }
            Op::Ready { flow, bytes } => self.ready(flow, bytes),
            Op::Sent { flow, bytes } => {
                if let Some(flow) = self.pick(flow) {
                    self.written(flow, bytes % WRITTEN_MAX);
                }
            }
            Op::Resize { flow, size } => {
                if let Some(flow) = self.pick(flow) {
                    self.egress.resize(now, self.flows[flow].id, size);
                    self.flows[flow].spec.size = size;
                }
            }
            Op::Close { flow } => {
                if let Some(flow) = self.pick(flow) {
                    self.egress.close(now, self.flows[flow].id);
                    self.settle(flow, 0);
                    self.flows[flow].open = false;
                    self.flows[flow].ready = 0;
                }
            }
        }
        self.check();
    }

    fn pick(&self, flow: usize) -> Option<usize> {
        flow.checked_rem(self.flows.len())
    }

    fn count(&self, what: impl Fn(&ModelFlow) -> bool) -> usize {
        self.flows.iter().filter(|flow| what(flow)).count()
    }

    fn open(&mut self, spec: FlowSpec) {
        let full = self.count(|flow| flow.open) == MAX_FLOWS;
        match self.egress.open(self.now, spec) {
            Ok(id) => {
                assert!(!full);
                assert!(id.index() < MAX_FLOWS);
                assert!(self.flows.iter().all(|flow| flow.id != id));
                self.flows.push(ModelFlow {
                    id,
                    spec,
                    arrival: self.now,
                    open: true,
                    ready: 0,
                    outstanding: 0,
                    attained: 0,
                    recent: 0,
                    marked_at: None,
                    mark: None,
                });
            }
            Err(AtCapacity { max_flows }) => assert!(full && max_flows == MAX_FLOWS),
        }
    }

    fn ready(&mut self, flow: usize, bytes: u64) {
        let Some(flow) = self.pick(flow) else {
            return;
        };
        self.egress.offer(self.now, self.flows[flow].id, bytes);
        let outstanding = self.flows[flow].outstanding;
        self.settle(flow, outstanding);
        if self.flows[flow].open {
            let idle = self.marking().map(|sfd| sfd.marking.idle);
            let flow = &mut self.flows[flow];
            let last = flow.marked_at.filter(|_| flow.ready == 0);
            if last
                .zip(idle)
                .is_some_and(|(last, idle)| self.now.since(last) > idle)
            {
                flow.recent = 0;
            }
        }
        if self.flows[flow].open {
            self.flows[flow].ready = bytes;
        }
    }

    fn written(&mut self, flow: usize, bytes: u64) {
        self.egress.written(self.now, self.flows[flow].id, bytes);
        if self.flows[flow].open {
            self.settle(flow, bytes);
        }
    }

    /// So much was sent, whether more or less than what is outstanding.
    fn settle(&mut self, flow: usize, bytes: u64) {
        let is_marked = self.marking().is_some();
        let flow = &mut self.flows[flow];
        let outstanding = std::mem::take(&mut flow.outstanding);
        if is_marked && flow.mark.is_some() {
            let unsent = outstanding.saturating_sub(bytes);
            flow.recent = flow.recent.saturating_sub(unsent);
        }
        if is_marked {
            flow.recent += bytes.saturating_sub(outstanding);
        }
        flow.attained += bytes;
        self.sent += bytes;
        self.granted += bytes.saturating_sub(outstanding);
        self.refunded += outstanding.saturating_sub(bytes);
    }

    fn grant(&mut self) {
        let waiting = self.count(|flow| flow.ready > 0);
        let free_at = self.egress.pacer().next_grant_at();
        let (id, bytes) = match self.egress.grant(self.now) {
            Grant::Idle => return assert_eq!(waiting, 0, "idle while flows wait"),
            Grant::Wait { until } => {
                assert!(waiting > 0);
                assert!(until > self.now, "waits for a link that is free");
                return assert_eq!(until, free_at);
            }
            Grant::Send { flow, bytes } => (flow, bytes),
        };
        assert!(free_at <= self.now, "granted on a busy link");
        let granted = self.flows.iter().position(|flow| flow.id == id);
        let granted = granted.expect("only what was opened is granted");
        self.check_turn(granted);

        let pacer = self.egress.pacer();
        let mark = self.egress.granted_mark(id);
        let marking = self.marking();
        assert_eq!(mark.is_some(), marking.is_some());
        let flow = &mut self.flows[granted];
        flow.mark = mark;
        if let Some(sfd) = marking {
            let is_strict = sfd.out_share == 0.0;
            let is_out = flow.recent > THRESHOLD;
            assert!(!is_strict || mark == Some(Mark::ALL[usize::from(is_out)]));
            flow.recent += bytes;
            flow.marked_at = Some(self.now);
        }
        assert!(flow.open);
        assert!((1..=flow.ready).contains(&bytes), "more than was ready");
        let mss = u64::from(flow.spec.cost.mss.max(1));
        assert!(bytes == flow.ready || bytes.is_multiple_of(mss));
        let wire_bytes = flow.spec.cost.bytes(bytes);
        assert!(bytes <= mss || wire_bytes <= 448 << 10);
        let free_at = free_at.max(self.now) + pacer.time_for(wire_bytes);
        assert_eq!(pacer.next_grant_at(), free_at);
        flow.ready = 0;
        flow.outstanding = bytes;
        self.granted += bytes;
    }

    /// The flow granted comes first by level and key and, where these are all
    /// there is to the order, by arrival.
    fn check_turn(&self, granted: usize) {
        let total = matches!(
            self.discipline,
            Discipline::Fcfs
                | Discipline::Srpt
                | Discipline::SrptAged { .. }
                | Discipline::Edf
                | Discipline::Vrd
                | Discipline::Las
        );
        let rank = |index: usize| {
            let flow = &self.flows[index];
            let seq = if total { index } else { 0 };
            (
                flow.spec.class.min(15),
                flow.key(&self.discipline, self.now),
                seq,
            )
        };
        let ready = (0..self.flows.len()).filter(|&flow| self.flows[flow].ready > 0);
        assert_eq!(Some(rank(granted)), ready.map(rank).min());
    }

    fn check(&self) {
        let waiting = self.count(|flow| flow.ready > 0);
        assert_eq!(self.egress.open_flows(), self.count(|flow| flow.open));
        assert_eq!(self.egress.waiting_flows(), waiting);
        let wakeup = (waiting > 0).then(|| self.egress.pacer().next_grant_at());
        assert_eq!(self.egress.next_wakeup(), wakeup);

        let stats = self.egress.stats();
        let outstanding: u64 = self.flows.iter().map(|flow| flow.outstanding).sum();
        assert_eq!(stats.granted_bytes, self.granted - self.refunded);
        assert_eq!(stats.granted_bytes, self.sent + outstanding);
        assert_eq!(stats.overhead_bytes, self.overhead);
        assert!(self.egress.cutoffs().is_sorted());
    }

    fn marking(&self) -> Option<Sfd> {
        match self.discipline {
            Discipline::Sfd(sfd) => Some(sfd),
            _ => None,
        }
    }

    /// Closes what has too much to send, serves the rest to the end.
    pub(crate) fn drain(&mut self) {
        self.egress.set_rate(self.now, 1_000_000_000);
        for flow in 0..self.flows.len() {
            if self.flows[flow].ready > 200_000 {
                self.apply(Op::Close { flow });
            }
        }
        while self.count(|flow| flow.ready > 0) > 0 {
            self.now = self.now.max(self.egress.pacer().next_grant_at());
            let ready: Vec<u64> = self.flows.iter().map(|flow| flow.ready).collect();
            self.apply(Op::Grant);
            let granted = (0..ready.len()).find(|&flow| self.flows[flow].ready != ready[flow]);
            let flow = granted.expect("a free link and a flow that is ready");
            let bytes = ready[flow] - self.flows[flow].outstanding;
            self.apply(Op::Ready { flow, bytes });
        }
        assert_eq!(self.egress.grant(self.now), Grant::Idle);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_contract_holds_after_any_operations(
        discipline in discipline(),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut model = Model::new(discipline);
        ops.into_iter().for_each(|op| model.apply(op));
        model.drain();
    }
}
