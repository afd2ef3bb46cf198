use std::time::Duration;

use super::*;
use crate::links::{Average, DropSpread, QueueBound, QueueSettings, RedSettings};

fn plan(text: &str) -> NetworkPlan {
    NetworkPlan::parse(text, None).unwrap()
}

#[test]
fn a_plan_has_hosts_addresses_and_the_links_between() {
    let plan = plan(
        "
version: 1
name: two-tiers
farm: {servers: 2, link: {down: {rate: 100mbit}}}
shared: {down: {rate: 10mbit, delay: 20ms, queue: {packets: 50}}, up: {delay: 20ms}}
groups:
  - name: near
    clients: 3
  - name: city
    trunk: {down: {rate: 5mbit, queue: {bytes: 64KB}}}
    groups:
      - {name: slow, clients: 2, share: 0.5, link: {down: {rate: 1mbit, loss: 2%, jitter: 3ms}}}
      - {name: fast, clients: 1, trunk: {down: {delay: 1ms}}}
",
    );
    let namespaces = [
        "two-tiers-farm",
        "two-tiers-near",
        "two-tiers-slow",
        "two-tiers-fast",
    ];
    assert_eq!(plan.namespaces(), namespaces);
    let links = |name: &str| -> Vec<Vec<&str>> {
        let group = plan.groups.iter().find(|group| group.name == name).unwrap();
        let names = |host: &HostPlan| -> Vec<&str> {
            host.links
                .iter()
                .map(|link| plan.links[*link].name.as_str())
                .collect()
        };
        group.clients.iter().map(names).collect()
    };
    assert_eq!(links("near"), [["shared"]; 3]);
    assert_eq!(
        links("slow"),
        [["shared", "city", "slow-1"], ["shared", "city", "slow-2"]]
    );
    assert_eq!(links("fast"), [["shared", "city", "fast"]]);
    let addresses = plan
        .groups
        .iter()
        .map(|group| group.clients[0].address.to_string());
    let addresses: Vec<_> = addresses.collect();
    assert_eq!(addresses, ["198.18.1.1", "198.18.2.1", "198.18.3.1"]);
    assert_eq!(plan.farm.servers[1].address.to_string(), "198.18.0.2");
    assert_eq!(plan.links[plan.farm.servers[1].links[0]].name, "server-2");
    let shares: Vec<f64> = plan.groups.iter().map(|group| group.share).collect();
    assert_eq!(shares, [3.0, 0.5, 1.0]);
    let shared = &plan
        .links
        .iter()
        .find(|link| link.name == "shared")
        .unwrap();
    assert_eq!(shared.down.rate_bits_per_s, Some(10_000_000));
    assert_eq!(shared.up.rate_bits_per_s, None);
    assert_eq!(shared.up.delay, Duration::from_millis(20));
    assert_eq!(shared.down.overhead_bytes, 14);
    assert_eq!(plan.out_code_points, [14, 1]);
}

#[test]
fn another_name_can_be_given() {
    let text = "version: 1\nname: a\ngroups: [{name: b, clients: 1}]\n";
    let named = NetworkPlan::parse(text, Some("c")).unwrap();
    assert_eq!(named.namespaces(), ["c-farm", "c-b"]);
}

