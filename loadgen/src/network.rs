//! `sprat-loadgen network`: hosts on one machine, and links of any kind between them.
//!
//! Each group of clients and the farm have a network namespace with a TUN device, so that
//! the kernel's TCP is at both ends. One thread carries the packets between the devices
//! over [`crate::links`].

mod counters;
mod description;
mod engine;
mod fabric;
mod file;
mod hosts;
mod plan;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use counters::{Counters, Tbf};
use engine::Engine;
use fabric::Fabric;
use hosts::Hosts;

pub(crate) use description::{Description, HostDescription};
pub(crate) use file::{CongestionControl, Recovery};
pub(crate) use hosts::enter;
pub(crate) use plan::{HostPlan, NetworkPlan};

/// Hosts in network namespaces, and links of any kind between them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs root, /dev/net/tun and the tool ip (iproute2); also tc and ethtool.
docs/networks.md has the keys of a topology.

A command finds in its environment:
  SPRAT_NETWORK                  a file that `replay --network` takes
  SPRAT_NETWORK_FARM             the farm's namespace, for `ip netns exec`
  SPRAT_NETWORK_FARM_ADDRESSES   its addresses
  SPRAT_NETWORK_GROUPS           names of the groups, and for each:
  SPRAT_NETWORK_NAMESPACE_NAME   its namespace (NAME in upper case, - as _)
  SPRAT_NETWORK_ADDRESSES_NAME   its clients' addresses

Examples:
  # until ^C; counters at the end, and on SIGUSR1
  sprat-loadgen network --counters links.csv slow-clients.yaml

  # all that is measured in one command
  sprat-loadgen network slow-clients.yaml -- sh -c '
      ip netns exec $SPRAT_NETWORK_FARM sprat-loadgen origin --listen 198.18.0.1:8000 &
      sleep 1
      sprat-loadgen replay --network $SPRAT_NETWORK --trace trace.csv.gz \\
          --target http://198.18.0.1:8000 -o origin.csv; kill %1'")]
pub struct NetworkArgs {
    /// The topology, a file in YAML
    topology: PathBuf,
    /// Print what would be built, and build nothing
    #[arg(long, conflicts_with_all = ["counters", "command"])]
    check: bool,
    /// Prefix of the namespaces' names, instead of the topology's name
    #[arg(long, value_parser = crate::lab::lab_name)]
    name: Option<String>,
    /// Write the links' counters here at the end, and on SIGUSR1: CSV, or JSON where the
    /// name ends in .json
    #[arg(long, value_name = "FILE")]
    counters: Option<PathBuf>,
    /// Command to run meanwhile; everything is removed when it ends
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The time that a command may take to end after SIGTERM.
const END_WITHIN: Duration = Duration::from_secs(5);

/// Runs `sprat-loadgen network`; returns the exit code of the command that ran in it.
///
/// # Errors
/// Says what is wrong with the topology, or what is missing on this machine.
pub fn run(args: &NetworkArgs) -> anyhow::Result<ExitCode> {
    let plan = NetworkPlan::read(&args.topology, args.name.as_deref())?;
    if args.check {
        println!("{}", told(&plan));
        return Ok(ExitCode::SUCCESS);
    }
    ensure!(
        rustix::process::geteuid().is_root(),
        "a network needs root: namespaces and devices are made. Run this with sudo"
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    runtime.block_on(run_network(args, plan))
}

async fn run_network(args: &NetworkArgs, plan: NetworkPlan) -> anyhow::Result<ExitCode> {
    // From here on a signal ends the run in order, whatever has been built.
    let mut signals = Signals::new()?;
    let (hosts, devices) = Hosts::build(&plan)?;
    let description = Description::new(&plan);
    let network = RunningNetwork {
        names: plan.links.iter().map(|link| link.name.clone()).collect(),
        has_bucket: plan.farm.tbf.is_some(),
        counters: args.counters.clone(),
        told: told(&plan),
        engine: Engine::start(devices, move |now| Fabric::new(&plan, now))?,
        hosts,
    };
    let file = network.hosts.description();
    crate::table::create(&file, |out| Ok(serde_json::to_writer(out, &description)?))?;
    let code = if args.command.is_empty() {
        println!("{}", network.told);
        while signals.next().await == Told::Count {
            network.count();
        }
        ExitCode::SUCCESS
    } else {
        network
            .run_command(&args.command, &description, &file, &mut signals)
            .await?
    };
    network.count();
    Ok(code)
}

/// A signal's request to the running network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    End,
    Count,
}

struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    count: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            count: signal(SignalKind::user_defined1())?,
        })
    }

    async fn next(&mut self) -> Told {
        tokio::select! {
            _ = self.interrupt.recv() => Told::End,
            _ = self.terminate.recv() => Told::End,
            _ = self.count.recv() => Told::Count,
        }
    }
}

