//! Drives an [`Egress`] in virtual time: what arrives is ready with all that
//! it has left, writes what it is granted, and closes when it is done.

use std::time::Duration;

use sprat_scheduler::srq::{self, Trigger};
use sprat_scheduler::{
    ClassSpec, Cutoffs, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, GroupId, Lane,
    Marking, Pacer, Precedence, Sfd, Size, Time, WireCost, marking::Variant,
};

/// A link and what a segment costs on it.
#[derive(Clone, Copy)]
pub(crate) struct Link {
    pub(crate) rate_bits_per_s: u64,
    pub(crate) cost: WireCost,
}

/// One byte a grant, one grant a millisecond: the unit of the exact orders.
pub(crate) const UNIT: Link = segments_of(1);

/// One segment of `mss` bytes a grant, one grant a millisecond, no headers.
pub(crate) const fn segments_of(mss: u32) -> Link {
    Link {
        rate_bits_per_s: 8000 * mss as u64,
        cost: plain(mss, 0),
    }
}

/// A wire with segments of `mss` bytes and headers of `overhead`.
pub(crate) const fn plain(mss: u32, overhead: u32) -> WireCost {
    WireCost {
        mss,
        segment_overhead: overhead,
        connection_overhead: 0,
        record_overhead: 0,
    }
}

pub(crate) fn ms(ms: u64) -> Time {
    Time::from_nanos(ms * 1_000_000)
}

/// Has a link see one head a second, until there is something to compare a flood with;
/// returns when that is, which is the beginning of a window.
pub(crate) fn seconds_of_calm(egress: &mut Egress) -> Time {
    for second in 0..4 {
        assert!(egress.fast_path(ms(second * 1000), 1));
    }
    ms(4000)
}

pub(crate) fn egress(discipline: Discipline, pacer: Pacer) -> Egress {
    egress_of(discipline, pacer, levels(16))
}

pub(crate) fn egress_of(discipline: Discipline, pacer: Pacer, classes: Vec<ClassSpec>) -> Egress {
    Egress::new(
        pacer,
        EgressPolicy {
            max_flows: 1000,
            guard_factor: 8.0,
            classes,
            ..EgressPolicy::new(discipline)
        },
    )
}

/// Gives part of the link to what has waited longest.
pub(crate) fn set_floor(egress: &mut Egress, now: Time, floor_percent: u8) {
    let policy = EgressPolicy {
        floor_percent,
        ..egress.policy().clone()
    };
    egress.reconfigure(now, policy);
}

/// Has clients share the link, or no longer.
pub(crate) fn share(egress: &mut Egress, now: Time, share_between_clients: bool) {
    let policy = EgressPolicy {
        share_between_clients,
        ..egress.policy().clone()
    };
    egress.reconfigure(now, policy);
}

/// Classes that differ by level alone: class 0 is of level 0, and so on.
pub(crate) fn levels(count: u8) -> Vec<ClassSpec> {
    let class = |level| ClassSpec {
        level,
        ..ClassSpec::default()
    };
    (0..count).map(class).collect()
}

/// Every discipline, with parameters that make it differ from the others on
/// flows of a few bytes.
pub(crate) fn disciplines() -> Vec<Discipline> {
    vec![
        Discipline::Fcfs,
        Discipline::Fair,
        Discipline::Srpt,
        Discipline::SrptAged {
            ageing_bytes_per_s: 1000,
        },
        Discipline::Bands(Cutoffs::Fixed(vec![1, 2])),
        Discipline::Bands(Cutoffs::paper()),
        Discipline::Bands(Cutoffs::Learnt { classes: 6 }),
        Discipline::Edf,
        Discipline::Vrd,
        srq(Trigger::Always),
        srq(Trigger::Waiting(2)),
        Discipline::Las,
        sfd(Variant::Sfd, 1, 0.0),
        sfd(Variant::Sfd, 1, 0.5),
        Discipline::Sfd(Sfd {
            use_size: true,
            ..sfd_of(Variant::SSfd, 1, 0.3)
        }),
    ]
}

