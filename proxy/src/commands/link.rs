//! The command `sprat link`, which sets up the queueing discipline for engine `kernel` by tc(8) and
//! ip(8).

use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use sprat_config::Config;
use sprat_config::resolved::{Engine, Qdisc, Rate};
use sprat_scheduler::{Cutoffs, Discipline};
use sprat_uplink::kernel::{HANDLE, HTB_FAST_CLASS};

/// The number of HTB's levels of priority, the first of them for packets without a mark.
const HTB_LEVELS: usize = 8;

/// The number of bands of `prio`, as in TOCS03 2.1.
const PRIO_BANDS: usize = 16;

/// The most packets that may wait in each class: as many as in TOCS03's one queue. With more,
/// packets would wait longer in a class that their flow has left.
const CLASS_PACKETS: u32 = 100;

/// The bytes of a full segment on the wire.
const SEGMENT: u64 = 1514;

/// The longest time that one packet may take on the link, if it is more than a single segment: the
/// quantum of `engine: pace`. TCP hands the queueing discipline several segments as one packet,
/// which nothing overtakes, whatever its priority.
const PACKET: Duration = Duration::from_micros(300);

/// The segments in a packet if no bound is set (Linux's GSO_MAX_SEGS).
const UNBOUND_SEGMENTS: u64 = 65_535;

/// What `sprat link` does.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub(crate) enum LinkAction {
    /// Print the commands that `apply` runs.
    Plan,
    /// Install the queueing discipline (needs CAP_NET_ADMIN).
    Apply {
        /// Replace a queueing discipline that is set already.
        #[arg(long)]
        replace: bool,
    },
    /// Print the queueing discipline with its counters.
    Show,
    /// Remove the queueing discipline, which leaves the kernel's default.
    Remove,
}

/// A device, and the commands that set it up.
#[derive(Debug)]
struct Plan {
    device: String,
    commands: Vec<String>,
}

/// Runs an action of `sprat link`, and returns its output.
///
/// # Errors
///
/// The configuration has no kernel engine or lacks what that needs, the queueing discipline is not
/// Sprat's, or a command failed.
pub(crate) fn run(config: &Config, action: LinkAction) -> anyhow::Result<String> {
    let plan = Plan::make(config)?;
    let device = &plan.device;
    match action {
        LinkAction::Plan => Ok(plan.commands.join("\n")),
        LinkAction::Apply { replace } => {
            let shown = run_command(&format!("tc qdisc show dev {device}"))?;
            if let Some(set) = configured_root(&shown) {
                if !replace && !is_ours(&shown) {
                    bail!(
                        "{device} has a queueing discipline that Sprat did not set ({set}): \
                         `sprat link apply --replace` replaces it"
                    );
                }
                // tc replaces a discipline in place by one of its own kind only.
                run_command(&format!("tc qdisc del dev {device} root"))?;
            }
            for command in &plan.commands {
                if let Err(error) = run_command(command) {
                    // Half a discipline orders nothing.
                    let _ = plan.undo();
                    return Err(error);
                }
            }
            Ok(format!("{device}: {} commands run", plan.commands.len()))
        }
        LinkAction::Show => {
            let mut text = run_command(&format!("tc -s qdisc show dev {device}"))?;
            text.push_str(&run_command(&format!("tc -s class show dev {device}"))?);
            Ok(text)
        }
        LinkAction::Remove => {
            if !is_ours(&run_command(&format!("tc qdisc show dev {device}"))?) {
                bail!("{device} has no queueing discipline of `sprat link apply`");
            }
            plan.undo()?;
            Ok(format!("{device}: removed"))
        }
    }
}

impl Plan {
    fn make(config: &Config) -> anyhow::Result<Self> {
        let uplink = &config.uplink;
        let Engine::Kernel(engine) = &uplink.engine else {
            bail!("`uplink.engine` is not `kernel`: there is nothing to set on a device");
        };
        let device = engine.device.clone().context(
            "`uplink.engine` names no device: add `device: eth0` (`ip link` lists them)",
        )?;
        let classes = match &uplink.policy {
            Discipline::Bands(Cutoffs::Fixed(cutoffs)) => cutoffs.len() + 1,
            Discipline::Bands(Cutoffs::Learnt { classes }) => usize::from(*classes),
            _ => bail!("`uplink.policy` must be `bands` or `srpt` with the kernel engine"),
        };
        let mut commands = match (engine.qdisc, uplink.rate) {
            (Qdisc::Prio, _) => prio(&device, classes)?,
            (Qdisc::Htb, Rate::Fixed(bits_per_s)) => htb(&device, classes, bits_per_s)?,
            (Qdisc::Htb, _) => bail!("`htb` needs a rate: set `uplink.rate`, such as 10mbit"),
        };
        if let Rate::Fixed(bits_per_s) = uplink.rate {
            let segments = segments_in_packet(bits_per_s);
            commands.push(set_segments(&device, segments));
        }
        Ok(Self { device, commands })
    }

