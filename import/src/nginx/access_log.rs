//! nginx's access logs: `access_log` and `log_format`, in the words of Sprat's log fields.

use std::collections::BTreeSet;

use super::parse::Directive;
use super::scope::Scope;
use super::variables::{Piece, pieces};
use crate::ledger::Ledger;
use crate::yaml::{Map, Value, map, text, word};

/// The most access logs that Sprat has.
const MAX_LOGS: usize = 8;

/// The most bytes of a format that Sprat takes.
const MAX_FORMAT: usize = 4096;

/// The format of nginx's logs that name none.
const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
                        $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

/// The directory that relative paths of logs begin at, in most builds of nginx.
const PREFIX: &str = "/etc/nginx/";

/// Returns the access logs that hold at a place; Sprat has them once for all servers.
pub(super) fn convert(http: &[Directive], scope: &Scope<'_>, ledger: &mut Ledger) -> Map {
    let all = scope.all(&["access_log"]);
    if all.is_empty() {
        settle(http, &[], ledger);
        return Map::new();
    }
    let mut logs = Vec::new();
    for own in &all {
        if own.arg(0) == "off" {
            ledger.carried(own.id);
            continue;
        }
        let Some(log) = log(own, http, ledger) else {
            continue;
        };
        if logs.len() < MAX_LOGS && !logs.contains(&log) {
            logs.push(log);
        } else {
            ledger.not(
                own.id,
                format!("there are {MAX_LOGS} logs at most, each elsewhere"),
            );
        }
    }
    settle(http, &all, ledger);
    let written = match (logs.pop(), logs.is_empty()) {
        (None, _) => word("off"),
        (Some(only), true) => Value::Map(only),
        (Some(last), false) => {
            logs.push(last);
            Value::List(logs.into_iter().map(Value::Map).collect())
        }
    };
    vec![("access_log".to_owned(), written)]
}

/// Settles the logs of other places, and the formats that no log has.
fn settle(list: &[Directive], taken: &[&Directive], ledger: &mut Ledger) {
    for own in list {
        if own.name == "access_log" && !ledger.is_settled(own.id) {
            match taken.iter().any(|other| other.args == own.args) {
                true => ledger.carried(own.id),
                false => {
                    let told = "the logs of the first server are those of all: see `filters`, and \
                                fields such as %REQ(:AUTHORITY)%";
                    ledger.nearly(own.id, told);
                }
            }
        }
        if own.name == "log_format" && !ledger.is_settled(own.id) {
            ledger.nearly(own.id, "no log that is carried over has this format");
        }
        settle(own.inner(), taken, ledger);
    }
}

/// Returns an access log; none if it goes to a target that Sprat does not write to.
fn log(own: &Directive, http: &[Directive], ledger: &mut Ledger) -> Option<Map> {
    ledger.carried(own.id);
    let target = target(own, ledger)?;
    let mut named = None;
    for arg in own.args.iter().skip(1) {
        match arg.split_once('=') {
            Some(("if", _)) => {
                ledger.nearly(
                    own.id,
                    "requests are not chosen by `if=`: see `filters` of the log",
                );
            }
            Some(("gzip", _)) => ledger.nearly(own.id, "the log is not compressed"),
            Some(("buffer" | "flush", _)) => {}
            _ if arg == "gzip" => ledger.nearly(own.id, "the log is not compressed"),
            _ => named = Some(arg.as_str()),
        }
    }
    let format = format(named.unwrap_or("combined"), own, http, ledger);
    Some(vec![target, ("format".to_owned(), format)])
}

fn target(own: &Directive, ledger: &mut Ledger) -> Option<(String, Value)> {
    let path = own.arg(0);
    if let Some(server) = path.strip_prefix("syslog:") {
        return Some(("syslog".to_owned(), syslog(server, own, ledger)?));
    }
    if path.contains('$') {
        ledger.not(own.id, "`access_log.path` is fixed: no variables");
        return None;
    }
    let value = match path {
        "/dev/stdout" | "/proc/self/fd/1" => word("stdout"),
        _ if path.starts_with('/') => text(path),
        _ => {
            let at = format!("{PREFIX}{path}");
            ledger.nearly(own.id, format!("the path is taken to be {at}"));
            text(at)
        }
    };
    Some(("path".to_owned(), value))
}

/// Returns a syslog server, read from the parameters of an `access_log`.
fn syslog(parameters: &str, own: &Directive, ledger: &mut Ledger) -> Option<Value> {
    let mut out = Map::new();
    // What nginx says if nothing else is said.
    let (mut facility, mut tag) = ("local7", "nginx");
    for parameter in parameters.split(',') {
        match parameter.split_once('=') {
            Some(("server", server)) => {
                let Some(address) = address(server) else {
                    ledger.not(
                        own.id,
                        "`syslog.address` is a path or an IP address and a port",
                    );
                    return None;
                };
                out.push(("address".to_owned(), text(address)));
            }
            Some(("facility", name)) => facility = name,
            Some(("tag", name)) => tag = name,
            Some(("severity", "info")) => {}
            Some(("severity", _)) => ledger.nearly(own.id, "the severity is `info`"),
            _ => {}
        }
    }
    out.push(("facility".to_owned(), word(facility)));
    out.push(("app_name".to_owned(), text(tag)));
    Some(Value::Map(out))
}

