//! The run of a trace on a topology of the network lab, in virtual time.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use sprat_scheduler::Time;

use super::congestion::{Algorithm, INITIAL_WINDOW};
use super::plan::{ClientPlan, FLOOR_PERCENT, PlannedRequest, RunPlan};
use crate::links::{LinkSettings, QueueBound, QueueSettings};
use crate::network::{CongestionControl, Description, HostPlan, NetworkPlan, Recovery};
use crate::replay::split;
use crate::trace::Trace;

/// Segments that a client's kernel acknowledges at once before it delays.
const QUICK_ACKS: u32 = 16;

/// The bytes that the kernel's token bucket counts of a full packet.
const FRAME_BYTES: u64 = 1514;

/// The bound of the server's own queue, in queues of the token bucket; the real one is endless.
const LOCAL_QUEUES: u64 = 2;

/// Plans the run of a trace that `replay --network` would make, its requests split among the
/// clients as there. `named_bits_per_s` is the rate to name, if the network has one.
///
/// # Errors
/// A file cannot be read, or the topology has a feature that the model lacks.
pub(super) fn plan(
    topology: &Path,
    trace: &Path,
    named_bits_per_s: Option<u64>,
    seed: u64,
) -> anyhow::Result<RunPlan> {
    let trace = Trace::read(trace)?;
    let told = || format!("{} cannot be simulated", topology.display());
    let topology = NetworkPlan::read(topology, None)?;
    let shared = shared(&topology).with_context(told)?;
    let mut clients = Vec::new();
    let mut addresses = Vec::new();
    for (number, group) in topology.groups.iter().enumerate() {
        for host in &group.clients {
            clients.push(client(&topology, host).with_context(told)?);
            addresses.push((number, host.address));
        }
    }
    let askers =
        split(&Description::new(&topology).groups, &trace, seed).context("no group asks")?;
    let requests = trace.requests.iter().zip(askers).map(|(request, asker)| {
        let place = addresses
            .iter()
            .position(|own| *own == (asker.group, asker.address));
        anyhow::Ok(PlannedRequest {
            at: Time::from_nanos((request.t_s * 1e9) as u64),
            client: place.context("an address is no client's")? as u32,
            bytes: request.bytes,
            after: None,
        })
    });
    ensure!(
        trace.requests.iter().all(|request| request.user.is_none()),
        "a trace with users is partly open, which is not simulated"
    );
    let requests = requests.collect::<anyhow::Result<_>>()?;
    Ok(RunPlan {
        seed,
        listen: None,
        named_bits_per_s,
        local_packets: topology.farm.tbf.map(|tbf| tbf.queue / FRAME_BYTES),
        shared,
        clients,
        requests,
        users_keep: false,
        algorithm: algorithm(&topology).with_context(told)?,
        marking: None,
        first_window: INITIAL_WINDOW,
        tcp: super::habits::Habits::TODAY,
        discipline: sprat_scheduler::Discipline::Srpt,
        floor_percent: FLOOR_PERCENT,
    })
}

fn algorithm(topology: &NetworkPlan) -> anyhow::Result<Algorithm> {
    let tcp = &topology.farm.tcp;
    ensure!(
        tcp.recovery == Recovery::Rack && tcp.initial_window.is_none(),
        "TCP is modelled with RACK and a first window of 10 alone"
    );
    match tcp.congestion {
        CongestionControl::Cubic => Ok(Algorithm::Cubic),
        CongestionControl::Reno => Ok(Algorithm::Reno),
        CongestionControl::Bbr => Ok(Algorithm::Bbr),
    }
}

/// Returns the link that all responses share.
fn shared(topology: &NetworkPlan) -> anyhow::Result<Option<LinkSettings>> {
    let farm = &topology.farm;
    ensure!(
        farm.servers.len() == 1 && farm.servers[0].links.is_empty(),
        "one server without a link of its own is modelled"
    );
    let link = topology.shared().map(|link| within(&link.down));
    match (farm.tbf, link) {
        (Some(_), Some(_)) => anyhow::bail!("`tbf` and `shared` are two links that all share"),
        (None, link) => Ok(link),
        (Some(tbf), None) => Ok(Some(LinkSettings {
            rate_bits_per_s: Some(tbf.rate),
            queue: QueueSettings::Droptail {
                bound: QueueBound::packets(LOCAL_QUEUES * (tbf.queue / FRAME_BYTES)),
            },
            ..LinkSettings::default()
        })),
    }
}

fn client(topology: &NetworkPlan, host: &HostPlan) -> anyhow::Result<ClientPlan> {
    let shared = topology.shared();
    let all = || host.links.iter().map(|&link| &topology.links[link]);
    let mut own = all().filter(|link| shared.is_none_or(|shared| shared.name != link.name));
    let link = own.next();
    ensure!(own.next().is_none(), "a trunk is not modelled");
    let is_free =
        |up: &LinkSettings| up.rate_bits_per_s.is_none() && up.loss == 0.0 && up.jitter.is_zero();
    ensure!(
        all().all(|link| is_free(&link.up)),
        "the way to the server has a delay alone in the model"
    );
    Ok(ClientPlan {
        link: link.map_or_else(LinkSettings::default, |link| within(&link.down)),
        up_delay: all().map(|link| link.up.delay).sum::<Duration>(),
        up_loss: 0.0,
        quick_acks: QUICK_ACKS,
        keeps: false,
    })
}

