//! What an operator reads when a file is wrong.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

use proptest::prelude::*;
use sprat_config::{Errors, Severity, load, parse};

fn errors(text: &str) -> Errors {
    match parse(text, "sprat.yaml", &|_| None) {
        Ok(loaded) => panic!("{text}\nis taken: {loaded:?}"),
        Err(errors) => errors,
    }
}

const HEAD: &str = "version: 1\nlisteners: [{address: 0.0.0.0:80}]\n";
const TAIL_CLUSTERS: &str = "clusters: {farm: {endpoints: [a:1]}}\n";
const TAIL: &str = "clusters: {farm: {endpoints: [a:1]}}\nroutes: [{cluster: farm}]\n";

/// `line:column message | help` of each complaint.
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

/// What is wrong with these keys in an otherwise right file.
fn brief_of(keys: &str) -> Vec<String> {
    let text = format!("{HEAD}{TAIL}{keys}");
    match parse(&text, "sprat.yaml", &|_| None) {
        Ok(loaded) => brief(&loaded.warnings),
        Err(errors) => brief(&errors),
    }
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
            "overload_manager: {max_heap_size: 1MB}\n",
            "5:35 `1MB` is too small | give at least 16MB",
        ),
        (
            "class_rules: [{match: {dscp: [af44]}, class: default}]\n",
            "5:31 expected a code point: 0 to 63, ef, le, cs0 to cs7, or af11 to af43, found `af44`",
        ),
        (
            "uplink: {rate: unlimited}\nclasses: {low: {idle_only: true}}\n",
            "6:28 warning: `idle_only` has no effect on this uplink | with `rate: unlimited` \
             nothing is ordered: it takes `engine: pace` and a `rate`, or `rate: auto`",
        ),
    ] {
        assert_eq!(brief_of(keys), [expected], "{keys}");
    }
    let many: String = (0..31).map(|n| format!("  c{n}: {{}}\n")).collect();
    assert_eq!(
        brief_of(&format!("classes:\n{many}")),
        ["36:3 there are more than 30 classes | remove this one and those after it"]
    );
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

error: expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, found `8080`
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

error: expected a host and a port, such as 127.0.0.1:8000 or web1.example:8000, found `127.0.0.1:80000`
  --> sprat.yaml:14:33
   |
14 |     endpoints: [127.0.0.1:8000, 127.0.0.1:80000]
   |                                 ^^^^^^^^^^^^^^^

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

