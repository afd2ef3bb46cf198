//! The scalars of routes' actions: statuses, regular expressions, values of fields, bodies.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::addresses::from_slash;
use crate::decode::{TextClass, shortened, similar};
use crate::names::{TOKEN_PATTERN, is_token};
use crate::resolved::{AllowedOrigin, TextPattern};
use crate::safe_regex::{MAX_PATTERN_LEN, SafeRegex};
use crate::scalars::{Fault, Leaf};
use crate::template::{NAMES, Template, TemplateFault};
use crate::texts::{is_made_of, texts};

/// The most bytes of a body that stands in the configuration itself.
const MAX_BODY_LEN: usize = 65_536;

/// The most bytes of a field's value in the configuration.
const MAX_VALUE_LEN: usize = 4096;

/// The fields that no route may edit, in lower case: those that say where a message ends, those of
/// its connection (RFC 9110 7.6.1), and `Host`.
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

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        SafeRegex::new(text).map(Self).map_err(|told| {
            let message = format!("`{}` is no regular expression: {told}", shortened(text));
            let help = "the syntax is that of RE2 and the Rust crate regex, without \
                        look-around and backreferences";
            Fault::new(message, help)
        })
    }
}

/// The text that a rewrite puts in the place of a pattern's match, with `\1` for its first group.
#[derive(Clone, Debug)]
pub(crate) struct Substitution(pub(crate) String);

impl Leaf for Substitution {
    fn expected() -> Cow<'static, str> {
        r"part of a path, with \1 for the pattern's first group".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[!-~]{0,1024}$", "not": {"pattern": "[?#]"}})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
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

/// The path that a redirect leads to, with a query if the operator gives it one.
#[derive(Clone, Debug)]
pub(crate) struct RedirectTarget(pub(crate) String);

impl Leaf for RedirectTarget {
    fn expected() -> Cow<'static, str> {
        "a path, such as /new or /new?from=old".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r"^/[!-~]*$", "not": {"pattern": "#"}})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let wrong = |c: char| match c {
            '#' => Some("leave the fragment out"),
            c if !c.is_ascii_graphic() => Some(crate::addresses::ENCODE),
            _ => None,
        };
        from_slash(text, "a path", wrong).map(Self)
    }
}

/// The status of a redirect: 301, 302, 303, 307 or 308.
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

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
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

/// Statuses of errors, as the first and the last: one from 400 to 599, or all of `4xx` or `5xx`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorStatuses(pub(crate) (u16, u16));

impl Leaf for ErrorStatuses {
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

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
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

texts! {
    /// The name of a query's parameter, decoded.
    ParameterName: "the name of a parameter, such as page",
        {"minLength": 1, "maxLength": 128},
        |text| (1..=128).contains(&text.chars().count());

    /// The value of `Content-Type`.
    MediaTypeText: "a media type, such as text/html; charset=utf-8",
        {"pattern": "^[!-.0-~]+/[ -~]+$", "maxLength": 256},
        |text| {
            let parts = text.split_once('/');
            is_made_of(text, 0..=256, |b| (b' '..=b'~').contains(&b))
                && parts.is_some_and(|(kind, rest)| {
                    !kind.is_empty() && !kind.contains(' ') && !rest.is_empty()
                })
        };

    /// The realm that browsers show when they ask for a password.
    Realm: "a few words, without quotes and backslashes",
        {"pattern": r#"^[ !#-\[\]-~]{1,128}$"#},
        |text| {
            let valid = |b: u8| (b' '..=b'~').contains(&b) && b != b'"' && b != b'\\';
            is_made_of(text, 1..=128, valid)
        };
}

/// The name of a field that a route may edit, in lower case.
#[derive(Clone, Debug)]
pub(crate) struct EditedName(pub(crate) String);

/// Returns whether a field, in lower case, frames a message or is about its connection.
pub(crate) fn is_of_connection(name: &str) -> bool {
    name != "host" && RESERVED.contains(&name)
}

impl Leaf for EditedName {
    fn expected() -> Cow<'static, str> {
        "the name of a header field, such as X-Frame-Options".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": TOKEN_PATTERN,
            "not": {"pattern": format!("^({})$", RESERVED.map(any_case).join("|"))},
        })
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        if !is_token(text) {
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

/// Returns a regular expression that matches a word, whatever the case of its letters.
fn any_case(word: &str) -> String {
    let letter = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{c}]", c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    word.chars().map(letter).collect()
}

/// The value of a header field that a route writes, with variables.
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

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        if text.len() > MAX_VALUE_LEN || !text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return Err(Fault::PLAIN);
        }
        Template::parse(text)
            .map(Self)
            .map_err(|fault| template_fault(fault, &NAMES, "docs/routes.md"))
    }
}

