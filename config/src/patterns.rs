//! The properties by which rules recognise requests: header fields, methods, media types, code
//! points.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::decode::{TextClass, shortened};
use crate::names::{TOKEN_PATTERN, is_token};
use crate::resolved::TextPattern;
use crate::scalars::{Fault, Leaf};
use crate::texts::texts;

texts! {
    /// The name of a header field or a cookie.
    HeaderName: "a name of a header field or cookie, such as X-Tier",
        {"pattern": TOKEN_PATTERN},
        is_token;
}

/// A pattern of values: a whole value, or the beginning of values.
#[derive(Clone, Debug)]
pub(crate) struct ValuePattern(pub(crate) TextPattern);

impl Leaf for ValuePattern {
    fn expected() -> Cow<'static, str> {
        "a value, such as gold, or how it begins, such as gold*".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[ -)+-~]{0,256}\\*?$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let (text, begins) = match text.strip_suffix('*') {
            Some(start) => (start, true),
            None => (text, false),
        };
        if text.len() > 256 || !text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return Err(Fault::PLAIN);
        }
        if text.contains('*') {
            let help = "leave out what follows the first one".to_owned();
            return Err(Fault::new("a `*` stands at the end only", help));
        }
        Ok(Self(match begins {
            true => TextPattern::Prefix(text.to_owned()),
            false => TextPattern::Exact(text.to_owned()),
        }))
    }
}

/// A file's extension, without the dot.
#[derive(Clone, Debug)]
pub(crate) struct Extension(pub(crate) String);

impl Leaf for Extension {
    fn expected() -> Cow<'static, str> {
        "an extension without its dot, such as html".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[A-Za-z0-9_+~-]{1,32}$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        if let Some(rest) = text.strip_prefix('.') {
            return Err(Fault::help(format!("write {}", shortened(rest))));
        }
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"_+~-".contains(&b);
        match (1..=32).contains(&text.len()) && text.bytes().all(valid) {
            true => Ok(Self(text.to_ascii_lowercase())),
            false => Err(Fault::PLAIN),
        }
    }
}

/// The name of a request's method; methods are case-sensitive (RFC 9110 9.1).
#[derive(Clone, Debug)]
pub(crate) struct MethodName(pub(crate) String);

impl Leaf for MethodName {
    fn expected() -> Cow<'static, str> {
        "a method, such as GET".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[A-Z0-9_-]{1,32}$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let valid = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b"_-".contains(&b);
        if (1..=32).contains(&text.len()) && text.bytes().all(valid) {
            return Ok(Self(text.to_owned()));
        }
        let upper = text.to_ascii_uppercase();
        match is_token(text) && upper != text {
            true => Err(Fault::help(format!("write {upper}"))),
            false => Err(Fault::PLAIN),
        }
    }
}

/// A pattern of media types: one type, or all subtypes of one.
#[derive(Clone, Debug)]
pub(crate) struct MediaType(pub(crate) TextPattern);

impl Leaf for MediaType {
    fn expected() -> Cow<'static, str> {
        "a media type, such as application/json or image/*".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": "^[A-Za-z0-9!#$&^_.+-]{1,64}/([A-Za-z0-9!#$&^_.+-]{1,64}|\\*)$",
        })
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let lower = text.to_ascii_lowercase();
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b);
        let name = |name: &str| (1..=64).contains(&name.len()) && name.bytes().all(valid);
        match lower.split_once('/') {
            Some((kind, "*")) if name(kind) => Ok(Self(TextPattern::Prefix(format!("{kind}/")))),
            Some((kind, subtype)) if name(kind) && name(subtype) => {
                Ok(Self(TextPattern::Exact(lower)))
            }
            _ => Err(Fault::PLAIN),
        }
    }
}

/// A differentiated services code point, by number or by name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dscp(pub(crate) u8);

impl Leaf for Dscp {
    const NUMBER: bool = true;

