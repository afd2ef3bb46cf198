//! The addresses of nginx's servers as listeners, and the choice of servers to import together.
//!
//! Sprat's routes are those of all its listeners. So servers are imported together if they share a
//! port, or are on the usual ports of HTTP and HTTPS. Servers on other ports would be reached at
//! addresses on which nginx does not serve them: they need an import, and a Sprat, of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::parse::Directive;
use super::scope::Scope;
use crate::document::Part;
use crate::ledger::Ledger;
use crate::units::{size, size_value, time, time_value};
use crate::yaml::{Map, Value, map, text, texts, word};

/// The address of a server's socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Socket {
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Unix(String),
}

impl Socket {
    fn port(&self) -> Option<u16> {
        self.ip().map(|address| address.port())
    }

    fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

/// A `listen` of a server: an address, and how it is served.
#[derive(Clone, Debug)]
pub(super) struct Listen {
    pub(super) address: Socket,
    pub(super) tls: bool,
    pub(super) is_default: bool,
    pub(super) proxy_protocol: bool,
    pub(super) id: usize,
}

/// A server with the addresses that it listens on.
#[derive(Clone, Debug)]
pub(super) struct Server<'a> {
    pub(super) directive: &'a Directive,
    pub(super) listens: Vec<Listen>,
    pub(super) scope: Scope<'a>,
}

impl Server<'_> {
    pub(super) fn is_on(&self, tls: bool) -> bool {
        self.listens.iter().any(|own| own.tls == tls)
    }
}

/// Reads the servers of the block `http`.
pub(super) fn servers<'a>(http: &'a [Directive], ledger: &mut Ledger) -> Vec<Server<'a>> {
    let scope = Scope::new(http);
    let blocks = http.iter().filter(|own| own.name == "server");
    let read = |directive: &'a Directive| {
        ledger.carried(directive.id);
        let scope = scope.within(directive.inner());
        let named: Vec<_> = scope.here("listen").collect();
        // `ssl on` is the old word for `listen ... ssl`.
        let all_tls = scope.is_on("ssl");
        let mut listens: Vec<Listen> = named
            .iter()
            .filter_map(|own| listen(own, all_tls, ledger))
            .collect();
        if named.is_empty() {
            listens.push(Listen {
                address: Socket::Ip(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80))),
                tls: all_tls,
                is_default: false,
                proxy_protocol: false,
                id: directive.id,
            });
        }
        Server {
            directive,
            listens,
            scope,
        }
    };
    blocks.map(read).collect()
}

fn listen(directive: &Directive, all_tls: bool, ledger: &mut Ledger) -> Option<Listen> {
    let id = directive.id;
    let unix = directive.arg(0).strip_prefix("unix:");
    let unix = unix.map(|path| Socket::Unix(path.to_owned()));
    let Some(address) = unix.or_else(|| address(directive.arg(0)).map(Socket::Ip)) else {
        ledger.not(
            id,
            "Sprat listens on IP addresses, ports and Unix sockets alone",
        );
        return None;
    };
    let flags: Vec<&str> = directive.args.iter().skip(1).map(String::as_str).collect();
    if flags.contains(&"quic") {
        ledger.not(
            id,
            "Sprat does not speak HTTP/3: clients fall back to HTTP/2",
        );
        return None;
    }
    ledger.carried(id);
    Some(Listen {
        address,
        tls: all_tls || flags.contains(&"ssl"),
        is_default: flags.contains(&"default_server") || flags.contains(&"default"),
        proxy_protocol: flags.contains(&"proxy_protocol"),
        id,
    })
}

