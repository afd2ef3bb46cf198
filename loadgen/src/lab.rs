//! `sprat-loadgen lab`: two hosts on one machine, and a limited link between
//! them.
//!
//! The hosts are network namespaces joined by a veth pair. Everything of the
//! farm (origins, proxies) runs in one, the client in the other; the farm's
//! end of the pair is limited by a token bucket with a queue of 100 packets
//! before it, as many as TOCS03's server has in its transmit queue.

pub(crate) mod tools;

use std::fmt::Write as _;

use anyhow::{Context, ensure};

use crate::cli;
use tools::{Bucket, check_means, inside, ip, limit_rate, namespaces, tool};

/// A limited link between two network namespaces, to measure on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Needs root and the tools ip, tc (iproute2) and ethtool.

Examples:
  sprat-loadgen lab up --rate 10mbit
  ip netns exec sprat-farm   sprat-loadgen origin --listen 198.18.0.1:8000 &
  ip netns exec sprat-client sprat-loadgen replay --trace trace.csv.gz \\
      --target http://198.18.0.1:8000 --uplink 10mbit -o origin.csv
  sprat-loadgen lab status
  sprat-loadgen lab down")]
pub struct LabArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Create the namespaces and the link, or configure the link anew
    Up(UpArgs),
    /// Remove the namespaces and the link
    Down(NameArgs),
    /// Print the link's device, rate, and what it sent and dropped
    Status(NameArgs),
}

#[derive(Debug, clap::Args)]
struct UpArgs {
    #[command(flatten)]
    lab: NameArgs,
    /// Rate of the link, farm to client
    #[arg(long, default_value = "10mbit", value_parser = cli::rate)]
    rate: u64,
    /// Bytes that may leave at once [default: two packets, or what the rate
    /// carries in 0.5 ms if that is more]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1514..))]
    burst: Option<u32>,
    /// Bytes that may wait for the link; the default is 100 packets
    #[arg(long, value_name = "BYTES", default_value_t = QUEUE_BYTES, value_parser = clap::value_parser!(u32).range(1514..))]
    limit: u32,
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// The lab's name: its namespaces are NAME-farm and NAME-client
    #[arg(long, default_value = "sprat", value_parser = lab_name)]
    name: String,
}

/// A full Ethernet frame as tc counts it: 14 + 1500 bytes.
const FRAME_BYTES: u32 = 1514;
/// The bytes of the transmit queue of TOCS03's server, 100 packets.
const QUEUE_BYTES: u32 = 100 * FRAME_BYTES;
/// The least depth of the token bucket: two full packets, and room for rounding.
const BURST_BYTES_MIN: u64 = 3100;
/// The bursts a second that the bucket's depth allows for: the kernel's timer may be 0.5 ms late.
const BURSTS_PER_S: u64 = 2000;

/// The farm's address, of 198.18.0.0/15, which RFC 2544 sets aside for benchmarks.
pub const FARM_ADDRESS: &str = "198.18.0.1";
/// The address of the client's end of the link.
pub const CLIENT_ADDRESS: &str = "198.18.0.2";
const NETWORK: &str = "198.18.0.0/24";
const PREFIX_BITS: u8 = 24;

/// The device on the farm's side, whose rate is limited.
const FARM_DEVICE: &str = "uplink";
const CLIENT_DEVICE: &str = "downlink";

/// Runs `sprat-loadgen lab`.
///
/// # Errors
/// Says what is missing (root, a tool, a kernel feature) and what to do.
pub fn run(args: &LabArgs) -> anyhow::Result<()> {
    match &args.verb {
        Verb::Up(up) => {
            let lab = Lab::new(&up.lab.name);
            check_means()?;
            lab.up(&LinkLimits {
                rate_bits_per_s: up.rate,
                burst_bytes: up.burst.map_or_else(|| burst_bytes(up.rate), u64::from),
                limit_bytes: up.limit.into(),
            })?;
            println!("{}", lab.status()?);
        }
        Verb::Down(down) => {
            check_means()?;
            let lab = Lab::new(&down.name);
            match lab.down()? {
                0 => println!("there was no lab `{}`", down.name),
                _ => println!("lab `{}` removed", down.name),
            }
        }
        Verb::Status(status) => println!("{}", Lab::new(&status.name).status()?),
    }
    Ok(())
}

pub(crate) fn lab_name(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !text.is_empty() && text.len() <= 32 && text.bytes().all(plain) && !text.starts_with('-') {
        Ok(text.to_owned())
    } else {
        Err("a name is 1 to 32 lower-case letters, digits and dashes".to_owned())
    }
}

/// Returns the depth of the token bucket, in bytes, for a rate.
///
/// A bucket smaller than a packet passes none, and two full packets are what tbf needs to send back
/// to back: the floor, and more than enough at 10 Mbit/s. A timer that is later than the bucket is
/// deep loses time of the link. Hence the depth grows to 0.5 ms of the rate: 6 KB at 100 Mbit/s, 62
/// KB at 1 Gbit/s. (On two busy cores 3100 bytes carried 0.6% less than 6250 at 100 Mbit/s; at 1
/// Gbit/s those cores were the limit, and no difference showed.) Deeper is worse, for what leaves
/// at once is no longer scheduled.
pub fn burst_bytes(rate_bits_per_s: u64) -> u64 {
    (rate_bits_per_s / 8 / BURSTS_PER_S).max(BURST_BYTES_MIN)
}