    /// Resets the device to the kernel's defaults.
    fn undo(&self) -> anyhow::Result<()> {
        let device = &self.device;
        run_command(&format!("tc qdisc del dev {device} root"))?;
        let shown = run_command(&format!("ip -details link show dev {device}"))?;
        let segments = device_segments(&shown).unwrap_or(UNBOUND_SEGMENTS);
        run_command(&set_segments(device, segments)).map(drop)
    }
}

/// Returns the number of segments that a packet may have on a link of this rate.
fn segments_in_packet(bits_per_s: u64) -> u64 {
    let bytes = u128::from(bits_per_s) * PACKET.as_micros() / 8_000_000;
    u64::try_from(bytes / u128::from(SEGMENT)).map_or(UNBOUND_SEGMENTS, |segments| {
        segments.clamp(1, UNBOUND_SEGMENTS)
    })
}

/// Returns the command that bounds the segments of the device's packets.
fn set_segments(device: &str, segments: u64) -> String {
    format!("ip link set dev {device} gso_max_segs {segments}")
}

/// Finds the kernel's default for `gso_max_segs` in the output of `ip -details link show`: the most
/// segments that the device itself can take.
fn device_segments(shown: &str) -> Option<u64> {
    let mut words = shown.split_whitespace();
    words.find(|word| *word == "tso_max_segs")?;
    words.next()?.parse().ok()
}

/// Returns the command for strict priority at the device's own rate.
fn prio(device: &str, classes: usize) -> anyhow::Result<Vec<String>> {
    if classes >= PRIO_BANDS {
        bail!(
            "`prio` has {PRIO_BANDS} bands, one of them for what is not marked: {classes} size classes are too many"
        );
    }
    let mut command = format!(
        "tc qdisc replace dev {device} root handle {HANDLE}: prio bands {PRIO_BANDS} priomap"
    );
    for band in 0..PRIO_BANDS {
        // Writing to a string cannot fail.
        let _ = write!(command, " {band}");
    }
    Ok(vec![command])
}

/// Returns the commands for classes that borrow from one rate, in the order of their priority.
fn htb(device: &str, classes: usize, bits_per_s: u64) -> anyhow::Result<Vec<String>> {
    if classes >= HTB_LEVELS {
        bail!(
            "`htb` has {HTB_LEVELS} priorities, one of them for what is not marked: {classes} size classes are too many"
        );
    }
    // Two segments, or what the rate sends in a tick of a coarse clock.
    let burst = (2 * SEGMENT + 72).max(bits_per_s / 8 / 1000);
    // Next to nothing is assured: order is by priority alone.
    let assured = (bits_per_s / 1000).max(8000);
    let fast = HTB_FAST_CLASS;
    let class = |parent: &str, minor: u32, rest: String| {
        format!(
            "tc class replace dev {device} parent {parent} classid {HANDLE}:{minor:x} htb {rest}"
        )
    };
    let mut commands = vec![
        format!("tc qdisc replace dev {device} root handle {HANDLE}: htb default {fast:x}"),
        class(
            &format!("{HANDLE}:"),
            1,
            format!(
                "rate {bits_per_s}bit ceil {bits_per_s}bit burst {burst} cburst {burst} quantum {SEGMENT}"
            ),
        ),
    ];
    for (minor, priority) in (fast..).zip(0..=classes) {
        commands.push(class(
            &format!("{HANDLE}:1"),
            minor,
            format!(
                "prio {priority} rate {assured}bit ceil {bits_per_s}bit \
                 burst {burst} cburst {burst} quantum {SEGMENT}"
            ),
        ));
        commands.push(format!(
            "tc qdisc replace dev {device} parent {HANDLE}:{minor:x} handle {minor:x}: pfifo limit {CLASS_PACKETS}"
        ));
    }
    Ok(commands)
}

/// Returns whether `sprat link apply` installed the root discipline in the output of `tc qdisc
/// show`.
fn is_ours(shown: &str) -> bool {
    shown.lines().any(|line| {
        let ours = ["qdisc htb 1: root", "qdisc prio 1: root"];
        ours.iter().any(|start| line.starts_with(start))
    })
}

/// Returns the root discipline in the output of `tc qdisc show`, unless the kernel put it there by
/// itself: its handle is 0 then.
fn configured_root(shown: &str) -> Option<&str> {
    let root = shown.lines().find(|line| line.contains(" root "))?;
    (!root.contains(" 0: root")).then(|| root.trim())
}

