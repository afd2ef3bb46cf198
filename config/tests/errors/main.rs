//! The complaints that an operator reads when a file is wrong.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

mod damaged;
mod endpoints_file;
mod routes;
mod sessions;
mod slips;
mod sockets;

use std::fmt::Write as _;

use sprat_config::{Errors, Severity, parse};

fn errors(text: &str) -> Errors {
    match parse(text, "sprat.yaml", &|_| None) {
        Ok(loaded) => panic!("{text}\nis taken: {loaded:?}"),
        Err(errors) => errors,
    }
}

const HEAD: &str = "version: 1\nlisteners: [{address: 0.0.0.0:80}]\n";
const TAIL_CLUSTERS: &str = "clusters: {farm: {endpoints: [a:1]}}\n";
const TAIL: &str = "clusters: {farm: {endpoints: [a:1]}}\nroutes: [{cluster: farm}]\n";

/// Returns each complaint as `line:column message | help`.
fn brief(errors: &Errors) -> Vec<String> {
    let mut all = Vec::new();
    for d in errors.diagnostics() {
        let mut out = String::new();
        if let Some(place) = &d.place {
            write!(out, "{}:{} ", place.line, place.column).unwrap();
        }
        let warning = if d.severity == Severity::Warning {
            "warning: "
        } else {
            ""
        };
        write!(out, "{warning}{}", d.message).unwrap();
        if let Some(help) = &d.help {
            write!(out, " | {help}").unwrap();
        }
        all.push(out);
    }
    all
}

/// Returns the complaints about these keys in a file that is otherwise valid.
fn brief_of(keys: &str) -> Vec<String> {
    let text = format!("{HEAD}{TAIL}{keys}");
    match parse(&text, "sprat.yaml", &|_| None) {
        Ok(loaded) => brief(&loaded.warnings),
        Err(errors) => brief(&errors),
    }
}

#[test]
fn of_two_listeners_one_may_have_every_address() {
    let of = |listeners: &str| {
        let text = format!("version: 1\nadmin: {{address: '[::1]:80'}}\n{listeners}\n{TAIL}");
        parse(&text, "sprat.yaml", &|_| None).map_or_else(|e| brief(&e), |own| brief(&own.warnings))
    };
    let wide = "listeners: [{address: 0.0.0.0:80}, {address: 127.0.0.1:80}]";
    assert_eq!(of(wide), [""; 0]);
    // Two ways of writing one address.
    let same = "listeners: [{address: 127.0.0.1:81}, {address: '[::ffff:127.0.0.1]:81'}]";
    assert_eq!(
        of(same),
        [
            "3:48 another listener has the same address | the other is on line 3: change one \
             of them"
        ]
    );
}

#[test]
fn one_connection_of_http2_is_not_one_client_s() {
    let file = format!(
        "{HEAD}clusters: {{farm: {{endpoints: [a:1], http2: {{}}, proxy_protocol: v2}}}}\nroutes: [{{cluster: farm}}]\n"
    );
    let complaints = brief(&errors(&file));
    assert_eq!(complaints.len(), 1, "{complaints:?}");
    assert!(complaints[0].starts_with("3:"), "{complaints:?}");
    assert!(
        complaints[0].ends_with(" | remove `http2` or `proxy_protocol`"),
        "{complaints:?}"
    );
}

#[test]
fn a_wildcard_is_issued_for_a_record_alone() {
    let of = |challenge: &str| {
        let text = format!(
            "version: 1\nacme: {{directory_url: 'https://a.example/d', storage: /x, challenge: \
             {challenge}}}\nlisteners:\n- address: 0.0.0.0:443\n  tls:\n    \
             certificates: [{{acme: [b.example, '*.b.example']}}]\n{TAIL}"
        );
        parse(&text, "sprat.yaml", &|_| None).map_or_else(|e| brief(&e), |own| brief(&own.warnings))
    };
    let told = "6:39 a wildcard is issued for a record in its zone alone | have a command put it \
                there: `challenge: {command: PROGRAM}` in `acme`, or list the names one by one";
    assert_eq!(of("http-01"), [told]);
    assert_eq!(of("tls-alpn-01"), [told]);
    assert_eq!(of("{command: /bin/zone}"), [""; 0]);
}

