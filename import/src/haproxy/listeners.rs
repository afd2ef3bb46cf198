//! The addresses of HAProxy's frontends, as listeners.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::backends::unix_path;
use super::bind_options::{Remarks, no_http2, options};
use super::options::newest_alone;
use super::parse::{Line, Section};
use crate::document::Part;
use crate::ledger::Ledger;
use crate::transports::Transports;
use crate::units::{size_value, time, time_value, whole};
use crate::yaml::{Map, Value, map, text, texts, word};

/// The most ports of a range, each of which is a listener.
const MAX_PORTS: u16 = 32;

/// The addresses of a `bind`.
#[derive(Default)]
struct Bound<'l> {
    sockets: Vec<SocketAddr>,
    /// The paths of Unix sockets.
    paths: Vec<&'l str>,
    /// The addresses that Sprat cannot listen on.
    lost: Vec<&'l str>,
}

impl<'l> Bound<'l> {
    fn of(line: &'l Line) -> Self {
        let mut out = Self::default();
        for own in line.word(1).split(',') {
            match (unix_path(own), sockets(own)) {
                (Some(path), _) => out.paths.push(path),
                (None, Some(found)) => out.sockets.extend(found),
                (None, None) => out.lost.push(own),
            }
        }
        out
    }

    fn is_empty(&self) -> bool {
        self.sockets.is_empty() && self.paths.is_empty()
    }

    /// Puts the loopback address in place of all of a machine's addresses, where `is_meant` holds.
    /// Returns whether there were any such.
    fn narrow(&mut self, is_meant: impl Fn(SocketAddr) -> bool) -> bool {
        let mut is_narrowed = false;
        for socket in &mut self.sockets {
            if socket.ip().is_unspecified() && is_meant(*socket) {
                is_narrowed = true;
                socket.set_ip(match socket.is_ipv4() {
                    true => Ipv4Addr::LOCALHOST.into(),
                    false => Ipv6Addr::LOCALHOST.into(),
                });
            }
        }
        is_narrowed
    }

    /// Returns the addresses as Sprat writes them.
    fn written(&self) -> Vec<String> {
        let sockets = self.sockets.iter().map(SocketAddr::to_string);
        let paths = self.paths.iter().map(|path| format!("unix:{path}"));
        sockets.chain(paths).collect()
    }
}

/// Returns an address of a `bind`, once for each of its ports; none if Sprat cannot listen on it.
fn sockets(written: &str) -> Option<Vec<SocketAddr>> {
    let (any, bare): (IpAddr, _) = match written.strip_prefix("ipv6@") {
        Some(rest) => (Ipv6Addr::UNSPECIFIED.into(), rest),
        None => {
            let bare = written.strip_prefix("ipv4@").unwrap_or(written);
            (Ipv4Addr::UNSPECIFIED.into(), bare)
        }
    };
    let (host, ports) = bare.rsplit_once(':')?;
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "*" => any,
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        own => own.parse::<IpAddr>().ok()?.to_canonical(),
    };
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    let is_short = first != 0 && last.checked_sub(first)? < MAX_PORTS;
    is_short.then(|| {
        (first..=last)
            .map(|port| SocketAddr::new(host, port))
            .collect()
    })
}

/// Returns the number of addresses that a section has.
fn addresses(section: &Section) -> usize {
    let binds = section.all(&["bind"]).into_iter();
    binds.map(|line| Bound::of(line).written().len()).sum()
}

/// Returns the ports of a section's addresses.
pub(super) fn ports(section: &Section) -> Vec<u16> {
    let binds = section.all(&["bind"]);
    binds
        .into_iter()
        .flat_map(|line| Bound::of(line).sockets)
        .map(|own| own.port())
        .collect()
}

/// Returns whether a section has an address that Sprat can listen on.
pub(super) fn listens(section: &Section) -> bool {
    let mut binds = section.all(&["bind"]).into_iter();
    binds.any(|line| !Bound::of(line).is_empty())
}

/// Returns the transports of a section's addresses: plain text, TLS, or both.
pub(super) fn speaks(section: &Section) -> Transports {
    let binds = section.all(&["bind"]);
    let tls = |line: &&&Line| line.has("ssl");
    Transports {
        plain: !binds.iter().all(|line| tls(&line)),
        tls: binds.iter().any(|line| tls(&line)),
    }
}

/// Returns the word by which a `bind` is for one network alone; none if it has no such word.
fn confined(line: &Line) -> Option<&'static str> {
    let names = ["interface", "namespace"];
    names.into_iter().find(|own| line.has(own))
}

/// Returns the turn of a `bind`: one whose address may have to be narrowed comes after those that
/// it goes by, and takes the address of none.
fn turn(line: &Line) -> u8 {
    match confined(line) {
        Some(_) => 2,
        None => u8::from(line.has("v6only")),
    }
}

