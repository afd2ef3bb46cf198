//! A network for real, where this machine allows it: TCP of the kernel at both ends.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const LOADGEN: &str = env!("CARGO_BIN_EXE_sprat-loadgen");

/// Why the tests cannot run here, if they cannot: a missing right, tool or device.
/// Whatever else goes wrong fails them.
static OBSTACLE: LazyLock<Option<String>> = LazyLock::new(|| {
    let root = Command::new("id").arg("-u").output().ok()?;
    if root.stdout != b"0\n" {
        return Some("not root".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("no /dev/net/tun".to_owned());
    }
    for program in ["ip", "tc", "ethtool"] {
        if Command::new(program).arg("--version").output().is_err() {
            return Some(format!("`{program}` is missing"));
        }
    }
    let probe = format!("network-probe-{}", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &probe]).output();
    if !made.ok()?.status.success() {
        return Some("no namespaces".to_owned());
    }
    let removed = Command::new("ip").args(["netns", "del", &probe]).output();
    assert!(removed.is_ok_and(|output| output.status.success()));
    None
});

/// Says why a test is skipped, if it is.
fn is_skipped() -> bool {
    if let Some(reason) = &*OBSTACLE {
        println!("skipped: {reason}");
    }
    OBSTACLE.is_some()
}

/// A network of a test, with a name of its own.
struct Lab {
    name: String,
    dir: tempfile::TempDir,
}