/// Short flows first, with one of every three bytes or segments promoted in S-SFD, and
/// flows that are new after 20 ms.
pub(crate) fn sfd_of(variant: Variant, threshold_bytes: u64, out_share: f64) -> Sfd {
    Sfd {
        marking: Marking {
            variant,
            threshold_bytes,
            idle: Duration::from_millis(20),
            k: 3,
        },
        out_share,
        use_size: false,
    }
}

pub(crate) fn sfd(variant: Variant, threshold_bytes: u64, out_share: f64) -> Discipline {
    Discipline::Sfd(sfd_of(variant, threshold_bytes, out_share))
}

/// SRQ with queues for flows of a few bytes, which adapt at every opportunity.
pub(crate) fn srq(trigger: Trigger) -> Discipline {
    Discipline::Srq(Box::new(srq::Config {
        quanta: vec![2, 4],
        quantum_bounds: (1, 1 << 40),
        queues: (2, 6),
        interval: Duration::from_millis(10),
        samples_min: 1,
        soft_deadline: Duration::from_millis(5),
        deadline: Duration::from_millis(21),
        trigger,
        ..srq::Config::bytes()
    }))
}

/// A response that is going to come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at: Time,
    pub(crate) bytes: u64,
}

/// One grant that was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) at: Time,
    /// By order of arrival.
    pub(crate) flow: usize,
    pub(crate) bytes: u64,
}

pub(crate) struct Client {
    pub(crate) id: FlowId,
    cost: WireCost,
    pub(crate) left: u64,
    paused: bool,
    pub(crate) arrived_at: Time,
    pub(crate) finished_at: Option<Time>,
}

impl Client {
    /// From arrival to the last byte on the wire.
    fn response_time(&self) -> Duration {
        let finished_at = self.finished_at.expect("served to the end");
        finished_at.since(self.arrived_at)
    }
}

pub(crate) struct Driver {
    pub(crate) egress: Egress,
    pub(crate) now: Time,
    cost: WireCost,
    /// Whose what arrives next is, where clients share the link.
    pub(crate) owner: Option<u64>,
    pub(crate) clients: Vec<Client>,
    pub(crate) services: Vec<Service>,
}

impl Driver {
    pub(crate) fn new(discipline: Discipline, link: Link) -> Self {
        Self::with_classes(discipline, link, levels(16))
    }

    pub(crate) fn with_classes(
        discipline: Discipline,
        link: Link,
        classes: Vec<ClassSpec>,
    ) -> Self {
        Self {
            egress: egress_of(discipline, Pacer::exact(link.rate_bits_per_s), classes),
            now: Time::ZERO,
            cost: link.cost,
            owner: None,
            clients: Vec::new(),
            services: Vec::new(),
        }
    }

    /// A response arrives whose size is known.
    pub(crate) fn arrive(&mut self, bytes: u64) -> usize {
        self.arrive_as(0, Size::Exact(bytes), bytes)
    }

    /// A response of `bytes` arrives that is said to be of `size`.
    pub(crate) fn arrive_as(&mut self, class: usize, size: Size, bytes: u64) -> usize {
        self.arrive_over(self.cost, class, size, bytes)
    }

    pub(crate) fn arrive_over(
        &mut self,
        cost: WireCost,
        class: usize,
        size: Size,
        bytes: u64,
    ) -> usize {
        let spec = FlowSpec::new(class, size, cost).of_client(self.owner);
        let id = self.egress.open(self.now, spec);
        self.begin(id.expect("room for another flow"), cost, bytes)
    }

    /// A response arrives on a connection that has others.
    pub(crate) fn arrive_in(
        &mut self,
        group: GroupId,
        precedence: Precedence,
        class: usize,
        bytes: u64,
    ) -> usize {
        let (size, cost) = (Size::Exact(bytes), self.cost);
        let spec = FlowSpec::new(class, size, cost).of_client(self.owner);
        let id = self
            .egress
            .open(self.now, spec.in_lane(Lane::Grouped(group, precedence)));
        self.begin(id.expect("room for another flow"), cost, bytes)
    }

