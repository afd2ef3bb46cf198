//! Names and paths in the configuration.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::decode::{TextClass, shortened};
use crate::scalars::{Fault, Leaf, NAME_PATTERN, check_name};
use crate::texts::{is_made_of, texts};

/// A name of the operator's choosing.
#[derive(Clone, Debug)]
pub(crate) struct Name(pub(crate) String);

impl Leaf for Name {
    fn expected() -> Cow<'static, str> {
        "a name".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": NAME_PATTERN})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        check_name(text)
            .map(|()| Self(text.to_owned()))
            .map_err(|help| Fault::new(format!("`{}` cannot be a name", shortened(text)), help))
    }
}

/// The regular expression of a token (RFC 9110 5.6.2) of at most 64 bytes.
pub(crate) const TOKEN_PATTERN: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$";

/// Returns whether a text is a token (RFC 9110 5.6.2) of at most 64 bytes.
pub(crate) fn is_token(text: &str) -> bool {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&b);
    is_made_of(text, 1..=64, valid)
}

texts! {
    /// A pseudonym for `Via`: a token (RFC 9110 5.6.2).
    Pseudonym: "a word without spaces, such as sprat",
        {"pattern": TOKEN_PATTERN},
        is_token;

    /// The name of one of Envoy's clusters, in characters that a header field can carry.
    EnvoyCluster: "the name of one of Envoy's clusters, without spaces",
        {"pattern": "^[!-~]{1,256}$"},
        |text| is_made_of(text, 1..=256, |b| b.is_ascii_graphic());

    /// A key of Envoy's metadata.
    MetadataKey: "a key of Envoy's metadata, without spaces, such as pool",
        {"pattern": "^[!-~]{1,256}$"},
        |text| is_made_of(text, 1..=256, |b| b.is_ascii_graphic());

    /// The target of a request: a path, with its query if there is one (RFC 9112 3.2.1).
    Target: "a path, such as /a.iso or /search?q=all",
        {"pattern": "^/[!\"$-~]{0,4095}$"},
        |text| {
            let valid = |b: u8| b.is_ascii_graphic() && b != b'#';
            text.starts_with('/') && is_made_of(text, 1..=4096, valid)
        };

    /// The name of a file in a directory.
    FileName: "the name of a file, such as index.html",
        {"pattern": r"^[^\u0000-\u001f/.][^\u0000-\u001f/]*$"},
        |text| {
            let hidden_or_none = text.is_empty() || text.starts_with('.');
            !hidden_or_none && !text.chars().any(|c| c < ' ' || c == '/')
        };

    /// The prefix of keys in a store.
    KeyPrefix: "up to 64 characters without spaces, such as sprat:",
        {"pattern": "^[!-~]{1,64}$"},
        |text| is_made_of(text, 1..=64, |b| b.is_ascii_graphic());

    /// The name of a network device.
    Device: "the name of a network device, such as eth0",
        {"pattern": "^[A-Za-z0-9_.@-]{1,15}$"},
        |text| {
            // The kernel's IFNAMSIZ is 16 with the terminator.
            is_made_of(text, 1..=15, |b| b.is_ascii_alphanumeric() || b"_.@-".contains(&b))
        };
}

/// A pass phrase of a store, which is never shown. A number needs no quotes: the error that asks
/// for them would show it.
#[derive(Clone, Debug)]
pub(crate) struct Phrase(pub(crate) String);

impl Leaf for Phrase {
    const NUMBER: bool = true;

    fn expected() -> Cow<'static, str> {
        "a pass phrase".into()
    }

    fn accepts() -> Value {
        json!({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 1024}, {"type": "number"}]})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        match (1..=1024).contains(&text.chars().count()) {
            true => Ok(Self(text.to_owned())),
            // Without the text, which is a secret.
            false => Err(Fault::new(
                "this is no pass phrase",
                "use 1 to 1024 characters",
            )),
        }
    }
}