#[test]
fn rules_go_by_users_where_one_is_found_out() {
    let rules = "class_rules: [{match: {users: [anna]}, class: default}]\n";
    assert_eq!(
        brief_of(rules),
        [
            "5:31 warning: nothing finds out here who the user is | this rule matches nothing: \
             give a route `basic_auth`, or `ext_authz` with a `user_header`"
        ]
    );
    let routes = "routes: [{cluster: farm, basic_auth: {users_file: /etc/users}}]\n";
    let text = format!("{HEAD}{TAIL_CLUSTERS}{routes}{rules}");
    let loaded = parse(&text, "sprat.yaml", &|_| None).unwrap();
    assert!(loaded.warnings.is_empty(), "{}", loaded.warnings);
}

#[test]
fn classes_and_their_rules_are_checked() {
    for (keys, expected) in [
        (
            "classes: {gold: {level: 16}}\n",
            "5:25 expected a whole number from 0 to 15, found `16`",
        ),
        (
            "class_rules: [{match: {}, class: backgruond}]\n",
            "5:34 there is no class `backgruond` | did you mean `background`?",
        ),
        (
            "class_rules: [{match: {}, class: silver}]\n",
            "5:34 there is no class `silver` | the classes are `default` and `background`",
        ),
        (
            "classes: {media: {drop_late: true}}\n",
            "5:30 a class without a `deadline` is never late | give it a `deadline`, or leave \
             `drop_late` out",
        ),
        (
            "classes: {low: {early_discard: {from: 0.9, to: 0.5}}}\n",
            "5:32 early discard would take all before it begins | `from` is below `to`, such as \
             {from: 0.5, to: 0.9}",
        ),
        (
            "class_rules: [{match: {path: /a, prefix: /b}, class: default}]\n",
            "5:42 a rule takes `path` or `prefix`, not both | make two rules of it, or remove one \
             of them",
        ),
        (
            "class_rules: [{match: {extensions: [.html]}, class: default}]\n",
            "5:37 expected an extension without its dot, such as html, found `.html` | write html",
        ),
        (
            "overload_manager: {max_heap_size: 1GB, stop_accepting_connections: 0.5}\n",
            "5:68 connections would be refused before requests are | give at least 0.95, as \
             `stop_accepting_requests` has it",
        ),
        (
            "acme: {directory_url: http://a.example/dir, storage: /x}\n",
            "5:23 expected a URL, such as https://acme-v02.api.letsencrypt.org/directory, found \
             `http://a.example/dir` | write https://a.example/dir",
        ),
        (
            "acme: {directory_url: https://a.example/dir, storage: /x, email: mailto:me@a.example}\n",
            "5:66 expected an address for mail, such as ops@example.org, found \
             `mailto:me@a.example` | leave `mailto:` out: me@a.example",
        ),
        (
            "acme: {directory_url: https://a.example/dir, storage: /x, challenge: dns-01}\n",
            "5:70 expected `http-01`, `tls-alpn-01` or a mapping with `command`, found `dns-01`",
        ),
        (
            "overload_manager: {max_heap_size: 1MB}\n",
            "5:35 `1MB` is too small | give at least 16MB",
        ),
        (
            "class_rules: [{match: {dscp: [af44]}, class: default}]\n",
            "5:31 expected a code point: 0 to 63, default, ef, le, cs0 to cs7, or af11 to \
             af43, found `af44`",
        ),
        (
            "class_rules: [{match: {client_certificate: {}}, class: default}]\n",
            "5:44 warning: no listener asks its clients for certificates | this rule matches \
             nothing: give a listener `client_certificates` in its `tls`, or remove the rule",
        ),
        (
            "uplink: {rate: unlimited, max_flows: 3}\n",
            "5:38 warning: `max_flows` bounds nothing on this uplink | with `rate: unlimited` \
             nothing is ordered: it takes `engine: pace` and a `rate`, or `rate: auto`; \
             `max_requests` of listeners and clusters bounds what is served",
        ),
        (
            "uplink: {engine: {name: kernel, qdisc: prio, device: eth0}, guard_factor: 3}\n",
            "5:75 warning: `guard_factor` guards nothing on this uplink | `engine: kernel` orders \
             by size alone: it takes `engine: pace` and a `rate`, or `rate: auto`; \
             `max_connections` and rate limits hold floods back",
        ),
        (
            "uplink: {rate: unlimited}\nclasses: {low: {idle_only: true}}\n",
            "6:28 warning: `idle_only` has no effect on this uplink | with `rate: unlimited` \
             nothing is ordered: it takes `engine: pace` and a `rate`, or `rate: auto`",
        ),
    ] {
        assert_eq!(brief_of(keys), [expected], "{keys}");
    }
    assert_eq!(
        brief_of("classes: {low: {drop_late: true, early_discard: {from: 0.9, to: 0.5}}}\n").len(),
        2,
        "all at once"
    );
    let many: String = (0..31).map(|n| format!("  c{n}: {{}}\n")).collect();
    assert_eq!(
        brief_of(&format!("classes:\n{many}")),
        ["36:3 there are more than 30 classes | remove this one and those after it"]
    );
}

