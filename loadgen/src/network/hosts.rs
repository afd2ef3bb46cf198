//! The hosts of a network: namespaces, devices, addresses, routes, TCP.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow, bail, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::file::{CongestionControl, Recovery};
use super::plan::{HostPlan, NetworkPlan};
use crate::lab::tools::{Bucket, check_means, inside, ip, limit_rate, namespaces, tool};
use crate::lab::{self, HOST_SETTINGS, set_ipv4};

/// The name of the farm's device.
const FARM_DEVICE: &str = "uplink";
const CLIENT_DEVICE: &str = "downlink";
/// All addresses of all networks (RFC 2544).
const NETWORK: &str = "198.18.0.0/15";
/// The MTU of the devices, which is Ethernet's, so that segments are as long as there.
const MTU: u16 = 1500;
/// The most packets of a device that wait for this process. The links have their own queues: here
/// none should be dropped.
const DEVICE_QUEUE: u32 = 5000;
/// The directory of files that tell which networks run, and what a killed one left.
const STATE_DIRECTORY: &str = "/run/sprat-network";

/// The namespaces of a network, which are removed when this is dropped.
#[derive(Debug)]
pub(super) struct Hosts {
    namespaces: Vec<String>,
    state: File,
    directory: PathBuf,
    name: String,
}

impl Hosts {
    /// Makes the namespaces, devices and addresses, after it has removed what a killed run of the
    /// same name left. Returns the devices, the farm's first.
    pub(super) fn build(plan: &NetworkPlan) -> anyhow::Result<(Self, Vec<SyncDevice>)> {
        check_means()?;
        check_congestion(plan.farm.tcp.congestion)?;
        let mut hosts = Self::claim(&plan.name)?;
        hosts.remove_remnants()?;
        let devices = hosts.make(plan)?;
        Ok((hosts, devices))
    }

    /// Returns the file that describes the running network.
    pub(super) fn description(&self) -> PathBuf {
        self.directory.join(format!("{}.json", self.name))
    }

    /// Counts the packets that the kernel dropped because this process did not
    /// read the devices in time.
    pub(super) fn unread(&self) -> anyhow::Result<u64> {
        let mut total = 0;
        for (namespace, device) in self.devices() {
            let text = tool(
                "ip",
                &["-n", namespace, "-j", "-s", "link", "show", "dev", device],
            )?;
            let found: serde_json::Value = serde_json::from_str(&text)?;
            total += found[0]["stats64"]["tx"]["dropped"].as_u64().unwrap_or(0);
        }
        Ok(total)
    }

    /// Asks tc for the settings and counters of the farm's bucket.
    pub(super) fn bucket(&self) -> anyhow::Result<lab::BucketCounters> {
        let farm = &self.namespaces[0];
        let text = tool(
            "tc",
            &["-s", "-n", farm, "qdisc", "show", "dev", FARM_DEVICE],
        )?;
        lab::BucketCounters::parse(&text).context("the farm's bucket is gone")
    }

    fn devices(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = [FARM_DEVICE]
            .into_iter()
            .chain(std::iter::repeat(CLIENT_DEVICE));
        self.namespaces.iter().map(String::as_str).zip(names)
    }