impl Lab {
    fn new(what: &str, topology: &str) -> Self {
        let name = format!("nt-{what}-{}", std::process::id());
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("t.yaml"), topology).unwrap();
        Self { name, dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn network(&self) -> Command {
        let mut command = Command::new(LOADGEN);
        command.args(["network", "--name", &self.name, "--counters"]);
        command
            .arg(self.path("counters.csv"))
            .arg(self.path("t.yaml"));
        command
    }

    /// Runs a script of bash in the network; `$L` is the load generator.
    fn run(&self, script: &str) -> Output {
        let mut command = self.network();
        command.args(["--", "bash", "-euc", script]);
        command.env("L", LOADGEN).env("D", self.dir.path());
        command.output().unwrap()
    }

    /// A counter of IN of a link's direction.
    fn counter(&self, link: &str, direction: &str, column: &str) -> f64 {
        let mut csv = csv_rows(&self.path("counters.csv"));
        let header = csv.next().unwrap();
        let place = header.iter().position(|name| name == column).unwrap();
        let row = csv.find(|row| row[..3] == [link, direction, "in"]).unwrap();
        row[place].parse().unwrap()
    }

    fn assert_nothing_is_left(&self) {
        let output = Command::new("ip").args(["netns", "list"]).output().unwrap();
        let list = String::from_utf8(output.stdout).unwrap();
        assert!(!list.contains(&self.name), "{list}");
        for state in ["", ".json"] {
            let state = format!("/run/sprat-network/{}{state}", self.name);
            assert!(!Path::new(&state).exists(), "{state}");
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let state = format!("/run/sprat-network/{}", self.name);
        for namespace in std::fs::read_to_string(&state).unwrap_or_default().lines() {
            let _ = Command::new("ip")
                .args(["netns", "del", namespace])
                .output();
        }
        let _ = std::fs::remove_file(state);
    }
}

fn csv_rows(file: &Path) -> impl Iterator<Item = Vec<String>> + use<> {
    let mut reader = csv::ReaderBuilder::new();
    let rows = reader.has_headers(false).from_path(file).unwrap();
    rows.into_records()
        .map(|row| row.unwrap().iter().map(str::to_owned).collect())
}

/// Times of a replay: (start, response) in seconds, with the bytes that came.
fn times(file: &Path) -> Vec<(f64, f64, f64)> {
    let rows = csv_rows(file).skip(1);
    let number = |row: &Vec<String>, column: usize| row[column].parse::<f64>().unwrap();
    rows.map(|row| (number(&row, 3), number(&row, 4) / 1e3, number(&row, 5)))
        .collect()
}

const ORIGIN: &str = "
exec 3< <(exec ip netns exec $SPRAT_NETWORK_FARM $L origin --listen 198.18.0.1:8000)
read -r _ <&3
";

#[test]
fn a_link_carries_no_more_than_its_rate_and_holds_no_less_than_its_delay() {
    if is_skipped() {
        return;
    }
    // 20 packets of 1,500 bytes in the queue keep the link busy; four do not hold a first
    // window, which is ten at once.
    let lab = Lab::new(
        "rate",
        "
version: 1
groups:
  - name: near
    clients: 2
    share: 0
    link: {down: {delay: 15ms}, up: {delay: 15ms, loss: 100%}}
  - name: slow
    clients: 2
    link: {down: {rate: 4mbit, delay: 20ms, queue: {bytes: 30000}}, up: {delay: 30ms}}
  - name: tight
    clients: 1
    share: 0
    link: {down: {rate: 4mbit, queue: {bytes: 6000}}, up: {delay: 20ms}}
",
    );
    // A small response, and one that takes 2 s at 4 Mbit/s.
    std::fs::write(
        lab.path("t.csv"),
        "t_s,bytes,path\n0,10,/size/10/a\n0.5,1000000,/size/1000000/b\n",
    )
    .unwrap();
    let script = format!(
        "{ORIGIN}
$L replay --network $SPRAT_NETWORK --trace $D/t.csv --target http://198.18.0.1:8000 -o $D/r.csv
ip netns exec $SPRAT_NETWORK_NAMESPACE_NEAR timeout 1 bash -c ': < /dev/tcp/198.18.0.1/8000' && exit 9
ip netns exec $SPRAT_NETWORK_NAMESPACE_TIGHT bash -c '
    exec 4<>/dev/tcp/198.18.0.1/8000
    printf \"GET /size/100000/c HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n\" >&4
    cat <&4 >$D/tight'
exit 7"
    );
    let output = lab.run(&script);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        told.contains("slow: 2 requests from 2 clients, 0 failed"),
        "{told}"
    );
    assert!(told.contains("near: 0 requests from 2 clients"), "{told}");

    let times = times(&lab.path("r.csv"));
    let [(_, small_s, _), (_, large_s, bytes)] = times[..] else {
        panic!("{times:?}");
    };
    // A round trip to connect, one to ask.
    assert!(small_s >= 0.1, "{small_s}");
    // 1,448 bytes of a segment take 1,514 on the link.
    let bits_per_s = bytes * 8.0 * (1514.0 / 1448.0) / (large_s - 0.1);
    assert!(bits_per_s <= 4e6, "{bits_per_s}");

    // All that came is counted, and on one client's link or the other.
    let both =
        |column| lab.counter("slow-1", "down", column) + lab.counter("slow-2", "down", column);
    assert!(both("delivered_bytes") >= 1e6);
    assert_eq!(
        both("in_packets"),
        both("out_packets") + both("overflow_packets")
    );
    assert_eq!(both("out_packets"), both("delivered_packets"));
    for client in ["slow-1", "slow-2"] {
        assert!(lab.counter(client, "down", "max_bytes") <= 30_000.0);
    }
    let tight = |column| lab.counter("tight-1", "down", column);
    assert!(tight("overflow_packets") > 0.0);
    assert!(tight("max_bytes") <= 6000.0);
    let arrived = std::fs::metadata(lab.path("tight")).unwrap().len();
    assert!(arrived > 100_000, "{arrived}");
    // Nothing of what the others asked for came through.
    let lost = lab.counter("near-1", "up", "lost_packets");
    assert!(lost > 0.0, "{lost}");
    assert_eq!(lab.counter("near-1", "up", "delivered_packets"), 0.0);
    assert_eq!(lab.counter("near-1", "up", "in_packets"), lost);
    lab.assert_nothing_is_left();
}

#[test]
fn the_farms_bucket_and_its_tcp_are_set() {
    if is_skipped() {
        return;
    }
    let lab = Lab::new(
        "farm",
        "
version: 1
farm:
  tbf: {rate: 10mbit, queue: 60000}
  tcp: {congestion: reno, initial_window: 2, recovery: classic}
groups: [{name: a, clients: 1}]
",
    );
    let output = lab.run(
        "ip -n $SPRAT_NETWORK_FARM route
tc -n $SPRAT_NETWORK_FARM qdisc show dev uplink
ip netns exec $SPRAT_NETWORK_FARM cat /proc/sys/net/ipv4/tcp_recovery",
    );
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for part in ["congctl reno", "initcwnd 2", "rate 10Mbit"] {
        assert!(told.contains(part), "{told}");
    }
    assert!(told.ends_with("\n0\n"), "{told}");
    lab.assert_nothing_is_left();
}

/// Waits for the network's first lines on its stdout.
fn wait_until_up(child: &mut Child) {
    let mut line = String::new();
    let output = child.stdout.as_mut().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    assert!(line.contains("-farm"), "{line}");
}

fn signal(child: &Child, name: &str) {
    let process = child.id().to_string();
    let sent = Command::new("kill").args([name, &process]).status();
    assert!(sent.unwrap().success());
}

const PLAIN: &str = "version: 1\ngroups: [{name: a, clients: 1, link: {down: {rate: 1mbit}}}]\n";

#[test]
fn a_network_ends_with_a_signal_counts_at_another_and_is_one_of_its_name() {
    if is_skipped() {
        return;
    }
    let lab = Lab::new("signal", PLAIN);
    let mut child = lab.network().stdout(Stdio::piped()).spawn().unwrap();
    wait_until_up(&mut child);
    let second = lab.network().output().unwrap();
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(
        !second.status.success() && told.contains("is running"),
        "{told}"
    );

    signal(&child, "-USR1");
    let begun = Instant::now();
    while !lab.path("counters.csv").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "no counters");
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&child, "-TERM");
    assert!(child.wait().unwrap().success());
    lab.assert_nothing_is_left();
}