/// A part of a file, from its third line on, and what is said about it.
const PARTS: &[(&str, &[&str])] = &[
    (
        "runtime: {workers: 0}",
        &["3:20 expected `auto` or a whole number from 1 to 1024, found `0`"],
    ),
    (
        "runtime: {workers: 1.5}",
        &["3:20 expected `auto` or a whole number from 1 to 1024, found `1.5`"],
    ),
    (
        "runtime: {workers: '4'}",
        &[
            "3:20 expected `auto` or a whole number from 1 to 1024, found `4` | write it without quotes",
        ],
    ),
    (
        "runtime: {workers: auot}",
        &[
            "3:20 expected `auto` or a whole number from 1 to 1024, found `auot` | did you mean `auto`?",
        ],
    ),
    (
        "runtime: {drain_timeout: 10}",
        &["3:26 `10` has no unit | write a span of time, such as 250ms, 10s, 5m or 1h"],
    ),
    (
        "runtime: {drain_timeout: 1e3s}",
        &["3:27 `e3s` is not a unit here | the units are `ms`, `s`, `m` and `h`"],
    ),
    (
        "runtime: {drain_timeout: 9000h}",
        &["3:26 `9000h` is out of range | give at least 0s and at most 8760h"],
    ),
    (
        "runtime:",
        &[
            "3:8 expected a mapping with `workers`, `drain_timeout` and `reload_interval`, found nothing | give it a value, or remove the key",
        ],
    ),
    (
        "runtime: []",
        &[
            "3:10 expected a mapping with `workers`, `drain_timeout` and `reload_interval`, found a list",
        ],
    ),
    (
        "runtime: fast",
        &[
            "3:10 expected a mapping with `workers`, `drain_timeout` and `reload_interval`, found `fast`",
        ],
    ),
    (
        "runtime: {}\nruntime: {}",
        &["4:1 the key `runtime` is given twice | it is first given on line 3: keep one of them"],
    ),
    (
        "admin: false",
        &["3:8 expected `off` or a mapping with `address`, found `false` | did you mean `off`?"],
    ),
    (
        "admin: {address: '9900'}",
        &[
            "3:18 expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, found `9900` | write 0.0.0.0:9900 for every address",
        ],
    ),
    (
        "admin: {address: localhost:9900}",
        &[
            "3:18 expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, found `localhost:9900` | write 127.0.0.1:9900",
        ],
    ),
    (
        "admin: {address: 127.0.0.1}",
        &[
            "3:18 expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, found `127.0.0.1` | add a port: 127.0.0.1:8080",
        ],
    ),
    (
        "admin: {address: 0.0.0.0:80}",
        &[
            "2:23 the admin listener has the same address | the other is on line 3: change one of them",
        ],
    ),
    (
        "catalogue: {max_size: 99999999999GB}",
        &["3:23 this is too large | write a size in bytes, such as 512, 20KB or 1.5MB"],
    ),
    (
        "catalogue: {max_size: 2TB}",
        &["3:24 `TB` is not a unit here | the units are `B`, `KB`, `MB` and `GB`"],
    ),
    (
        "catalogue: {max_size: 10 megs, ttl: 5 min}",
        &["3:26 `megs` is not a unit here | the units are `B`, `KB`, `MB` and `GB`"],
    ),
    (
        "catalogue: {vary: [a, b, c, d, e], manifests: [{path: x, cluster: fram}]}",
        &[
            "3:32 there are more than 4 fields | remove this one and those after it",
            "3:67 there is no cluster `fram` | did you mean `farm`?",
        ],
    ),
    (
        "catalogue: {vary: [two words], snapshot: /tmp/x, estimator: {percentile: 100}}",
        &[
            "3:20 expected the name of a header field, such as accept-encoding, found `two words`",
            "3:42 expected `off` or a mapping with `path`, found `/tmp/x`",
            "3:74 expected a whole number from 1 to 99, found `100`",
        ],
    ),
    (
        "catalogue: {shared: {url: 'rediss://a', phrase: '', prefix: 'a b'}}",
        &[
            "3:27 expected a server, such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock, found `rediss://a` | TLS is not spoken here: put the store on a private network",
            "3:49 expected a pass phrase, found ``",
            "3:61 expected up to 64 characters without spaces, such as sprat:, found `a b`",
        ],
    ),
    (
        "catalogue: {size: 10MB}",
        &[
            "3:13 unknown key `size` | the keys here are `max_size`, `ttl`, `vary`, `snapshot`, `manifests`, `shared` and `estimator`",
        ],
    ),
    (
        "access_log: {path: [a], format: xml}",
        &[
            "3:20 expected `stdout` or a file, such as /var/log/sprat/access.log, found a list",
            "3:33 expected a format: `json` or `combined`, found `xml`",
        ],
    ),
    (
        "access_log: on",
        &["3:13 expected `off` or a mapping with `path` and `format`, found `on`"],
    ),
    (
        "uplink: {rate: 10}",
        &[
            "3:16 `10` has no unit | write a rate in bits per second, such as 512kbit, 10mbit or 2.5gbit",
        ],
    ),
    (
        "uplink: {rate: 10mbps}",
        &["3:18 `mbps` is not a unit here | the units are `bit`, `kbit`, `mbit` and `gbit`"],
    ),
    (
        "uplink: {rate: unlimted}",
        &[
            "3:16 expected `auto`, `unlimited` or a rate in bits per second, such as 512kbit, 10mbit or 2.5gbit, found `unlimted` | did you mean `unlimited`?",
        ],
    ),
    (
        "uplink: {policy: {ageing: 1KB}}",
        &[
            "3:18 the key `name` is missing | `name` takes a policy: `fcfs`, `fair`, `srpt`, `srpt-aged` or `bands`",
        ],
    ),
    (
        "uplink: {policy: {name: srpt, ageing: 1KB}}",
        &["3:31 unknown key `ageing` | the only key here is `name`"],
    ),
    (
        "uplink: {policy: {name: bands, cutoffs: two_class}}",
        &[
            "3:41 expected `paper`, `two-class` or a list of ascending sizes, such as [1KB, 10KB], or {learnt: 6}, found `two_class` | did you mean `two-class`?",
        ],
    ),
    (
        "uplink: {policy: {name: bands, cutoffs: {learnt: 17}}}",
        &["3:50 expected a whole number from 2 to 16, found `17`"],
    ),
    (
        "uplink: {policy: {name: bands, cutoffs: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}}",
        &[
            "3:78 there are more than 15 cutoffs | remove this one and those after it: 16 classes is the most",
        ],
    ),
    (
        "uplink: {engine: kernel}",
        &[
            "3:18 the `htb` queueing discipline needs the uplink's rate | give `rate` the link's rate, such as 10mbit, or use `{name: kernel, qdisc: prio}`",
        ],
    ),
    (
        "uplink: {rate: unlimited, engine: {name: kernel, qdisc: htb}}",
        &[
            "3:16 the `htb` queueing discipline needs the uplink's rate | give `rate` the link's rate, such as 10mbit, or use `{name: kernel, qdisc: prio}`",
        ],
    ),
    (
        "uplink: {rate: 1mbit, engine: kernel, policy: srpt-aged}",
        &[
            "3:47 the `kernel` engine orders by size class alone | use the policy `bands` (or `srpt`, for the paper's classes), or `engine: pace`",
        ],
    ),
    (
        "uplink: {engine: {name: kernel, qdisc: prio, device: a/b}}",
        &["3:54 expected the name of a network device, such as eth0, found `a/b`"],
    ),
    (
        "uplink: {rate: !speed 10mbit}",
        &["3:23 the tag `!speed` means nothing here | remove it"],
    ),
    (
        "uplink: {rate: *fast}",
        &[
            "3:16 no anchor `&fast` stands above this alias | quote the text if the `*` is meant as it stands",
        ],
    ),
    (
        "x-a: &a [*a]",
        &["3:10 this alias stands inside its own anchor"],
    ),
    (
        "uplink: {rate: \"${RATE}mbit\"}",
        &[
            "3:17 the environment variable `RATE` is not set | set it, or give a default: `${RATE:-default}`",
        ],
    ),
    (
        "uplink: {rate: \"${RATE\"}",
        &["3:17 `${` is not closed by `}` | write `$${` for the characters `${`"],
    ),
    (
        "uplink: {rate: \"${}\"}",
        &[
            "3:17 `${` is followed by no name | write `${NAME}`, `${NAME:-default}`, or `$${` for the characters `${`",
        ],
    ),
    (
        "uplink:\n  <<: 1",
        &["4:7 `<<` takes a mapping, or a list of them, to merge | such as `<<: *defaults`"],
    ),
    (
        "uplink: {[a]: b}",
        &[
            "3:10 a key must be a single word | quote the value if it starts with a bracket or brace",
        ],
    ),
    (
        "uplink: {rate: 10mbit",
        &["4:9 this is not YAML: while parsing a flow mapping, did not find expected ',' or '}'"],
    ),
    (
        "uplink:\n\trate: 10mbit",
        &[
            "4:2 this is not YAML: tabs disallowed within this context (block indentation) | indent with spaces",
        ],
    ),
    (
        "---\nuplink: {}",
        &[
            "3:1 there is a second document in the file | keep the part before `---` and move the rest to a file of its own",
        ],
    ),
];