    fn expected() -> Cow<'static, str> {
        "a code point: 0 to 63, default, ef, le, cs0 to cs7, or af11 to af43".into()
    }

    fn accepts() -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 63},
            {"type": "string", "pattern": "^([dD][eE][fF][aA][uU][lL][tT]|[eE][fF]|[lL][eE]|[cC][sS][0-7]|[aA][fF][1-4][1-3]|0*[0-9]|0*[1-5][0-9]|0*6[0-3])$"},
        ]})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let lower = text.to_ascii_lowercase();
        let digit = |at: usize, highest: u8| {
            let digit = lower.as_bytes().get(at)?.checked_sub(b'0')?;
            (digit <= highest).then_some(digit)
        };
        // `parse` would take a sign.
        let is_plain = lower.bytes().all(|byte| byte.is_ascii_digit());
        let number = || lower.parse().ok().filter(|&own: &u8| is_plain && own < 64);
        let named = match (lower.get(..2), lower.len()) {
            // RFC 3246, RFC 8622, RFC 2474 and RFC 2597.
            (Some("de"), 7) if lower == "default" => Some(0),
            (Some("ef"), 2) => Some(46),
            (Some("le"), 2) => Some(1),
            (Some("cs"), 3) => digit(2, 7).map(|class| class * 8),
            (Some("af"), 4) => digit(2, 4)
                .zip(digit(3, 3))
                .and_then(|(class, drop)| (class > 0 && drop > 0).then_some(class * 8 + drop * 2)),
            _ => number(),
        };
        named.map(Self).ok_or(Fault::PLAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value that a text is read as; none if its type refuses it.
    fn read<T: Leaf>(text: &str) -> Option<T> {
        T::parse(text, TextClass::Any).ok()
    }

    /// Returns the help for a text that its type refuses; panics if the type takes it.
    fn help<T: Leaf>(text: &str) -> Option<String> {
        match T::parse(text, TextClass::Any) {
            Ok(_) => panic!("{text} is taken"),
            Err(fault) => fault.help,
        }
    }

    fn exact(text: &str) -> Option<TextPattern> {
        Some(TextPattern::Exact(text.to_owned()))
    }

    fn prefix(text: &str) -> Option<TextPattern> {
        Some(TextPattern::Prefix(text.to_owned()))
    }

    #[test]
    fn a_name_of_a_field_is_a_token() {
        let long = "a".repeat(64);
        for good in ["X-Tier", "a", "!#$%&'*+.^_`|~-", &long] {
            let name = read::<HeaderName>(good).map(|own| own.0);
            assert_eq!(name.as_deref(), Some(good));
        }
        for bad in ["", "a b", "a:", "\u{e9}", &format!("{long}a")] {
            assert!(read::<HeaderName>(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_value_is_visible_and_not_long() {
        let read = |text: &str| read::<ValuePattern>(text).map(|own| own.0);
        let long = "a".repeat(256);
        assert_eq!(read(""), exact(""));
        assert_eq!(read("gold and ~"), exact("gold and ~"));
        assert_eq!(read("gold*"), prefix("gold"));
        assert_eq!(read("*"), prefix(""));
        assert_eq!(read(&long), exact(&long));
        assert_eq!(read(&format!("{long}*")), prefix(&long));
        for bad in ["a\tb", "\u{7f}", "\u{e9}", "a*b", "**"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        assert_eq!(read(&format!("{long}a")), None);
        assert_eq!(read(&format!("{long}a*")), None);
    }

    #[test]
    fn an_extension_has_no_dot() {
        let read = |text: &str| read::<Extension>(text).map(|own| own.0);
        let long = "a".repeat(32);
        assert_eq!(read("HTML").as_deref(), Some("html"));
        assert_eq!(read("c++_~-").as_deref(), Some("c++_~-"));
        assert_eq!(read(&long).as_deref(), Some(&*long));
        for bad in ["", "a b", "tar.gz", "\u{e9}", &format!("{long}a")] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(help::<Extension>(".html").as_deref(), Some("write html"));
    }

    #[test]
    fn a_method_is_in_capitals() {
        let read = |text: &str| read::<MethodName>(text).map(|own| own.0);
        let long = "A".repeat(32);
        for good in ["GET", "M-SEARCH", "X_1", &long] {
            assert_eq!(read(good).as_deref(), Some(good));
        }
        assert_eq!(help::<MethodName>("get").as_deref(), Some("write GET"));
        // In capitals these would be none either.
        for bad in ["", "g t", "A.B", "G T", &format!("{long}A")] {
            assert_eq!(help::<MethodName>(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_media_type_has_two_names() {
        let read = |text: &str| read::<MediaType>(text).map(|own| own.0);
        let long = "a".repeat(64);
        assert_eq!(read("Application/JSON"), exact("application/json"));
        assert_eq!(read("image/svg+xml"), exact("image/svg+xml"));
        assert_eq!(read("Image/*"), prefix("image/"));
        let longest = format!("{long}/{long}");
        assert_eq!(read(&longest), exact(&longest));
        for bad in [
            "",
            "/",
            "json",
            "/json",
            "/*",
            "text/",
            "*/*",
            "te xt/html",
            "text/ht ml",
            "te xt/*",
            "text/html/x",
            &format!("{long}a/*"),
            &format!("{long}a/b"),
            &format!("b/{long}a"),
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_code_point_has_a_number_or_a_name() {
        let read = |text: &str| read::<Dscp>(text).map(|own| own.0);
        for (text, number) in [
            ("0", 0),
            ("63", 63),
            ("046", 46),
            ("default", 0),
            ("Default", 0),
            ("EF", 46),
            ("le", 1),
            ("cs0", 0),
            ("cs1", 8),
            ("CS7", 56),
            ("af11", 10),
            ("af23", 22),
            ("AF43", 38),
        ] {
            assert_eq!(read(text), Some(number), "{text}");
        }
        for bad in [
            "", "64", "-1", "+5", "desktop", "deny", "efs", "cs8", "cs", "af01", "af10", "af00",
            "af44", "af51", "af1", "\u{e9}f",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