fn address(server: &str) -> Option<String> {
    if let Some(path) = server.strip_prefix("unix:") {
        return path.starts_with('/').then(|| path.to_owned());
    }
    if server.parse::<std::net::SocketAddr>().is_ok() {
        return Some(server.to_owned());
    }
    let ip: std::net::IpAddr = server.trim_matches(['[', ']']).parse().ok()?;
    Some(std::net::SocketAddr::new(ip, 514).to_string())
}

/// Returns the format of this name, as a log of Sprat's has it.
fn format(name: &str, log: &Directive, http: &[Directive], ledger: &mut Ledger) -> Value {
    let mut formats = http.iter().filter(|own| own.name == "log_format");
    let Some(own) = formats.find(|own| own.arg(0) == name) else {
        if name == "combined" {
            return map([("text", text(template(COMBINED, None, ledger)))]);
        }
        ledger.nearly(
            log.id,
            format!("there is no `log_format {name}`: it is `json`"),
        );
        return word("json");
    };
    ledger.carried(own.id);
    let escape = own.args.iter().find_map(|arg| arg.strip_prefix("escape="));
    let parts = own.args.iter().skip(1);
    let written: String = parts
        .filter(|arg| !arg.starts_with("escape="))
        .map(String::as_str)
        .collect();
    match escape {
        Some("json") => object(&written, own, ledger),
        Some("none") => {
            let told = "what clients choose is escaped, so that it forges no line";
            ledger.nearly(own.id, told);
            line(&written, own, ledger)
        }
        _ => line(&written, own, ledger),
    }
}

fn line(written: &str, own: &Directive, ledger: &mut Ledger) -> Value {
    let template = template(written, Some(own), ledger);
    let is_plain = |b: u8| b == b'\t' || (b' '..=b'~').contains(&b);
    if !(1..=MAX_FORMAT).contains(&template.len()) || !template.bytes().all(is_plain) {
        let told = format!("a format is 1 to {MAX_FORMAT} characters of ASCII: it is `json`");
        ledger.nearly(own.id, told);
        return word("json");
    }
    map([("text", text(template))])
}

/// Returns a format that makes a JSON object, as a format of Sprat's.
fn object(written: &str, own: &Directive, ledger: &mut Ledger) -> Value {
    let is_key = |key: &str| {
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        (1..=64).contains(&key.len()) && key.bytes().all(valid)
    };
    let pairs = members(written).filter(|all| all.iter().all(|(key, _)| is_key(key)));
    let Some(pairs) = pairs.filter(|all| !all.is_empty()) else {
        let told = "`escape=json` is carried over for one object of texts and variables, with \
                    keys of letters, digits and `._-`: it is `json`";
        ledger.nearly(own.id, told);
        return word("json");
    };
    ledger.nearly(
        own.id,
        "values that are numbers are written as such, and none is `null`",
    );
    let pairs = pairs.into_iter().map(|(key, value)| {
        let value = template(&value, Some(own), ledger);
        (key, text(value))
    });
    map([("json", Value::Map(pairs.collect()))])
}

/// Reads the members of `{"key": "value", "key": $variable}`; none if a value is nested.
fn members(written: &str) -> Option<Vec<(String, String)>> {
    let mut rest = written.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (key, after) = string(rest)?;
        let after = after.trim_start().strip_prefix(':')?.trim_start();
        let (value, after) = match after.starts_with('"') {
            true => string(after)?,
            false => {
                let (value, after) = after.split_at(after.find(',').unwrap_or(after.len()));
                let value = value.trim();
                let is_sole = value.starts_with('$') && pieces(value).len() == 1;
                (is_sole.then(|| value.to_owned())?, after)
            }
        };
        if !value.is_empty() {
            out.push((key, value));
        }
        let after = after.trim_start();
        rest = match after.strip_prefix(',') {
            Some(next) => next.trim_start(),
            None if after.is_empty() => after,
            None => return None,
        };
    }
    Some(out)
}

/// Reads a string without escapes, and returns it with the text after it.
fn string(text: &str) -> Option<(String, &str)> {
    let (value, rest) = text.strip_prefix('"')?.split_once('"')?;
    (!value.contains('\\')).then(|| (value.to_owned(), rest))
}