/// Whole files, and what is said about them.
const FILES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "1:1 the file is empty | write at least `version: 1`, `listeners`, `clusters` and `routes`",
        ],
    ),
    (
        "# nothing\n",
        &[
            "1:1 the file is empty | write at least `version: 1`, `listeners`, `clusters` and `routes`",
        ],
    ),
    (
        "[]",
        &[
            "1:1 expected a mapping with `version`, `listeners`, `clusters` and `routes`, found a list",
        ],
    ),
    (
        "version: 1",
        &[
            "1:1 the key `listeners` is missing | `listeners` takes a list, each item a mapping with `address`",
            "1:1 the key `clusters` is missing | `clusters` takes a mapping from names, each to a mapping with `endpoints`",
            "1:1 the key `routes` is missing | `routes` takes a list, each item a mapping with `cluster`",
        ],
    ),
    (
        "version: 2\nlisteners: []\nclusters: {}\nroutes: {}\n",
        &[
            "1:10 expected the number 1, found `2`",
            "2:12 the list is empty | give at least 1: a mapping with `address`",
            "3:11 the mapping is empty | give at least one name and what it stands for",
            "4:9 expected a list, each item a mapping with `cluster`, found a mapping",
        ],
    ),
    (
        "version: 1\nlisteners: [{adress: 0.0.0.0:80}, {address: '*:80'}, 80]\nclusters:\n  a b: {endpoints: []}\n  c: {endpoints: [b, 'http://c:80/', 1.2.3:80, d:0, {adress: d:1}]}\nroutes: [{cluster: c}]\n",
        &[
            "2:14 unknown key `adress` | did you mean `address`?",
            "2:45 expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, found `*:80` | write 0.0.0.0:80 for every address",
            "2:54 expected a mapping with `address`, found `80`",
            "4:3 `a b` cannot be a name | use 1 to 64 letters, digits, dots, hyphens and underscores",
            "4:20 the list is empty | give at least 1: a host and a port, such as 127.0.0.1:8000, or {address, weight}",
            "5:19 expected a host and a port, such as 127.0.0.1:8000 or web1.example:8000, found `b` | add a port: b:8000",
            "5:22 expected a host and a port, such as 127.0.0.1:8000 or web1.example:8000, found `http://c:80/` | leave `http://` out: c:80",
            "5:38 expected a host and a port, such as 127.0.0.1:8000 or web1.example:8000, found `1.2.3:80`",
            "5:48 port 0 cannot be connected to | give the backend's port",
            "5:54 unknown key `adress` | did you mean `address`?",
        ],
    ),
    (
        "version: 1\nlisteners:\n- {name: a, address: 0.0.0.0:80}\n- {name: a, address: 0.0.0.0:80}\n- {address: 127.0.0.1:9900}\nclusters:\n  c: {endpoints: [d:1, {address: d:1}], max_connections: 10, max_idle_connections: 11}\n  unused: {endpoints: [e:1]}\nroutes: [{cluster: c}]\n",
        &[
            "4:10 another listener has the same name | the other is on line 3: rename one of them",
            "4:22 another listener has the same address | the other is on line 3: change one of them",
            "5:13 the admin listener has the same address | move one of them, or set `admin: off`",
            "7:34 the endpoint d:1 is given twice | it is first given on line 7: use {address, weight} for a larger share",
            "7:84 more idle connections than the 10 that may be open | lower it, or raise `max_connections`",
            "8:3 warning: no route leads to the cluster `unused` | add a route with `cluster: unused`, or remove it",
        ],
    ),
    (
        "version: 1\nlisteners: [{address: 0.0.0.0:80, forwarding: {trusted: [10.1.0.0/8, 10.0.0.0/33, lan], via: a b}}]\nclusters: {c: {endpoints: [d:1]}}\nroutes:\n- {cluster: d, match: {path: /a, prefix: /b}}\n- {cluster: 7, match: {path: a, hosts: ['*', 'x:80', 'a b']}}\n- {cluster: c, match: {path: '/ä?'}, prefix_rewrite: b, host_rewrite: 'http://x'}\n",
        &[
            "2:58 `10.1.0.0/8` is not the first address of its block | write 10.0.0.0/8 for the block, or 10.1.0.0 for the address",
            "2:70 expected a block of addresses, such as 10.0.0.0/8, fd00::/8 or 192.0.2.7, found `10.0.0.0/33` | the part after `/` is from 0 to 32",
            "2:83 expected a block of addresses, such as 10.0.0.0/8, fd00::/8 or 192.0.2.7, found `lan`",
            "2:94 expected `off` or a word without spaces, such as sprat, found `a b`",
            "5:13 there is no cluster `d` | the clusters are `c`",
            "5:42 a route takes `path` or `prefix`, not both | make two routes of it, or remove one of them",
            "6:13 expected a name, found `7`, which is not text | quote it",
            "6:30 the path `a` does not begin with `/` | write `/a`",
            "6:41 expected a host name, such as www.example.org or *.example.org, found `*` | leave `hosts` out to match every host",
            "6:46 expected a host name, such as www.example.org or *.example.org, found `x:80` | leave the port out: x",
            "6:54 expected a host name, such as www.example.org or *.example.org, found `a b`",
            "7:32 'ä' cannot be part of a path | percent-encode it, as it stands in the request (a space is %20)",
            "7:54 the path `b` does not begin with `/` | write `/b`",
            "7:71 expected a host name, and a port if need be, such as internal.example:8080, found `http://x`",
        ],
    ),
    (
        "a: 1\n--- \nb: 2\n",
        &[
            "2:1 there is a second document in the file | keep the part before `---` and move the rest to a file of its own",
        ],
    ),
    (
        "version: 1\nx-d: &d {connect_timeout: 5}\nlisteners: [{address: 0.0.0.0:80}]\nclusters:\n  a: {<<: *d, endpoints: [d:1]}\n  b: {<<: *d, endpoints: [d:1]}\nroutes: [{cluster: a}]\n",
        &[
            "2:27 `5` has no unit | write a span of time, such as 250ms, 10s, 5m or 1h",
            "6:3 warning: no route leads to the cluster `b` | add a route with `cluster: b`, or remove it",
        ],
    ),
];