#[test]
fn the_parameters_of_srq_are_checked() {
    let srq = |keys: &str| brief_of(&format!("uplink: {{policy: {{name: srq, {keys}}}}}\n"));
    for keys in [
        "alpha: 1, t_split: 0, adj_d: 0.1",
        "quanta: [1KB], queues: {min: 2, max: 2}",
        "queues: {min: 9}",
        "first_share: 100%",
        "trigger: always",
        "trigger: {max_requests: 64}",
    ] {
        assert_eq!(srq(keys), [""; 0], "{keys}");
    }
    for (keys, expected) in [
        (
            "quanta: [1KB, 9KB], queues: {max: 2}",
            "5:38 2 quanta make 3 queues | write 1 to 1 quanta, or change `queues`",
        ),
        (
            "quanta: [1KB], queues: {min: 4}",
            "5:38 1 quantum makes 2 queues | write 3 to 15 quanta, or change `queues`",
        ),
        (
            "quanta: [1KB, 2000GB]",
            "5:44 a quantum is larger than any that queues come to | give at most 1024 GB",
        ),
        (
            "queues: {min: 5, max: 4}",
            "5:38 the fewest queues, 5, are more than the most, 4 | give `max` at least as many \
             as `min`",
        ),
        (
            "deadline: 1s",
            "5:40 the soft deadline is after the other | give `deadline` at least as much: from \
             then on a response has no value",
        ),
        (
            "trigger: {}",
            "5:39 nothing tells when a busy period begins | write {backlog: 200ms}, \
             {max_requests: 64} or `always`",
        ),
        (
            "trigger: {backlog: 1s, max_requests: 9}",
            "5:39 a busy period is told by `backlog` or `max_requests`, not both | write \
             {backlog: 200ms}, {max_requests: 64} or `always`",
        ),
        (
            "first_share: 90",
            "5:43 `90` is no part of the link | write 90%",
        ),
        (
            "quantas: [1KB]",
            "5:30 unknown key `quantas` | did you mean `quanta`?",
        ),
    ] {
        assert_eq!(srq(keys), [expected], "{keys}");
    }
}

/// Returns the complaints about a cluster with these keys and two endpoints, warnings included.
fn cluster_complaints(keys: &str) -> Vec<String> {
    let clusters = format!("clusters: {{farm: {{endpoints: [10.0.0.1:1, 10.0.0.2:1], {keys}}}}}\n");
    let text = format!("{HEAD}{clusters}routes: [{{cluster: farm}}]\n");
    match parse(&text, "sprat.yaml", &|_| None) {
        Ok(loaded) => brief(&loaded.warnings),
        Err(errors) => brief(&errors),
    }
}

