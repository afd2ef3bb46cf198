//! Tests of `sprat link` and engine `kernel` on a device of the test's own: a veth pair whose other
//! end is the client's, in a network namespace.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::common::binary::{Running, sprat};
use crate::common::*;
use sprat_config::resolved::Rate;
use sprat_scheduler::Discipline;

/// Runs a command with its arguments. Returns its output, or the reason of its failure.
fn run(command: &str) -> Result<String, String> {
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).output();
    let output = output.map_err(|error| format!("{command}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(format!("{command}: {}", text(&output.stderr)))
    }
}

/// A device that leads to a namespace, both of which are removed when this is dropped.
struct Lab {
    namespace: String,
    device: String,
    /// The address of this machine on the device.
    farm: String,
}

/// The bytes of a full packet on the device.
const FULL_PACKET: u64 = 1514;

impl Lab {
    /// Creates a lab with its devices. Labs of tests that run in parallel have different numbers.
    fn new(number: u32) -> Result<Self, String> {
        let id = std::process::id();
        let lab = Self {
            namespace: format!("sprat-test-{id}-{number}"),
            device: format!("spr{id}-{number}"),
            farm: format!("198.18.77.{}", 4 * number + 1),
        };
        let client = format!("198.18.77.{}", 4 * number + 2);
        let Self {
            namespace,
            device,
            farm,
        } = &lab;
        run(&format!("ip netns add {namespace}"))?;
        for command in [
            format!("ip link add {device} type veth peer name eth0 netns {namespace}"),
            format!("ip address add {farm}/30 dev {device}"),
            format!("ip link set {device} up"),
            format!("ip -n {namespace} address add {client}/30 dev eth0"),
            format!("ip -n {namespace} link set eth0 up"),
        ] {
            run(&command)?;
        }
        Ok(lab)
    }

    /// Returns the bytes that the class of this minor number has sent.
    fn sent(&self, minor: &str) -> u64 {
        let shown = run(&format!("tc -s class show dev {}", self.device)).unwrap();
        let class = format!("class htb 1:{minor} ");
        let (_, rest) = shown.split_once(&class).unwrap();
        let sent = rest.split(" Sent ").nth(1).unwrap();
        sent.split(' ').next().unwrap().parse().unwrap()
    }

    /// Returns the bytes that the device has sent, and the packets that its queue had no room for.
    fn carried(&self) -> (u64, u64) {
        let shown = run(&format!("tc -s qdisc show dev {} root", self.device)).unwrap();
        let number = |after: &str| -> u64 {
            let rest = shown.split(after).nth(1).unwrap();
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap();
            digits.parse().unwrap()
        };
        (number(" Sent "), number("dropped "))
    }