/// Returns the address that a `listen` names: `80`, `*:80`, `[::]:80`, `127.0.0.1`.
fn address(text: &str) -> Option<SocketAddr> {
    if let Ok(port) = text.parse::<u16>() {
        return (port != 0).then(|| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    }
    if let Ok(ip) = text.parse::<Ipv4Addr>() {
        return Some(SocketAddr::from((ip, 80)));
    }
    if let Some(ip) = text.strip_prefix('[').and_then(|own| own.strip_suffix(']')) {
        return Some(SocketAddr::from((ip.parse::<Ipv6Addr>().ok()?, 80)));
    }
    let text = match text.split_once(':') {
        Some(("*", port)) => format!("0.0.0.0:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    text.parse().ok().filter(|own: &SocketAddr| own.port() != 0)
}

/// Chooses the servers that are imported together, and notes why the others are not. If `ports` has
/// any, the operator has chosen.
pub(super) fn choose<'a>(
    mut servers: Vec<Server<'a>>,
    ports: &[u16],
    ledger: &mut Ledger,
) -> Vec<Server<'a>> {
    let groups = groups(&servers);
    let is_wanted = |port: u16| ports.contains(&port);
    let usual = |port: u16| port == 80 || port == 443;
    let best = groups.iter().max_by_key(|group| {
        let has = |wanted: &dyn Fn(u16) -> bool| {
            let mut ports = group.iter().filter_map(Socket::port);
            ports.any(wanted)
        };
        let served = |server: &&Server<'_>| {
            let mut listens = server.listens.iter();
            listens.any(|own| group.contains(&own.address))
        };
        let count = servers.iter().filter(served).count();
        (has(&is_wanted), has(&usual), count)
    });
    let best = best.cloned().unwrap_or_default();
    for server in &mut servers {
        let chosen = |own: &Listen| best.contains(&own.address);
        if !server.listens.iter().any(chosen) {
            let port = server.listens.iter().find_map(|own| own.address.port());
            let told = match port {
                Some(port) => format!(
                    "it is on other addresses than the rest, and Sprat's routes are those of \
                     all its listeners: import it by itself, with `--port {port}`, for another \
                     Sprat"
                ),
                None => "it listens nowhere that Sprat could".to_owned(),
            };
            ledger.not(server.directive.id, told);
            server.listens.clear();
        }
    }
    servers.retain(|own| !own.listens.is_empty());
    servers
}

