//! One link, in virtual time, under the disciplines of the core's egress.

use anyhow::ensure;
use sprat_scheduler::marking::Variant;
use sprat_scheduler::{
    Cutoffs, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, MAX_FLOOR_PERCENT, Marking,
    Pacer, Sfd, Size, Time, WireCost,
};

use super::arrivals::{Arrivals, SimulatedRequest};
use super::measure::{ServedRequest, SimulatedMeasures};
use super::options::{Common, load, quantum_bytes};
use super::output::Report;
use super::row::SimulationRow;
use super::sizes::{Grid, SizeDistribution};
use super::theory::{self, Expected};
use crate::cli;

/// One link with Poisson arrivals (M/G/1) under each discipline of the core,
/// compared with theory.
///
/// A response has all its bytes ready when it arrives, and is over when its
/// last byte has left. The link carries nothing but the responses' bytes, so
/// that theory applies: processor sharing for fair, Pollaczek and Khinchine
/// for fcfs, Schrage and Miller for srpt.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LinkArgs {
    #[command(flatten)]
    common: Common,
    /// Number of requests to simulate
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(100..=20_000_000))]
    requests: u32,
    /// Loads of the link, below 1
    #[arg(long, value_name = "LOAD", value_delimiter = ',', default_value = "0.9", value_parser = load)]
    load: Vec<f64>,
    /// Disciplines to compare, by name
    #[arg(long, value_enum, value_name = "DISCIPLINE", value_delimiter = ',', default_values_t = NamedDiscipline::ALL)]
    policy: Vec<NamedDiscipline>,
    /// The rate of the link
    #[arg(long, value_name = "RATE", default_value = "1mbit", value_parser = cli::rate)]
    uplink: u64,
    /// Bytes that one grant lets a response send [default: a thirty-second of the mean size]; the
    /// core grants more if that is less than 300 us at the link's rate
    #[arg(long, value_name = "BYTES", value_parser = quantum_bytes)]
    quantum: Option<u32>,
    /// Let an arrival wait for the end of the present grant, as in the proxy; theory knows no
    /// grants
    #[arg(long)]
    whole_grants: bool,
    /// Bytes that srpt-aged takes off a response's rank for each second that it has waited
    /// [default: 1% of what the link carries in a second]
    #[arg(long, value_name = "BYTES")]
    ageing: Option<u64>,
    /// Percentage of the link for the response that has waited longest
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=i64::from(MAX_FLOOR_PERCENT)))]
    floor: u8,
    /// Clients that share the link, all with the same demand; 0 puts all responses in one order.
    /// Theory has no formula for clients
    #[arg(long, value_name = "N", default_value_t = 0)]
    clients: u32,
}

/// A discipline, by the name that the configuration has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum NamedDiscipline {
    /// First come, first served.
    Fcfs,
    /// Round robin by bytes.
    Fair,
    /// Shortest remaining size first.
    Srpt,
    /// Shortest remaining size first, with ageing.
    SrptAged,
    /// Size classes, with the cutoffs of TOCS03.
    Bands,
    /// Size classes, with learnt cutoffs.
    BandsLearnt,
    /// Bands of two size classes.
    BandsTwo,
    /// Fewest bytes sent first.
    Las,
    /// Short flows first, by the bytes that each has had (SFD02).
    Sfd,
    /// Short flows first, with some of the rest promoted by chance.
    PSfd,
    /// Short flows first, with one of every four of the rest promoted.
    SSfd,
}