    /// Locks a network's name, so that two networks do not share namespaces.
    fn claim(name: &str) -> anyhow::Result<Self> {
        let directory = PathBuf::from(STATE_DIRECTORY);
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let path = directory.join(name);
        let state = loop {
            let state = File::options()
                .create(true)
                .truncate(false)
                .read(true)
                .write(true)
                .open(&path)
                .with_context(|| format!("cannot open {}", path.display()))?;
            match state.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    bail!("a network `{name}` is running: end it, or give this one another `name`")
                }
                Err(TryLockError::Error(error)) => {
                    return Err(error).with_context(|| format!("cannot lock {}", path.display()));
                }
            }
            // Another network that ended meanwhile may have removed it.
            let inode = fs::metadata(&path).map(|file| file.ino());
            if inode.is_ok_and(|inode| state.metadata().is_ok_and(|own| own.ino() == inode)) {
                break state;
            }
        };
        Ok(Self {
            namespaces: Vec::new(),
            state,
            directory,
            name: name.to_owned(),
        })
    }

    fn remove_remnants(&mut self) -> anyhow::Result<()> {
        let path = self.directory.join(&self.name);
        let left = fs::read_to_string(&path)?;
        let present = namespaces()?;
        for namespace in left
            .lines()
            .filter(|line| present.iter().any(|p| p == line))
        {
            ip(&["netns", "del", namespace])?;
        }
        Ok(self.state.set_len(0)?)
    }

    fn make(&mut self, plan: &NetworkPlan) -> anyhow::Result<Vec<SyncDevice>> {
        let present = namespaces()?;
        let wanted = plan.namespaces();
        if let Some(taken) = wanted.iter().find(|name| present.contains(name)) {
            bail!(
                "there is a namespace `{taken}` that no network made: remove it (`ip netns del \
                 {taken}`), or give this one another `name`"
            );
        }
        // Before they are made, so that none is left unknown.
        self.state
            .write_all((wanted.join("\n") + "\n").as_bytes())?;
        let hosts = [&plan.farm.servers]
            .into_iter()
            .chain(plan.groups.iter().map(|group| &group.clients));
        let mut devices = Vec::new();
        for (namespace, addresses) in wanted.iter().zip(hosts) {
            ip(&["netns", "add", namespace]).context(
                "cannot make a network namespace; in a container, run it with --privileged",
            )?;
            self.namespaces.push(namespace.clone());
            let device = if devices.is_empty() {
                FARM_DEVICE
            } else {
                CLIENT_DEVICE
            };
            set_host(namespace)?;
            devices.push(open_device(namespace, device)?);
            set_addresses(namespace, device, addresses)?;
        }
        self.set_farm(plan)?;
        Ok(devices)
    }

    /// Sets the farm's route, TCP and bucket, and the groups' routes.
    fn set_farm(&self, plan: &NetworkPlan) -> anyhow::Result<()> {
        let farm = &plan.farm.namespace;
        let tcp = &plan.farm.tcp;
        // By the route, which works whatever the machine allows as a default.
        let mut route = vec![
            "-n",
            farm,
            "route",
            "replace",
            NETWORK,
            "dev",
            FARM_DEVICE,
            "congctl",
            tcp.congestion.name(),
        ];
        let window = tcp.initial_window.map(|window| window.to_string());
        if let Some(window) = &window {
            route.extend(["initcwnd", window]);
        }
        ip(&route)?;
        if tcp.recovery == Recovery::Classic {
            set_ipv4(farm, "tcp_early_retrans", "0")?;
            set_ipv4(farm, "tcp_recovery", "0")?;
        }
        for group in &plan.groups {
            ip(&[
                "-n",
                &group.namespace,
                "route",
                "replace",
                NETWORK,
                "dev",
                CLIENT_DEVICE,
            ])?;
        }
        let Some(bucket) = plan.farm.tbf else {
            return Ok(());
        };
        inside(
            farm,
            &["ethtool", "-K", FARM_DEVICE, "tso", "off", "gso", "off"],
        )?;
        let bucket = Bucket {
            rate_bits_per_s: bucket.rate,
            burst_bytes: lab::burst_bytes(bucket.rate),
            limit_bytes: bucket.queue,
        };
        limit_rate(farm, FARM_DEVICE, bucket)
    }
}

impl Drop for Hosts {
    /// Removes the namespaces. If one cannot be removed, the next start tries again.
    fn drop(&mut self) {
        let removed = self
            .namespaces
            .iter()
            .all(|namespace| ip(&["netns", "del", namespace]).is_ok());
        let _ = fs::remove_file(self.description());
        if removed {
            let _ = fs::remove_file(self.directory.join(&self.name));
        }
    }
}

/// Checks that the kernel has the congestion control.
fn check_congestion(congestion: CongestionControl) -> anyhow::Result<()> {
    let path = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = fs::read_to_string(path).unwrap_or_default();
    ensure!(
        available
            .split_whitespace()
            .any(|one| one == congestion.name()),
        "this kernel has no {} (it has {}): load the module tcp_{}",
        congestion.name(),
        available.trim(),
        congestion.name()
    );
    Ok(())
}

/// Moves the calling thread into a network namespace, for good.
///
/// # Errors
/// When there is no such namespace, or this process may not enter it.
pub(crate) fn enter(namespace: &str) -> anyhow::Result<()> {
    let path = format!("/run/netns/{namespace}");
    let file = File::open(&path).with_context(|| format!("cannot open {path}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter the namespace `{namespace}`; this needs root"))
}

/// Makes a TUN device in a namespace. It lives as long as it is open.
fn open_device(namespace: &str, device: &str) -> anyhow::Result<SyncDevice> {
    // A thread that has moved is of no further use.
    let opened = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(namespace)?;
            let opened = DeviceBuilder::new()
                .name(device)
                .mtu(MTU)
                .tx_queue_len(DEVICE_QUEUE)
                .build_sync()
                .context("cannot make a TUN device; is there /dev/net/tun (modprobe tun)?")?;
            opened.set_nonblocking(true)?;
            Ok(opened)
        });
        thread.join()
    });
    opened.unwrap_or_else(|_| Err(anyhow!("the thread that makes a device has ended")))
}

fn set_host(namespace: &str) -> anyhow::Result<()> {
    for (key, value) in HOST_SETTINGS {
        set_ipv4(namespace, key, value)?;
    }
    // Neighbour discovery would share the links. A kernel without IPv6 has no such file.
    let no_ipv6 = "f=/proc/sys/net/ipv6/conf/default/disable_ipv6; [ ! -e $f ] || echo 1 > $f";
    inside(namespace, &["sh", "-c", no_ipv6])?;
    ip(&["-n", namespace, "link", "set", "lo", "up"])
}

fn set_addresses(namespace: &str, device: &str, hosts: &[HostPlan]) -> anyhow::Result<()> {
    let mut lines = String::new();
    for host in hosts {
        lines += &format!("addr add {}/32 dev {device}\n", host.address);
    }
    lines += &format!("link set {device} up\n");
    let mut batch = Command::new("ip")
        .args(["-n", namespace, "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `ip`")?;
    if let Some(mut input) = batch.stdin.take() {
        input.write_all(lines.as_bytes())?;
    }
    let output = batch.wait_with_output()?;
    ensure!(
        output.status.success(),
        "cannot give `{namespace}` its addresses: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
