//! What routes do with requests, as it is written: statuses, regular expressions,
//! values of fields, bodies.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::addresses::from_slash;
use crate::decode::{Class, shortened, similar};
use crate::resolved::{AllowedOrigin, TextPattern};
use crate::safe_regex::{MAX_PATTERN_LEN, SafeRegex};
use crate::scalars::{Fault, Leaf};
use crate::template::{NAMES, Template, TemplateFault};

/// Bytes of a body in the configuration.
const MAX_BODY_LEN: usize = 65_536;

/// Bytes of a field's value in the configuration.
const MAX_VALUE_LEN: usize = 4096;

/// Fields that say where a message ends, or are the connection's own (RFC 9110 7.6.1).
const RESERVED: [&str; 10] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// A regular expression of a route.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(pub(crate) SafeRegex);

impl Leaf for Pattern {
    fn expected() -> Cow<'static, str> {
        "a regular expression, such as ^/user/[0-9]+$".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "maxLength": MAX_PATTERN_LEN})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        SafeRegex::new(text).map(Self).map_err(|told| {
            let message = format!("`{}` is no regular expression: {told}", shortened(text));
            let help = "the syntax is that of RE2 and the Rust crate regex, without \
                        look-around and backreferences";
            Fault::new(message, help)
        })
    }
}

/// What stands in the place of a match.
#[derive(Clone, Debug)]
pub(crate) struct Substitution(pub(crate) String);

impl Leaf for Substitution {
    fn expected() -> Cow<'static, str> {
        r"part of a path, with \1 for the pattern's first group".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[!-~]{0,1024}$", "not": {"pattern": "[?#]"}})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        if let Some(at) = text.find(['?', '#']) {
            return Err(Fault {
                part: Some(at..at + 1),
                message: Some("a rewritten path has no query".to_owned()),
                help: Some("leave it out: the query of the request is kept".to_owned()),
            });
        }
        match text.len() <= 1024 && text.bytes().all(|b| b.is_ascii_graphic()) {
            true => Ok(Self(text.to_owned())),
            false => Err(Fault::PLAIN),
        }
    }
}

/// A path, and a query if need be.
#[derive(Clone, Debug)]
pub(crate) struct RedirectTarget(pub(crate) String);

impl Leaf for RedirectTarget {
    fn expected() -> Cow<'static, str> {
        "a path, such as /new or /new?from=old".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r"^/[!-~]*$", "not": {"pattern": "#"}})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        let wrong = |c: char| match c {
            '#' => Some("leave the fragment out"),
            c if !c.is_ascii_graphic() => Some(crate::addresses::ENCODE),
            _ => None,
        };
        from_slash(text, "a path", wrong).map(Self)
    }
}

/// The status of a redirect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedirectCode(pub(crate) u16);

impl Leaf for RedirectCode {
    const NUMBER: bool = true;
    const TEXT: bool = false;

    fn expected() -> Cow<'static, str> {
        "301, 302, 303, 307 or 308".into()
    }

    fn accepts() -> Value {
        json!({"enum": [301, 302, 303, 307, 308]})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text {
            "301" => Ok(Self(301)),
            "302" => Ok(Self(302)),
            "303" => Ok(Self(303)),
            "307" => Ok(Self(307)),
            "308" => Ok(Self(308)),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// A status of an answer that is no success, or all of a hundred.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusRange(pub(crate) (u16, u16));

impl Leaf for StatusRange {
    const NUMBER: bool = true;

    fn expected() -> Cow<'static, str> {
        "a status from 400 to 599, 4xx or 5xx".into()
    }

    fn accepts() -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": 400, "maximum": 599},
            {"enum": ["4xx", "5xx"]},
            {"type": "string", "pattern": "^[45][0-9][0-9]$"},
        ]})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text {
            "4xx" => Ok(Self((400, 499))),
            "5xx" => Ok(Self((500, 599))),
            _ => match text.parse() {
                Ok(status @ 400..=599) if text.len() == 3 => Ok(Self((status, status))),
                _ => Err(Fault::PLAIN),
            },
        }
    }
}

/// The name of a query's parameter, decoded.
#[derive(Clone, Debug)]
pub(crate) struct ParameterName(pub(crate) String);

impl Leaf for ParameterName {
    fn expected() -> Cow<'static, str> {
        "the name of a parameter, such as page".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "minLength": 1, "maxLength": 128})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match (1..=128).contains(&text.chars().count()) {
            true => Ok(Self(text.to_owned())),
            false => Err(Fault::PLAIN),
        }
    }
}

/// The name of a field that a route may edit, in lower case.
#[derive(Clone, Debug)]
pub(crate) struct EditedName(pub(crate) String);

impl Leaf for EditedName {
    fn expected() -> Cow<'static, str> {
        "the name of a header field, such as X-Frame-Options".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$",
            "not": {"pattern": format!("^({})$", RESERVED.map(any_case).join("|"))},
        })
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&b);
        if !(1..=64).contains(&text.len()) || !text.bytes().all(valid) {
            return Err(Fault::PLAIN);
        }
        let name = text.to_ascii_lowercase();
        if RESERVED.contains(&&*name) {
            let help = match &*name {
                "host" => "`host_rewrite` says which `Host` the backend sees",
                "upgrade" => "`upgrade` says which protocols may be switched to",
                _ => "Sprat writes it itself, as the message and the connection need it",
            };
            return Err(Fault::new(format!("`{text}` cannot be edited"), help));
        }
        Ok(Self(name))
    }
}

/// Returns a pattern for a word in whatever case.
fn any_case(word: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{c}]", c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    word.chars().map(letter).collect()
}