impl NamedDiscipline {
    const ALL: [Self; 11] = [
        Self::Fcfs,
        Self::Fair,
        Self::BandsTwo,
        Self::Bands,
        Self::BandsLearnt,
        Self::SrptAged,
        Self::Srpt,
        Self::Las,
        Self::Sfd,
        Self::PSfd,
        Self::SSfd,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Fcfs => "fcfs",
            Self::Fair => "fair",
            Self::Srpt => "srpt",
            Self::SrptAged => "srpt-aged",
            Self::Bands => "bands",
            Self::BandsLearnt => "bands, learnt",
            Self::BandsTwo => "bands, two",
            Self::Las => "las",
            Self::Sfd => "sfd",
            Self::PSfd => "p-sfd",
            Self::SSfd => "s-sfd",
        }
    }

    fn discipline(self, ageing_bytes_per_s: u64) -> Discipline {
        match self {
            Self::Fcfs => Discipline::Fcfs,
            Self::Fair => Discipline::Fair,
            Self::Srpt => Discipline::Srpt,
            Self::SrptAged => Discipline::SrptAged { ageing_bytes_per_s },
            Self::Bands => Discipline::Bands(Cutoffs::paper()),
            Self::BandsLearnt => Discipline::Bands(Cutoffs::Learnt { classes: 6 }),
            Self::BandsTwo => Discipline::Bands(Cutoffs::two_class()),
            Self::Las => Discipline::Las,
            Self::Sfd => short_first(Variant::Sfd),
            Self::PSfd => short_first(Variant::PSfd),
            Self::SSfd => short_first(Variant::SSfd),
        }
    }

    /// Returns whether an arrival may interrupt a grant. Disciplines that go by turns serve a
    /// newcomer at once, so that interrupting each grant would favour newcomers beyond a quantum.
    fn interrupts(self) -> bool {
        !matches!(self, Self::Fair | Self::Sfd | Self::PSfd | Self::SSfd)
    }

    /// Returns the mean times that theory expects; `None` where it has no formula.
    fn theory(self, grid: &Grid, load: f64) -> Option<Expected> {
        match self {
            Self::Fcfs => Some(theory::first_come_first_served(grid, load)),
            Self::Fair => Some(theory::processor_sharing(grid, load)),
            Self::Srpt => Some(theory::shortest_remaining(grid, load)),
            Self::Las => Some(theory::least_attained(grid, load)),
            _ => None,
        }
    }
}

/// Makes the discipline of SFD02, by its parameters and with one of its variants.
fn short_first(variant: Variant) -> Discipline {
    Discipline::Sfd(Sfd {
        marking: Marking {
            variant,
            ..Marking::PAPER
        },
        ..Sfd::PAPER
    })
}

/// Runs the command `simulate link`.
pub(super) fn run(args: &LinkArgs) -> anyhow::Result<()> {
    let grid = args.common.sizes.grid();
    let bytes_per_s = args.uplink as f64 / 8.0;
    let quantum = args.quantum.unwrap_or((grid.mean_bytes() / 32.0) as u32);
    let mut rows = Vec::new();
    for &load in &args.load {
        for &policy in &args.policy {
            let ageing = args.ageing.unwrap_or((bytes_per_s / 100.0) as u64);
            let plan = LinkRunPlan {
                discipline: policy.discipline(ageing),
                seed: args.common.seed,
                requests: args.requests as usize,
                sizes: args.common.sizes,
                gap_s: grid.mean_bytes() / (bytes_per_s * load),
                uplink_bits_per_s: args.uplink,
                quantum_bytes: quantum.max(1),
                // Turns among clients are as those among flows.
                whole_grants: args.whole_grants || !policy.interrupts() || args.clients > 0,
                floor_percent: args.floor,
                clients: args.clients,
            };
            let served = simulate(&plan)?;
            let expected = (args.clients == 0).then(|| policy.theory(&grid, load));
            let expected = expected.flatten();
            rows.push(SimulationRow {
                system: policy.name().to_owned(),
                load,
                measures: SimulatedMeasures::of(&served, &args.common.sizes),
                theory_ms: expected.map(|e| e.response_bytes / bytes_per_s * 1e3),
                theory_slowdown: expected.map(|e| e.slowdown),
                ..SimulationRow::default()
            });
        }
    }
    let report = Report {
        name: "link",
        title: "One link, in virtual time",
        about: format!(
            "one link of {} Mbit/s, {} sizes, {} requests a run, seed {}, quantum {quantum} B",
            args.uplink as f64 / 1e6,
            args.common.sizes,
            args.requests,
            args.common.seed,
        ),
        baseline: None,
        rows,
    };
    report.write(args.common.output.as_deref())
}