    /// Starts a client that asks for `bytes`, says `all` when it has them, and keeps its connection
    /// until its standard input ends.
    fn kept_client(&self, address: std::net::SocketAddr, bytes: u64) -> Child {
        let (host, port) = (address.ip(), address.port());
        let script = format!(
            "exec 3<>/dev/tcp/{host}/{port}
             printf 'GET /{bytes} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n' >&3
             while read -r line <&3 && [ \"$line\" != $'\\r' ]; do :; done
             head -c {bytes} <&3 | wc -c | grep -qx {bytes} && echo all
             read -r _ || true"
        );
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, "bash", "-c", &script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        command.spawn().unwrap()
    }

    fn segments(&self) -> String {
        let shown = run(&format!("ip -details link show dev {}", self.device)).unwrap();
        let (_, rest) = shown.split_once("gso_max_segs ").unwrap();
        rest.split(' ').next().unwrap().to_owned()
    }

    fn fetch(&self, address: std::net::SocketAddr, path: &str) -> usize {
        let namespace = &self.namespace;
        let url = format!("http://{address}{path}");
        let shown = run(&format!(
            "ip netns exec {namespace} curl -fsS --max-time 20 -o /dev/null -w %{{size_download}} {url}"
        ));
        shown.unwrap().parse().unwrap()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // The device goes with its peer.
        let _ = run(&format!("ip netns delete {}", self.namespace));
    }
}

#[test]
fn the_kernel_engine_orders_by_class_on_a_device_that_link_has_set_up() {
    let needs = ["ip -V", "tc -V", "curl -V"];
    let lab = needs
        .iter()
        .try_for_each(|command| run(command).map(drop))
        .and_then(|()| Lab::new(0));
    let lab = match lab {
        Ok(lab) => lab,
        Err(why) => {
            eprintln!("skipped: it needs root, iproute2 and curl ({why})");
            return;
        }
    };
    let origin = Origin::http(|request| {
        let bytes = request.start.split('/').nth(1).unwrap();
        let bytes = bytes.split(' ').next().unwrap().parse().unwrap();
        ok(&"x".repeat(bytes))
    });
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sprat.yaml");
    let text = format!(
        "version: 1\nadmin: off\nlisteners: [{{address: '{}:0'}}]\n\
         uplink: {{rate: 10mbit, policy: bands, engine: {{name: kernel, qdisc: htb, device: {}}}}}\n\
         clusters: {{farm: {{endpoints: ['{}']}}}}\nroutes: [{{cluster: farm}}]\n",
        lab.farm, lab.device, origin.address
    );
    std::fs::write(&file, text).unwrap();
    let link = |action: &[&str]| {
        let mut arguments = vec!["link"];
        arguments.extend(action);
        arguments.extend(["-c", file.to_str().unwrap()]);
        let output = sprat(&arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&said).into_owned(),
        )
    };
    let segments_before = lab.segments();

    // Somebody's discipline is not replaced without being told to.
    let device = &lab.device;
    run(&format!(
        "tc qdisc add dev {device} root tbf rate 1gbit burst 10kb limit 10kb"
    ))
    .unwrap();
    let (done, said) = link(&["apply"]);
    assert!(!done && said.contains("--replace"), "{said}");
    let (done, said) = link(&["apply", "--replace"]);
    assert!(done, "{said}");
    // Ours is.
    let (done, said) = link(&["apply"]);
    assert!(done, "{said}");
    assert_eq!(lab.segments(), "1", "a packet is a segment at 10 Mbit/s");

    let sprat = Running::start(&file);
    assert_eq!(lab.fetch(sprat.address, "/100"), 100);
    let smallest = lab.sent("11");
    assert!(smallest > 100, "{smallest} bytes in the smallest class");
    assert_eq!(lab.sent("16"), 0, "nothing large has been sent");
    assert_eq!(lab.fetch(sprat.address, "/200000"), 200_000);
    // All but the last 50 KB, and some of what was on its way then.
    let largest = lab.sent("16");
    assert!(largest > 100_000, "{largest} bytes in the largest class");
    let (done, said) = link(&["show"]);
    assert!(done && said.contains("class htb 1:16"), "{said}");

    let (done, said) = link(&["remove"]);
    assert!(done, "{said}");
    assert_eq!(lab.segments(), segments_before);
    let (done, said) = link(&["remove"]);
    assert!(!done && said.contains("no queueing discipline"), "{said}");
    assert_eq!(lab.fetch(sprat.address, "/200000"), 200_000);
}