/// Returns the fault of a template as an error's text, with help. `names` are the variables that
/// the template may have, `page` is the document that lists them.
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

/// The body of an answer that Sprat gives itself, as it stands in the configuration.
#[derive(Clone, Debug)]
pub(crate) struct BodyText(pub(crate) String);

impl Leaf for BodyText {
    fn expected() -> Cow<'static, str> {
        "text, 64 KB at most".into()
    }

    fn accepts() -> Value {
        json!({"type": "string"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        match text.len() <= MAX_BODY_LEN {
            true => Ok(Self(text.to_owned())),
            false => Err(Fault::new(
                "this body is longer than 64 KB",
                "put it into a file, and give its path as `file`",
            )),
        }
    }
}

/// The web pages that CORS allows: those of one origin, of all hosts below a domain, or all.
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

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
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

/// A pattern of users' names: one whole name, or the beginning of names (`team-*`).
#[derive(Clone, Debug)]
pub(crate) struct UserPattern(pub(crate) TextPattern);

impl Leaf for UserPattern {
    fn expected() -> Cow<'static, str> {
        "the name of a user, such as anna, or how it begins, such as team-*".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "minLength": 1, "maxLength": 256})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        match text.strip_suffix('*') {
            _ if text.is_empty() || text.len() > 256 => Err(Fault::PLAIN),
            Some(start) => Ok(Self(TextPattern::Prefix(start.to_owned()))),
            None => Ok(Self(TextPattern::Exact(text.to_owned()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value that a text is read as; none if its type refuses it.
    fn read<T: Leaf>(text: &str) -> Option<T> {
        T::parse(text, TextClass::String).ok()
    }

    #[test]
    fn fields_of_a_connection_are_those_that_nobody_passes_on_but_the_host() {
        for name in ["connection", "te", "trailer", "upgrade", "content-length"] {
            assert!(is_of_connection(name), "{name}");
        }
        for name in ["host", "cookie", "x-user", "Connection"] {
            assert!(!is_of_connection(name), "{name}");
        }
    }

    fn fault<T: Leaf>(text: &str) -> Fault {
        T::parse(text, TextClass::String).err().unwrap()
    }

    /// Returns `length` bytes of a text that is valid wherever letters are.
    fn letters(length: usize) -> String {
        "a".repeat(length)
    }

    #[test]
    fn a_substitution_is_part_of_a_path_alone() {
        let longest = letters(1024);
        for text in ["", r"/\1", &longest] {
            assert_eq!(read(text).map(|Substitution(own)| own).unwrap(), text);
        }
        for text in [" ", "/\u{e4}", &letters(1025)] {
            assert!(read::<Substitution>(text).is_none(), "{text}");
        }
        // The character at fault is underlined.
        let query = fault::<Substitution>("/a?b");
        assert_eq!(query.part, Some(2..3));
        assert_eq!(query.message.unwrap(), "a rewritten path has no query");
        assert_eq!(fault::<Substitution>("#").part, Some(0..1));
    }

    #[test]
    fn a_redirect_leads_to_a_path_with_a_query_and_no_fragment() {
        let target = |text| read(text).map(|RedirectTarget(own)| own);
        assert_eq!(target("/new?from=old").unwrap(), "/new?from=old");
        let help = |text| fault::<RedirectTarget>(text).help.unwrap();
        assert_eq!(help("/a#b"), "leave the fragment out");
        assert_eq!(help("/a b"), crate::addresses::ENCODE);
        assert_eq!(help("/\u{e4}"), crate::addresses::ENCODE);
        assert_eq!(help("new"), "write `/new`");
    }

    #[test]
    fn the_statuses_of_a_redirect_are_those_with_a_location() {
        let codes = (0..1000).filter_map(|code: u16| {
            let RedirectCode(own) = read(&code.to_string())?;
            assert_eq!(own, code);
            Some(own)
        });
        let codes: Vec<_> = codes.collect();
        assert_eq!(codes, [301, 302, 303, 307, 308]);
    }

    #[test]
    fn a_status_of_errors_is_of_three_digits_or_a_hundred_of_them() {
        for (text, expected) in [
            ("4xx", Some((400, 499))),
            ("5xx", Some((500, 599))),
            ("400", Some((400, 400))),
            ("599", Some((599, 599))),
            ("399", None),
            ("600", None),
            ("3xx", None),
            ("0404", None),
            ("+404", None),
        ] {
            let range = read(text).map(|ErrorStatuses(own)| own);
            assert_eq!(range, expected, "{text}");
        }
    }

    #[test]
    fn fields_of_the_connection_are_not_edited() {
        let name = |text| read(text).map(|EditedName(own)| own);
        assert_eq!(name("X-Frame-Options").unwrap(), "x-frame-options");
        assert_eq!(name(&letters(64)).unwrap(), letters(64));
        for text in ["", "a b", "a:", &letters(65)] {
            assert!(fault::<EditedName>(text).message.is_none(), "{text}");
        }
        for (text, help) in [
            ("Host", "`host_rewrite` says which `Host` the backend sees"),
            (
                "Upgrade",
                "`upgrade` says which protocols may be switched to",
            ),
            (
                "TE",
                "Sprat writes it itself, as the message and the connection need it",
            ),
        ] {
            let fault = fault::<EditedName>(text);
            assert_eq!(fault.message.unwrap(), format!("`{text}` cannot be edited"));
            assert_eq!(fault.help.unwrap(), help);
        }
    }

    #[test]
    fn a_field_s_value_is_a_line_of_4096_characters_at_most() {
        for (text, is_read) in [
            ("", true),
            ("a b", true),
            (&*letters(4096), true),
            (&*letters(4097), false),
            (&*letters(5000), false),
            ("a\tb", false),
            ("\u{e4}", false),
        ] {
            let template = read::<HeaderTemplate>(text);
            assert_eq!(template.is_some(), is_read, "{} bytes", text.len());
        }
    }

    #[test]
    fn a_media_type_has_both_its_parts() {
        let longest = format!("text/{}", letters(251));
        for text in ["text/html", "text/html; charset=utf-8", "a/b/c", &longest] {
            let MediaTypeText(own) = read(text).unwrap();
            assert_eq!(own, text);
        }
        let too_long = format!("{longest}a");
        for text in [
            "text",
            "/html",
            "text/",
            "te xt/html",
            "text/\u{e4}",
            "text/a\n",
            &too_long,
        ] {
            assert!(read::<MediaTypeText>(text).is_none(), "{text}");
        }
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host_or_all_below_one() {
        let exact = |text: &str| Some(AllowedOrigin::Exact(text.to_owned()));
        let below =
            |start: &str, end: &str| Some(AllowedOrigin::Below(start.to_owned(), end.to_owned()));
        for (text, expected) in [
            ("*", Some(AllowedOrigin::Any)),
            ("null", exact("null")),
            ("HTTPS://App.example:81", exact("https://app.example:81")),
            ("http://[::1]:80", exact("http://[::1]:80")),
            ("https://*.a.example", below("https://", ".a.example")),
            ("https://", None),
            ("https://a b", None),
            ("ht_tp://a.example", None),
            ("https://*", None),
            ("https://*.", None),
            ("https://*a.example", None),
            ("https://*xa.example", None),
            ("https://*.a b", None),
            ("ht_tp://*.a.example", None),
            ("https://a.example/b", None),
            ("a.example", None),
        ] {
            let origin = read(text).map(|OriginPattern(own)| own);
            assert_eq!(origin, expected, "{text}");
        }
    }

    #[test]
    fn a_realm_can_stand_in_quotes() {
        for (text, is_read) in [
            ("The farm's office", true),
            (&*letters(128), true),
            (&*letters(129), false),
            ("", false),
            ("a\"b", false),
            (r"a\b", false),
            ("a\nb", false),
            ("\u{e4}", false),
        ] {
            assert_eq!(read::<Realm>(text).is_some(), is_read, "{text}");
        }
    }

    #[test]
    fn a_user_is_named_whole_or_by_a_beginning() {
        let longest = letters(256);
        for (text, expected) in [
            ("anna", Some(TextPattern::Exact("anna".to_owned()))),
            ("team-*", Some(TextPattern::Prefix("team-".to_owned()))),
            ("*", Some(TextPattern::Prefix(String::new()))),
            (&*longest, Some(TextPattern::Exact(longest.clone()))),
            (&*letters(257), None),
            (&*letters(300), None),
            ("", None),
        ] {
            let user = read(text).map(|UserPattern(own)| own);
            assert_eq!(user, expected, "{text}");
        }
    }
}