/// The parameters of one run on a link.
#[derive(Clone, Debug)]
pub(super) struct LinkRunPlan {
    pub(super) discipline: Discipline,
    pub(super) seed: u64,
    pub(super) requests: usize,
    pub(super) sizes: SizeDistribution,
    /// The mean seconds between two arrivals.
    pub(super) gap_s: f64,
    pub(super) uplink_bits_per_s: u64,
    /// The bytes of a quantum, at least 1.
    pub(super) quantum_bytes: u32,
    /// Whether a grant goes on to its end when a response arrives.
    pub(super) whole_grants: bool,
    /// The percentage of the link for the response that has waited longest.
    pub(super) floor_percent: u8,
    /// The number of clients that share the link; 0 for one order of all responses.
    pub(super) clients: u32,
}

/// Serves all requests of a plan, in the order of their arrival.
///
/// # Errors
/// When the core breaks one of its promises; the message says which, where
/// and from which seed.
pub(super) fn simulate(plan: &LinkRunPlan) -> anyhow::Result<Vec<ServedRequest>> {
    let mut link = LinkRun::new(plan);
    let mut arrivals = Arrivals::new(plan.seed, plan.sizes, plan.gap_s, plan.requests).peekable();
    loop {
        let arrival = arrivals.peek().map(|request| request.at);
        match (link.next_step(), arrival) {
            (Some(at), next) if next.is_none_or(|next| at <= next) => link.step(at)?,
            (_, Some(_)) => {
                if let Some(request) = arrivals.next() {
                    link.arrive(&request)?;
                }
            }
            (_, None) => break,
        }
    }
    link.close(plan)
}

/// The link, and the responses on it.
struct LinkRun {
    egress: Egress,
    now: Time,
    /// The time at which the last byte granted leaves.
    free_at: Time,
    /// The flow on the link, and the bytes that it was granted.
    sending: Option<(FlowId, u64)>,
    whole_grants: bool,
    cost: WireCost,
    bits_per_s: u64,
    /// The open responses, by the index of their flows.
    flows: Vec<Open>,
    served: Vec<ServedRequest>,
    total_bytes: u64,
    clients: u32,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    request: usize,
    left_bytes: u64,
    arrived: Time,
}

impl LinkRun {
    fn new(plan: &LinkRunPlan) -> Self {
        let policy = EgressPolicy {
            max_flows: plan.requests,
            floor_percent: plan.floor_percent,
            share_between_clients: plan.clients > 0,
            ..EgressPolicy::new(plan.discipline.clone())
        };
        let egress = Egress::new(Pacer::exact(plan.uplink_bits_per_s), policy);
        Self {
            egress,
            now: Time::ZERO,
            free_at: Time::ZERO,
            sending: None,
            whole_grants: plan.whole_grants,
            cost: WireCost {
                mss: plan.quantum_bytes,
                segment_overhead: 0,
                connection_overhead: 0,
                record_overhead: 0,
            },
            bits_per_s: plan.uplink_bits_per_s,
            flows: Vec::new(),
            served: Vec::with_capacity(plan.requests),
            total_bytes: 0,
            clients: plan.clients,
        }
    }

    /// Returns the time at which the link has sent the present grant or, without one, at which a
    /// flow may have the next.
    fn next_step(&self) -> Option<Time> {
        match self.sending {
            Some(_) => Some(self.free_at),
            None => Some(self.egress.next_wakeup()?.max(self.now)),
        }
    }