#[test]
fn the_parameters_of_srq_before_endpoints_are_checked() {
    let srq = |keys: &str| {
        let order = format!("wait_queue: {{order: {{name: srq, {keys}}}}}");
        cluster_complaints(&format!("max_requests: 8, {order}"))
    };
    for keys in [
        "first_share: 100%, max_overcommit: 0",
        "quanta: [1ms], queues: {min: 2, max: 2}",
        "quanta: [18m]",
        "trigger: always, use_estimates: off",
        "trigger: {max_requests: 64}, use_estimates: 1MB",
        "statistics: elapsed",
    ] {
        assert_eq!(srq(keys), [""; 0], "{keys}");
    }
    for (keys, expected) in [
        (
            "quanta: [50ms, 1s], queues: {max: 2}",
            "3:113 2 quanta make 3 queues | write 1 to 1 quanta, or change `queues`",
        ),
        (
            "quanta: [50ms, 20m]",
            "3:120 a quantum is longer than any that queues come to | give at most 18m",
        ),
        (
            "queues: {min: 5, max: 4}",
            "3:113 the fewest queues, 5, are more than the most, 4 | give `max` at least as many \
             as `min`",
        ),
        (
            "deadline: 1s",
            "3:115 the soft deadline is after the other | give `deadline` at least as much: from \
             then on a response has no value",
        ),
        (
            "trigger: {}",
            "3:114 the key `max_requests` is missing | `max_requests` takes a whole number from \
             1 to 10000000",
        ),
        (
            "trigger: {backlog: 1s, max_requests: 9}",
            "3:115 unknown key `backlog` | the only key here is `max_requests`",
        ),
        (
            "first_share: 90",
            "3:118 `90` is no part of the places | write 90%",
        ),
    ] {
        assert_eq!(srq(keys), [expected], "{keys}");
    }
}

#[test]
fn an_order_that_frees_places_wants_a_number_of_them() {
    assert_eq!(
        cluster_complaints("wait_queue: {order: srq}"),
        [
            "3:76 warning: `order: srq` frees places, and the number of places is unlimited | \
             give `max_requests`: how many requests the endpoint works on at a time"
        ]
    );
    for keys in [
        "max_requests: 8, wait_queue: {order: srq}",
        "wait_queue: {order: edf}",
    ] {
        assert_eq!(cluster_complaints(keys), [""; 0], "{keys}");
    }
}

#[test]
fn no_more_go_beyond_the_places_than_connections_carry() {
    let srq = |keys: &str| {
        let order = format!("wait_queue: {{order: {{name: srq, {keys}}}}}");
        cluster_complaints(&format!("max_requests: 8, max_connections: 10, {order}"))
    };
    assert_eq!(
        srq("max_overcommit: 3"),
        [
            "3:142 warning: `max_connections` leaves 2 requests beyond `max_requests`, and 3 are \
             wanted | write 2, or raise the cluster's `max_connections`"
        ]
    );
    // Without a number it is as many as there is room for.
    for keys in ["max_overcommit: 2", "alpha: 1"] {
        assert_eq!(srq(keys), [""; 0], "{keys}");
    }
}

#[test]
fn deadlines_are_checked() {
    for (file, expected) in [
        (
            "classes: {a: {soft_deadline: 1s}}\n",
            "5:30 a class without a `deadline` has no soft one | give it a `deadline` too, which \
             is no sooner",
        ),
        (
            "classes: {a: {soft_deadline: 3s, deadline: 2s}}\n",
            "5:30 the soft deadline is after the `deadline` | give it at most as much: from the \
             `deadline` on there is no value to fall",
        ),
        (
            "uplink: {policy: edf}\n",
            "5:18 warning: no class has a `deadline`: `policy: edf` orders by arrival | give a \
             class a `deadline`, such as classes: {default: {deadline: 2s}}",
        ),
        (
            "uplink: {policy: vrd}\n",
            "5:18 warning: no class has a `deadline`: `policy: vrd` orders by arrival | give a \
             class a `deadline`, such as classes: {default: {deadline: 2s}}",
        ),
    ] {
        assert_eq!(brief_of(file), [expected], "{file}");
    }
    let all = "uplink: {policy: edf}\nclasses: {a: {deadline: 2s, soft_deadline: 2s}}\n";
    assert_eq!(brief_of(all), [""; 0]);
}

