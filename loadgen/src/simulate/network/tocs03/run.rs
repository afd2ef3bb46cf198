//! A setup of TOCS03's, its requests, and one run of a policy.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use sprat_measure::wire::{self, Connection};
use sprat_scheduler::{Cutoffs, Discipline, Time};

use super::super::congestion::Algorithm;
use super::super::habits::Habits;
use super::super::listen::ListenBounds;
use super::super::plan::{ClientPlan, PlannedRequest, RunPlan, Traffic, requests};
use super::super::system::System;
use super::super::wire::wire_bytes;
use super::super::world;
use super::compare::{PolicyCounts, PolicyTimes};
use super::connections::ConnectionUse;
use crate::links::{LinkSettings, QueueBound, QueueSettings};
use crate::simulate::experiment::Scale;
use crate::simulate::sample::RecordedSample;
use crate::workload::Sizes;

/// A load, as the paper has it or with headers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TargetLoad {
    /// The payload over the link's rate, which is the paper's load.
    Payload(f64),
    /// The bytes on the wire over the link's rate.
    Wire(f64),
}

impl TargetLoad {
    /// Returns loads of the payload.
    pub(super) const fn payloads<const N: usize>(loads: [f64; N]) -> [Self; N] {
        let mut own = [Self::Payload(0.0); N];
        let mut index = 0;
        while index < N {
            own[index] = Self::Payload(loads[index]);
            index += 1;
        }
        own
    }

    /// Returns the load's name, as measures have it.
    pub(super) fn name(self) -> String {
        match self {
            Self::Payload(load) => load.to_string(),
            Self::Wire(load) => format!("{load} wire"),
        }
    }
}

/// The order on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// The kernel's order: each connection writes what TCP lets it.
    Fair,
    /// The core's order, least remaining bytes first.
    Srpt,
    /// The core's order by two classes of size (3.4).
    TwoClasses,
}

/// The TCP that a run has, by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tocs03Tcp {
    /// Reno, a first window of 2, windows of 32 KB, and a device's queue that drops.
    Of2002,
    /// CUBIC, a first window of 10, and a device's queue that has senders wait.
    Today,
}

/// The distribution of the sizes that are asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AskedSizes {
    /// The quantiles of a generated distribution.
    Generated(Sizes),
    /// The quantiles of what a recorded sample asks for.
    Recorded(Arc<RecordedSample>),
}

impl AskedSizes {
    /// Returns the size, in bytes, below which the share `p` (0 to 1) of the requests lies.
    pub(super) fn quantile_bytes(&self, p: f64) -> u64 {
        match self {
            Self::Generated(sizes) => sizes.quantile_bytes(p),
            Self::Recorded(sample) => sample.quantile_bytes(p),
        }
    }
}

/// A client, by the round trip between it and the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClientHost {
    rtt_ms: f64,
}

/// Everything that makes a run but for the policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tocs03Setup {
    pub(super) scale: Scale,
    pub(super) load: TargetLoad,
    pub(super) uplink_mbit: f64,
    pub(super) sizes: AskedSizes,
    pub(super) hosts: Vec<ClientHost>,
    /// The part of the packets to clients that is lost, and of those to the server.
    pub(super) loss: f64,
    pub(super) up_loss: f64,
    pub(super) queue_packets: u64,
    pub(super) tcp: Tocs03Tcp,
    pub(super) requests_per_user: u32,
    pub(super) connections: ConnectionUse,
    /// Whether the load swings by a sixth each second (4.2: 0.75 to 1.05 about 0.9).
    pub(super) swings: bool,
    /// The bounds of the server's listen queue and processes; none where they do not count.
    pub(super) listen: Option<ListenBounds>,
    pub(super) requests: usize,
    pub(super) seed: u64,
}

/// The hosts' round trips in ms (TOCS03 4.2). Their own bandwidth was no bottleneck (footnote 4).
const HOSTS_MS: [f64; 6] = [20.0, 55.0, 95.0, 25.0, 20.0, 22.0];

/// The hosts' names, in that order.
pub(super) const HOSTS: &[&str] = &["IBM", "Berkeley", "UK", "Virginia", "Michigan", "Boston"];

