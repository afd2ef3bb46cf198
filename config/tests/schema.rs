//! Tests that the JSON Schema, the reference and the decoder say the same.
//!
//! `UPDATE=1 cargo test -p sprat-config --test schema` writes `config/schema.json`,
//! `config/filter.schema.json` and the references in `docs/configuration.md` and `docs/filter.md`
//! anew.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Map, Value};
use sprat_config::resolved::LOG_FIELDS;
use sprat_config::{filter_schema, parse, parse_filter, schema};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn update() -> bool {
    std::env::var_os("UPDATE").is_some()
}

const HOW: &str = "run: UPDATE=1 cargo test -p sprat-config --test schema";

#[test]
fn the_committed_schemas_are_up_to_date() {
    let both = [
        ("schema.json", schema()),
        ("filter.schema.json", filter_schema()),
    ];
    for (name, schema) in both {
        let path = root().join(name);
        if update() {
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            std::fs::write(&path, text).unwrap();
        }
        let committed: Value = serde_json::from_str(&read(&path)).expect(HOW);
        assert_eq!(committed, schema, "{name}: {HOW}");
    }
}

/// Parses YAML 1.2 with a reader independent of Sprat's, for a schema's validator.
fn as_json(yaml: &str) -> Value {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(yaml, options)
        .unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

fn accepted_by_decoder(yaml: &str) -> bool {
    parse(yaml, "test", &|_| None).is_ok()
}

#[test]
fn every_example_validates() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for entry in std::fs::read_dir(root().join("examples")).unwrap() {
        let path = entry.unwrap().path();
        let json = as_json(&read(&path));
        let errors: Vec<_> = validator
            .iter_errors(&json)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
    }
}

const BASE: &str = "\
version: 1
runtime: {workers: 2, drain_timeout: 5s}
admin: {address: '127.0.0.1:9900'}
listeners:
  - name: web
    address: 0.0.0.0:80
    max_connections: 100
    max_request_headers: 16KB
    max_request_body: 1MB
    idle_timeout: 1s
    forwarding: {x_forwarded: true, trusted: [10.0.0.0/8], via: sprat}
    tls:
      certificates: [{certificate_chain: a.pem, private_key: a.key}]
      minimum_version: TLSv1_3
      client_certificates: {trusted_ca: ca.pem}
    proxy_protocol: {trusted: [10.1.0.0/16], others: direct}
uplink:
  rate: 10mbit
  policy: {name: bands, cutoffs: [1KB, 2KB]}
  engine: pace
  guard_factor: 2.5
  marking: {variant: p-sfd, threshold: 20KB, in: cs1, out: 9}
clusters:
  farm:
    endpoints: [a.example:1, {address: 'b:2', weight: 3}]
    dispatch: round_robin
    tls: {sni: a.example, trusted_ca: system}
    proxy_protocol: v2
routes:
  - match: {hosts: [x.example], prefix: /a}
    cluster: farm
    timeout: off
    host_rewrite: y:80
access_log:
  - {path: stdout, format: combined}
  - path: /a.log
    format: {json: {status: '%RESPONSE_CODE%'}}
    filters: [{min_status: 500, min_duration: 1s, classes: [default]}]
  - syslog: {address: '127.0.0.1:514', facility: daemon}
catalogue: {max_size: 1MB, ttl: 1h}
";