#[test]
fn who_shares_the_uplink_is_checked() {
    for uplink in [
        "policy: fcfs, clients: {share: client}",
        "clients: {share: {header: X-User}}",
        "policy: fair, clients: {share: none}",
    ] {
        let file = format!("uplink: {{{uplink}}}\n");
        assert_eq!(brief_of(&file), [""; 0], "{uplink}");
    }
    for (uplink, expected) in [
        (
            "policy: fair, clients: {share: client}",
            "5:41 `share` does not go with the policy `fair`, under which responses take turns, \
             not clients | use a policy that ranks responses, such as `srpt`, or `share: none`",
        ),
        (
            "engine: {name: kernel, qdisc: prio, device: eth0}, clients: {share: client}",
            "5:78 `share` needs `engine: pace`: the kernel's classes know no clients | use \
             `engine: pace`, or `share: none`",
        ),
        (
            "rate: unlimited, clients: {share: client}",
            "5:44 warning: `share` divides nothing on this uplink | with `rate: unlimited` \
             nothing is ordered: it takes `engine: pace` and a `rate`, or `rate: auto`; \
             `max_requests` of `per_client` bounds what each has served",
        ),
        (
            "clients: {share: clients}",
            "5:27 expected a key: `client`, found `clients` | did you mean `client`?",
        ),
        (
            "clients: {share: {header: 'x user'}}",
            "5:36 expected the name of a header field, such as accept-encoding, found `x user`",
        ),
    ] {
        let file = format!("uplink: {{{uplink}}}\n");
        assert_eq!(brief_of(&file), [expected], "{uplink}");
    }
}

#[test]
fn marks_are_checked() {
    for uplink in [
        "policy: las, clients: {share: client}",
        "policy: {name: sfd, out_share: 0.9, threshold: 1B}, marking: {}",
        "rate: unlimited, marking: {variant: p-sfd, in: default, out: le}",
        "engine: {name: kernel, qdisc: prio, device: eth0}, marking: {in: CS4, out: 10}",
    ] {
        let file = format!("uplink: {{{uplink}}}\n");
        assert_eq!(brief_of(&file), [""; 0], "{uplink}");
    }
    for (uplink, expected) in [
        (
            "policy: sfd, clients: {share: client}",
            "5:40 `share` does not go with the policy `sfd`, under which responses take turns, \
             not clients | use a policy that ranks responses, such as `srpt`, or `share: none`",
        ),
        (
            "rate: 1mbit, policy: las, engine: kernel",
            "5:31 the `kernel` engine orders by size class alone | use the policy `bands` (or \
             `srpt`, for the paper's classes), or `engine: pace`",
        ),
        (
            "policy: {name: sfd, variant: sfdd}",
            "5:39 expected a variant: `sfd`, `p-sfd` or `s-sfd`, found `sfdd` | did you mean \
             `sfd`?",
        ),
        (
            "policy: {name: sfd, out_share: 1}",
            "5:41 expected a share, from 0 to 0.9, found `1`",
        ),
        (
            "policy: {name: sfd, k: 0}",
            "5:33 expected a whole number from 1 to 1000, found `0`",
        ),
        (
            "marking: {in: af14}",
            "5:24 expected a code point: 0 to 63, default, ef, le, cs0 to cs7, or af11 to af43, \
             found `af14`",
        ),
        (
            "marking: {out: af11}",
            "5:25 `in` and `out` are the same code point | give them different ones, such as {in: \
             af11, out: af13}",
        ),
        (
            "policy: sfd, marking: {k: 3}",
            "5:36 the policy `sfd` says what `k` is | give `k` to the policy, and remove it here",
        ),
        (
            "marking: {treshold: 20KB}",
            "5:20 unknown key `treshold` | did you mean `threshold`?",
        ),
    ] {
        let file = format!("uplink: {{{uplink}}}\n");
        assert_eq!(brief_of(&file), [expected], "{uplink}");
    }
}