/// Makes the listeners of the chosen sections. Of several with one address the first one counts.
pub(super) fn parts(sections: &[&Section], x_forwarded: bool, ledger: &mut Ledger) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut binds: Vec<(&Section, &Line)> = Vec::new();
    for section in sections {
        let lines = section.all(&["bind"]).into_iter();
        binds.extend(lines.map(|line| (*section, line)));
    }
    binds.sort_by_key(|(_, line)| turn(line));
    for (section, line) in binds {
        let mut bound = Bound::of(line);
        if bound.is_empty() {
            ledger.not(line.id, LISTENS_ON);
            continue;
        }
        let own_connections = line.after("maxconn").and_then(connections);
        let mut keys = bounds(section, own_connections, ledger);
        if !x_forwarded {
            keys.push((
                "forwarding".to_owned(),
                map([("x_forwarded", word("false"))]),
            ));
        }
        if line.has("accept-proxy") {
            let trusted = texts(["0.0.0.0/0", "::/0"]);
            keys.push(("proxy_protocol".to_owned(), map([("trusted", trusted)])));
        }
        if line.has("ssl") {
            if no_http2(&options(line)) {
                keys.push(("http2".to_owned(), word("off")));
            }
            match tls(line) {
                Ok(tls) => keys.push(("tls".to_owned(), Value::Map(tls))),
                Err(told) => {
                    ledger.not(line.id, format!("{told}, so it is left out"));
                    continue;
                }
            }
        }
        tell(line, &mut bound, &taken, ledger);
        for address in bound.written() {
            if !taken.insert(address.clone()) {
                let told = "a `bind` before it has the same address, and that one counts";
                ledger.nearly(line.id, told);
                continue;
            }
            let mut own = match address.starts_with("unix:") {
                true => rights(line),
                false => Vec::new(),
            };
            own.extend([
                ("address".to_owned(), text(address)),
                // HAProxy gives requests none of its own accord.
                ("request_id".to_owned(), word("off")),
            ]);
            own.extend(keys.clone());
            out.push(Part {
                from: line.id,
                title: format!("{}: {} {}", section.place, section.kind, section.name),
                name: String::new(),
                keys: own,
            });
        }
    }
    out
}

/// The complaint about an address that Sprat cannot listen on.
const LISTENS_ON: &str =
    "Sprat listens on IP addresses, single ports or a few of them, and Unix sockets alone";

/// Notes what a `bind` loses. What is bound to one network stays closed to the others, unless its
/// address says otherwise; what is bound to IPv6 alone stays closed to IPv4, unless one of the
/// addresses in `taken` is open to it.
fn tell(line: &Line, bound: &mut Bound<'_>, taken: &BTreeSet<String>, ledger: &mut Ledger) {
    let mut lost = Vec::new();
    let written = bound.sockets.clone();
    let is_closed = |own: SocketAddr| {
        let twin = SocketAddr::from((Ipv4Addr::UNSPECIFIED, own.port()));
        own.is_ipv6() && !written.contains(&twin) && !taken.contains(&twin.to_string())
    };
    if let Some(name) = confined(line) {
        lost.push(match bound.narrow(|_| true) {
            true => format!(
                "Sprat has no `{name}`, and all networks would have access: it listens on the \
                 loopback address alone, so write the addresses that are meant"
            ),
            false => {
                format!("Sprat has no `{name}`: any network that leads to this address has access")
            }
        });
    } else if line.has("v6only") && bound.narrow(is_closed) {
        let told = "Sprat has no `v6only`, and clients by IPv4 would have access: it listens on \
                    the loopback address alone, so write the addresses that are meant";
        lost.push(told.to_owned());
    }
    let remarks = Remarks::of(&options(line));
    lost.extend(remarks.needed);
    if !bound.lost.is_empty() {
        lost.push(format!(
            "without `{}`: {LISTENS_ON}",
            bound.lost.join("`, `")
        ));
    }
    if line.has("crt-list") {
        let told = "the certificates of `crt-list` are left out, and so is what it asks of clients";
        lost.push(told.to_owned());
    }
    let mut differs = remarks.others;
    if files(line).iter().any(|own| !own.ends_with(".pem")) {
        let told = "`certificate_chain` and `private_key` are files: a directory is listed by hand";
        differs.push(told.to_owned());
    }
    match () {
        () if !lost.is_empty() => ledger.not(line.id, [lost, differs].concat().join("; ")),
        () if !differs.is_empty() => ledger.nearly(line.id, differs.join("; ")),
        () => ledger.carried(line.id),
    }
}