/// A round trip in the LAN, in ms.
const LAN_MS: f64 = 0.1;

/// The bytes of the largest file. One of [`PROBE_EVERY`] requests asks for it: two requests in a
/// run would be no evidence.
const LARGEST_BYTES: u64 = 2 << 20;
const PROBE_EVERY: usize = 2_000;

impl Tocs03Setup {
    /// Makes the LAN of sections 3.1 to 3.4.
    pub(super) fn lan(scale: Scale) -> Self {
        Self {
            scale,
            load: TargetLoad::Payload(0.8),
            uplink_mbit: 10.0,
            sizes: AskedSizes::Generated(Sizes::Worldcup),
            hosts: vec![ClientHost { rtt_ms: LAN_MS }; 5],
            loss: 0.0,
            up_loss: 0.0,
            queue_packets: 100,
            tcp: Tocs03Tcp::Of2002,
            requests_per_user: 1,
            connections: ConnectionUse::Once,
            swings: false,
            listen: None,
            requests: scale.pick(2_000, 200_000, 600_000),
            seed: 7,
        }
    }

    pub(super) fn today(self) -> Self {
        Self {
            tcp: Tocs03Tcp::Today,
            ..self
        }
    }

    pub(super) fn fast(self) -> Self {
        Self {
            uplink_mbit: 100.0,
            ..self
        }
    }

    pub(super) fn hosts(self) -> Self {
        Self {
            hosts: HOSTS_MS.map(|rtt_ms| ClientHost { rtt_ms }).to_vec(),
            ..self
        }
    }

    pub(super) fn at(&self, load: TargetLoad) -> Self {
        Self {
            load,
            ..self.clone()
        }
    }

    /// Makes the setup in which packets are lost in both directions.
    pub(super) fn losing(&self, loss: f64) -> Self {
        Self {
            loss,
            up_loss: loss,
            ..self.clone()
        }
    }

    /// Makes the setup in which packets are lost on the way to clients alone.
    pub(super) fn losing_down(&self, loss: f64) -> Self {
        Self {
            loss,
            ..self.clone()
        }
    }

    pub(super) fn at_rtt(self, rtt_ms: f64) -> Self {
        let mut setup = self;
        setup.hosts.iter_mut().for_each(|host| host.rtt_ms = rtt_ms);
        setup
    }

    /// Returns the milliseconds that a request takes on the idle link, with its round trips.
    fn alone_ms(&self, request: &PlannedRequest) -> f64 {
        let is_kept = self.connections.is_kept_for(request);
        let connection = match is_kept {
            true => Connection::Keep,
            false => Connection::New,
        };
        let rate = (self.uplink_mbit * 1e6) as u64;
        let rtt_ms = self.hosts[request.client as usize].rtt_ms;
        let trips = if is_kept { 1.0 } else { 2.0 };
        wire::alone_ms(request.bytes, connection, rate) + trips * rtt_ms
    }

    fn clients(&self) -> Vec<ClientPlan> {
        let client = |host: &ClientHost| {
            let delay = Duration::from_secs_f64(host.rtt_ms / 2e3);
            ClientPlan {
                link: LinkSettings {
                    delay,
                    loss: self.loss,
                    queue: droptail(100),
                    ..LinkSettings::default()
                },
                up_delay: delay,
                up_loss: self.up_loss,
                quick_acks: 0,
                keeps: self.connections == ConnectionUse::ByClient,
            }
        };
        self.hosts.iter().map(client).collect()
    }