/// The value of a field, with variables.
#[derive(Clone, Debug)]
pub(crate) struct HeaderTemplate(pub(crate) Template);

impl Leaf for HeaderTemplate {
    const NUMBER: bool = true;

    fn expected() -> Cow<'static, str> {
        "a value of a header field, such as nosniff or %REQ(:PATH)%".into()
    }

    fn accepts() -> Value {
        json!({"anyOf": [
            {"type": "string", "pattern": "^[ -~]{0,4096}$"},
            {"type": "number"},
        ]})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        if text.len() > MAX_VALUE_LEN || !text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return Err(Fault::PLAIN);
        }
        Template::parse(text)
            .map(Self)
            .map_err(|fault| template_fault(fault, &NAMES, "docs/routes.md"))
    }
}

/// Says what is wrong with a template whose variables are these, and listed on a page.
pub(crate) fn template_fault(fault: TemplateFault, names: &[&str], page: &str) -> Fault {
    match fault {
        TemplateFault::Open => Fault::new(
            "a `%` begins a variable that does not end",
            "write `%%` for a percent sign",
        ),
        TemplateFault::Unknown(name) => {
            let help = match similar(&name, names.iter().copied()) {
                Some(name) => format!("did you mean `%{name}%`? (`%%` is a percent sign)"),
                None => format!("{page} lists them; `%%` is a percent sign"),
            };
            let name = shortened(&name);
            Fault::new(format!("there is no variable `%{name}%`"), help)
        }
    }
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub(crate) struct BodyText(pub(crate) String);

impl Leaf for BodyText {
    fn expected() -> Cow<'static, str> {
        "text, 64 KB at most".into()
    }

    fn accepts() -> Value {
        json!({"type": "string"})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text.len() <= MAX_BODY_LEN {
            true => Ok(Self(text.to_owned())),
            false => Err(Fault::new(
                "this body is longer than 64 KB",
                "put it into a file, and give its path as `file`",
            )),
        }
    }
}

/// The value of `Content-Type`.
#[derive(Clone, Debug)]
pub(crate) struct MediaTypeText(pub(crate) String);

impl Leaf for MediaTypeText {
    fn expected() -> Cow<'static, str> {
        "a media type, such as text/html; charset=utf-8".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[!-.0-~]+/[ -~]+$", "maxLength": 256})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        let printable = text.len() <= 256 && text.bytes().all(|b| (b' '..=b'~').contains(&b));
        match text.split_once('/') {
            Some((kind, rest)) if printable && !kind.is_empty() && !kind.contains(' ') => {
                match rest.is_empty() {
                    true => Err(Fault::PLAIN),
                    false => Ok(Self(text.to_owned())),
                }
            }
            _ => Err(Fault::PLAIN),
        }
    }
}

/// The origin of a web page, or all below a domain.
#[derive(Clone, Debug)]
pub(crate) struct OriginPattern(pub(crate) AllowedOrigin);

impl Leaf for OriginPattern {
    fn expected() -> Cow<'static, str> {
        "an origin, such as https://app.example.org or https://*.example.org, or *".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": r"^(\*|null|[a-z][a-z0-9+.-]*://(\*\.)?[A-Za-z0-9._\[\]:-]+)$",
        })
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        let lower = text.to_ascii_lowercase();
        if lower == "*" {
            return Ok(Self(AllowedOrigin::Any));
        }
        let Some((scheme, host)) = lower.split_once("://") else {
            return match lower == "null" {
                true => Ok(Self(AllowedOrigin::Exact(lower))),
                false => Err(Fault::help(format!("write https://{}", shortened(&lower)))),
            };
        };
        if let Some(rest) = host.split_once('/').map(|(host, _)| host) {
            let origin = format!("{scheme}://{rest}");
            return Err(Fault::help(format!(
                "an origin has no path: write {}",
                shortened(&origin)
            )));
        }
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"._-:[]".contains(&b);
        let is_host = |host: &str| !host.is_empty() && host.bytes().all(valid);
        let is_scheme = scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"+.-".contains(&b));
        match host.strip_prefix('*') {
            Some(end) if is_scheme && end.starts_with('.') && is_host(&end[1..]) => Ok(Self(
                AllowedOrigin::Below(format!("{scheme}://"), end.to_owned()),
            )),
            None if is_scheme && is_host(host) => Ok(Self(AllowedOrigin::Exact(lower))),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// The realm of passwords.
#[derive(Clone, Debug)]
pub(crate) struct Realm(pub(crate) String);

impl Leaf for Realm {
    fn expected() -> Cow<'static, str> {
        "a few words, without quotes and backslashes".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r#"^[ !#-\[\]-~]{1,128}$"#})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        let valid = |b: u8| (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\';
        match (1..=128).contains(&text.len()) && text.bytes().all(valid) {
            true => Ok(Self(text.to_owned())),
            false => Err(Fault::PLAIN),
        }
    }
}

/// A user's name, or how it begins.
#[derive(Clone, Debug)]
pub(crate) struct UserPattern(pub(crate) TextPattern);

impl Leaf for UserPattern {
    fn expected() -> Cow<'static, str> {
        "the name of a user, such as anna, or how it begins, such as team-*".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "minLength": 1, "maxLength": 256})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text.strip_suffix('*') {
            _ if text.is_empty() || text.len() > 256 => Err(Fault::PLAIN),
            Some(start) => Ok(Self(TextPattern::Prefix(start.to_owned()))),
            None => Ok(Self(TextPattern::Exact(text.to_owned()))),
        }
    }
}