/// Checks that retransmissions are counted as load of the uplink while they happen. If they were
/// counted at the connection's end, all responses would wait for them there.
#[test]
fn downloads_over_a_lossy_link_are_counted_as_they_go() {
    let lab = match Lab::new(1) {
        Ok(lab) => lab,
        Err(why) => {
            eprintln!("skipped: it needs root and iproute2 ({why})");
            return;
        }
    };
    // Four packets of queue at less than the uplink's rate: some of each round are lost.
    let device = &lab.device;
    run(&format!("ip link set dev {device} gso_max_segs 1")).unwrap();
    run(&format!(
        "tc qdisc add dev {device} root tbf rate 8mbit burst 1600 limit 6056"
    ))
    .unwrap();
    let origin = Origin::http(|request| {
        let bytes = request.start.split('/').nth(1).unwrap();
        ok(&"x".repeat(bytes.split(' ').next().unwrap().parse().unwrap()))
    });
    let mut config = config(&[origin.address]);
    config.listeners[0].address = format!("{}:0", lab.farm).parse().unwrap();
    config.uplink.rate = Rate::Fixed(20_000_000);
    config.uplink.adapt = false;
    config.uplink.policy = Discipline::Fair;
    let proxy = Proxy::start(&config);
    let wire = || proxy.metric(&["sprat_uplink_wire_bytes_total"]);

    // TCP keeps few packets of a socket in a device: many sockets overflow the queue. What is lost
    // after a connection's last look at the kernel is a small part of so long a download.
    let body = 1_000_000;
    let mut clients: Vec<Child> = (0..8)
        .map(|_| lab.kept_client(proxy.address, body))
        .collect();
    // Others are not stopped meanwhile.
    assert_eq!(lab.fetch(proxy.address, "/2000"), 2000);
    for client in &mut clients {
        let mut said = String::new();
        let mut output = BufReader::new(client.stdout.take().unwrap());
        output.read_line(&mut said).unwrap();
        assert_eq!(said, "all\n");
    }
    let (before, (sent, dropped)) = (wire(), lab.carried());
    assert!(dropped > 30, "{dropped} packets lost, {sent} bytes sent");
    let offered = (sent + dropped * FULL_PACKET) as f64;
    let part = before / offered;
    assert!(
        (0.97..1.05).contains(&part),
        "{before} of {offered}: {part}"
    );
    for client in &mut clients {
        drop(client.stdin.take());
        client.wait().unwrap();
    }
    proxy.assert_no_leak();
    // What was lost after a connection's last look at the kernel is all that is left.
    let lump = wire() - before;
    let lost = (dropped * FULL_PACKET) as f64;
    assert!((0.0..lost / 2.0).contains(&lump), "{lump} of {lost}");
}

/// Checks that the capability that the documents and systemd's unit name is enough.
#[test]
fn the_kernel_engine_needs_cap_net_raw_and_no_more() {
    if let Err(why) = run("setpriv --bounding-set=-all,+net_raw true") {
        eprintln!("skipped: it needs root and setpriv ({why})");
        return;
    }
    let origin = Origin::http(|_| ok("hello"));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("sprat.yaml");
    let text = format!(
        "version: 1\nadmin: off\nlisteners: [{{address: '127.0.0.1:0'}}]\n\
         uplink: {{rate: 10mbit, policy: bands, engine: {{name: kernel, qdisc: htb}}}}\n\
         clusters: {{farm: {{endpoints: ['{}']}}}}\nroutes: [{{cluster: farm}}]\n",
        origin.address
    );
    std::fs::write(&file, text).unwrap();
    for (capabilities, is_refused) in [("-all,+net_raw", false), ("-all", true)] {
        let mut command = Command::new("setpriv");
        command.arg(format!("--bounding-set={capabilities}"));
        command.arg(format!("--inh-caps={capabilities}"));
        command.args([env!("CARGO_BIN_EXE_sprat"), "run", "--config"]);
        let sprat = Running::of(command.arg(&file));
        assert_eq!(Peer::connect(sprat.address).ask(get("/")).text(), "hello");
        let complaint = "SO_PRIORITY is refused";
        if is_refused {
            sprat.says(complaint);
        }
        // The second response is after any complaint of the first.
        assert_eq!(Peer::connect(sprat.address).ask(get("/")).text(), "hello");
        assert_eq!(sprat.has_said(complaint), usize::from(is_refused));
    }
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for document in ["config/systemd/sprat.service", "docs/kernel-engine.md"] {
        let text = std::fs::read_to_string(root.join(document)).unwrap();
        assert!(text.contains("CAP_NET_RAW"), "{document}");
    }
}