    fn plan(&self, policy: Policy) -> RunPlan {
        let clients = self.clients();
        let is_today = self.tcp == Tocs03Tcp::Today;
        let is_local = is_today && policy == Policy::Fair;
        // The server's own queue holds senders back before this bound.
        let packets = self.queue_packets * if is_local { 2 } else { 1 };
        RunPlan {
            seed: self.seed,
            shared: Some(LinkSettings {
                rate_bits_per_s: Some((self.uplink_mbit * 1e6) as u64),
                queue: droptail(packets),
                ..LinkSettings::default()
            }),
            requests: self.requests(&clients),
            users_keep: self.connections == ConnectionUse::ByUser,
            clients,
            algorithm: match is_today {
                true => Algorithm::Cubic,
                false => Algorithm::Reno,
            },
            listen: self.listen,
            named_bits_per_s: Some((self.uplink_mbit * 1e6) as u64),
            local_packets: is_local.then_some(self.queue_packets),
            marking: None,
            first_window: if is_today { 10 } else { 2 },
            tcp: match is_today {
                true => Habits::TODAY,
                false => Habits::LINUX_2_2,
            },
            discipline: match policy {
                Policy::TwoClasses => Discipline::Bands(Cutoffs::two_class()),
                Policy::Fair | Policy::Srpt => Discipline::Srpt,
            },
            floor_percent: 0,
        }
    }

    /// Draws the requests, with the largest file among them, at exactly the load. For a load of the
    /// wire each request of a user counts as one on a connection of its own.
    fn requests(&self, clients: &[ClientPlan]) -> Vec<PlannedRequest> {
        let traffic = Traffic {
            offered_bits_per_s: 1e6,
            on_off: None,
            requests: self.requests,
            largest_bytes: u64::MAX,
            back_to_back_bytes: None,
        };
        let weights = vec![1.0; clients.len()];
        let mut asked = requests(self.seed, &traffic, clients, &weights);
        self.resize(&mut asked);
        for probe in asked.iter_mut().skip(PROBE_EVERY / 2).step_by(PROBE_EVERY) {
            probe.bytes = LARGEST_BYTES;
        }
        let offered = offered(&asked, self.connections);
        let of_rate = match self.load {
            TargetLoad::Payload(load) => load / offered.payload,
            TargetLoad::Wire(load) => load / offered.wire,
        };
        let faster = of_rate * self.uplink_mbit * 1e6;
        for request in &mut asked {
            let at_s = request.at.as_nanos() as f64 / 1e9 / faster;
            request.at = Time::from_nanos((self.swung(at_s) * 1e9) as u64);
        }
        self.of_users(&mut asked);
        asked
    }

    /// Gives the requests the sizes of this setup, in the order that their sizes have: those who ask
    /// for large files, and when, are the same for all distributions.
    fn resize(&self, asked: &mut [PlannedRequest]) {
        let mut by_size: Vec<usize> = (0..asked.len()).collect();
        by_size.sort_by_key(|&index| asked[index].bytes);
        let count = by_size.len() as f64;
        for (rank, index) in by_size.into_iter().enumerate() {
            asked[index].bytes = self.sizes.quantile_bytes((rank as f64 + 0.5) / count);
        }
    }

    /// Moves a time so that the load is a sixth above its mean in one second, and a sixth
    /// below it in the next.
    fn swung(&self, at_s: f64) -> f64 {
        if !self.swings {
            return at_s;
        }
        const HIGH: f64 = 7.0 / 6.0;
        const LOW: f64 = 5.0 / 6.0;
        let round = (at_s / 2.0).floor();
        let within = at_s - 2.0 * round;
        let moved = match within < HIGH {
            true => within / HIGH,
            false => 1.0 + (within - HIGH) / LOW,
        };
        2.0 * round + moved
    }

    /// Gives each user `requests_per_user` requests, one after the other.
    fn of_users(&self, asked: &mut [PlannedRequest]) {
        let k = self.requests_per_user as usize;
        for index in 0..asked.len() {
            if index % k != 0 {
                let before = asked[index - 1];
                asked[index].at = before.at;
                asked[index].client = before.client;
                asked[index].after = Some(index as u32 - 1);
            }
        }
    }