#[test]
fn everything_is_reported_at_once_with_its_line() {
    let text = "\
version: 1
listner:
  - address: 0.0.0.0:8080
listeners:
  - address: 8080
    idle_timeout: 10 secs
    max_connections: 0
uplink:
  rate: 0mbit
  policy: {name: bands, cutoffs: [10KB, 1KB]}
  engine: kernal
clusters:
  farm:
    endpoints: [127.0.0.1:8000, 127.0.0.1:80000]
    dispatch: least-request
  spare:
    endpoints: ['${SPARE}:80']
routes:
  - match: {prefix: images}
    cluster: frm
  - cluster: farm
    timeout: false
";
    let expected = r#"error: unknown key `listner`
 --> sprat.yaml:2:1
  |
2 | listner:
  | ^^^^^^^
  |
  = help: did you mean `listeners`?

error: expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, or unix:/run/sprat.sock, found `8080`
 --> sprat.yaml:5:14
  |
5 |   - address: 8080
  |              ^^^^
  |
  = help: write 0.0.0.0:8080 for every address

error: `secs` is not a unit here
 --> sprat.yaml:6:22
  |
6 |     idle_timeout: 10 secs
  |                      ^^^^
  |
  = help: the units are `ms`, `s`, `m` and `h`

error: expected a whole number from 1 to 10000000, found `0`
 --> sprat.yaml:7:22
  |
7 |     max_connections: 0
  |                      ^

error: a rate of zero sends nothing
 --> sprat.yaml:9:9
  |
9 |   rate: 0mbit
  |         ^^^^^
  |
  = help: give the link's rate, such as 10mbit, or `auto`, or `unlimited`

error: the cutoffs do not ascend: this one is not above the one before
  --> sprat.yaml:10:41
   |
10 |   policy: {name: bands, cutoffs: [10KB, 1KB]}
   |                                         ^^^
   |
   = help: write them from small to large, each once, such as [1KB, 10KB, 50KB]

error: expected an engine (`pace` or `kernel`), or a mapping with its `name` and parameters, found `kernal`
  --> sprat.yaml:11:11
   |
11 |   engine: kernal
   |           ^^^^^^
   |
   = help: did you mean `kernel`?

error: `80000` is not a port
  --> sprat.yaml:14:43
   |
14 |     endpoints: [127.0.0.1:8000, 127.0.0.1:80000]
   |                                           ^^^^^
   |
   = help: give a number from 1 to 65535

error: expected how to choose an endpoint (`round_robin`, `random`, `p2c`, `least_request`, `psqf`, `rpsq`, `least_work`, `sita`, `ring_hash` or `maglev`), or a mapping with its `name` and parameters, found `least-request`
  --> sprat.yaml:15:15
   |
15 |     dispatch: least-request
   |               ^^^^^^^^^^^^^
   |
   = help: did you mean `least_request`?

error: the environment variable `SPARE` is not set
  --> sprat.yaml:17:18
   |
17 |     endpoints: ['${SPARE}:80']
   |                  ^^^^^^^^
   |
   = help: set it, or give a default: `${SPARE:-default}`

error: the path `images` does not begin with `/`
  --> sprat.yaml:19:21
   |
19 |   - match: {prefix: images}
   |                     ^^^^^^
   |
   = help: write `/images`

error: there is no cluster `frm`
  --> sprat.yaml:20:14
   |
20 |     cluster: frm
   |              ^^^
   |
   = help: did you mean `farm`?

error: expected `off` or a span of time, such as 250ms, 10s, 5m or 1h, found `false`
  --> sprat.yaml:22:14
   |
22 |     timeout: false
   |              ^^^^^
   |
   = help: did you mean `off`?"#;
    assert_eq!(errors(text).to_string(), expected);
}

#[test]
fn what_may_be_meant_otherwise_is_a_warning() {
    let text = "\
version: 1
listeners: [{address: 0.0.0.0:80}]
clusters:
  a: {endpoints: [a:1]}
  b: {endpoints: [b:1]}
routes:
  - {cluster: a, match: {hosts: ['*.x.org'], prefix: /p}}
  - {cluster: a, match: {hosts: [x.org], prefix: /p}}
  - {cluster: a, match: {hosts: [w.x.org, '*.y.x.org'], path: /p/q}}
  - {cluster: a, match: {prefix: /pp}}
  - {cluster: a}
  - {cluster: a, match: {path: /}}
";
    let loaded = parse(text, "sprat.yaml", &|_| None).unwrap();
    assert_eq!(
        brief(&loaded.warnings),
        [
            "5:3 warning: no route leads to the cluster `b` | \
             add a route with `cluster: b`, or remove it",
            "9:5 warning: this route can never match | \
             the route on line 7 takes all its requests: put this one before it",
            "12:5 warning: this route can never match | \
             the route on line 11 takes all its requests: put this one before it",
        ]
    );
    assert_eq!(loaded.config.routes.len(), 6);
}