/// Changes to [`BASE`], each of which the schema and the decoder must refuse.
const REFUSED: &[(&str, &str)] = &[
    ("version: 1", "version: 2"),
    ("version: 1", "version: '1'"),
    ("version: 1\n", ""),
    ("workers: 2", "workers: 0"),
    ("workers: 2", "workers: many"),
    ("workers: 2", "worker: 2"),
    ("workers: 2", "workers: 1.5"),
    ("drain_timeout: 5s", "drain_timeout: 5"),
    ("drain_timeout: 5s", "drain_timeout: 5 sec"),
    ("{address: '127.0.0.1:9900'}", "no"),
    ("{address: '127.0.0.1:9900'}", "false"),
    ("{address: '127.0.0.1:9900'}", "[]"),
    ("name: web", "name: a b"),
    ("name: web", "name: 8080"),
    ("name: web", "name:"),
    ("address: 0.0.0.0:80", "address: 80"),
    ("address: 0.0.0.0:80", "address: localhost:80"),
    ("    address: 0.0.0.0:80\n", ""),
    ("max_connections: 100", "max_connections: 0"),
    ("max_connections: 100", "max_connections: '100'"),
    ("max_connections: 100", "max_connection: 100"),
    ("max_request_headers: 16KB", "max_request_headers: 100"),
    ("max_request_headers: 16KB", "max_request_headers: 16 kilos"),
    ("max_request_body: 1MB", "max_request_body: -1"),
    ("max_request_body: 1MB", "max_request_body: off"),
    ("idle_timeout: 1s", "idle_timeout: 0s"),
    ("idle_timeout: 1s", "idle_timeout: off"),
    ("x_forwarded: true", "x_forwarded: yes"),
    ("x_forwarded: true", "x_forwarded: 1"),
    ("[10.0.0.0/8]", "10.0.0.0/8"),
    ("[10.0.0.0/8]", "[everyone]"),
    ("via: sprat", "via: a b"),
    (
        "{certificate_chain: a.pem, private_key: a.key}",
        "{certificate_chain: a.pem}",
    ),
    ("[{certificate_chain: a.pem, private_key: a.key}]", "[]"),
    ("sni: a.example", "sni: 10.0.0.1"),
    ("proxy_protocol: v2", "proxy_protocol: v3"),
    ("trusted: [10.1.0.0/16], ", ""),
    ("trusted: [10.1.0.0/16]", "trusted: []"),
    ("others: direct", "others: trust"),
    ("others: direct", "max_size: 100"),
    ("sni: a.example", "sni: a b"),
    ("sni: a.example", "insecure_skip_verify: maybe"),
    ("TLSv1_3", "TLSv1_1"),
    ("TLSv1_3", "1.3"),
    ("{trusted_ca: ca.pem}", "{mode: required}"),
    ("{trusted_ca: ca.pem}", "{trusted_ca: ca.pem, mode: maybe}"),
    ("{trusted_ca: ca.pem}", "required"),
    ("rate: 10mbit", "rate: 10"),
    ("rate: 10mbit", "rate: 0mbit"),
    ("rate: 10mbit", "rate: fast"),
    ("name: bands", "name: band"),
    ("name: bands", "name: srpt"),
    ("{name: bands, cutoffs: [1KB, 2KB]}", "{cutoffs: [1KB]}"),
    ("[1KB, 2KB]", "[]"),
    ("[1KB, 2KB]", "[0]"),
    ("[1KB, 2KB]", "{learnt: 1}"),
    ("[1KB, 2KB]", "{learnt: 6, more: 1}"),
    ("[1KB, 2KB]", "papers"),
    ("engine: pace", "engine: {name: kernel, qdisc: cake}"),
    ("engine: pace", "engine: {name: pace, qdisc: htb}"),
    ("guard_factor: 2.5", "guard_factor: 0.5"),
    ("p-sfd", "t-sfd"),
    ("threshold: 20KB", "threshold: short"),
    ("in: cs1", "in: cs8"),
    ("out: 9", "out: 64"),
    ("out: 9", "k: 0"),
    (
        "{name: bands, cutoffs: [1KB, 2KB]}",
        "{name: sfd, out_share: 0.91}",
    ),
    ("{name: bands, cutoffs: [1KB, 2KB]}", "{name: las, k: 3}"),
    ("guard_factor: 2.5", "guard_factor: high"),
    ("farm:\n", "far m:\n"),
    ("a.example:1", "a.example"),
    ("a.example:1", "http://a.example:1"),
    ("weight: 3", "weight: 0"),
    ("weight: 3", "wait: 3"),
    ("dispatch: round_robin", "dispatch: roundrobin"),
    ("[x.example]", "[]"),
    ("[x.example]", "['*']"),
    ("[x.example]", "[x.example:80]"),
    ("prefix: /a", "prefix: a"),
    ("prefix: /a", "prefix: /a?b"),
    ("prefix: /a", "prefix: /a b"),
    ("cluster: farm\n", "clusters: farm\n"),
    ("timeout: off", "timeout: 0s"),
    ("timeout: off", "timeout: false"),
    ("host_rewrite: y:80", "host_rewrite: http://y"),
    ("path: stdout", "path: ''"),
    ("format: combined", "format: clf"),
    ("{json: {status: '%RESPONSE_CODE%'}}", "{json: {}}"),
    ("{json: {status: '%RESPONSE_CODE%'}}", "{text: ''}"),
    ("{json: {status: '%RESPONSE_CODE%'}}", "{texts: a}"),
    ("min_status: 500", "min_status: 50"),
    ("'127.0.0.1:514'", "localhost"),
    ("facility: daemon", "facility: daemons"),
    ("min_duration: 1s", "min_duration: 1"),
    ("max_size: 1MB", "max_size: unlimited"),
    ("ttl: 1h", "ttl: 1 day"),
    ("ttl: 1h", "ttl:"),
    ("catalogue: {", "catalog: {"),
];

