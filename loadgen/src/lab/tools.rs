//! The programs that make a lab: ip, tc and ethtool.

use std::io;
use std::process::{Command, Output};

use anyhow::{Context, bail, ensure};

/// Checks for root and the tools, before anything is changed. The error says what is missing.
pub(crate) fn check_means() -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "a lab needs root: network namespaces and queues are made. Run this with sudo"
    );
    for (program, package) in [
        ("ip", "iproute2"),
        ("tc", "iproute2"),
        ("ethtool", "ethtool"),
    ] {
        if let Err(error) = Command::new(program).arg("--version").output() {
            bail!(
                "cannot run `{program}` ({error}): install it, on Debian with `apt-get install {package}`"
            );
        }
    }
    Ok(())
}

pub(crate) fn namespaces() -> anyhow::Result<Vec<String>> {
    let text = tool("ip", &["netns", "list"])?;
    let first_words = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Ok(first_words.map(str::to_owned).collect())
}

pub(crate) fn ip(args: &[&str]) -> anyhow::Result<()> {
    tool("ip", args).map(drop)
}

pub(crate) fn inside(namespace: &str, command: &[&str]) -> anyhow::Result<()> {
    let args = [&["netns", "exec", namespace], command].concat();
    tool("ip", &args).map(drop)
}

/// Runs a program and returns what it printed.
pub(crate) fn tool(program: &str, args: &[&str]) -> anyhow::Result<String> {
    let told = || format!("`{program} {}`", args.join(" "));
    let output: Output = match Command::new(program).args(args).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("`{program}` is missing; on Debian it comes with the package iproute2")
        }
        other => other.with_context(|| format!("cannot run {}", told()))?,
    };
    ensure!(
        output.status.success(),
        "{} failed: {}",
        told(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Limits what a device in a namespace sends with a fresh token bucket.
///
/// A bucket that is there is not changed but thrown away, with what waits for it: one whose rate
/// has fallen passes nothing for a while. For a moment the device has no limit. After an error it
/// has none either, and the queue that it began with.
///
/// # Errors
/// The kernel has no tbf, or there is no such device.
pub(crate) fn limit_rate(namespace: &str, device: &str, bucket: Bucket) -> anyhow::Result<()> {
    let rate = format!("{}bit", bucket.rate_bits_per_s);
    let burst = bucket.burst_bytes.to_string();
    let limit = bucket.limit_bytes.to_string();
    let replace = ["-n", namespace, "qdisc", "replace", "dev", device, "root"];
    // Under another handle the kernel makes anew what it would change under the same.
    let between = ["handle", "2:", "pfifo", "limit", "1"];
    let queue = [
        "handle", "1:", "tbf", "rate", &rate, "burst", &burst, "limit", &limit,
    ];
    let place = |each: &[&str]| tool("tc", &[&replace[..], each].concat()).map(drop);
    let placed = place(&between).and_then(|()| {
        place(&queue).inspect_err(|_| {
            // A queue of one packet would drop most of a burst. The error is told in any case.
            let _ = tool(
                "tc",
                &["-n", namespace, "qdisc", "del", "dev", device, "root"],
            );
        })
    });
    placed.with_context(|| format!("cannot limit {device}; the kernel may lack the module sch_tbf"))
}

/// The settings of a token bucket, which is `tc`'s tbf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// The rate on the wire, in bits per second.
    pub(crate) rate_bits_per_s: u64,
    /// The most bytes that may go at once.
    pub(crate) burst_bytes: u64,
    /// The most bytes that wait for the bucket.
    pub(crate) limit_bytes: u64,
}
