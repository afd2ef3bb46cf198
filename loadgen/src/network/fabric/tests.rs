use super::*;

fn plan(text: &str) -> NetworkPlan {
    NetworkPlan::parse(text, None).unwrap()
}

/// Makes an IPv4 packet of `bytes` bytes.
fn ipv4(from: &str, to: &str, service: u8, bytes: usize) -> Vec<u8> {
    let octets = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets();
    let mut data = vec![0; bytes];
    data[0] = 0x45;
    data[1] = service;
    data[12..16].copy_from_slice(&octets(from));
    data[16..20].copy_from_slice(&octets(to));
    data
}

const SERVER: &str = "198.18.0.1";

/// Runs the fabric at each moment that it asks for, and returns what arrives:
/// (microseconds, device, bytes).
fn drain(fabric: &mut Fabric) -> Vec<(u64, Port, usize)> {
    let mut arrived = Vec::new();
    while let Some(when) = fabric.next_event() {
        fabric.run(when, &mut |port, data| {
            arrived.push((when.as_nanos() / 1000, port, data.len()));
        });
    }
    arrived
}

fn nothing(_: Port, _: &[u8]) {
    panic!("it arrived too early");
}

#[test]
fn a_packet_passes_every_link_of_its_way_and_back() {
    // 1,500 bytes take 1 ms on the shared link, 2 ms on the trunk, 4 ms on their own.
    let text = "
version: 1
shared: {down: {rate: 12mbit, overhead: 0, delay: 10ms}, up: {delay: 1ms}}
groups:
  - name: city
    trunk: {down: {rate: 6mbit, overhead: 0}, up: {delay: 2ms}}
    groups:
      - {name: a, clients: 1}
      - {name: b, clients: 2, link: {down: {rate: 3mbit, overhead: 0}, up: {delay: 4ms}}}
";
    let mut fabric = Fabric::new(&plan(text), Time::ZERO);
    let to = |client: &str| ipv4(SERVER, client, 0, 1500);
    fabric.send(Time::ZERO, &to("198.18.2.2"), &mut nothing);
    assert_eq!(drain(&mut fabric), [(17_000, 2, 1500)]);
    let back = ipv4("198.18.2.2", SERVER, 0, 60);
    fabric.send(Time::from_nanos(20_000_000), &back, &mut nothing);
    assert_eq!(drain(&mut fabric), [(27_000, 0, 60)]);
    // Clients share what they share, and no more.
    let begun = Time::from_nanos(100_000_000);
    for client in ["198.18.2.1", "198.18.2.2", "198.18.1.1"] {
        fabric.send(begun, &to(client), &mut nothing);
    }
    assert_eq!(
        drain(&mut fabric),
        [(117_000, 1, 1500), (117_000, 2, 1500), (119_000, 2, 1500)]
    );
    assert_eq!(fabric.counters(0, Way::Down).delivered.packets, 4);
    assert_eq!(fabric.counters(0, Way::Up).delivered.packets, 1);
}

#[test]
fn a_network_without_links_hands_over_at_once() {
    let mut fabric = Fabric::new(
        &plan("version: 1\ngroups: [{name: a, clients: 1}]\n"),
        Time::ZERO,
    );
    let mut arrived = Vec::new();
    for (from, to) in [(SERVER, "198.18.1.1"), ("198.18.1.1", SERVER)] {
        let data = ipv4(from, to, 0, 40);
        fabric.send(Time::ZERO, &data, &mut |port, data| {
            arrived.push((port, data.len()));
        });
    }
    assert_eq!(arrived, [(1, 40), (0, 40)]);
}

#[test]
fn a_server_has_a_link_of_its_own_on_the_way() {
    let text = "
version: 1
farm: {servers: 2, link: {down: {delay: 3ms}, up: {delay: 5ms}}}
shared: {down: {delay: 10ms}, up: {delay: 20ms}}
groups: [{name: a, clients: 1}]
";
    let mut fabric = Fabric::new(&plan(text), Time::ZERO);
    let there = ipv4("198.18.0.2", "198.18.1.1", 0, 100);
    fabric.send(Time::ZERO, &there, &mut nothing);
    assert_eq!(drain(&mut fabric), [(13_000, 1, 100)]);
    let back = ipv4("198.18.1.1", "198.18.0.2", 0, 100);
    fabric.send(Time::from_nanos(13_000_000), &back, &mut nothing);
    assert_eq!(drain(&mut fabric), [(38_000, 0, 100)]);
    // server-1's stayed empty.
    assert_eq!(fabric.counters(0, Way::Down).delivered.packets, 0);
    assert_eq!(fabric.counters(1, Way::Up).delivered.packets, 1);
}

#[test]
fn code_points_make_marks() {
    let text = "
version: 1
marks: {out: [af13, '5']}
shared: {down: {rate: 1mbit}}
groups: [{name: a, clients: 1}]
";
    let mut fabric = Fabric::new(&plan(text), Time::ZERO);
    // AF13 with ECN bits, 5, and three that are IN.
    for service in [14 << 2 | 3, 5 << 2, 0, 10 << 2, 1 << 2] {
        let data = ipv4(SERVER, "198.18.1.1", service, 100);
        fabric.send(Time::ZERO, &data, &mut nothing);
    }
    drain(&mut fabric);
    let counters = fabric.counters(0, Way::Down);
    assert_eq!(counters.mark(Mark::Out).arrived.packets, 2);
    assert_eq!(counters.mark(Mark::In).arrived.packets, 3);
}

#[test]
fn what_has_no_way_is_counted() {
    let text = "version: 1\ngroups: [{name: a, clients: 2}]\n";
    let mut fabric = Fabric::new(&plan(text), Time::ZERO);
    let mut router_solicitation = vec![0; 48];
    router_solicitation[0] = 0x60;
    let strays = [
        vec![],
        vec![0x45; 19],
        router_solicitation,
        ipv4("198.18.1.1", "198.18.1.2", 0, 40),
        ipv4(SERVER, "198.18.2.1", 0, 40),
        ipv4(SERVER, SERVER, 0, 40),
    ];
    for data in strays {
        fabric.send(Time::ZERO, &data, &mut nothing);
    }
    let expected = Strays {
        other_protocols: 3,
        without_a_way: 3,
    };
    assert_eq!(fabric.strays(), expected);
}

#[test]
fn the_same_calls_give_the_same_arrivals() {
    let text = "
version: 1
seed: SEED
shared: {down: {rate: 2mbit, loss: 5%, jitter: 4ms, queue: {kind: vq}}}
groups: [{name: a, clients: 4, link: {down: {rate: 1mbit}}}]
";
    let run = |seed: &str| {
        let mut fabric = Fabric::new(&plan(&text.replace("SEED", seed)), Time::ZERO);
        let mut arrived = Vec::new();
        for number in 0..500u64 {
            let now = Time::from_nanos(number * 3_000_000);
            let client = format!("198.18.1.{}", number % 4 + 1);
            let data = ipv4(SERVER, &client, 0, 100 + (number as usize * 37) % 1400);
            fabric.send(now, &data, &mut |port, data| {
                arrived.push((port, data.len()));
            });
        }
        (arrived, drain(&mut fabric))
    };
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}
