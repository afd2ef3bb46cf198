//! The access log, and the format of its lines.

use super::parse::Directive;
use super::scope::Scope;
use super::variables::{Piece, pieces};
use crate::ledger::Ledger;
use crate::yaml::{Map, Value, map, text, word};

/// Bytes of a format that is carried over.
const MAX_BYTES: usize = 2048;

/// What stands for other formats.
const COMBINED: &str = "its format is `combined`, with more at the end";

/// Returns the access log of a server, which is that of all.
pub(super) fn access_log(scope: &Scope<'_>, http: &[Directive], ledger: &mut Ledger) -> Map {
    let Some(own) = scope.one("access_log") else {
        return Map::new();
    };
    if own.arg(0) == "off" {
        ledger.carried(own.id);
        return vec![("access_log".to_owned(), word("off"))];
    }
    if !own.arg(0).starts_with('/') || own.arg(0).contains('$') {
        ledger.not(own.id, "`access_log.path` is a file's, and fixed");
        return Map::new();
    }
    let more = own.args.iter().skip(2).any(|arg| arg.starts_with("if="));
    if more {
        ledger.nearly(own.id, "all requests are in it: see its `filters`");
    }
    let name = own.args.get(1).filter(|name| *name != "combined");
    let format = match name {
        None => {
            ledger.carried(own.id);
            word("combined")
        }
        Some(name) => {
            let mut formats = http.iter().filter(|own| own.name == "log_format");
            let named = formats.find(|own| own.arg(0) == name);
            format(named, own, ledger)
        }
    };
    let log = map([("path", text(own.arg(0))), ("format", format)]);
    vec![("access_log".to_owned(), log)]
}

/// Returns the format of this definition, for a log.
fn format(named: Option<&Directive>, log: &Directive, ledger: &mut Ledger) -> Value {
    let Some(named) = named else {
        ledger.nearly(log.id, COMBINED);
        return word("combined");
    };
    let parts = named.args.iter().skip(1);
    let is_json = named.arg(1) == "escape=json";
    let line: String = parts
        .filter(|part| !part.starts_with("escape="))
        .map(String::as_str)
        .collect();
    let mut differs = Vec::new();
    match template(&line, &mut differs) {
        _ if is_json => {
            let told = "lines of JSON are `format: {json: ...}`: its format is `combined`";
            ledger.nearly(named.id, told);
        }
        Ok(line) if line.len() <= MAX_BYTES && !line.contains(char::is_control) => {
            match differs.is_empty() {
                true => ledger.carried(named.id),
                false => ledger.nearly(named.id, differs.join("; ")),
            }
            ledger.carried(log.id);
            return map([("text", text(line))]);
        }
        Ok(_) => ledger.nearly(named.id, COMBINED),
        Err(name) => {
            let told = format!("the access log has no `${name}`: {COMBINED}");
            ledger.nearly(named.id, told);
        }
    }
    ledger.carried(log.id);
    word("combined")
}

/// Returns a line's format in the words of Sprat's, and adds what differs in its values.
///
/// # Errors
///
/// The variable that the access log has no word for.
fn template(line: &str, differs: &mut Vec<&'static str>) -> Result<String, String> {
    let mut out = String::new();
    for piece in pieces(line) {
        match piece {
            Piece::Text(text) => out.push_str(&text.replace('%', "%%")),
            Piece::Variable(name) => {
                let (word, note) = word_for(&name).ok_or(name)?;
                differs.extend(note.filter(|note| !differs.contains(note)));
                out.push_str(&word);
            }
        }
    }
    Ok(out)
}

/// Returns the word for a variable, and what differs, if something does.
fn word_for(name: &str) -> Option<(String, Option<&'static str>)> {
    let time = Some("times are in UTC, as RFC 3339 has them");
    let took = Some("durations are in milliseconds");
    let (word, note) = match name {
        "remote_addr" | "realip_remote_addr" => ("%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%", None),
        "remote_port" => ("%DOWNSTREAM_REMOTE_PORT%", None),
        "server_port" => ("%DOWNSTREAM_LOCAL_PORT%", None),
        "remote_user" => ("%USER%", None),
        "time_local" | "time_iso8601" => ("%START_TIME%", time),
        "request_time" => ("%DURATION%", took),
        "request" => ("%REQUEST_LINE%", None),
        "request_method" => ("%REQ(:METHOD)%", None),
        "request_uri" => ("%REQ(:PATH)%", None),
        "uri" | "document_uri" => ("%PATH(NQ)%", None),
        "server_protocol" => ("%PROTOCOL%", None),
        "scheme" => ("%REQ(:SCHEME)%", None),
        "host" | "http_host" => ("%REQ(:AUTHORITY)%", None),
        "status" => ("%RESPONSE_CODE%", None),
        "body_bytes_sent" => ("%BYTES_SENT%", None),
        "bytes_sent" => ("%BYTES_SENT%", Some("bytes are those of bodies")),
        "upstream_addr" => ("%UPSTREAM_HOST%", None),
        "ssl_protocol" => ("%DOWNSTREAM_TLS_VERSION%", None),
        "ssl_cipher" => ("%DOWNSTREAM_TLS_CIPHER%", None),
        other => {
            let kinds = [
                ("http_", "REQ"),
                ("sent_http_", "RESP"),
                ("upstream_http_", "RESP"),
            ];
            let (kind, rest) = kinds
                .iter()
                .find_map(|(start, kind)| Some((kind, other.strip_prefix(start)?)))?;
            let rest = rest.replace('_', "-");
            // A log never holds a password.
            let secrets = [
                "",
                "authorization",
                "proxy-authorization",
                "cookie",
                "set-cookie",
            ];
            return (!secrets.contains(&&*rest)).then(|| (format!("%{kind}({rest})%"), None));
        }
    };
    Some((word.to_owned(), note))
}