/// The limits of the farm's side of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLimits {
    /// The rate from farm to client, in bits per second.
    pub rate_bits_per_s: u64,
    /// Depth of the token bucket.
    pub burst_bytes: u64,
    /// The most bytes that wait before the token bucket.
    pub limit_bytes: u64,
}

/// A lab, by the names of its two namespaces.
#[derive(Clone, Debug)]
pub struct Lab {
    /// The namespace of origins and proxies.
    pub farm: String,
    /// The namespace of the client.
    pub client: String,
}

impl Lab {
    /// Returns the handle of lab `name`, whether the lab exists or not.
    pub fn new(name: &str) -> Self {
        Self {
            farm: format!("{name}-farm"),
            client: format!("{name}-client"),
        }
    }

    /// Creates the namespaces and the link where they are missing, and limits the link. Programs
    /// that run in the namespaces go on.
    pub fn up(&self, link: &LinkLimits) -> anyhow::Result<()> {
        let present = namespaces()?;
        for namespace in [&self.farm, &self.client] {
            if !present.contains(namespace) {
                ip(&["netns", "add", namespace]).context(
                    "cannot make a network namespace; in a container, run it with --privileged",
                )?;
            }
        }
        if !self.has_link()? {
            let (farm, client) = (&self.farm, &self.client);
            ip(&[
                "link",
                "add",
                FARM_DEVICE,
                "netns",
                farm,
                "type",
                "veth",
                "peer",
                "name",
                CLIENT_DEVICE,
                "netns",
                client,
            ])
            .context("cannot make a veth pair; the kernel may lack the module veth")?;
        }
        self.set_host(&self.farm, FARM_DEVICE, FARM_ADDRESS)?;
        self.set_host(&self.client, CLIENT_DEVICE, CLIENT_ADDRESS)?;
        self.limit(link)
    }

