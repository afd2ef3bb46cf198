//! A table of slips, and the complaints about each.

use sprat_config::parse;

use super::{HEAD, TAIL, brief, brief_of, errors};

/// Parts of a file, from its third line on, and the complaints about each.
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
        &[
            "3:8 expected `off` or an address, such as 127.0.0.1:9900 or unix:/run/admin.sock, or {address, ...}, found `false` | did you mean `off`?",
        ],
    ),
    (
        "admin: {address: '9900'}",
        &[
            "3:18 expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, or unix:/run/sprat.sock, found `9900` | write 0.0.0.0:9900 for every address",
        ],
    ),
    (
        "admin: {address: localhost:9900}",
        &[
            "3:18 expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, or unix:/run/sprat.sock, found `localhost:9900` | write 127.0.0.1:9900",
        ],
    ),
    (
        "admin: {address: localhost:99999}",
        &["3:28 `99999` is not a port | give a number from 1 to 65535"],
    ),
    (
        "admin: {address: localhost}",
        &[
            "3:18 expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, or unix:/run/sprat.sock, found `localhost` | write an address and a port, such as 127.0.0.1:8080",
        ],
    ),
    (
        "admin: {address: '[::1]:http'}",
        &["3:25 `http` is not a port | give a number from 1 to 65535"],
    ),
    (
        "admin: {address: '*:65536'}",
        &["3:21 `65536` is not a port | give a number from 1 to 65535"],
    ),
    (
        "admin: {address: '99999'}",
        &["3:19 `99999` is not a port | give a number from 1 to 65535"],
    ),
    (
        "admin: {address: 127.0.0.1}",
        &[
            "3:18 expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, or unix:/run/sprat.sock, found `127.0.0.1` | add a port: 127.0.0.1:8080",
        ],
    ),
    (
        "admin: {address: 0.0.0.0:80}",
        &[
            "2:23 the admin listener has the same address | the other is on line 3: change one of them",
        ],
    ),
    (
        "admin: {address: 127.0.0.1:80}",
        &[
            "2:23 the admin listener has one of the same addresses: 127.0.0.1:80 | the other is on line 3: change one of them",
        ],
    ),
    (
        "admin: {address: '[::]:80'}",
        &[
            "2:23 the admin listener has one of the same addresses: [::]:80 | the other is on line 3: change one of them",
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
            "3:27 this is no address of a store | TLS is not spoken here: put the store on a private network",
            "3:49 this is no pass phrase | use 1 to 1024 characters",
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
            "3:20 expected `stdout` or a path in the file system, found a list",
            "3:33 expected a format: `json` or `combined`, found `xml`",
        ],
    ),
    (
        "access_log: on",
        &[
            "3:13 expected `off` or a mapping with `path`, `syslog`, `format` and `filters`, or a list of these, found `on`",
        ],
    ),
    (
        "access_log: {format: {text: '%REQ(Cookie)% %RESPONSE_CODES%'}}",
        &[
            "3:29 there is no variable `%RESPONSE_CODES%` | did you mean `%RESPONSE_CODE%`? (`%%` is a percent sign)",
        ],
    ),
    (
        "access_log: [{format: {text: '%REQ(Cookie)%'}, filters: [{classes: [gold]}]}]",
        &[
            "3:30 `cookie` holds a secret, which no log may have | remove it; `%USER%` tells who asked",
            "3:69 there is no class `gold` | the classes are `default` and `background`",
        ],
    ),
    (
        "access_log:\n- {format: {}}\n- {format: json}",
        &[
            "4:12 a format of one's own is either `json` or `text` | write {json: {status: \"%RESPONSE_CODE%\"}}, or {text: \"%RESPONSE_CODE%\"}",
        ],
    ),
    (
        "access_log: {path: stdout, syslog: {facility: local8, address: localhost}}",
        &[
            "3:36 a log goes to a `path` or to `syslog` | remove one of both, or give `access_log` a list of two logs",
            "3:47 expected a facility of syslog, such as daemon or local0, found `local8`",
            "3:64 expected a local socket's path, such as /dev/log, or an IP address with a port, found `localhost`",
        ],
    ),
    (
        "access_log: {path: stdout, syslog: {}}",
        &[
            "3:36 a log goes to a `path` or to `syslog` | remove one of both, or give `access_log` a list of two logs",
        ],
    ),
    (
        "access_log: [{format: json}, {path: stdout}]",
        &[
            "3:37 another access log goes to the same place | the other is on line 3: give this one a file of its own",
        ],
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
            "3:18 the key `name` is missing | `name` takes a policy: `fcfs`, `fair`, `srpt`, `srpt-aged`, `bands`, `edf`, `vrd`, `srq`, `las` or `sfd`",
        ],
    ),
    (
        "uplnik: {rate: 10}\nuplink: {rate: 10mbps}",
        &[
            "3:1 unknown key `uplnik` | did you mean `uplink`?",
            "3:16 `10` has no unit | write a rate in bits per second, such as 512kbit, 10mbit or 2.5gbit",
            "4:18 `mbps` is not a unit here | the units are `bit`, `kbit`, `mbit` and `gbit`",
        ],
    ),
    (
        "uplnik: {polcy: {nmae: bands, cutofs: {lernt: 17}}}",
        &[
            "3:1 unknown key `uplnik` | did you mean `uplink`?",
            "3:10 unknown key `polcy` | did you mean `policy`?",
            "3:18 unknown key `nmae` | did you mean `name`?",
            "3:31 unknown key `cutofs` | did you mean `cutoffs`?",
            "3:40 unknown key `lernt` | did you mean `learnt`?",
            "3:47 expected a whole number from 2 to 16, found `17`",
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
        "uplink: {shared: {url: redis://store}}",
        &[
            "3:18 a link that is shared needs its rate | give `rate` what the link carries for all instances together, such as 100mbit",
        ],
    ),
    (
        "uplink: {rate: 1mbit, engine: kernel, shared: {url: redis://store}}",
        &[
            "3:47 a link is shared under `engine: pace` alone: the kernel's rate stays as it is set up | use `engine: pace`, or remove `shared`",
        ],
    ),
    (
        "uplink: {rate: 1mbit, shared: {url: redis://store, lease: 2m}}",
        &["3:59 a lease is 1 minute at most | give it some seconds"],
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

/// Whole files, and the complaints about each.
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
            "1:1 the key `clusters` is missing | `clusters` takes a mapping from names, each to a mapping with `endpoints`, `endpoints_file` and `dns`, and others",
            "1:1 the key `routes` is missing | `routes` takes a list, each item a mapping with `match`, `cluster` and `weighted_clusters`, and others",
        ],
    ),
    (
        "version: 2\nlisteners: []\nclusters: {}\nroutes: {}\n",
        &[
            "1:10 expected the number 1, found `2`",
            "2:12 the list is empty | give at least 1: a mapping with `address`",
            "3:11 the mapping is empty | give at least one name and what it stands for",
            "4:9 expected a list, each item a mapping with `match`, `cluster` and `weighted_clusters`, and others, found a mapping",
        ],
    ),
    (
        "version: 1\nlisteners: [{adress: 0.0.0.0:80}, {address: '*:80'}, 80]\nclusters:\n  a b: {endpoints: []}\n  c: {endpoints: [b, 'http://c:80/', 1.2.3:80, d:0, {adress: d:1}]}\nroutes: [{cluster: c}]\n",
        &[
            "2:14 unknown key `adress` | did you mean `address`?",
            "2:45 expected an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, or unix:/run/sprat.sock, found `*:80` | write 0.0.0.0:80 for every address",
            "2:54 expected a mapping with `address`, found `80`",
            "4:3 `a b` cannot be a name | use 1 to 64 letters, digits, dots, hyphens and underscores",
            "4:20 the list is empty | give at least 1: a host and a port, such as 127.0.0.1:8000, or {address, weight}",
            "5:19 expected a host and a port, such as 127.0.0.1:8000 or web1.example:8000, or unix:/run/app.sock, found `b` | add a port: b:8000",
            "5:22 expected a host and a port, such as 127.0.0.1:8000 or web1.example:8000, or unix:/run/app.sock, found `http://c:80/` | leave `http://` out: c:80",
            "5:38 expected a host and a port, such as 127.0.0.1:8000 or web1.example:8000, or unix:/run/app.sock, found `1.2.3:80`",
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
        "version: 1\nlisteners: [{address: 0.0.0.0:80, forwarding: {trusted: [10.1.0.0/8, 10.0.0.0/33, lan], via: a b}}]\nclusters: {c: {endpoints: [d:1]}}\nroutes:\n- {cluster: d, match: {path: /a, prefix: /b}}\n- {cluster: 7, match: {path: a, hosts: ['*', 'x:80', 'a b', 'a..']}}\n- {cluster: c, match: {path: '/ä?'}, prefix_rewrite: b, host_rewrite: 'http://x'}\n",
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
            "6:61 expected a host name, such as www.example.org or *.example.org, found `a..`",
            "7:32 'ä' cannot be part of a path | percent-encode it, as it stands in the request (a space is %20)",
            "7:54 the path `b` does not begin with `/` | write `/b`",
            "7:71 expected a host name, and a port if need be, such as internal.example:8080, found `http://x`",
        ],
    ),
    (
        "version: 1\nlistners: [{adress: localhost:99999, max_conections: 0}]\nclusters: {c: {endpints: [d:99999]}}\nroutes: [{cluster: c}]\n",
        &[
            "2:1 unknown key `listners` | did you mean `listeners`?",
            "2:13 unknown key `adress` | did you mean `address`?",
            "2:31 `99999` is not a port | give a number from 1 to 65535",
            "2:38 unknown key `max_conections` | did you mean `max_connections`?",
            "2:54 expected a whole number from 1 to 10000000, found `0`",
            "3:16 unknown key `endpints` | did you mean `endpoints`?",
            "3:29 `99999` is not a port | give a number from 1 to 65535",
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
fn no_complaint_tells_a_secret() {
    let long = "s3cret".repeat(200);
    for (keys, is_good) in [
        (
            "catalogue: {shared: {url: 'rediss://:s3cret@store:6380'}}",
            false,
        ),
        ("catalogue: {shared: {url: ':s3cret@store:6380'}}", false),
        (
            "catalogue: {shared: {url: 'redis://:s3cret @store'}}",
            false,
        ),
        ("catalogue: {shared: 'redis://:s3cret@store'}", false),
        (
            "uplink: {rate: 1mbit, shared: {url: 'rediss://:s3cret@store'}}",
            false,
        ),
        (
            "tracing: {otlp: {endpoint: 'https://me:s3cret@a:4318'}}",
            false,
        ),
        (
            &*format!("catalogue: {{shared: {{url: 'redis://a', phrase: {long}}}}}"),
            false,
        ),
        (
            "catalogue: {shared: {url: 'redis://:s3cret@a', phrase: 20240101}}",
            true,
        ),
    ] {
        let text = format!("{HEAD}{TAIL}{keys}");
        let read = parse(&text, "sprat.yaml", &|_| None);
        assert_eq!(read.is_ok(), is_good, "{keys}");
        let told = brief_of(keys).concat();
        assert!(!told.contains("s3cret") && !told.contains("2024"), "{told}");
    }
}