#[test]
fn every_kind_of_queue_can_be_asked_for() {
    let queue = |text: &str| {
        let text = format!(
            "version: 1\nshared: {{down: {{rate: 1mbit, queue: {text}}}}}\ngroups: [{{name: a, clients: 1}}]"
        );
        plan(&text).links[0].down.queue
    };
    let bytes = |bytes| QueueBound {
        packets: 100_000,
        bytes,
    };
    let packets = |packets| QueueBound {
        packets,
        bytes: 64 << 20,
    };
    assert_eq!(
        queue("{bytes: 20KB}"),
        QueueSettings::Droptail {
            bound: bytes(20 << 10)
        }
    );
    let own = RedSettings {
        min_threshold: 1.5,
        max_threshold: 3.0,
        max_probability: 0.5,
        weight: 1.0,
        spread: DropSpread::Even,
    };
    let keys = "{min_threshold: 1.5, max_threshold: 3, max_probability: 0.5, weight: 1}";
    assert_eq!(
        queue(&format!("{{kind: red, packets: 60, red: {keys}}}")),
        QueueSettings::Red {
            bound: packets(60),
            red: own
        }
    );
    assert_eq!(
        queue(&format!("{{kind: vq, average: coupled, out: {keys}}}")),
        QueueSettings::Virtual {
            bound: packets(50),
            red: [RedSettings::SFD_IN, own],
            average: Average::Coupled,
        }
    );
    assert_eq!(
        queue("{kind: pq}"),
        QueueSettings::Priority {
            bound: packets(50),
            red: [RedSettings::SFD_IN, RedSettings::SFD_OUT],
        }
    );
}

/// Checks that bad topologies are refused with the line and the words that tell why.
#[test]
fn errors_have_their_line_and_say_what_may_stand_there() {
    let down = |keys: &str| {
        format!(
            "version: 1\ngroups:\n  - name: a\n    clients: 1\n    link:\n      down:\n        {keys}\n"
        )
    };
    let groups = |groups: &str| format!("version: 1\ngroups: {groups}\n");
    let cases = [
        ("version: 2\ngroups: []\n".to_owned(), Some(1), "must be 1"),
        ("groups: []\n".to_owned(), None, "version"),
        (
            "version: 1\ngroups: []\nshred: {}\n".to_owned(),
            Some(3),
            "shred",
        ),
        (groups("[]"), None, "names no clients"),
        (groups("[{name: A, clients: 1}]"), Some(2), "lower-case"),
        (groups("[{name: a, clients: 0}]"), Some(2), "from 1 to 250"),
        (
            groups("[{name: a, clients: 251}]"),
            Some(2),
            "from 1 to 250",
        ),
        (
            groups("[{name: a}]"),
            None,
            "neither `clients` nor `groups`",
        ),
        (
            groups("[{name: a, clients: 1, groups: [{name: b, clients: 1}]}]"),
            None,
            "one of them",
        ),
        (
            groups("[{name: a, clients: 1}, {name: a, clients: 1}]"),
            None,
            "two groups `a`",
        ),
        (
            groups("[{name: farm, clients: 1}]"),
            None,
            "called as the farm",
        ),
        (
            groups("[{name: a, clients: 1, share: 0}]"),
            None,
            "share of 0",
        ),
        (
            groups("[{name: a, clients: 1, share: -1}]"),
            Some(2),
            "weight",
        ),
        (
            groups("[{name: a, share: 1, groups: [{name: b, clients: 1}]}]"),
            None,
            "of groups with clients",
        ),
        (
            groups(
                "[{name: a, groups: [{name: b, groups: [{name: c, groups: [{name: d, groups: [{name: e, clients: 1}]}]}]}]}]",
            ),
            None,
            "more than 4 deep",
        ),
        (down("rate: 10"), Some(7), "rate in bits per second"),
        (down("rate: 999bit"), Some(7), "1kbit to 10gbit"),
        (down("delay: 11s"), Some(7), "10s at most"),
        (down("loss: 101%"), Some(7), "not a share"),
        (down("queue: {bytes: 1499}"), Some(7), "1500 bytes at least"),
        (down("queue: {packets: 0}"), Some(7), "from 1 to 100000"),
        (down("queue: {kind: fq}"), Some(7), "fq"),
        (
            down("queue: {kind: droptail, average: coupled}"),
            None,
            "`average` of vq",
        ),
        (
            down(
                "queue: {kind: red, red: {min_threshold: 3, max_threshold: 3, max_probability: 1, weight: 1}}",
            ),
            None,
            "min_threshold < max_threshold",
        ),
        (
            down("schedule: [{at: 1s, rate: 1mbit}]"),
            None,
            "needs a `rate`",
        ),
        (down("repeat: 1s"), None, "of a schedule"),
        (
            down("{rate: 1mbit, schedule: [{at: 2s}, {at: 1s}]}"),
            None,
            "must rise",
        ),
        (
            down("{rate: 1mbit, schedule: [{at: 2s}], repeat: 2s}"),
            None,
            "longer than",
        ),
        (down("{repeat: 1ms}"), Some(7), "10ms at least"),
        (
            "version: 1\nmarks: {out: [af44]}\ngroups: []\n".to_owned(),
            Some(2),
            "code point",
        ),
        (
            "version: 1\nfarm: {servers: 0}\ngroups: []\n".to_owned(),
            Some(2),
            "from 1 to 250",
        ),
    ];
    for (text, line, words) in cases {
        let error = format!("{:#}", NetworkPlan::parse(&text, None).unwrap_err());
        assert!(error.contains(words), "{text}\n{error}");
        if let Some(line) = line {
            assert!(error.contains(&format!("line {line}")), "{text}\n{error}");
        }
    }
}