#[test]
fn the_schema_and_the_decoder_refuse_the_same() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    assert!(accepted_by_decoder(BASE));
    assert!(validator.is_valid(&as_json(BASE)));
    for (from, to) in REFUSED {
        assert!(BASE.contains(from), "{from}");
        let changed = BASE.replacen(from, to, 1);
        assert!(!accepted_by_decoder(&changed), "the decoder takes `{to}`");
        assert!(
            !validator.is_valid(&as_json(&changed)),
            "the schema takes `{to}`"
        );
    }
}

/// Values that are valid for some key of the file.
const VALUES: &[&str] = &[
    "1",
    "0",
    "2.5",
    "true",
    "off",
    "auto",
    "unlimited",
    "paper",
    "two-class",
    "10mbit",
    "1KB",
    "512",
    "10s",
    "1m",
    "srpt",
    "bands",
    "srpt-aged",
    "sfd",
    "las",
    "kernel",
    "stdout",
    "json",
    "prio",
    "''",
    "least_request",
    "0.0.0.0:80",
    "'[::1]:80'",
    "'::1'",
    "10.0.0.0/8",
    "a.example",
    "/p",
    "[]",
    "{}",
    "[1KB, 20KB]",
    "[a.example]",
    "{learnt: 4}",
    "{name: srpt-aged, ageing: 1KB}",
    "y:80",
    "{name: kernel, qdisc: prio}",
    "[b:1]",
    "'${X:-1}'",
    "~",
    "{address: 'b:2'}",
    "1e3",
    "0x10",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1024) })]

    /// Checks that an editor, which goes by the schema, underlines nothing that the decoder takes.
    #[test]
    fn the_schema_takes_what_the_decoder_takes(
        changes in proptest::collection::vec((0usize..64, 0..VALUES.len()), 1..3),
    ) {
        thread_local! {
            static VALIDATOR: jsonschema::Validator = jsonschema::validator_for(&schema()).unwrap();
        }
        // Each value after a colon in turn.
        let mut text = BASE.to_owned();
        for (at, value) in changes {
            let spots: Vec<usize> = text.match_indices(": ").map(|(i, _)| i + 2).collect();
            let start = spots[at % spots.len()];
            let rest = &text[start..];
            let length = match rest.as_bytes()[0] {
                b'{' => rest.find('}').map_or(1, |end| end + 1),
                b'[' => rest.find(']').map_or(1, |end| end + 1),
                _ => rest.find([',', '}', '\n']).unwrap_or(rest.len()),
            };
            text.replace_range(start..start + length, VALUES[value]);
        }
        if accepted_by_decoder(&text) {
            let json = as_json(&text);
            let errors: Vec<String> =
                VALIDATOR.with(|v| v.iter_errors(&json).map(|e| e.to_string()).collect());
            prop_assert!(errors.is_empty(), "{errors:?}\n{text}");
        }
    }
}

/// Returns the tables of a page, made from a schema. Another page explains the definitions in
/// `known`.
fn reference(schema: &Value, known: &Map<String, Value>) -> String {
    let definitions = schema["$defs"].as_object().unwrap();
    let mut out = String::new();
    let top = schema["properties"].as_object().unwrap();
    section(&mut out, "Top level", schema, None);
    let mut pending: Vec<String> = Vec::new();
    let mut done: Vec<String> = Vec::new();
    for property in top.values() {
        references(property, &mut pending);
    }
    while !pending.is_empty() {
        let name = pending.remove(0);
        if done.contains(&name) || known.contains_key(&name) {
            continue;
        }
        let definition = &definitions[&name];
        let mut below = Vec::new();
        references(definition, &mut below);
        section(&mut out, &name, definition, None);
        for variant in definition["anyOf"].as_array().into_iter().flatten() {
            if let Some(word) = variant["properties"]["name"]["const"].as_str() {
                section(&mut out, word, variant, Some(&name));
            }
        }
        done.push(name);
        below.append(&mut pending);
        pending = below;
    }
    let own = definitions.keys().filter(|name| !known.contains_key(*name));
    assert_eq!(done.len(), own.count(), "every definition is reached");
    out
}