/// Returns a link for the simulation's packets, which have Ethernet's header already.
fn within(link: &LinkSettings) -> LinkSettings {
    LinkSettings {
        overhead_bytes: 0,
        ..link.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn networks() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("networks")
    }

    /// Writes a trace of `requests` for 1000 bytes each, a millisecond apart.
    fn trace(directory: &Path, requests: usize) -> PathBuf {
        let file = directory.join("trace.csv");
        let rows = (0..requests).map(|number| format!("{:.3},1000,/\n", number as f64 / 1e3));
        std::fs::write(
            &file,
            "t_s,bytes,path\n".to_owned() + &rows.collect::<String>(),
        )
        .unwrap();
        file
    }

    fn planned(network: &str, requests: usize, seed: u64) -> anyhow::Result<RunPlan> {
        let directory = tempfile::tempdir().unwrap();
        let file = networks().join(network).with_extension("yaml");
        plan(
            &file,
            &trace(directory.path(), requests),
            Some(10_000_000),
            seed,
        )
    }

    /// Makes a plan from a topology's text.
    fn of_text(topology: &str) -> anyhow::Result<RunPlan> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("topology.yaml");
        std::fs::write(&file, topology).unwrap();
        plan(&file, &trace(directory.path(), 1), None, 1)
    }

    #[test]
    fn clients_have_their_own_links_and_all_share_one() {
        let plan = planned("own-and-shared", 4000, 7).unwrap();
        let shared = plan.shared.as_ref().unwrap();
        assert_eq!(shared.rate_bits_per_s, Some(10_000_000));
        assert_eq!(plan.named_bits_per_s, Some(10_000_000));
        assert!(
            plan.clients
                .iter()
                .any(|client| client.link.rate_bits_per_s.is_some())
        );
        for (number, client) in plan.clients.iter().enumerate() {
            assert!(client.up_delay > Duration::ZERO);
            let own = plan
                .requests
                .iter()
                .filter(|one| one.client as usize == number);
            assert!(own.count() > 4000 / plan.clients.len() / 2, "{number}");
        }
        let times: Vec<u64> = plan
            .requests
            .iter()
            .take(3)
            .map(|one| one.at.as_nanos())
            .collect();
        assert_eq!(times, [0, 1_000_000, 2_000_000]);
        // Who asks is the seed's.
        assert_eq!(planned("own-and-shared", 4000, 7).unwrap(), plan);
        assert_ne!(
            planned("own-and-shared", 4000, 8).unwrap().requests,
            plan.requests
        );
    }

    #[test]
    fn the_bucket_of_the_farm_is_the_servers_own_queue() {
        let plan = planned("host-10-rtt40", 1, 7).unwrap();
        assert_eq!(plan.shared.unwrap().rate_bits_per_s, Some(10_000_000));
        assert_eq!(plan.local_packets, Some(100));
        let client = &plan.clients[0];
        assert_eq!(
            client.link.delay + client.up_delay,
            Duration::from_millis(40)
        );
        assert!(planned("none-rtt40", 1, 7).unwrap().shared.is_none());
    }

    #[test]
    fn the_farm_sends_as_its_congestion_control_does() {
        for (named, algorithm) in [
            ("cubic", Algorithm::Cubic),
            ("reno", Algorithm::Reno),
            ("bbr", Algorithm::Bbr),
        ] {
            let farm = format!("farm: {{tcp: {{congestion: {named}}}}}");
            let groups = "groups: [{name: a, clients: 1}]";
            let plan = of_text(&format!("version: 1\n{farm}\n{groups}\n"));
            assert_eq!(plan.unwrap().algorithm, algorithm);
        }
    }

    #[test]
    fn what_is_not_modelled_is_said() {
        let lossy = "{link: {up: {loss: 1%}}, name: a, clients: 1}";
        for (topology, said) in [
            (
                "farm: {servers: 2}\ngroups: [{name: a, clients: 1}]",
                "one server",
            ),
            (&*format!("groups: [{lossy}]"), "to the server"),
            (
                "groups: [{name: a, trunk: {}, groups: [{name: b, clients: 1, link: {}}]}]",
                "trunk",
            ),
            (
                "farm: {tbf: {rate: 1mbit}}\nshared: {}\ngroups: [{name: a, clients: 1}]",
                "two links",
            ),
        ] {
            let error = of_text(&format!("version: 1\n{topology}\n")).unwrap_err();
            assert!(format!("{error:#}").contains(said), "{error:#}");
        }
    }

    #[test]
    fn networks_of_the_matrix_that_are_not_modelled_are_these() {
        let mut matrix = csv::Reader::from_path(networks().join("matrix.csv")).unwrap();
        let names = matrix.records().map(|row| row.unwrap()[0].to_owned());
        let unmodelled: Vec<String> = names.filter(|name| planned(name, 1, 7).is_err()).collect();
        // They have a trunk, or loss or jitter on the way to the server.
        let known = ["beyond-10-jitter", "beyond-10-loss1-up", "two-tiers"];
        assert_eq!(unmodelled, known);
    }

    #[test]
    fn a_run_of_files_completes() {
        let plan = planned("all-2mbit-64k", 200, 7).unwrap();
        let outcome = crate::simulate::network::world::run(
            &plan,
            crate::simulate::network::system::System::Fair,
        )
        .unwrap();
        // Two round trips of 40 ms for what fits into the first window.
        assert!(
            (80.0..120.0).contains(&outcome.mean_ms),
            "{}",
            outcome.mean_ms
        );
        assert!(outcome.throughput_mbit_per_s > 1.0);
    }
}
