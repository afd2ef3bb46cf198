//! nginx's variables, in the words of Sprat's templates.

use std::collections::BTreeMap;

/// The variables whose values are known beforehand: those from `set`, and the names of servers.
pub(super) type Constants = BTreeMap<String, String>;

/// A piece of a text with variables.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Variable(String),
}

/// Returns the pieces of a text with variables.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        plain.push_str(before);
        let (name, next) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').unwrap_or(("", after)),
            None => {
                let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
                let end = match after.bytes().next() {
                    Some(b) if b.is_ascii_digit() => 1,
                    _ => after.bytes().take_while(|b| is_name(*b)).count(),
                };
                after.split_at(end)
            }
        };
        match name {
            "" => plain.push('$'),
            name => {
                if !plain.is_empty() {
                    out.push(Piece::Text(std::mem::take(&mut plain)));
                }
                out.push(Piece::Variable(name.to_owned()));
            }
        }
        rest = next;
    }
    plain.push_str(rest);
    if !plain.is_empty() {
        out.push(Piece::Text(plain));
    }
    out
}

/// Returns a text with the known variables replaced by their values.
pub(super) fn expand(text: &str, constants: &Constants) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let piece = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Variable(name) => match constants.get(name) {
            Some(value) => value.clone(),
            None => format!("${{{name}}}"),
        },
    };
    pieces(text).iter().map(piece).collect()
}

/// Returns whether a text has variables.
pub(super) fn has_variables(text: &str) -> bool {
    let is_variable = |piece: &Piece| matches!(piece, Piece::Variable(_));
    pieces(text).iter().any(is_variable)
}

/// Returns the variable that is the whole text; none if the text is anything else.
pub(super) fn variable(text: &str) -> Option<String> {
    match &pieces(text)[..] {
        [Piece::Variable(name)] => Some(name.clone()),
        _ => None,
    }
}

/// Returns a text as a template of Sprat's.
///
/// # Errors
///
/// The variable that Sprat does not have.
pub(super) fn template(text: &str) -> Result<String, String> {
    let mut out = String::new();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.push_str(&text.replace('%', "%%")),
            Piece::Variable(name) => out.push_str(&word_for(&name).ok_or(name)?),
        }
    }
    Ok(out)
}

fn word_for(name: &str) -> Option<String> {
    let field = |kind: &str, rest: &str| format!("%{kind}({})%", rest.replace('_', "-"));
    Some(
        match name {
            "remote_addr"
            | "realip_remote_addr"
            | "proxy_add_x_forwarded_for"
            | "proxy_protocol_addr" => "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
            "remote_port" | "proxy_protocol_port" => "%DOWNSTREAM_REMOTE_PORT%",
            "server_port" => "%DOWNSTREAM_LOCAL_PORT%",
            "scheme" => "%REQ(:SCHEME)%",
            "host" | "http_host" => "%REQ(:AUTHORITY)%",
            "request_uri" => "%REQ(:PATH)%",
            "request_method" => "%REQ(:METHOD)%",
            "server_protocol" => "%PROTOCOL%",
            "status" | "upstream_status" => "%RESPONSE_CODE%",
            "upstream_addr" => "%UPSTREAM_HOST%",
            "content_type" => "%REQ(content-type)%",
            other => {
                let names = [
                    ("http_", "REQ"),
                    ("upstream_http_", "RESP"),
                    ("sent_http_", "RESP"),
                ];
                let found = names.iter().find_map(|(start, kind)| {
                    let rest = other.strip_prefix(start)?;
                    (!rest.is_empty()).then(|| field(kind, rest))
                });
                return found;
            }
        }
        .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_become_words_of_templates() {
        for (text, expected) in [
            (
                "$scheme://${host}/100%",
                "%REQ(:SCHEME)%://%REQ(:AUTHORITY)%/100%%",
            ),
            ("$http_x_tier", "%REQ(x-tier)%"),
            ("a$", "a$"),
            ("$upstream_http_x_a", "%RESP(x-a)%"),
        ] {
            assert_eq!(template(text), Ok(expected.to_owned()), "{text}");
        }
        assert_eq!(template("$geoip_country"), Err("geoip_country".to_owned()));
    }

    #[test]
    fn known_variables_are_put_in() {
        let known = Constants::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(expand("http://$a/$1x${a}", &known), "http://b/${1}xb");
        assert_eq!(variable("${a}"), Some("a".to_owned()));
        assert_eq!(variable("$a$b"), None);
    }
}