    /// Removes the namespaces, and the link with them. Returns the number of namespaces that there
    /// were.
    pub fn down(&self) -> anyhow::Result<usize> {
        let present = namespaces()?;
        let mut removed = 0;
        for namespace in [&self.farm, &self.client] {
            if present.contains(namespace) {
                // A namespace lives on while something runs in it: without
                // its link it is out of the way at once.
                let _ = ip(&["-n", namespace, "link", "del", FARM_DEVICE]);
                ip(&["netns", "del", namespace])?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Returns the link's device, rate and counters, as tc reports them.
    pub fn status(&self) -> anyhow::Result<String> {
        ensure!(
            namespaces()?.contains(&self.farm),
            "there is no namespace `{}`; make it with `sprat-loadgen lab up`",
            self.farm
        );
        let text = tool(
            "tc",
            &["-s", "-n", &self.farm, "qdisc", "show", "dev", FARM_DEVICE],
        )?;
        let counters = BucketCounters::parse(&text)
            .with_context(|| format!("`{FARM_DEVICE}` is not limited: {}", text.trim()))?;
        let mut status = String::new();
        writeln!(
            status,
            "namespaces  {} ({FARM_ADDRESS}), {} ({CLIENT_ADDRESS})",
            self.farm, self.client
        )?;
        writeln!(status, "device      {FARM_DEVICE} in {}", self.farm)?;
        writeln!(status, "link        {}", counters.settings)?;
        let route = tool("ip", &["-n", &self.farm, "route", "show", NETWORK])?;
        let control = route
            .split_once("congctl ")
            .map_or("the default", |(_, rest)| rest.trim());
        writeln!(status, "congestion  {control}")?;
        write!(
            status,
            "sent        {} bytes, {} packets, {} dropped",
            counters.sent_bytes, counters.sent_packets, counters.dropped
        )?;
        Ok(status)
    }

    fn has_link(&self) -> anyhow::Result<bool> {
        Ok(tool("ip", &["-n", &self.farm, "-o", "link", "show"])?
            .contains(&format!(" {FARM_DEVICE}@")))
    }

    /// Sets addresses, offloads and TCP of one namespace.
    fn set_host(&self, namespace: &str, device: &str, address: &str) -> anyhow::Result<()> {
        let address = format!("{address}/{PREFIX_BITS}");
        // Segments as they are on a real wire: with offloads, 64 KB would
        // count as one packet.
        inside(
            namespace,
            &[
                "ethtool", "-K", device, "tso", "off", "gso", "off", "gro", "off",
            ],
        )?;
        for (key, value) in HOST_SETTINGS {
            set_ipv4(namespace, key, value)?;
        }
        // Neighbour discovery would share the link. A kernel without IPv6 has
        // no such file, and no such traffic.
        let no_ipv6 =
            format!("f=/proc/sys/net/ipv6/conf/{device}/disable_ipv6; [ ! -e $f ] || echo 1 > $f");
        inside(namespace, &["sh", "-c", &no_ipv6])?;
        ip(&[
            "-n",
            namespace,
            "addr",
            "replace",
            &address,
            "dev",
            device,
            "noprefixroute",
        ])?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        ip(&["-n", namespace, "link", "set", device, "up"])?;
        set_congestion_control(namespace, device)
    }

    fn limit(&self, link: &LinkLimits) -> anyhow::Result<()> {
        let bucket = Bucket {
            rate_bits_per_s: link.rate_bits_per_s,
            burst_bytes: link.burst_bytes,
            limit_bytes: link.limit_bytes,
        };
        limit_rate(&self.farm, FARM_DEVICE, bucket)
    }
}

/// The TCP settings of both hosts, as names under /proc/sys/net/ipv4 and their values.
pub(crate) const HOST_SETTINGS: [(&str, &str); 3] = [
    // What one run learns about the path must not help or hurt the next.
    ("tcp_no_metrics_save", "1"),
    // 2,000 connections a second use up the ports within half a minute unless
    // those in TIME_WAIT may be used again (safe with timestamps).
    ("tcp_tw_reuse", "1"),
    ("ip_local_port_range", "10000 65535"),
];

/// The congestion control of the senders on the link.
const CONGESTION_CONTROL: &str = "cubic";

/// Writes a setting under /proc/sys/net/ipv4 of a namespace. Keys and values are constants of this
/// crate, so that the shell has nothing to misread.
pub(crate) fn set_ipv4(namespace: &str, key: &str, value: &str) -> anyhow::Result<()> {
    let write = format!("echo {value} > /proc/sys/net/ipv4/{key}");
    inside(namespace, &["sh", "-c", &write]).with_context(|| format!("cannot set {key} to {value}"))
}

/// Puts the link under cubic by its route, which works whatever the machine's default is. The
/// namespace's own default then counts on the loopback alone. It can be only what the machine
/// allows to all (its `tcp_allowed_congestion_control`, a setting of the whole machine that is not
/// the lab's to change): reno where cubic is not allowed.
fn set_congestion_control(namespace: &str, device: &str) -> anyhow::Result<()> {
    if set_ipv4(namespace, "tcp_congestion_control", CONGESTION_CONTROL).is_err() {
        set_ipv4(namespace, "tcp_congestion_control", "reno")?;
    }
    ip(&[
        "-n",
        namespace,
        "route",
        "replace",
        NETWORK,
        "dev",
        device,
        "scope",
        "link",
        "congctl",
        CONGESTION_CONTROL,
    ])
    .context("cannot put the link under cubic; the kernel may lack the module tcp_cubic")
}

/// The token bucket's settings and counters, as tc reports them.
#[derive(Debug, PartialEq)]
pub(crate) struct BucketCounters {
    pub(crate) settings: String,
    pub(crate) sent_bytes: u64,
    pub(crate) sent_packets: u64,
    pub(crate) dropped: u64,
}

impl BucketCounters {
    /// Parses the text of `tc -s qdisc show`. The JSON leaves out the bucket's settings in releases
    /// of `tc` still in use.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text
            .lines()
            .skip_while(|line| !line.starts_with("qdisc tbf "));
        let settings = lines.next()?.split_once(" rate ")?.1;
        let mut words = lines.next()?.split_whitespace();
        let mut after = |label: &str| {
            words.find(|word| *word == label)?;
            words.next()?.trim_matches([',', '(']).parse().ok()
        };
        Some(Self {
            settings: settings.trim().to_owned(),
            sent_bytes: after("Sent")?,
            sent_packets: after("bytes")?,
            dropped: after("(dropped")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_grows_with_the_rate() {
        assert_eq!(burst_bytes(10_000_000), 3100);
        assert_eq!(burst_bytes(100_000_000), 6250);
        assert_eq!(burst_bytes(1_000_000_000), 62_500);
    }

    #[test]
    fn counters_are_read_from_tc() {
        let text = "\
qdisc tbf 1: root refcnt 5 rate 10Mbit burst 3100b lat 118.6ms 
 Sent 12345 bytes 67 pkt (dropped 8, overlimits 9 requeues 0) 
 backlog 0b 0p requeues 0
";
        let counters = BucketCounters::parse(text).unwrap();
        assert_eq!(counters.settings, "10Mbit burst 3100b lat 118.6ms");
        assert_eq!(
            (counters.sent_bytes, counters.sent_packets, counters.dropped),
            (12345, 67, 8)
        );
        assert_eq!(
            BucketCounters::parse("qdisc noqueue 0: root refcnt 2\n"),
            None
        );
    }

    #[test]
    fn names_are_plain() {
        assert!(lab_name("sprat-2").is_ok());
        for text in ["", "-a", "a b", "a/b", "A", "$(x)", &"a".repeat(33)] {
            assert!(lab_name(text).is_err(), "{text}");
        }
    }
}