    fn arrive(&mut self, request: &SimulatedRequest) -> anyhow::Result<()> {
        self.now = request.at;
        if !self.whole_grants {
            // What has not left yet goes back, and to whom it is due then. A
            // byte on its way is sent.
            let unsent = self.egress.pacer().backlog(self.now);
            self.settle(unsent)?;
        }
        let spec = FlowSpec::new(0, Size::Exact(request.bytes), self.cost)
            .of_client(request.random.checked_rem(u64::from(self.clients)));
        let flow = self.egress.open(self.now, spec)?;
        let open = Open {
            request: self.served.len(),
            left_bytes: request.bytes,
            arrived: self.now,
        };
        if self.flows.len() <= flow.index() {
            self.flows.resize(flow.index() + 1, open);
        }
        self.flows[flow.index()] = open;
        self.served.push(ServedRequest {
            bytes: request.bytes,
            alone_s: request.bytes as f64 * 8.0 / self.bits_per_s as f64,
            ..ServedRequest::default()
        });
        self.total_bytes += request.bytes;
        self.egress.offer(self.now, flow, request.bytes);
        Ok(())
    }

    /// Ends the present grant, and grants to the flow whose turn it is.
    fn step(&mut self, at: Time) -> anyhow::Result<()> {
        let busy_until = self.free_at.max(self.now);
        self.now = at;
        self.settle(0)?;
        if self.egress.next_wakeup().is_none() {
            return Ok(());
        }
        ensure!(
            at <= busy_until,
            "the link idled until {} ns while a flow was ready at {} ns",
            at.as_nanos(),
            busy_until.as_nanos()
        );
        let Grant::Send { flow, bytes } = self.egress.grant(at) else {
            anyhow::bail!("the link is free and a flow is ready, but none was served");
        };
        self.sending = Some((flow, bytes));
        self.free_at = self.egress.pacer().next_grant_at();
        Ok(())
    }

    /// Notes that the present grant has been sent, all but `unsent` bytes.
    fn settle(&mut self, unsent: u64) -> anyhow::Result<()> {
        let Some((flow, granted)) = self.sending.take() else {
            return Ok(());
        };
        let open = &mut self.flows[flow.index()];
        ensure!(
            (1..=open.left_bytes).contains(&granted) && unsent <= granted,
            "request {}: {granted} bytes granted of {} left, {unsent} not sent",
            open.request,
            open.left_bytes
        );
        open.left_bytes -= granted - unsent;
        self.egress.written(self.now, flow, granted - unsent);
        self.free_at = self.egress.pacer().next_grant_at();
        if open.left_bytes > 0 {
            self.egress.offer(self.now, flow, open.left_bytes);
            return Ok(());
        }
        let served = &mut self.served[open.request];
        let over = std::mem::replace(
            &mut served.response_s,
            self.free_at.since(open.arrived).as_secs_f64(),
        );
        ensure!(over == 0.0, "request {}: over twice", open.request);
        self.egress.close(self.now, flow);
        Ok(())
    }

    /// Checks at the end that every response was served, with every byte.
    fn close(self, plan: &LinkRunPlan) -> anyhow::Result<Vec<ServedRequest>> {
        let stats = self.egress.stats();
        let seed = plan.seed;
        ensure!(
            self.egress.open_flows() == 0 && self.egress.waiting_flows() == 0,
            "seed {seed}: {} responses never ended",
            self.egress.open_flows()
        );
        ensure!(
            stats.granted_bytes == self.total_bytes && stats.wire_bytes == self.total_bytes,
            "seed {seed}: {} bytes came, {} were granted, {} debited",
            self.total_bytes,
            stats.granted_bytes,
            stats.wire_bytes
        );
        ensure!(
            self.served.iter().all(|served| served.response_s > 0.0),
            "seed {seed}: a response without an end"
        );
        Ok(self.served)
    }
}

#[cfg(test)]
#[path = "link/tests.rs"]
mod tests;