fn references(schema: &Value, out: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::String(name)) = map.get("$ref") {
                out.push(name.trim_start_matches("#/$defs/").to_owned());
            }
            map.values().for_each(|value| references(value, out));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, out)),
        _ => {}
    }
}

fn section(out: &mut String, name: &str, schema: &Value, variant_of: Option<&str>) {
    let none = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&none);
    if variant_of.is_some() && properties.len() < 2 {
        return;
    }
    let title = match variant_of {
        Some(outer) => format!("#### {outer}: `{name}`"),
        None => format!("### {name}"),
    };
    writeln!(out, "{title}\n").unwrap();
    if let (Some(text), None) = (schema["description"].as_str(), variant_of) {
        writeln!(out, "{text}\n").unwrap();
    }
    let words = schema["anyOf"].as_array().into_iter().flatten();
    let words: Vec<_> = words.filter(|word| word["const"].is_string()).collect();
    for word in &words {
        let (word, text) = (&word["const"], &word["description"]);
        writeln!(
            out,
            "- `{}`: {}",
            word.as_str().unwrap(),
            text.as_str().unwrap()
        )
        .unwrap();
    }
    if !words.is_empty() {
        out.push('\n');
    }
    if properties.is_empty() {
        return;
    }
    let required = schema["required"].as_array().unwrap();
    out.push_str("| Key | Takes | Default | Meaning |\n|---|---|---|---|\n");
    for (key, property) in properties {
        let Some(text) = property["description"].as_str() else {
            writeln!(
                out,
                "| `{key}` | `{name}` | required | The name of the variant. |"
            )
            .unwrap();
            continue;
        };
        let (meaning, takes) = text.split_once("\n\nTakes ").unwrap();
        let default = match property.get("default") {
            Some(Value::String(text)) => format!("`{text}`"),
            Some(value) => format!("`{value}`"),
            None if required.contains(&key.as_str().into()) => "required".to_owned(),
            None => "none".to_owned(),
        };
        let takes = takes.trim_end_matches('.').replace('|', "\\|");
        writeln!(out, "| `{key}` | {takes} | {default} | {meaning} |").unwrap();
    }
    out.push('\n');
}

const BEGIN: &str = "<!-- The reference: made from the schema, not by hand. -->\n";

fn check_reference(page: &str, schema: &Value, known: &Map<String, Value>) -> String {
    let path = root().join("../docs").join(page);
    let text = read(&path);
    let (head, committed) = text.split_once(BEGIN).expect("the page has a reference");
    let made = format!("\n{}", reference(schema, known).trim_end()) + "\n";
    if update() {
        std::fs::write(&path, format!("{head}{BEGIN}{made}")).unwrap();
    } else {
        assert_eq!(committed, made, "{HOW}");
    }
    made
}

#[test]
fn the_references_are_up_to_date_and_have_every_key() {
    let own = schema();
    let made = check_reference("configuration.md", &own, &Map::new());
    let mut keys = Vec::new();
    all_keys(&own, &mut keys);
    assert!(keys.len() > 50, "{keys:?}");
    let known = own["$defs"].as_object().unwrap();
    let filters = filter_schema();
    let both = made.clone() + &check_reference("filter.md", &filters, known);
    for key in keys {
        assert!(
            made.contains(&format!("| `{key}` |")),
            "`{key}` is not explained"
        );
    }
    let mut keys = Vec::new();
    all_keys(&filters, &mut keys);
    assert!(keys.len() > 50, "{keys:?}");
    for key in keys {
        assert!(
            both.contains(&format!("| `{key}` |")),
            "`{key}` is not explained"
        );
    }
    // What has one name is one thing on both pages.
    for (name, definition) in filters["$defs"].as_object().unwrap() {
        assert!(
            known.get(name).is_none_or(|own| own == definition),
            "{name}"
        );
    }
}

const FIELDS_BEGIN: &str = "<!-- The table: made from the program's own, not by hand. -->\n";

#[test]
fn the_page_of_the_access_log_has_every_field() {
    let path = root().join("../docs/access-log.md");
    let text = read(&path);
    let (head, committed) = text.split_once(FIELDS_BEGIN).expect("the page has a table");
    let mut made = "\n## Every field\n\n| field | value | unit | what it tells | example |\n\
                    | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for row in &LOG_FIELDS {
        let cells = [
            format!("`%{}%`", row.name),
            row.value.name().to_owned(),
            row.unit.to_owned(),
            row.meaning.to_owned(),
            format!("`{}`", row.example),
        ];
        let cells = cells.map(|cell| format!(" {cell} |").replace("  |", " |"));
        writeln!(made, "|{}", cells.concat()).unwrap();
    }
    if update() {
        std::fs::write(&path, format!("{head}{FIELDS_BEGIN}{made}")).unwrap();
    } else {
        assert_eq!(committed, made, "{HOW}");
    }
}