/// A protocol that a connection may switch to, in lower case: a token (RFC 9110
/// 7.8), without a version.
#[derive(Clone, Debug)]
pub(crate) struct Protocol(pub(crate) String);

impl Leaf for Protocol {
    fn expected() -> Cow<'static, str> {
        "the name of a protocol, such as websocket".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": TOKEN_PATTERN, "not": {"pattern": "^[Hh]2[Cc]$"}})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        if !is_token(text) {
            return Err(Fault::PLAIN);
        }
        if text.eq_ignore_ascii_case("h2c") {
            let help = "remove it: the requests inside would be past every route and rule";
            return Err(Fault::new(
                "HTTP/2 cannot be tunnelled".to_owned(),
                help.to_owned(),
            ));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

/// An address that mail is sent to.
#[derive(Clone, Debug)]
pub(crate) struct Email(pub(crate) String);

impl Leaf for Email {
    fn expected() -> Cow<'static, str> {
        "an address for mail, such as ops@example.org".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[!-?A-~]{1,64}@[!-?A-~]{1,253}$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        if let Some(address) = text.strip_prefix("mailto:") {
            return Err(Fault::help(format!(
                "leave `mailto:` out: {}",
                shortened(address)
            )));
        }
        let part = |part: &str, most| {
            let valid = |b: u8| b.is_ascii_graphic() && b != b'@';
            (1..=most).contains(&part.len()) && part.bytes().all(valid)
        };
        match text.split_once('@') {
            Some((local, domain)) if part(local, 64) && part(domain, 253) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(Fault::PLAIN),
        }
    }
}

/// A header field's name, in lower case: a token (RFC 9110 5.1).
#[derive(Clone, Debug)]
pub(crate) struct FieldName(pub(crate) String);

impl Leaf for FieldName {
    fn expected() -> Cow<'static, str> {
        "the name of a header field, such as accept-encoding".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": TOKEN_PATTERN})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        match is_token(text) {
            true => Ok(Self(text.to_ascii_lowercase())),
            false => Err(Fault::PLAIN),
        }
    }
}

/// A path of a file.
#[derive(Clone, Debug)]
pub(crate) struct FilePath(pub(crate) PathBuf);

impl Leaf for FilePath {
    fn expected() -> Cow<'static, str> {
        "a path in the file system".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r"^[^\u0000-\u001f]+$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        match text.is_empty() || text.chars().any(|c| c < ' ') {
            true => Err(Fault::PLAIN),
            false => Ok(Self(PathBuf::from(text))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a type takes a text.
    fn is<T: Leaf>(text: &str) -> bool {
        T::parse(text, TextClass::String).is_ok()
    }

    #[test]
    fn an_address_for_mail_has_two_parts() {
        let (local, domain) = ("a".repeat(64), "b".repeat(253));
        for good in ["ops@example.org", "a+b@c", &format!("{local}@{domain}")] {
            assert!(is::<Email>(good), "{good}");
        }
        for bad in [
            "",
            "@",
            "ops",
            "@example.org",
            "ops@",
            "ops@a@b",
            "the ops@example.org",
            "ops@example org",
            "\u{f6}ps@example.org",
            &format!("{local}a@{domain}"),
            &format!("{local}@{domain}b"),
        ] {
            assert!(!is::<Email>(bad), "{bad}");
        }
    }

    #[test]
    fn paths_and_names_of_files_have_spaces_and_no_control_characters() {
        for good in ["/srv/a b", "a", ".", "\u{e9}/b"] {
            assert!(is::<FilePath>(good), "{good:?}");
        }
        for bad in ["", "/srv/a\u{1f}b", "/srv/a\n", "\0"] {
            assert!(!is::<FilePath>(bad), "{bad:?}");
        }
        for good in ["index.html", "a b", "a.", "\u{e9}"] {
            assert!(is::<FileName>(good), "{good:?}");
        }
        for bad in [
            "", ".", "..", ".hidden", "/", "a/b", "a/", "a\u{1f}b", "\ta",
        ] {
            assert!(!is::<FileName>(bad), "{bad:?}");
        }
    }
}