/// Returns the keys about a Unix socket's file: its permissions and its owner.
fn rights(line: &Line) -> Vec<(String, Value)> {
    let is_number = |own: &str| own.len() <= 9 && own.bytes().all(|b| b.is_ascii_digit());
    let is_name = |own: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let begins = own.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        begins && own.len() <= 255 && own.chars().all(fits)
    };
    let mut out = vec![("mode".to_owned(), text(mode(line)))];
    for (key, name, number) in [("owner", "user", "uid"), ("group", "group", "gid")] {
        let given = line.after(name).filter(|own| is_name(own));
        let given = given.or_else(|| line.after(number).filter(|own| is_number(own)));
        out.extend(given.map(|own| (key.to_owned(), text(own))));
    }
    out
}

/// Returns the permissions of a Unix socket's file. If none are given, all users may connect, as
/// HAProxy has it without `mode` and a umask.
fn mode(line: &Line) -> String {
    let given = line.after("mode").filter(|own| own.len() <= 4);
    format!("{:0>4}", given.unwrap_or("0666"))
}

/// Returns the files with the certificates of a `bind`, the one for clients that name no host
/// first.
fn files(line: &Line) -> Vec<&str> {
    let after = |name: &'static str| {
        let pairs = line.words.windows(2).filter(move |pair| pair[0] == name);
        pairs.map(|pair| pair[1].as_str())
    };
    after("default-crt").chain(after("crt")).collect()
}

/// Returns the keys of TLS with clients.
///
/// # Errors
///
/// What there is none of, and a listener cannot do without.
fn tls(line: &Line) -> Result<Map, &'static str> {
    // A file of HAProxy's holds both.
    let certificate = |file: &&str| {
        map([
            ("certificate_chain", text(*file)),
            ("private_key", text(*file)),
        ])
    };
    let certificates: Vec<Value> = files(line).iter().map(certificate).collect();
    if certificates.is_empty() {
        return Err("there is no certificate for this address");
    }
    let mut out = vec![("certificates".to_owned(), Value::List(certificates))];
    if newest_alone(&options(line)) {
        out.push(("minimum_version".to_owned(), word("TLSv1_3")));
    }
    if line.has("no-tls-tickets") {
        out.push(("session_tickets".to_owned(), word(0)));
    }
    let mode = match line.after("verify") {
        Some("required") => "required",
        Some("optional") => "optional",
        _ => return Ok(out),
    };
    // Chains end at those of `ca-verify-file`, if both are given.
    let authority = line.after("ca-verify-file").or(line.after("ca-file"));
    let authority = authority.ok_or("there is no authority for the clients' certificates")?;
    let mut clients = vec![
        ("trusted_ca".to_owned(), text(authority)),
        ("mode".to_owned(), word(mode)),
    ];
    if let Some(revoked) = line.after("crl-file") {
        let files = Value::List(vec![text(revoked)]);
        clients.push(("crl_files".to_owned(), files));
    }
    out.push(("client_certificates".to_owned(), Value::Map(clients)));
    Ok(out)
}

/// Reads a number of connections that a listener may have as its bound.
fn connections(written: &str) -> Option<u64> {
    whole(written).filter(|own| (1..=10_000_000).contains(own))
}

/// Returns the bounds of a `bind` in a section. `own_connections` are the most that the `bind`
/// allows: both bounds hold.
fn bounds(section: &Section, own_connections: Option<u64>, ledger: &mut Ledger) -> Map {
    let mut out = Map::new();
    let times = [
        ("http-request", "request_headers_timeout"),
        ("http-keep-alive", "idle_timeout"),
        ("client", "stream_idle_timeout"),
    ];
    for (name, key) in times {
        let Some(line) = section.one(&["timeout", name]) else {
            continue;
        };
        match time(line.word(2), 1).filter(|own| !own.is_zero()) {
            Some(span) => {
                ledger.carried(line.id);
                out.push((key.to_owned(), time_value(span)));
            }
            None => ledger.not(line.id, "times are above 0"),
        }
    }
    let mut most = own_connections;
    if let Some(line) = section.one(&["maxconn"]) {
        match connections(line.word(1)) {
            Some(count) => {
                match addresses(section) {
                    0 | 1 => ledger.carried(line.id),
                    _ => ledger.nearly(line.id, "each of the listeners has that many by itself"),
                }
                most = Some(most.map_or(count, |own| own.min(count)));
            }
            None => ledger.not(line.id, "`max_connections` is a number from 1 to 10000000"),
        }
    }
    out.extend(most.map(|count| ("max_connections".to_owned(), word(count))));
    if let Some(line) = section.one(&["tune.bufsize"]) {
        if let Some(bytes) = whole(line.word(1)).filter(|own| (8 << 10..=16 << 20).contains(own)) {
            out.push(("max_request_headers".to_owned(), size_value(bytes)));
        }
        ledger.carried(line.id);
    }
    out
}