/// A filter's configuration with every key.
const FILTER: &str = "\
x-note: a
classes: {gold: {level: 0, early_discard: {from: 0.5, to: 0.9}}}
class_rules: [{match: {hosts: [a.example]}, class: gold}]
catalogue:
  max_size: 1MB
  ttl: 1h
  vary: [accept]
  manifest: [{host: a.example, path: '/a?b', bytes: 5MB}]
  estimator: off
uplink: {rate: 10mbit, policy: srpt, max_flows: 100}
admission: {averaging: 1s, channel: {max_backlog: 1s}}
clusters:
  farm:
    match: {prefix: /a}
    pools: [small, {name: 'outbound|80||large', size_range: {from: 10KB}}]
    header: x-pool
    dispatch: least_work
    max_requests: 8
    wait_queue: {order: fcfs}
    head_probe: {cluster: small, budget: 5ms}
response_header: x-sprat
";

/// Changes to [`FILTER`], each of which the schema and the decoder must refuse.
const FILTER_REFUSED: &[(&str, &str)] = &[
    ("max_size: 1MB", "max_size: off"),
    ("manifest: [", "manifests: ["),
    ("'/a?b'", "a"),
    ("'/a?b'", "'/a#b'"),
    ("bytes: 5MB", "bytes: many"),
    ("rate: 10mbit", "rate: auto"),
    ("rate: 10mbit", "rate: 10mbit, engine: pace"),
    ("max_flows: 100", "max_flows: 0"),
    ("[small, ", "[] #"),
    ("[small, ", "[sm all, "),
    ("{name: 'outbound|80||large', ", "{"),
    ("header: x-pool", "header: x pool"),
    ("dispatch: least_work", "dispatch: least"),
    ("max_requests: 8", "max_requests: 0"),
    ("order: fcfs", "order: srq"),
    ("order: fcfs", "order: {name: srq}"),
    ("budget: 5ms", "budget: 0s"),
    ("budget: 5ms", "path: /"),
    ("response_header: x-sprat", "response_header: x sprat"),
    ("response_header: x-sprat", "response_headers: x-sprat"),
];

#[test]
fn the_filters_schema_and_the_decoder_refuse_the_same() {
    let validator = jsonschema::validator_for(&filter_schema()).unwrap();
    let accepted = |text: &str| parse_filter(text, "test", &|_| None);
    for text in ["{}", FILTER] {
        let loaded = accepted(text).unwrap();
        assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
        assert!(validator.is_valid(&as_json(text)));
    }
    for (from, to) in FILTER_REFUSED {
        assert!(FILTER.contains(from), "{from}");
        let changed = FILTER.replacen(from, to, 1);
        assert!(accepted(&changed).is_err(), "the decoder takes `{to}`");
        let valid = validator.is_valid(&as_json(&changed));
        assert!(!valid, "the schema takes `{to}`");
    }
}

/// The keys of policies, orders and engines, of which a file has one each, so that no file has all
/// keys.
const ALTERNATIVES: [&str; 24] = [
    "adj_d",
    "adj_i",
    "ageing",
    "alpha",
    "backlog",
    "cutoffs",
    "device",
    "first_share",
    "learnt",
    "max",
    "max_overcommit",
    "min",
    "out_share",
    "qdisc",
    "quanta",
    "queues",
    "samples_min",
    "statistics",
    "t_desc",
    "t_fail",
    "t_split",
    "trigger",
    "use_estimates",
    "use_size",
];

#[test]
fn the_full_example_has_every_key() {
    let text = read(&root().join("examples/full.yaml"));
    let words: Vec<&str> = text
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':')
        .collect();
    let mut keys = Vec::new();
    all_keys(&schema(), &mut keys);
    for key in keys {
        let there = words.contains(&format!("{key}:").as_str());
        assert!(there || ALTERNATIVES.contains(&key.as_str()), "{key}");
    }
}

fn all_keys(schema: &Value, out: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                out.extend(properties.keys().cloned());
            }
            map.values().for_each(|value| all_keys(value, out));
        }
        Value::Array(items) => items.iter().for_each(|item| all_keys(item, out)),
        _ => {}
    }
}