/// Returns a format as a template of Sprat's. A variable that Sprat does not have becomes `-`, with
/// a note.
fn template(written: &str, own: Option<&Directive>, ledger: &mut Ledger) -> String {
    let mut out = String::new();
    let (mut missing, mut near) = (BTreeSet::new(), BTreeSet::new());
    for piece in pieces(written) {
        match piece {
            Piece::Text(text) => out.push_str(&text.replace('%', "%%")),
            Piece::Variable(name) => match field(&name) {
                Some(Field { word, differs }) => {
                    out.push_str(&word);
                    if let Some(how) = differs {
                        near.insert(format!("`${name}` {how}"));
                    }
                }
                None => {
                    out.push('-');
                    missing.insert(format!("`${name}`"));
                }
            },
        }
    }
    let Some(own) = own else { return out };
    let mut told = Vec::new();
    if !missing.is_empty() {
        let names: Vec<_> = missing.into_iter().collect();
        told.push(format!(
            "no field for {}: `-` stands there",
            names.join(", ")
        ));
    }
    told.extend(near);
    if !told.is_empty() {
        ledger.nearly(own.id, told.join("; "));
    }
    out
}

/// A log field of Sprat's that stands for a variable of nginx's.
struct Field {
    word: String,
    /// The difference between the field's value and nginx's; none if there is none.
    differs: Option<&'static str>,
}

fn field(name: &str) -> Option<Field> {
    let same = |word: &str| (word.to_owned(), None);
    let near = |word: &str, how| (word.to_owned(), Some(how));
    let (word, differs) = match name {
        "remote_addr" | "realip_remote_addr" => same("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%"),
        "remote_port" => same("%DOWNSTREAM_REMOTE_PORT%"),
        "remote_user" => same("%USER%"),
        "time_local" => same("%START_TIME(CLF)%"),
        "time_iso8601" => near("%START_TIME%", "has milliseconds, and is in UTC"),
        "msec" => same("%START_TIME(UNIX)%"),
        "request" => same("%REQUEST_LINE%"),
        "request_method" => same("%REQ(:METHOD)%"),
        "request_uri" => same("%REQ(:PATH)%"),
        "uri" | "document_uri" => near("%PATH(NQ)%", "is as the client sent it"),
        "server_protocol" => same("%PROTOCOL%"),
        "scheme" => same("%REQ(:SCHEME)%"),
        "http_host" => same("%REQ(:AUTHORITY)%"),
        "host" => near("%REQ(:AUTHORITY)%", "has the port, if the client named one"),
        "status" => same("%RESPONSE_CODE%"),
        "body_bytes_sent" => same("%BYTES_SENT%"),
        "request_time" => same("%DURATION(S)%"),
        "server_port" => same("%DOWNSTREAM_LOCAL_PORT%"),
        "ssl_protocol" => same("%DOWNSTREAM_TLS_VERSION%"),
        "ssl_cipher" => near("%DOWNSTREAM_TLS_CIPHER%", "has rustls' names"),
        "upstream_addr" => near("%UPSTREAM_HOST%", "is the last endpoint alone"),
        "upstream_status" => near("%RESPONSE_CODE%", "is what the client got"),
        "content_type" => same("%REQ(CONTENT-TYPE)%"),
        "content_length" => same("%REQ(CONTENT-LENGTH)%"),
        other => {
            let kinds = [
                ("http_", "REQ", None),
                ("sent_http_", "RESP", None),
                ("upstream_http_", "RESP", Some("is what the client got")),
            ];
            return kinds.iter().find_map(|(start, kind, differs)| {
                let rest = other.strip_prefix(start).filter(|own| !own.is_empty())?;
                let name = rest.replace('_', "-").to_ascii_uppercase();
                // No log of Sprat's holds these.
                let secrets = [
                    "AUTHORIZATION",
                    "PROXY-AUTHORIZATION",
                    "COOKIE",
                    "SET-COOKIE",
                ];
                (!secrets.contains(&name.as_str())).then(|| Field {
                    word: format!("%{kind}({name})%"),
                    differs: *differs,
                })
            });
        }
    };
    Some(Field { word, differs })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read() {
        let read = members("{ \"a\": \"$status x\" , \"b\":$request_time,\"c\":\"\"}");
        let pairs = [("a", "$status x"), ("b", "$request_time")];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(read.unwrap(), pairs);
        for bad in [
            "",
            "[]",
            "{\"a\": {\"b\": 1}}",
            "{\"a\": \"\\\"\"}",
            "{\"a\" 1}",
            "{\"a\":1}",
        ] {
            assert_eq!(members(bad), None, "{bad}");
        }
    }

    #[test]
    fn secrets_have_no_field() {
        assert!(field("http_cookie").is_none() && field("http_authorization").is_none());
        assert_eq!(field("http_x_a").unwrap().word, "%REQ(X-A)%");
        assert!(field("gzip_ratio").is_none());
    }
}
