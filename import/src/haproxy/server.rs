//! A `server` of HAProxy's: its options, as far as a cluster can have them.

use std::time::Duration;

use super::options::{Given, Known, LISTS, OLDEST, given, known, newest_alone};
use super::parse::Line;
use crate::units::{time, whole};
use crate::yaml::{Map, map, text, word};

/// The remark about health checks that go other ways than requests.
const CHECKS: &str = "checks go as requests do";

/// The remark about intervals that depend on an endpoint's state.
const INTERVAL: &str = "checks have one interval";

/// The remark about versions of TLS that are shut out.
const NEWEST: &str = "endpoints may speak TLS 1.3, too";

/// The remark about the addresses that connections come from.
const SOURCE: &str = "the system chooses the address that Sprat connects from";

/// The options of a `server` (HAProxy 3.0). Many can be switched off by `no-` before their name.
const OPTIONS: [Known; 102] = [
    // There are words of their own about these three.
    known("addr", 1, ""),
    known("port", 1, ""),
    known("track", 1, ""),
    known("agent-addr", 1, ""),
    known(
        "agent-check",
        0,
        "no agents are asked for weights and states",
    ),
    known("agent-inter", 1, ""),
    known("agent-port", 1, ""),
    known("agent-send", 1, ""),
    known("allow-0rtt", 0, ""),
    known("alpn", 1, ""),
    known("backup", 0, ""),
    known("ca-file", 1, ""),
    known("check", 0, ""),
    known("check-alpn", 1, ""),
    known("check-pool-conn-name", 1, ""),
    known("check-proto", 1, CHECKS),
    known("check-reuse-pool", 0, ""),
    known("check-send-proxy", 0, CHECKS),
    known("check-sni", 1, CHECKS),
    known("check-ssl", 0, CHECKS),
    known("check-via-socks4", 0, ""),
    known("ciphers", 1, LISTS),
    known("ciphersuites", 1, LISTS),
    known("client-sigalgs", 1, LISTS),
    known("cookie", 1, ""),
    known("crl-file", 1, ""),
    known("crt", 1, ""),
    known("curves", 1, LISTS),
    known("disabled", 0, ""),
    known("downinter", 1, INTERVAL),
    known("enabled", 0, ""),
    known("error-limit", 1, ""),
    known("fall", 1, ""),
    known("fastinter", 1, INTERVAL),
    known("force-sslv3", 0, OLDEST),
    known("force-tlsv10", 0, OLDEST),
    known("force-tlsv11", 0, OLDEST),
    known("force-tlsv12", 0, NEWEST),
    known("force-tlsv13", 0, ""),
    known("guid", 1, ""),
    known("hash-key", 1, ""),
    known("id", 1, ""),
    known("idle-ping", 1, ""),
    known("init-addr", 1, ""),
    known("init-state", 1, ""),
    known("inter", 1, ""),
    known("interface", 1, SOURCE),
    known("log-bufsize", 1, ""),
    known("log-proto", 1, ""),
    known("max-reuse", 1, ""),
    known("maxconn", 1, ""),
    known(
        "maxqueue",
        1,
        "see `max_requests` of the cluster's `wait_queue`",
    ),
    known("minconn", 1, "the bound is that of `maxconn` at any load"),
    known("namespace", 1, "Sprat connects from its own network"),
    known("no-sslv3", 0, ""),
    known("no-tlsv10", 0, ""),
    known("no-tlsv11", 0, ""),
    known("no-tlsv12", 0, ""),
    known("no-tlsv13", 0, NEWEST),
    known("non-stick", 0, ""),
    known("npn", 1, ""),
    known("observe", 1, "see the cluster's `outlier_detection`"),
    known("on-error", 1, ""),
    known(
        "on-marked-down",
        1,
        "requests to an endpoint that fails its checks go on",
    ),
    known("on-marked-up", 1, "requests to backups go on"),
    known("pool-conn-name", 1, ""),
    known("pool-low-conn", 1, ""),
    known(
        "pool-max-conn",
        1,
        "see the cluster's `max_idle_connections`",
    ),
    known("pool-purge-delay", 1, "see the cluster's `idle_timeout`"),
    known("proto", 1, ""),
    known(
        "proxy-v2-options",
        1,
        "the PROXY protocol's header has the addresses alone",
    ),
    known(
        "redir",
        1,
        "requests go to the server, and are not redirected there",
    ),
    known("resolve-net", 1, ""),
    known("resolve-opts", 1, ""),
    known("resolve-prefer", 1, ""),
    known("resolvers", 1, ""),
    known("rise", 1, ""),
    known("send-proxy", 0, ""),
    known("send-proxy-v2", 0, ""),
    known(
        "send-proxy-v2-ssl",
        0,
        "the PROXY protocol's header has the addresses alone",
    ),
    known(
        "send-proxy-v2-ssl-cn",
        0,
        "the PROXY protocol's header has the addresses alone",
    ),
    known("shard", 1, ""),
    known("sigalgs", 1, LISTS),
    known("slowstart", 1, ""),
    known("sni", 1, ""),
    known("socks4", 1, "Sprat connects to the server itself"),
    known("source", 1, SOURCE),
    known("ssl", 0, ""),
    known("ssl-max-ver", 1, NEWEST),
    known("ssl-min-ver", 1, ""),
    known("ssl-reuse", 0, ""),
    known("stick", 0, ""),
    known("strict-maxconn", 0, ""),
    known("tcp-md5sig", 1, "segments are not signed"),
    known("tcp-ut", 1, ""),
    known("tfo", 0, ""),
    known("tls-tickets", 0, ""),
    known("usesrc", 1, SOURCE),
    known("verify", 1, ""),
    known("verifyhost", 1, ""),
    known("weight", 1, ""),
    known("ws", 1, ""),
];