#[test]
fn a_table_of_slips() {
    for (part, expected) in PARTS {
        let text = format!("{HEAD}{part}\n{TAIL}");
        assert_eq!(brief(&errors(&text)), *expected, "{text}");
    }
    for (text, expected) in FILES {
        assert_eq!(brief(&errors(text)), *expected, "{text}");
    }
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
fn aliases_cannot_stand_for_billions() {
    let mut text = "x-0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        let list = [alias.as_str(); 10].join(", ");
        writeln!(text, "x-{level}: &a{level} [{list}]").unwrap();
    }
    assert_eq!(
        brief(&errors(&text)),
        ["5:10 the file comes to more than 100000 values | an alias counts as all that it repeats"]
    );
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = errors(&"[".repeat(10_000)).to_string();
    assert!(deep.starts_with("error: this is not YAML: "), "{deep}");
    let block: String = (0..200).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    let block = errors(&block).to_string();
    assert!(block.starts_with("error: this is not YAML: "), "{block}");
    let long = errors(&"# 45678901234567\n".repeat(1 << 16));
    assert_eq!(brief(&long), ["1:1 the file is larger than 1048576 bytes"]);
    // A thousand complaints are enough.
    let wrong: String = (0..5000).map(|i| format!("key{i}: 1\n")).collect();
    assert_eq!(errors(&wrong).diagnostics().len(), 1000);
    // Warnings crowd no error out.
    let routes = "- {cluster: farm}\n".repeat(1500);
    let wrong = errors(&format!(
        "{HEAD}{TAIL_CLUSTERS}routes:\n{routes}- {{cluster: frm}}\n"
    ));
    assert_eq!(wrong.diagnostics().len(), 1001);
    assert!(wrong.to_string().contains("there is no cluster `frm`"));
}