/// Returns the groups of sockets that belong together: those of one server, and the ports 80 and
/// 443 of one address. Every address of IPv4 and every address of IPv6 are one.
fn groups(servers: &[Server<'_>]) -> Vec<BTreeSet<Socket>> {
    let mut groups: Vec<BTreeSet<Socket>> = Vec::new();
    let mut join = |sockets: BTreeSet<Socket>| {
        let (mut joined, apart): (Vec<_>, Vec<_>) = std::mem::take(&mut groups)
            .into_iter()
            .partition(|own| !own.is_disjoint(&sockets));
        joined.push(sockets);
        groups = apart;
        groups.push(joined.into_iter().flatten().collect());
    };
    for server in servers {
        let sockets = server.listens.iter();
        join(sockets.map(|own| own.address.clone()).collect());
    }
    let listens = servers.iter().flat_map(|own| &own.listens);
    let all: BTreeSet<SocketAddr> = listens.filter_map(|own| own.address.ip()).collect();
    let is_any = |ip: IpAddr| ip.is_unspecified();
    for &own in &all {
        let (ip, port) = (own.ip(), own.port());
        let twins = all.iter().filter(|other| {
            let same_ip = other.ip() == ip || (is_any(other.ip()) && is_any(ip));
            let usual = |port: u16| port == 80 || port == 443;
            same_ip && (port == other.port() || (usual(port) && usual(other.port())))
        });
        join(twins.copied().map(Socket::Ip).collect());
    }
    groups
}

/// The settings that all listeners share.
pub(super) struct CommonSettings {
    /// The bound on bodies, for routes that have none of their own.
    pub(super) max_body: Option<u64>,
    /// Whether listeners tell backends about clients in `X-Forwarded-*`.
    pub(super) x_forwarded: bool,
    /// The proxies that are trusted to name their clients.
    pub(super) trusted: Vec<String>,
}

/// Makes the listeners of the chosen servers.
pub(super) fn parts(
    servers: &[Server<'_>],
    common: &CommonSettings,
    ledger: &mut Ledger,
) -> Vec<Part> {
    let mut by_address: BTreeMap<Socket, Vec<(&Server<'_>, &Listen)>> = BTreeMap::new();
    for server in servers {
        for own in &server.listens {
            by_address
                .entry(own.address.clone())
                .or_default()
                .push((server, own));
        }
    }
    // `[::]` is every address of IPv4, too.
    let any_v6 = |port| Socket::Ip(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
    let doubled: Vec<SocketAddr> = by_address
        .keys()
        .filter_map(Socket::ip)
        .filter(|own| own.is_ipv4() && own.ip().is_unspecified())
        .filter(|own| by_address.contains_key(&any_v6(own.port())))
        .collect();
    for address in doubled {
        let moved = by_address.remove(&Socket::Ip(address)).unwrap_or_default();
        let place = by_address.entry(any_v6(address.port())).or_default();
        for (server, own) in moved {
            let is_there = |(other, _): &(&Server<'_>, &Listen)| {
                std::ptr::eq(other.directive, server.directive)
            };
            if !place.iter().any(is_there) {
                place.push((server, own));
            }
        }
    }
    let listeners = by_address.into_iter();
    listeners
        .filter_map(|(address, mut own)| {
            // What clients get that ask for no name is the default server's.
            own.sort_by_key(|(server, listen)| (!listen.is_default, server.directive.id));
            part(&address, &own, common, ledger)
        })
        .collect()
}

fn part(
    address: &Socket,
    served: &[(&Server<'_>, &Listen)],
    common: &CommonSettings,
    ledger: &mut Ledger,
) -> Option<Part> {
    let (first, listen) = served.first()?;
    let mut keys: Map = match address {
        Socket::Ip(address) => vec![("address".to_owned(), text(address.to_string()))],
        // nginx lets every user of the machine connect.
        Socket::Unix(path) => vec![
            ("address".to_owned(), text(format!("unix:{path}"))),
            ("mode".to_owned(), text("0666")),
        ],
    };
    // nginx gives requests none of its own accord.
    keys.push(("request_id".to_owned(), word("off")));
    let mut put = |key: &str, value: Value| keys.push((key.to_owned(), value));
    if let Some(bytes) = common.max_body {
        put("max_request_body", size_value(bytes));
    }
    bounds(&first.scope, &mut put, ledger);
    if let Some(bound) = per_client(&first.scope, ledger) {
        put("per_client", bound);
    }
    if !common.x_forwarded || !common.trusted.is_empty() {
        let mut forwarding = Map::new();
        if !common.x_forwarded {
            forwarding.push(("x_forwarded".to_owned(), word("false")));
        }
        if !common.trusted.is_empty() && !listen.proxy_protocol {
            forwarding.push(("trusted".to_owned(), texts(&common.trusted)));
        }
        if !forwarding.is_empty() {
            put("forwarding", Value::Map(forwarding));
        }
    }
    if served.iter().any(|(_, own)| own.proxy_protocol) {
        let trusted = match common.trusted.is_empty() {
            true => vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()],
            false => common.trusted.clone(),
        };
        put("proxy_protocol", map([("trusted", texts(trusted))]));
    }
    if served.iter().any(|(_, own)| own.tls) {
        let Some(tls) = tls(served, ledger) else {
            let told = "there is no certificate for this address, so it is left out";
            ledger.not(listen.id, told);
            return None;
        };
        put("tls", Value::Map(tls));
    }
    Some(Part {
        from: listen.id,
        title: format!("{}: listen", first.directive.place),
        name: String::new(),
        keys,
    })
}

/// Adds the keys that bound a server's connections.
fn bounds(scope: &Scope<'_>, put: &mut dyn FnMut(&str, Value), ledger: &mut Ledger) {
    let times = [
        ("client_header_timeout", "request_headers_timeout"),
        ("keepalive_timeout", "idle_timeout"),
        ("send_timeout", "stream_idle_timeout"),
    ];
    for (name, key) in times {
        let Some(own) = scope.one(name) else { continue };
        match time(own.arg(0), 1000) {
            Some(time) if !time.is_zero() => {
                ledger.carried(own.id);
                put(key, time_value(time));
            }
            _ => ledger.not(
                own.id,
                format!("`{key}` of the listener takes a time above 0"),
            ),
        }
    }
    if let Some(own) = scope.one("client_body_timeout") {
        ledger.nearly(
            own.id,
            "`stream_idle_timeout` of the listener is for both directions",
        );
    }
    if let Some(own) = scope.one("large_client_header_buffers") {
        let total = own.arg(0).parse::<u64>().ok().zip(size(own.arg(1)));
        let total = total.and_then(|(count, bytes)| count.checked_mul(bytes));
        match total.filter(|bytes| (8 << 10..=16 << 20).contains(bytes)) {
            Some(bytes) => {
                ledger.carried(own.id);
                put("max_request_headers", size_value(bytes));
            }
            None => ledger.not(own.id, "`max_request_headers` is from 8KB to 16MB"),
        }
    }
    if let Some(own) = scope.one("underscores_in_headers") {
        ledger.carried(own.id);
    }
    if !scope.is_on("underscores_in_headers") {
        put("headers_with_underscores_action", word("drop_header"));
    }
    if let Some(own) = scope.one("merge_slashes") {
        ledger.carried(own.id);
        if own.arg(0) == "off" {
            put("merge_slashes", word("false"));
        }
    }
}

/// Returns the bounds on each client that hold for a whole server.
fn per_client(scope: &Scope<'_>, ledger: &mut Ledger) -> Option<Value> {
    let own = scope.one("limit_conn")?;
    let count = own.arg(1).parse::<u64>().ok().filter(|count| *count > 0)?;
    let told = "`per_client` bounds the requests of each address at this listener; one over it \
                is answered 429";
    ledger.nearly(own.id, told);
    Some(map([("max_requests", word(count))]))
}

/// Returns the TLS that a listener speaks at an address; none without a certificate.
fn tls(served: &[(&Server<'_>, &Listen)], ledger: &mut Ledger) -> Option<Map> {
    let mut certificates: Vec<Value> = Vec::new();
    for (server, _) in served.iter().filter(|(_, own)| own.tls) {
        let chains = server.scope.all(&["ssl_certificate"]);
        let keys = server.scope.all(&["ssl_certificate_key"]);
        for (chain, key) in chains.into_iter().zip(keys) {
            let own = [chain.arg(0), key.arg(0)];
            if own.iter().any(|path| path.contains('$') || path.is_empty()) {
                let told = "certificates have fixed names: list them all in `certificates`";
                ledger.not(chain.id, told);
                ledger.not(key.id, told);
                continue;
            }
            ledger.carried(chain.id);
            ledger.carried(key.id);
            let certificate = map([
                ("certificate_chain", text(chain.arg(0))),
                ("private_key", text(key.arg(0))),
            ]);
            if !certificates.contains(&certificate) {
                certificates.push(certificate);
            }
        }
    }
    if certificates.is_empty() {
        return None;
    }
    let (first, _) = served.iter().find(|(_, own)| own.tls)?;
    let mut out = vec![("certificates".to_owned(), Value::List(certificates))];
    protocols(&first.scope, &mut out, ledger);
    if let Some(own) = first.scope.one("ssl_session_tickets") {
        ledger.carried(own.id);
        if own.arg(0) == "off" {
            out.push(("session_tickets".to_owned(), word(0)));
        }
    }
    if let Some(clients) = client_certificates(served, ledger) {
        out.push(("client_certificates".to_owned(), clients));
    }
    Some(out)
}

fn protocols(scope: &Scope<'_>, out: &mut Map, ledger: &mut Ledger) {
    let Some(own) = scope.one("ssl_protocols") else {
        return;
    };
    let has = |name: &str| own.args.iter().any(|arg| arg == name);
    if ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"].into_iter().any(has) {
        ledger.nearly(own.id, "Sprat speaks TLS 1.2 and 1.3 alone");
    } else {
        ledger.carried(own.id);
    }
    if has("TLSv1.3") && own.args.len() == 1 {
        out.push(("minimum_version".to_owned(), word("TLSv1_3")));
    }
}

/// The certificates that a server wants of its clients.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    authority: String,
    mode: String,
}

fn wanted(server: &Server<'_>) -> Option<Wanted> {
    let mode = server.scope.one("ssl_verify_client")?.arg(0).to_owned();
    let authority = server.scope.one("ssl_client_certificate")?.arg(0);
    (mode != "off").then(|| Wanted {
        authority: authority.to_owned(),
        mode,
    })
}

/// Returns the client certificates that a listener asks for. They are required only if all of its
/// servers require the same. A server that requires them alone refuses its clients; see
/// [`verifies_alone`].
fn client_certificates(served: &[(&Server<'_>, &Listen)], ledger: &mut Ledger) -> Option<Value> {
    let secure = || {
        served
            .iter()
            .filter(|(_, own)| own.tls)
            .map(|(server, _)| server)
    };
    let first = secure().find_map(|server| wanted(server))?;
    let same = secure().all(|server| wanted(server).as_ref() == Some(&first));
    for server in secure() {
        let names = [
            "ssl_client_certificate",
            "ssl_verify_client",
            "ssl_verify_depth",
        ];
        for own in names.iter().filter_map(|name| server.scope.one(name)) {
            ledger.carried(own.id);
        }
    }
    let mode = if same && first.mode == "on" {
        "required"
    } else {
        "optional"
    };
    Some(map([
        ("trusted_ca", text(first.authority)),
        ("mode", word(mode)),
    ]))
}

/// Returns the directive by which a server requires certificates of clients, if another server on
/// one of its addresses does not, or trusts other authorities.
pub(super) fn verifies_alone<'a>(
    server: &Server<'a>,
    servers: &[Server<'a>],
) -> Option<&'a Directive> {
    let own = server.scope.one("ssl_verify_client")?;
    if !matches!(own.arg(0), "on") {
        return None;
    }
    let wants = wanted(server);
    let shares = |other: &&Server<'a>| {
        let mut listens = server.listens.iter().filter(|own| own.tls);
        listens.any(|own| {
            let mut others = other.listens.iter();
            let is_shared = |other: &Listen| match own.address.port() {
                Some(port) => other.address.port() == Some(port),
                None => other.address == own.address,
            };
            others.any(is_shared)
        })
    };
    let differs = servers
        .iter()
        .filter(shares)
        .any(|other| wanted(other) != wants);
    (differs || wants.is_none()).then_some(own)
}