#[test]
fn what_a_killed_network_left_is_removed_by_the_next() {
    if is_skipped() {
        return;
    }
    let lab = Lab::new("killed", PLAIN);
    let mut child = lab.network().stdout(Stdio::piped()).spawn().unwrap();
    wait_until_up(&mut child);
    child.kill().unwrap();
    child.wait().unwrap();
    let again = lab.run("exit 0");
    assert!(again.status.success(), "{again:?}");
    lab.assert_nothing_is_left();
}

#[test]
fn a_command_is_ended_with_what_it_started() {
    if is_skipped() {
        return;
    }
    let lab = Lab::new("end", PLAIN);
    let script = "sleep 1000 & echo $! > $D/sleeper; echo up-farm; wait";
    let mut child = lab
        .network()
        .args(["--", "bash", "-c", script])
        .env("D", lab.dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_up(&mut child);
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    let sleeper = std::fs::read_to_string(lab.path("sleeper")).unwrap();
    let stat = format!("/proc/{}/stat", sleeper.trim());
    // Gone, or about to be collected.
    let state = std::fs::read_to_string(stat).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    lab.assert_nothing_is_left();
}

#[test]
fn a_topology_is_checked_without_being_built() {
    let lab = Lab::new("check", "version: 1\ngroups: [{name: a, clients: 300}]\n");
    let check = || {
        let mut command = Command::new(LOADGEN);
        command.args(["network", "--check"]).arg(lab.path("t.yaml"));
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    let (ok, text) = check();
    assert!(
        !ok && text.contains("line 2") && text.contains("1 to 250"),
        "{text}"
    );
    std::fs::write(lab.path("t.yaml"), PLAIN).unwrap();
    let (ok, text) = check();
    assert!(
        ok && text.contains("198.18.1.1") && text.contains("links: 1"),
        "{text}"
    );
    lab.assert_nothing_is_left();
}