    /// Runs a policy with the requests of this setup.
    pub(super) fn run(&self, policy: Policy) -> anyhow::Result<PolicyResults> {
        let plan = self.plan(policy);
        let system = match policy {
            Policy::Fair => System::Fair,
            Policy::Srpt | Policy::TwoClasses => System::Named,
        };
        let (outcome, took) =
            world::run_each(&plan, system).with_context(|| format!("{policy:?} of {self:?}"))?;
        let offered = offered(&plan.requests, self.connections);
        let rate = self.uplink_mbit * 1e6;
        let served =
            (plan.requests.iter().zip(&took.response)).map(|(request, took)| TimedResponse {
                bytes: request.bytes,
                client: request.client,
                ms: took.as_secs_f64() * 1e3,
                alone_ms: self.alone_ms(request),
                is_probe: request.bytes == LARGEST_BYTES,
            });
        let requests = plan.requests.len() as f64;
        let listen = outcome.listen.unwrap_or_default();
        let counts = PolicyCounts {
            loss: outcome.dropped as f64 / outcome.sent as f64,
            syn_acks_again: outcome.syn_acks_again as f64 / requests,
            open_connections: outcome.open_connections,
            syns_dropped: listen.syns_dropped as f64 / requests,
            backlog: listen.most,
        };
        Ok(PolicyResults {
            times: PolicyTimes::new(&served.collect::<Vec<_>>(), counts),
            payload_load: offered.payload / rate,
            wire_load: offered.wire / rate,
            throughput: outcome.throughput_mbit_per_s,
        })
    }
}

/// The offered load in bits per second: of payload, and on the wire.
struct Offered {
    payload: f64,
    wire: f64,
}

fn offered(asked: &[PlannedRequest], connections: ConnectionUse) -> Offered {
    let last_s = asked.last().map_or(0, |own| own.at.as_nanos()) as f64 / 1e9;
    let payload: u64 = asked.iter().map(|own| own.bytes).sum();
    let on_wire = |own: &PlannedRequest| wire_bytes(own.bytes, connections.is_kept_for(own));
    let wire: u64 = asked.iter().map(on_wire).sum();
    Offered {
        payload: payload as f64 * 8.0 / last_s,
        wire: wire as f64 * 8.0 / last_s,
    }
}

/// Makes a FIFO with a bound in packets.
fn droptail(packets: u64) -> QueueSettings {
    QueueSettings::Droptail {
        bound: QueueBound::packets(packets),
    }
}

/// A served request, with its response time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimedResponse {
    pub(super) bytes: u64,
    pub(super) client: u32,
    pub(super) ms: f64,
    pub(super) alone_ms: f64,
    pub(super) is_probe: bool,
}

/// The results of one policy's run.
pub(super) struct PolicyResults {
    pub(super) times: PolicyTimes,
    pub(super) payload_load: f64,
    pub(super) wire_load: f64,
    pub(super) throughput: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(sizes: Sizes) -> Vec<PlannedRequest> {
        let setup = Tocs03Setup {
            sizes: AskedSizes::Generated(sizes),
            ..Tocs03Setup::lan(Scale::Tiny)
        };
        setup.requests(&setup.clients())
    }

    #[test]
    fn other_sizes_are_asked_for_by_the_same_clients_in_the_same_order() {
        let (trace, surge) = (asked(Sizes::Worldcup), asked(Sizes::Surge));
        let clients = |own: &[PlannedRequest]| -> Vec<u32> {
            own.iter().map(|request| request.client).collect()
        };
        assert_eq!(clients(&trace), clients(&surge));
        let mut by_size: Vec<usize> = (0..trace.len()).collect();
        by_size.sort_by_key(|&index| trace[index].bytes);
        assert!(by_size.is_sorted_by_key(|&index| surge[index].bytes));
        assert_ne!(trace[by_size[1_000]].bytes, surge[by_size[1_000]].bytes);
    }

    #[test]
    fn the_generated_workload_keeps_its_own_sizes() {
        let count = 2_000;
        let mut expected = Sizes::Worldcup.of_files(count);
        let mut found: Vec<u64> = asked(Sizes::Worldcup).iter().map(|own| own.bytes).collect();
        found.sort_unstable();
        // One request asks for the largest file instead of its own.
        assert_eq!(found.pop(), Some(LARGEST_BYTES));
        let missing = (0..found.len()).find(|&place| found[place] != expected[place]);
        expected.remove(missing.unwrap_or(found.len()));
        assert_eq!(found, expected);
    }
}
