//! The lab for real, where this machine allows it.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use sprat_loadgen::lab::{FARM_ADDRESS, Lab, LinkLimits};

const LOADGEN: &str = env!("CARGO_BIN_EXE_sprat-loadgen");

/// Removes the lab and ends the origin, also when the test fails.
struct Cleanup {
    lab: Lab,
    origin: Option<Child>,
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Some(origin) = &mut self.origin {
            let _ = origin.kill();
            let _ = origin.wait();
        }
        let _ = self.lab.down();
    }
}

fn inside(namespace: &str, args: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).args(args);
    command
}

/// Why the test cannot run here, if it cannot: a missing right, tool or part
/// of the kernel. Whatever else goes wrong fails the test.
static OBSTACLE: LazyLock<Option<String>> = LazyLock::new(obstacle);

fn obstacle() -> Option<String> {
    let root = Command::new("id").arg("-u").output().ok()?;
    if root.stdout != b"0\n" {
        return Some("not root".to_owned());
    }
    for program in ["ip", "tc", "ethtool"] {
        if Command::new(program).arg("--version").output().is_err() {
            return Some(format!("`{program}` is missing"));
        }
    }
    let probe = format!("lab-probe-{}", std::process::id());
    let made = Command::new("ip")
        .args(["netns", "add", &probe])
        .output()
        .ok()?;
    if !made.status.success() {
        return Some(format!(
            "no namespaces: {}",
            String::from_utf8_lossy(&made.stderr)
        ));
    }
    let bucket = Command::new("tc")
        .args(["-n", &probe, "qdisc", "replace", "dev", "lo", "root", "tbf"])
        .args(["rate", "10mbit", "burst", "3100", "limit", "151400"])
        .output();
    let removed = Command::new("ip").args(["netns", "del", &probe]).output();
    assert!(removed.is_ok_and(|output| output.status.success()));
    let bucket = bucket.ok()?;
    (!bucket.status.success())
        .then(|| format!("no tbf: {}", String::from_utf8_lossy(&bucket.stderr)))
}

fn loadgen(args: &[&str]) -> (bool, String) {
    let output = Command::new(LOADGEN).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn replay_across(lab: &Lab, dir: &Path) -> String {
    let trace = dir.join("t.csv");
    let results = dir.join("r.csv");
    let (trace, results) = (trace.to_str().unwrap(), results.to_str().unwrap());
    loadgen(&["gen", "--requests", "200", "--load", "0.5", "-o", trace]);
    let target = format!("http://{FARM_ADDRESS}:8000");
    let output = inside(&lab.client, &[LOADGEN, "replay", "--trace", trace])
        .args([
            "--target", &target, "--uplink", "10mbit", "--name", "origin", "-o", results,
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_replay_crosses_the_limited_link() {
    if let Some(reason) = &*OBSTACLE {
        println!("skipped: {reason}");
        return;
    }
    let name = format!("lab-test-{}", std::process::id());
    let mut cleanup = Cleanup {
        lab: Lab::new(&name),
        origin: None,
    };
    let (ok, text) = loadgen(&["lab", "status", "--name", &name]);
    assert!(!ok && text.contains("lab up"), "{text}");
    let (ok, text) = loadgen(&["lab", "up", "--name", &name, "--rate", "10mbit"]);
    assert!(ok && text.contains("10Mbit burst 3100b"), "{text}");
    assert!(text.contains("congestion  cubic"), "{text}");

    let listen = format!("{FARM_ADDRESS}:8000");
    let mut origin = inside(&cleanup.lab.farm, &[LOADGEN, "origin", "--listen", &listen])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(origin.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    cleanup.origin = Some(origin);
    assert!(line.contains(&listen), "{line}");

    let told = replay_across(&cleanup.lab, tempfile::tempdir().unwrap().path());
    assert!(told.starts_with("origin: 200 requests, 0 failed"), "{told}");

    // Again, at another rate: the origin lives on, the counters show the run.
    let (ok, text) = loadgen(&["lab", "up", "--name", &name, "--rate", "20mbit"]);
    assert!(ok && text.contains("20Mbit"), "{text}");
    let told = replay_across(&cleanup.lab, tempfile::tempdir().unwrap().path());
    assert!(told.starts_with("origin: 200 requests, 0 failed"), "{told}");
    let (ok, text) = loadgen(&["lab", "status", "--name", &name]);
    assert!(ok && !text.contains("sent        0 bytes"), "{text}");

    let (ok, text) = loadgen(&["lab", "down", "--name", &name]);
    assert!(ok && text.contains("removed"), "{text}");
    let (ok, text) = loadgen(&["lab", "down", "--name", &name]);
    assert!(ok && text.contains("there was no lab"), "{text}");
}

#[test]
fn the_queue_is_set_as_asked() {
    if let Some(reason) = &*OBSTACLE {
        println!("skipped: {reason}");
        return;
    }
    let cleanup = Cleanup {
        lab: Lab::new(&format!("lab-queue-{}", std::process::id())),
        origin: None,
    };
    let link = LinkLimits {
        rate_bits_per_s: 1_000_000_000,
        burst_bytes: 62_500,
        limit_bytes: 151_400,
    };
    cleanup.lab.up(&link).unwrap();
    let status = cleanup.lab.status().unwrap();
    // tc keeps the bucket in ticks of the clock, hence the missing bytes.
    assert!(status.contains("1Gbit burst 62"), "{status}");
    assert_eq!(cleanup.lab.down().unwrap(), 2);
}

#[test]
fn a_limit_that_cannot_be_set_leaves_no_queue_of_its_own() {
    if let Some(reason) = &*OBSTACLE {
        println!("skipped: {reason}");
        return;
    }
    let name = format!("lab-unlimited-{}", std::process::id());
    let cleanup = Cleanup {
        lab: Lab::new(&name),
        origin: None,
    };
    let link = LinkLimits {
        rate_bits_per_s: 10_000_000,
        // A token bucket has some.
        burst_bytes: 0,
        limit_bytes: 151_400,
    };
    cleanup.lab.up(&link).unwrap_err();
    let told = Command::new("tc")
        .args(["-n", &format!("{name}-farm"), "qdisc", "show"])
        .output()
        .unwrap();
    let queues = String::from_utf8(told.stdout).unwrap();
    assert!(!queues.contains("pfifo 2:"), "{queues}");
}