#[test]
fn a_fallback_that_no_request_comes_to_is_a_warning() {
    let warnings = |cluster: &str| {
        let text = format!(
            "\
version: 1
listeners: [{{address: 0.0.0.0:80}}]
clusters:
  a: {{{cluster}}}
  b: {{endpoints: ['192.0.2.2:1']}}
routes: [{{cluster: a, fallback: b}}]
"
        );
        let loaded = parse(&text, "sprat.yaml", &|_| None).unwrap();
        brief(&loaded.warnings)
    };
    let address = "endpoints: ['192.0.2.1:1']";
    let checks = format!("{address}, health_checks: {{http_health_check: {{path: /}}}}");
    assert_eq!(
        warnings(address),
        ["6:33 warning: no request comes to this fallback | \
          without `health_checks` no endpoint is known to be out; one that stands by in the same \
          cluster (`priority: 1`) takes over with the first connection that fails"]
    );
    assert_eq!(
        warnings(&checks),
        [
            "6:33 warning: no request comes to this fallback | a cluster uses all its endpoints \
          when most are out: give it `healthy_panic_threshold: 0`"
        ]
    );
    for reached in [
        &*format!("{checks}, healthy_panic_threshold: 0"),
        "endpoints: ['a.example:1']",
        "endpoints_file: /etc/a.yaml",
    ] {
        assert_eq!(warnings(reached), [""; 0], "{reached}");
    }
}

#[test]
fn a_path_that_no_request_has_is_a_warning() {
    let file = |listener: &str| {
        format!(
            "\
version: 1
listeners: [{{address: 0.0.0.0:80{listener}}}]
clusters: {{a: {{endpoints: [a:1]}}}}
routes:
  - {{cluster: a, match: {{path: /%61dmin}}}}
  - {{cluster: a, match: {{prefix: /b//c/}}}}
  - {{cluster: a, match: {{prefix: /d%2fe}}}}
  - {{cluster: a, match: {{prefix: /../f}}}}
  - {{cluster: a, match: {{path: /g%2Fh}}}}
class_rules: [{{match: {{prefix: /%7eu}}, class: background}}]
"
        )
    };
    let warnings = |listener: &str| {
        let loaded = parse(&file(listener), "sprat.yaml", &|_| None).unwrap();
        brief(&loaded.warnings)
    };
    let message = "warning: no request has this path: they are matched in normal form";
    let slash =
        "requests for it are refused: see `path_with_escaped_slashes_action` of the listener";
    assert_eq!(
        warnings(""),
        [
            format!("5:32 {message} | write /admin"),
            format!("6:34 {message} | write /b/c/"),
            format!("7:34 {message} | write /d%2Fe"),
            format!("8:34 {message} | it leads above the root: leave `..` out"),
            format!("10:32 {message} | write /~u"),
        ]
    );
    let refused = warnings(", path_with_escaped_slashes_action: reject_request");
    assert_eq!(refused.len(), 6, "{refused:?}");
    assert_eq!(refused[2], format!("7:34 {message} | {slash}"));
    assert_eq!(refused[4], format!("9:32 {message} | {slash}"));
    let off = ", normalize_path: false, merge_slashes: false, \
               path_with_escaped_slashes_action: keep_unchanged";
    assert!(warnings(off).is_empty());
}

/// Returns the complaints about a cluster with `keys` and two endpoints, given by address.
fn cluster_errors(keys: &str) -> Vec<String> {
    let clusters = format!("clusters: {{farm: {{endpoints: [10.0.0.1:1, 10.0.0.2:1], {keys}}}}}\n");
    brief(&errors(&format!(
        "{HEAD}{clusters}routes: [{{cluster: farm}}]\n"
    )))
}

#[test]
fn what_a_cluster_cannot_do_is_said() {
    for (keys, expected) in [
        (
            "dispatch: {name: rpsq, reserved: 2}",
            "3:66 2 of 2 endpoints are reserved: none is left for other classes \
             | reserve fewer, or add endpoints",
        ),
        (
            "dispatch: {name: sita, cutoffs: [1KB, 2KB]}",
            "3:88 2 cutoffs for 2 endpoints, where 1 are needed \
             | write one fewer than there are endpoints, or `cutoffs: learnt`",
        ),
        (
            "dispatch: maglev, wait_queue: {scope: cluster}",
            "3:94 this `dispatch` binds requests to endpoints: they cannot wait for any \
             | use `scope: endpoint`, or a dispatch such as least_work",
        ),
    ] {
        assert_eq!(cluster_errors(keys), [expected], "{keys}");
    }
}