/// Runs a command, and returns its standard output.
fn run_command(command: &str) -> anyhow::Result<String> {
    let mut words = command.split(' ');
    let program = words.next().unwrap_or_default();
    let output = Command::new(program).args(words).output();
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            anyhow::anyhow!("{program} is missing: apt-get install iproute2")
        }
        _ => anyhow::Error::new(error).context(format!("cannot run `{command}`")),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let hint = if said.contains("not permitted") {
        " (it needs root, or CAP_NET_ADMIN)"
    } else {
        ""
    };
    bail!("`{command}` failed{hint}: {}", said.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(uplink: &str) -> Config {
        let text = format!(
            "version: 1\nlisteners: [{{address: 127.0.0.1:1}}]\nuplink: {uplink}\n\
             clusters: {{farm: {{endpoints: [127.0.0.1:2]}}}}\nroutes: [{{cluster: farm}}]\n"
        );
        sprat_config::parse(&text, "test.yaml", &|_| None)
            .unwrap()
            .config
    }

    fn plan(uplink: &str) -> Result<Vec<String>, String> {
        Plan::make(&config(uplink))
            .map(|plan| plan.commands)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn htb_has_a_fast_class_and_one_for_each_size_class() {
        let kernel = "{rate: 10mbit, policy: {name: bands, cutoffs: two-class}, \
                      engine: {name: kernel, qdisc: htb, device: eth0}}";
        let common = "rate 10000bit ceil 10000000bit burst 3100 cburst 3100 quantum 1514";
        assert_eq!(
            plan(kernel).unwrap(),
            [
                "tc qdisc replace dev eth0 root handle 1: htb default 10".to_owned(),
                "tc class replace dev eth0 parent 1: classid 1:1 htb rate 10000000bit \
                 ceil 10000000bit burst 3100 cburst 3100 quantum 1514"
                    .to_owned(),
                format!("tc class replace dev eth0 parent 1:1 classid 1:10 htb prio 0 {common}"),
                "tc qdisc replace dev eth0 parent 1:10 handle 10: pfifo limit 100".to_owned(),
                format!("tc class replace dev eth0 parent 1:1 classid 1:11 htb prio 1 {common}"),
                "tc qdisc replace dev eth0 parent 1:11 handle 11: pfifo limit 100".to_owned(),
                format!("tc class replace dev eth0 parent 1:1 classid 1:12 htb prio 2 {common}"),
                "tc qdisc replace dev eth0 parent 1:12 handle 12: pfifo limit 100".to_owned(),
                "ip link set dev eth0 gso_max_segs 1".to_owned(),
            ]
        );
    }

    #[test]
    fn packets_are_as_long_as_the_rate_allows() {
        assert_eq!(segments_in_packet(10_000_000), 1);
        assert_eq!(segments_in_packet(100_000_000), 2);
        assert_eq!(segments_in_packet(1_000_000_000), 24);
        assert_eq!(segments_in_packet(u64::MAX), UNBOUND_SEGMENTS);
        let shown = "promiscuity 0 numtxqueues 2 gso_max_size 65536 gso_max_segs 1 \
                     tso_max_size 524280 tso_max_segs 4096 gro_max_size 65536";
        assert_eq!(device_segments(shown), Some(4096));
        assert_eq!(device_segments("an older ip says nothing"), None);
    }

    #[test]
    fn prio_maps_each_priority_to_its_band() {
        let kernel =
            "{rate: auto, policy: srpt, engine: {name: kernel, qdisc: prio, device: eth0}}";
        assert_eq!(
            plan(kernel).unwrap(),
            [
                "tc qdisc replace dev eth0 root handle 1: prio bands 16 priomap \
              0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"
            ]
        );
    }

    #[test]
    fn what_cannot_be_set_is_refused() {
        let refused = |uplink| plan(uplink).unwrap_err();
        assert!(refused("{rate: 10mbit, policy: srpt}").contains("not `kernel`"));
        let nowhere = "{rate: 10mbit, policy: srpt, engine: {name: kernel, qdisc: htb}}";
        assert!(refused(nowhere).contains("names no device"));
        let many = "{rate: 10mbit, policy: {name: bands, cutoffs: [1KB, 2KB, 3KB, 4KB, 5KB, 6KB, 7KB]}, \
                    engine: {name: kernel, qdisc: htb, device: eth0}}";
        assert!(refused(many).contains("too many"));
    }

    #[test]
    fn only_our_own_root_is_recognised() {
        assert!(is_ours("qdisc htb 1: root refcnt 2 r2q 10 default 0x10"));
        assert!(!is_ours("qdisc tbf 8001: root refcnt 2 rate 10Mbit"));
        assert!(!is_ours("qdisc pfifo 10: parent 1:10 limit 1000p"));
        assert_eq!(configured_root("qdisc noqueue 0: root refcnt 2 "), None);
        let tbf = "qdisc tbf 8001: root refcnt 2 rate 10Mbit";
        assert_eq!(configured_root(tbf), Some(tbf));
    }
}