    fn begin(&mut self, id: FlowId, cost: WireCost, bytes: u64) -> usize {
        self.egress.offer(self.now, id, bytes);
        self.clients.push(Client {
            id,
            cost,
            left: bytes,
            paused: false,
            arrived_at: self.now,
            finished_at: None,
        });
        self.clients.len() - 1
    }

    /// The client's window closes.
    pub(crate) fn pause(&mut self, flow: usize) {
        self.clients[flow].paused = true;
        self.egress.offer(self.now, self.clients[flow].id, 0);
    }

    /// The client's window opens.
    pub(crate) fn resume(&mut self, flow: usize) {
        let client = &mut self.clients[flow];
        client.paused = false;
        if client.finished_at.is_none() {
            self.egress.offer(self.now, client.id, client.left);
        }
    }

    pub(crate) fn resize(&mut self, flow: usize, size: Size) {
        self.egress.resize(self.now, self.clients[flow].id, size);
    }

    /// Grants all that starts before `end`, and goes there.
    pub(crate) fn run_until(&mut self, end: Time) {
        while self.now < end {
            match self.egress.grant(self.now) {
                Grant::Send { flow, bytes } => self.send(flow, bytes, bytes),
                Grant::Wait { until } => self.now = until.min(end),
                Grant::Idle => self.now = end,
            }
        }
    }

    /// Goes to the next grant; the flow that got it, or none if none is ready.
    pub(crate) fn serve_one(&mut self) -> Option<usize> {
        self.serve_in_part(u64::MAX)
    }

    /// Serves until no flow is ready.
    pub(crate) fn serve_the_rest(&mut self) {
        while self.serve_one().is_some() {}
    }

    /// Goes to the next grant, of which at most `bytes_max` are written.
    pub(crate) fn serve_in_part(&mut self, bytes_max: u64) -> Option<usize> {
        loop {
            match self.egress.grant(self.now) {
                Grant::Send { flow, bytes } => {
                    self.send(flow, bytes, bytes.min(bytes_max));
                    return self.services.last().map(|service| service.flow);
                }
                Grant::Wait { until } => self.now = until,
                Grant::Idle => return None,
            }
        }
    }

    /// Who gets the next `grants` grants: "ABCA" for the first that arrived,
    /// the second, the third, the first.
    pub(crate) fn serve(&mut self, grants: usize) -> String {
        (0..grants)
            .map_while(|_| self.serve_one())
            .map(|flow| char::from(b'A' + flow as u8))
            .collect()
    }

    /// Who gets all grants until no flow is ready.
    pub(crate) fn serve_all(&mut self) -> String {
        self.serve(usize::MAX)
    }

    fn send(&mut self, id: FlowId, granted: u64, bytes: u64) {
        let (now, egress) = (self.now, &mut self.egress);
        let flow = self.clients.iter().position(|client| client.id == id);
        let flow = flow.expect("only what arrived is granted");
        let client = &mut self.clients[flow];
        assert!(!client.paused, "{flow} cannot send and was granted a turn");
        assert!((1..=client.left).contains(&granted));
        client.left -= bytes;
        self.services.push(Service {
            at: now,
            flow,
            bytes,
        });
        egress.written(now, id, bytes);
        if client.left > 0 {
            egress.offer(now, id, client.left);
        } else {
            client.finished_at = Some(egress.pacer().next_grant_at());
            egress.close(now, id);
        }
    }

    /// Wire bytes of one service.
    pub(crate) fn wire_bytes(&self, service: &Service) -> u64 {
        self.clients[service.flow].cost.bytes(service.bytes)
    }

    /// Summed over all flows, which must have been served.
    pub(crate) fn response_time_sum_nanos(&self) -> u128 {
        let times = self.clients.iter().map(Client::response_time);
        times.map(|time| time.as_nanos()).sum()
    }
}

/// Serves `arrivals` (in order of time) to the end.
pub(crate) fn run(discipline: &Discipline, link: Link, arrivals: &[Arrival]) -> Driver {
    let mut driver = Driver::new(discipline.clone(), link);
    for arrival in arrivals {
        driver.run_until(arrival.at);
        driver.arrive(arrival.bytes);
    }
    driver.serve_the_rest();
    driver
}