/// The protocols below a server's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Speech {
    pub(super) http2: bool,
    pub(super) proxy_protocol: Option<&'static str>,
}

/// The interval of a server's checks, and how often they have to go well, or wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Checks {
    pub(super) interval: Option<Duration>,
    pub(super) rise: Option<u64>,
    pub(super) fall: Option<u64>,
}

/// The options after a server's address, those of `default-server` first.
pub(super) struct ServerLine<'w> {
    options: Vec<Given<'w>>,
}

impl<'w> ServerLine<'w> {
    pub(super) fn of(line: &'w Line, defaults: &'w [String]) -> Self {
        let own = line.words.get(3..).unwrap_or_default();
        let words = defaults.iter().chain(own).map(String::as_str);
        Self {
            options: given(words, &OPTIONS),
        }
    }

    /// Returns the place of the last option whose name is one of those that are meant.
    fn last(&self, is_meant: impl Fn(&str) -> bool) -> Option<usize> {
        self.options.iter().rposition(|own| is_meant(own.name))
    }

    /// Returns the value of the last option of this name.
    pub(super) fn after(&self, name: &str) -> Option<&'w str> {
        let at = self.last(|own| own == name)?;
        Some(self.options[at].value).filter(|value| !value.is_empty())
    }

    /// Returns whether an option is on. Of `ssl` and `no-ssl` the last one counts, if
    /// `default-server` has one of them, and of `disabled` and `enabled`.
    pub(super) fn has(&self, name: &str) -> bool {
        let ends = |own: &str| {
            own.strip_prefix("no-") == Some(name) || (name, own) == ("disabled", "enabled")
        };
        self.last(|own| own == name) > self.last(ends)
    }

    /// Returns a span of time above 0.
    pub(super) fn time(&self, name: &str) -> Option<Duration> {
        let span = self.after(name).and_then(|own| time(own, 1));
        span.filter(|own| !own.is_zero())
    }

    pub(super) fn speech(&self) -> Speech {
        let second = self.last(|own| own.starts_with("send-proxy-v2"));
        let proxy_protocol = if second > self.last(|own| own.starts_with("no-send-proxy-v2")) {
            Some("v2")
        } else {
            self.has("send-proxy").then_some("v1")
        };
        Speech {
            http2: self.after("proto") == Some("h2") || self.after("alpn") == Some("h2"),
            proxy_protocol,
        }
    }

    pub(super) fn checks(&self) -> Option<Checks> {
        self.has("check").then(|| Checks {
            interval: self.time("inter"),
            rise: self.after("rise").and_then(whole),
            fall: self.after("fall").and_then(whole),
        })
    }

    /// Returns what is said of the options.
    pub(super) fn remarks(&self) -> Vec<String> {
        let is_silent = |own: &Given<'_>| match own.name {
            // Checks have what requests have.
            "check-ssl" => self.has("ssl"),
            "check-send-proxy" => self.speech().proxy_protocol.is_some(),
            name => {
                let switch = name.strip_prefix("no-");
                let is_on = |off: &str| {
                    let mut known = OPTIONS.iter();
                    known.any(|own| own.name == off && own.values == 0)
                };
                switch.is_some_and(is_on)
            }
        };
        let loud = self.options.iter().filter(|own| !is_silent(own));
        let mut out: Vec<String> = loud.filter_map(Given::remark).collect();
        // Those of `default-server` come first, and a server may repeat them.
        out.dedup();
        out
    }

    /// Returns the keys of TLS to the server.
    pub(super) fn tls(&self) -> Map {
        let mut tls = Map::new();
        if newest_alone(&self.options) {
            tls.push(("minimum_version".to_owned(), word("TLSv1_3")));
        }
        if let Some(file) = self.after("ca-file").filter(|own| *own != "@system-ca") {
            tls.push(("trusted_ca".to_owned(), text(file)));
        }
        if let Some(name) = self.fixed_sni().or(self.after("verifyhost")) {
            tls.push(("sni".to_owned(), text(name)));
        }
        if let Some(file) = self.after("crt") {
            // A file of HAProxy's holds both.
            let certificate = [
                ("certificate_chain", text(file)),
                ("private_key", text(file)),
            ];
            tls.push(("client_certificate".to_owned(), map(certificate)));
        }
        tls
    }

    /// Returns the name that a server is asked for in TLS, if it is the same for all requests.
    fn fixed_sni(&self) -> Option<&'w str> {
        self.after("sni")?.strip_prefix("str(")?.strip_suffix(')')
    }

    /// Returns what Sprat does otherwise in TLS to a server.
    pub(super) fn tls_doubts(&self) -> Vec<&'static str> {
        let mut out = Vec::new();
        if self.after("verify") != Some("required") {
            out.push("Sprat verifies certificates: see `trusted_ca` of the cluster's `tls`");
        }
        let (name, host) = (self.fixed_sni(), self.after("verifyhost"));
        if self.after("sni").is_some() && name.is_none() {
            out.push("no request tells the name that is asked for in TLS: see `sni`");
        }
        if name.zip(host).is_some_and(|(name, host)| name != host) {
            out.push("certificates have to be for `sni`, not for the name in `verifyhost`");
        }
        if self.after("sni").or(host).is_none() {
            out.push(
                "certificates have to be for the server's address as it is written, which HAProxy \
                 does not ask: see `sni`",
            );
        }
        if self.after("crl-file").is_some() {
            out.push("`crl-file` is left out, so revoked certificates of servers are accepted");
        }
        out
    }
}
