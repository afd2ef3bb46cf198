//! The addresses of HAProxy's frontends, as listeners.

use super::backends::unix_path;
use super::parse::{Line, Section};
use crate::document::Part;
use crate::ledger::Ledger;
use crate::transports::Transports;
use crate::units::{size_value, time, time_value, whole};
use crate::yaml::{Map, Value, map, text, texts, word};

/// Returns the ports of a section's addresses.
pub(super) fn ports(section: &Section) -> Vec<u16> {
    let binds = section.all(&["bind"]);
    binds
        .into_iter()
        .flat_map(addresses)
        .filter_map(|own| own.rsplit_once(':')?.1.parse().ok())
        .collect()
}

/// Returns whether a section has an address that Sprat can listen on.
pub(super) fn listens(section: &Section) -> bool {
    let mut binds = section.all(&["bind"]).into_iter();
    binds.any(|line| !addresses(line).is_empty())
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

/// Returns the addresses of a `bind` as Sprat writes them, without those that it cannot listen on.
fn addresses(line: &Line) -> Vec<String> {
    let each = line.word(1).split(',').filter_map(|own| {
        if let Some(path) = unix_path(own) {
            return Some(format!("unix:{path}"));
        }
        let own = own
            .strip_prefix("ipv4@")
            .or(own.strip_prefix("ipv6@"))
            .unwrap_or(own);
        let (host, port) = own.rsplit_once(':')?;
        let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
        let host = match host {
            "" | "*" => "0.0.0.0".to_owned(),
            "localhost" => "127.0.0.1".to_owned(),
            "::" => "[::]".to_owned(),
            own => own.to_owned(),
        };
        let address = format!("{host}:{port}");
        address
            .parse::<std::net::SocketAddr>()
            .ok()
            .map(|own| own.to_string())
    });
    each.collect()
}

/// Makes the listeners of a section.
pub(super) fn parts(section: &Section, x_forwarded: bool, ledger: &mut Ledger) -> Vec<Part> {
    let mut out: Vec<Part> = Vec::new();
    for line in section.all(&["bind"]) {
        let addresses = addresses(line);
        if addresses.is_empty() {
            ledger.not(
                line.id,
                "Sprat listens on IP addresses, single ports and Unix sockets alone",
            );
            continue;
        }
        let mut keys = bounds(section, ledger);
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
            match tls(line) {
                Some(tls) => keys.push(("tls".to_owned(), Value::Map(tls))),
                None => {
                    ledger.not(
                        line.id,
                        "there is no certificate for this address, so it is left out",
                    );
                    continue;
                }
            }
        }
        let doubt = match () {
            () if line.after("crt").is_some_and(|own| !own.ends_with(".pem")) => Some(
                "`certificate_chain` and `private_key` are files: a directory is listed by hand",
            ),
            () => None,
        };
        match doubt {
            Some(told) => ledger.nearly(line.id, told),
            None => ledger.carried(line.id),
        }
        for address in addresses {
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

fn tls(line: &Line) -> Option<Map> {
    let mut certificates = Vec::new();
    for at in (0..line.words.len()).filter(|at| line.word(*at) == "crt") {
        // A file of HAProxy's holds both.
        let file = line.words.get(at + 1)?;
        certificates.push(map([
            ("certificate_chain", text(file)),
            ("private_key", text(file)),
        ]));
    }
    if certificates.is_empty() {
        return None;
    }
    let mut out = vec![("certificates".to_owned(), Value::List(certificates))];
    if line.after("ssl-min-ver") == Some("TLSv1.3") {
        out.push(("minimum_version".to_owned(), word("TLSv1_3")));
    }
    if line.has("no-tls-tickets") {
        out.push(("session_tickets".to_owned(), word(0)));
    }
    if let Some(authority) = line.after("ca-file") {
        let mode = match line.after("verify") {
            Some("required") => "required",
            Some("optional") => "optional",
            _ => return Some(out),
        };
        let mut clients = vec![
            ("trusted_ca".to_owned(), text(authority)),
            ("mode".to_owned(), word(mode)),
        ];
        if let Some(revoked) = line.after("crl-file") {
            let files = Value::List(vec![text(revoked)]);
            clients.push(("crl_files".to_owned(), files));
        }
        out.push(("client_certificates".to_owned(), Value::Map(clients)));
    }
    Some(out)
}

fn bounds(section: &Section, ledger: &mut Ledger) -> Map {
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
    if let Some(line) = section.one(&["maxconn"]) {
        match whole(line.word(1)).filter(|own| (1..=10_000_000).contains(own)) {
            Some(count) => {
                ledger.carried(line.id);
                out.push(("max_connections".to_owned(), word(count)));
            }
            None => ledger.not(line.id, "`max_connections` is a number from 1 to 10000000"),
        }
    }
    if let Some(line) = section.one(&["tune.bufsize"]) {
        if let Some(bytes) = whole(line.word(1)).filter(|own| (8 << 10..=16 << 20).contains(own)) {
            out.push(("max_request_headers".to_owned(), size_value(bytes)));
        }
        ledger.carried(line.id);
    }
    out
}
