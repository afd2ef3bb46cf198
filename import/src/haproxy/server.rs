//! A `server` of HAProxy's: its options, as far as a cluster can have them.

use std::time::Duration;

use super::options::{Given, Known, LISTS, OLDEST, given, newest_alone};
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
    ("addr", 1, ""),
    ("port", 1, ""),
    ("track", 1, ""),
    ("agent-addr", 1, ""),
    (
        "agent-check",
        0,
        "no agents are asked for weights and states",
    ),
    ("agent-inter", 1, ""),
    ("agent-port", 1, ""),
    ("agent-send", 1, ""),
    ("allow-0rtt", 0, ""),
    ("alpn", 1, ""),
    ("backup", 0, ""),
    ("ca-file", 1, ""),
    ("check", 0, ""),
    ("check-alpn", 1, ""),
    ("check-pool-conn-name", 1, ""),
    ("check-proto", 1, CHECKS),
    ("check-reuse-pool", 0, ""),
    ("check-send-proxy", 0, CHECKS),
    ("check-sni", 1, CHECKS),
    ("check-ssl", 0, CHECKS),
    ("check-via-socks4", 0, ""),
    ("ciphers", 1, LISTS),
    ("ciphersuites", 1, LISTS),
    ("client-sigalgs", 1, LISTS),
    ("cookie", 1, ""),
    ("crl-file", 1, ""),
    ("crt", 1, ""),
    ("curves", 1, LISTS),
    ("disabled", 0, ""),
    ("downinter", 1, INTERVAL),
    ("enabled", 0, ""),
    ("error-limit", 1, ""),
    ("fall", 1, ""),
    ("fastinter", 1, INTERVAL),
    ("force-sslv3", 0, OLDEST),
    ("force-tlsv10", 0, OLDEST),
    ("force-tlsv11", 0, OLDEST),
    ("force-tlsv12", 0, NEWEST),
    ("force-tlsv13", 0, ""),
    ("guid", 1, ""),
    ("hash-key", 1, ""),
    ("id", 1, ""),
    ("idle-ping", 1, ""),
    ("init-addr", 1, ""),
    ("init-state", 1, ""),
    ("inter", 1, ""),
    ("interface", 1, SOURCE),
    ("log-bufsize", 1, ""),
    ("log-proto", 1, ""),
    ("max-reuse", 1, ""),
    ("maxconn", 1, ""),
    (
        "maxqueue",
        1,
        "see `max_requests` of the cluster's `wait_queue`",
    ),
    ("minconn", 1, "the bound is that of `maxconn` at any load"),
    ("namespace", 1, "Sprat connects from its own network"),
    ("no-sslv3", 0, ""),
    ("no-tlsv10", 0, ""),
    ("no-tlsv11", 0, ""),
    ("no-tlsv12", 0, ""),
    ("no-tlsv13", 0, NEWEST),
    ("non-stick", 0, ""),
    ("npn", 1, ""),
    ("observe", 1, "see the cluster's `outlier_detection`"),
    ("on-error", 1, ""),
    (
        "on-marked-down",
        1,
        "requests to an endpoint that fails its checks go on",
    ),
    ("on-marked-up", 1, "requests to backups go on"),
    ("pool-conn-name", 1, ""),
    ("pool-low-conn", 1, ""),
    (
        "pool-max-conn",
        1,
        "see the cluster's `max_idle_connections`",
    ),
    ("pool-purge-delay", 1, "see the cluster's `idle_timeout`"),
    ("proto", 1, ""),
    (
        "proxy-v2-options",
        1,
        "the PROXY protocol's header has the addresses alone",
    ),
    (
        "redir",
        1,
        "requests go to the server, and are not redirected there",
    ),
    ("resolve-net", 1, ""),
    ("resolve-opts", 1, ""),
    ("resolve-prefer", 1, ""),
    ("resolvers", 1, ""),
    ("rise", 1, ""),
    ("send-proxy", 0, ""),
    ("send-proxy-v2", 0, ""),
    (
        "send-proxy-v2-ssl",
        0,
        "the PROXY protocol's header has the addresses alone",
    ),
    (
        "send-proxy-v2-ssl-cn",
        0,
        "the PROXY protocol's header has the addresses alone",
    ),
    ("shard", 1, ""),
    ("sigalgs", 1, LISTS),
    ("slowstart", 1, ""),
    ("sni", 1, ""),
    ("socks4", 1, "Sprat connects to the server itself"),
    ("source", 1, SOURCE),
    ("ssl", 0, ""),
    ("ssl-max-ver", 1, NEWEST),
    ("ssl-min-ver", 1, ""),
    ("ssl-reuse", 0, ""),
    ("stick", 0, ""),
    ("strict-maxconn", 0, ""),
    ("tcp-md5sig", 1, "segments are not signed"),
    ("tcp-ut", 1, ""),
    ("tfo", 0, ""),
    ("tls-tickets", 0, ""),
    ("usesrc", 1, SOURCE),
    ("verify", 1, ""),
    ("verifyhost", 1, ""),
    ("weight", 1, ""),
    ("ws", 1, ""),
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
                    OPTIONS
                        .iter()
                        .any(|(on, values, _)| *on == off && *values == 0)
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