/// What is said of a cluster with two endpoints, given by address, and `keys`.
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

#[test]
fn files_that_cannot_be_read_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sprat.yaml");
    let absent = load(&path, &|_| None).unwrap_err().to_string();
    assert!(
        absent.contains("cannot read the file: No such file"),
        "{absent}"
    );
    assert!(absent.contains("sprat.yaml"), "{absent}");
    std::fs::write(&path, b"version: 1\nname: \xff\xfe\n").unwrap();
    let binary = load(&path, &|_| None).unwrap_err();
    assert_eq!(
        brief(&binary),
        ["2:7 the file is not UTF-8 from here on | save it as UTF-8"]
    );
    std::fs::write(&path, format!("\u{feff}{HEAD}{TAIL}").replace('\n', "\r\n")).unwrap();
    load(&path, &|_| None).unwrap();
}

fn check_places(text: &str) -> Result<(), TestCaseError> {
    let found = match parse(text, "sprat.yaml", &|name| Some(name.to_owned())) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors,
    };
    for diagnostic in found.diagnostics() {
        let place = diagnostic.place.as_ref().unwrap();
        let marked = text.get(place.span.clone());
        prop_assert!(marked.is_some_and(|marked| !marked.contains('\n')));
        let before = &text[..place.span.start];
        prop_assert_eq!(place.line, before.matches('\n').count() + 1);
        let line = before.rsplit('\n').next().unwrap();
        prop_assert_eq!(place.column, line.chars().count() + 1);
    }
    let _ = (found.render(false), found.render(true));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn arbitrary_text_never_panics(text in "(\\PC|[\\t\\r\\n\u{0}]){0,200}") {
        check_places(&text)?;
    }

    #[test]
    fn yaml_like_text_never_panics(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("version: 1\n"), Just("uplink:"), Just("clusters: "), Just("routes: "),
                Just("- "), Just("\n"), Just("\n  "), Just("{"), Just("}"), Just("["), Just("]"),
                Just(", "), Just(": "), Just("&a "), Just("*a"), Just("<<: "), Just("${X}"),
                Just("${"), Just("10mbit"), Just("'"), Just("\""), Just("|\n"), Just("? "),
                Just("#"), Just("!!str "), Just("ä"), Just("\r\n"), Just("name: "), Just("---\n"),
            ],
            0..60,
        ),
    ) {
        check_places(&parts.concat())?;
    }

    #[test]
    fn a_damaged_file_never_panics(
        at in 0usize..4000, length in 0usize..20, put in "\\PC{0,3}",
    ) {
        let mut text = include_str!("../examples/full.yaml").to_owned();
        let start = at % text.len();
        let end = (start + length).min(text.len());
        text.replace_range(start..end, &put);
        check_places(&text)?;
    }
}