#[test]
fn a_file_is_named_in_its_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.yaml");
    std::fs::write(&path, "version: 1\ngroups: 7\n").unwrap();
    let error = format!("{:#}", NetworkPlan::read(&path, None).unwrap_err());
    assert!(
        error.contains("t.yaml: ") && error.contains("line 2"),
        "{error}"
    );
    let missing = format!(
        "{:#}",
        NetworkPlan::read(&dir.path().join("no.yaml"), None).unwrap_err()
    );
    assert!(missing.contains("no.yaml"), "{missing}");
}

#[test]
fn the_networks_that_come_along_can_be_read_and_fit_the_schema() {
    let root = env!("CARGO_MANIFEST_DIR");
    let schema = std::fs::read_to_string(format!("{root}/../docs/networks.schema.json")).unwrap();
    let schema = jsonschema::validator_for(&serde_json::from_str(&schema).unwrap()).unwrap();
    let directory = format!("{root}/networks");
    let mut read = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            NetworkPlan::read(&path, None).unwrap();
            let value: serde_json::Value =
                serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            let found = schema.validate(&value);
            assert!(found.is_ok(), "{}: {found:?}", path.display());
            read += 1;
        }
    }
    assert!(read >= 24, "{directory} has {read} networks");
    // What is refused has no place in the schema either.
    let unknown =
        serde_json::json!({"version": 1, "groups": [{"name": "a", "clients": 1, "x": 1}]});
    assert!(!schema.is_valid(&unknown));
}

#[test]
fn the_matrix_names_networks_that_are_there() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/networks");
    let mut matrix = csv::Reader::from_path(format!("{directory}/matrix.csv")).unwrap();
    let header: Vec<String> = matrix
        .headers()
        .unwrap()
        .iter()
        .map(str::to_owned)
        .collect();
    let columns = [
        "network",
        "offered_of",
        "load",
        "alone",
        "named",
        "arrivals",
        "instances",
    ];
    assert_eq!(header, columns);
    let mut rows = BTreeSet::new();
    for row in matrix.records() {
        let row = row.unwrap();
        let text = std::fs::read_to_string(format!("{directory}/{}.yaml", &row[0])).unwrap();
        NetworkPlan::parse(&text, None).unwrap();
        for rate in [1, 3] {
            assert!(crate::cli::rate(&row[rate]).is_ok(), "{row:?}");
        }
        assert!(
            row[4].is_empty() || crate::cli::rate(&row[4]).is_ok(),
            "{row:?}"
        );
        assert!(crate::cli::load(&row[2]).is_ok(), "{row:?}");
        assert!(["poisson", "bursts"].contains(&&row[5]), "{row:?}");
        assert!(row[6].parse::<u8>().is_ok_and(|count| count > 0), "{row:?}");
        assert!(rows.insert(row[0].to_owned()), "twice: {row:?}");
    }
    let mut topologies = BTreeSet::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            topologies.insert(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    // SFD02's network, which has a comparison of its own.
    assert!(topologies.remove("dumbbell"));
    assert_eq!(rows, topologies);
}