/// A network that is up. The engine stands before the hosts, and so ends before they go.
struct RunningNetwork {
    names: Vec<String>,
    has_bucket: bool,
    counters: Option<PathBuf>,
    told: String,
    engine: Engine,
    hosts: Hosts,
}

impl RunningNetwork {
    /// Writes the counters, or reports why that failed; the network goes on.
    fn count(&self) {
        if let Err(error) = self.try_count() {
            report(&format!("error: {error:#}"));
        }
    }

    fn try_count(&self) -> anyhow::Result<()> {
        let names = self.names.clone();
        let mut counters = self
            .engine
            .look(move |fabric, lateness, now| Counters::new(&names, fabric, lateness, now))?;
        counters.unread = Some(self.hosts.unread()?);
        if self.has_bucket {
            let bucket = self.hosts.bucket()?;
            counters.tbf = Some(Tbf {
                sent_packets: bucket.sent_packets,
                sent_bytes: bucket.sent_bytes,
                dropped_packets: bucket.dropped,
            });
        }
        if let Some(file) = &self.counters {
            counters.write(file)?;
        }
        report(&counters.summary());
        Ok(())
    }

    async fn run_command(
        &self,
        command: &[String],
        description: &Description,
        file: &Path,
        signals: &mut Signals,
    ) -> anyhow::Result<ExitCode> {
        let mut plain = std::process::Command::new(&command[0]);
        plain
            .args(&command[1..])
            .envs(environment(description, file));
        // A group of its own, so that all that it started can be ended with it.
        plain.process_group(0);
        let mut child = tokio::process::Command::from(plain)
            .spawn()
            .with_context(|| format!("cannot run `{}`", command[0]))?;
        let group = child
            .id()
            .and_then(|id| Pid::from_raw(id.try_into().ok()?))
            .context("the command has no process id")?;
        loop {
            tokio::select! {
                status = child.wait() => {
                    end(group);
                    return Ok(code(status?));
                }
                told = signals.next() => match told {
                    Told::Count => self.count(),
                    Told::End => break,
                },
            }
        }
        // What is gone already needs no end.
        let _ = kill_process_group(group, Signal::TERM);
        let ended = tokio::time::timeout(END_WITHIN, child.wait()).await;
        end(group);
        if ended.is_err() {
            child.wait().await?;
        }
        Ok(ExitCode::from(SIGNALLED + Signal::TERM.as_raw() as u8))
    }
}

/// The number that shells add to a signal's to make an exit code.
const SIGNALLED: u8 = 128;

/// Kills the processes that a command has left behind in its group.
fn end(group: Pid) {
    let _ = kill_process_group(group, Signal::KILL);
}

fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    let signal = status
        .signal()
        .and_then(|signal| SIGNALLED.checked_add(u8::try_from(signal).ok()?));
    ExitCode::from(code.or(signal).unwrap_or(1))
}

/// Returns the environment that describes the network to a command.
fn environment(description: &Description, file: &Path) -> Vec<(String, String)> {
    let addresses = |host: &HostDescription| {
        let texts: Vec<String> = host.addresses.iter().map(ToString::to_string).collect();
        texts.join(" ")
    };
    let names: Vec<&str> = description.groups.iter().map(|g| g.name.as_str()).collect();
    let mut pairs = vec![
        ("SPRAT_NETWORK".to_owned(), file.display().to_string()),
        (
            "SPRAT_NETWORK_FARM".to_owned(),
            description.farm.namespace.clone(),
        ),
        (
            "SPRAT_NETWORK_FARM_ADDRESSES".to_owned(),
            addresses(&description.farm),
        ),
        ("SPRAT_NETWORK_GROUPS".to_owned(), names.join(" ")),
    ];
    for group in &description.groups {
        let name = group.name.to_uppercase().replace('-', "_");
        pairs.push((
            format!("SPRAT_NETWORK_NAMESPACE_{name}"),
            group.namespace.clone(),
        ));
        pairs.push((format!("SPRAT_NETWORK_ADDRESSES_{name}"), addresses(group)));
    }
    pairs
}

/// Returns a line for each host, and one with the number of links.
fn told(plan: &NetworkPlan) -> String {
    let ends = |hosts: &[HostPlan]| match hosts {
        [only] => only.address.to_string(),
        [first, .., last] => format!("{} to {}", first.address, last.address),
        [] => String::new(),
    };
    let mut lines = vec![format!(
        "{:<24} {}",
        plan.farm.namespace,
        ends(&plan.farm.servers)
    )];
    lines.extend(plan.groups.iter().map(|group| {
        let (namespace, share) = (&group.namespace, group.share);
        format!("{namespace:<24} {}, share {share}", ends(&group.clients))
    }));
    lines.push(format!("links: {}", plan.links.len()));
    lines.join("\n")
}

/// Prints a line on stderr; there is no other place to complain if that is closed.
fn report(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
