//! The faults that make a message of HTTP/2 malformed (RFC 9113 8.1.1), of its fields one by one
//! and together.

use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, StatusCode};

use crate::hpack::Field;

/// The pseudo-header fields, a bit for each.
const METHOD: u8 = 1;
const SCHEME: u8 = 1 << 1;
const AUTHORITY: u8 = 1 << 2;
const PATH: u8 = 1 << 3;
const PROTOCOL: u8 = 1 << 4;
const STATUS: u8 = 1 << 5;

/// The part of a message that a header block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The head of a request; `is_whole` if its stream ends with it.
    Request { is_whole: bool },
    /// The head of a response, final or not.
    Response,
    /// The fields that follow a body.
    Trailers,
    /// A block that belongs to no message, and that the library answers by itself.
    Stray,
}

/// The fields of one message, as they come.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// The first fault that was found in the message.
    fault: Option<&'static str>,
    pseudo: u8,
    /// Whether a field has come that is no pseudo-header field.
    has_begun: bool,
    length: Option<u64>,
    /// The method. This text and the next three are checked and logged; their buffers are reused
    /// from message to message.
    method: Vec<u8>,
    scheme: Vec<u8>,
    authority: Vec<u8>,
    path: Vec<u8>,
    status: Option<StatusCode>,
}

/// A malformed request, as far as its parts could be read.
#[derive(Debug)]
pub struct Malformed {
    /// The fault, in words for the log.
    pub fault: &'static str,
    /// The method, if that could be read.
    pub method: Option<Method>,
    /// The path, in which octets that do not belong there are percent codes.
    pub path: Option<PathAndQuery>,
    /// The authority that the request is for, if that could be read.
    pub authority: Option<Authority>,
}

impl Message {
    /// Begins the next message, and forgets the one before.
    pub(super) fn begin(&mut self) {
        (self.fault, self.pseudo, self.has_begun) = (None, 0, false);
        (self.length, self.status) = (None, None);
        for text in [
            &mut self.method,
            &mut self.scheme,
            &mut self.authority,
            &mut self.path,
        ] {
            text.clear();
        }
    }

    /// Takes a field; returns whether it is sound by itself.
    pub(super) fn field(&mut self, part: Part, field: &Field<'_>) -> bool {
        let pseudo = field.name.first() == Some(&b':');
        let fault = match field.is_known_sound {
            true => None,
            false if pseudo => unsound_pseudo(field),
            false => unsound(field),
        };
        let together = match pseudo {
            _ if part == Part::Stray => None,
            true => self.pseudo(part, field),
            false => self.regular(part, field),
        };
        self.fault = self.fault.or(fault).or(together);
        fault.is_none()
    }

    fn pseudo(&mut self, part: Part, field: &Field<'_>) -> Option<&'static str> {
        let (bit, known) = match field.name {
            b":method" => (METHOD, Some(&mut self.method)),
            b":scheme" => (SCHEME, Some(&mut self.scheme)),
            b":authority" => (AUTHORITY, Some(&mut self.authority)),
            b":path" => (PATH, Some(&mut self.path)),
            b":protocol" => (PROTOCOL, None),
            b":status" => (STATUS, None),
            // Told by itself.
            _ => return None,
        };
        if self.pseudo & bit != 0 {
            return Some("a pseudo-header field comes twice");
        }
        self.pseudo |= bit;
        if let Some(known) = known {
            known.extend_from_slice(field.value);
        }
        if bit == STATUS {
            self.status = StatusCode::from_bytes(field.value).ok();
        }
        let belongs = match part {
            Part::Request { .. } => bit != STATUS,
            Part::Response => bit == STATUS,
            Part::Trailers => return Some("a pseudo-header field is in the trailers"),
            Part::Stray => true,
        };
        if !belongs {
            return Some("a pseudo-header field does not belong there");
        }
        self.has_begun
            .then_some("a pseudo-header field follows others")
    }

    fn regular(&mut self, part: Part, field: &Field<'_>) -> Option<&'static str> {
        self.has_begun = true;
        match field.name {
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding"
            | b"upgrade" => Some("a field of the connection"),
            b"te" if field.value != b"trailers" => Some("a field of the connection"),
            b"content-length" if matches!(part, Part::Request { .. }) => {
                let length = length(field.value);
                let conflict =
                    length.is_none() || self.length.is_some_and(|own| Some(own) != length);
                self.length = length;
                conflict.then_some("a length that is none")
            }
            _ => None,
        }
    }

    /// Returns the fault of a message that is complete, if it has one.
    pub(super) fn fault(&self, part: Part) -> Option<&'static str> {
        match (self.fault, part) {
            (None, Part::Request { is_whole }) => self.request(is_whole),
            (fault, _) => fault,
        }
    }

    /// Returns the fault of a request whose fields are sound by themselves (RFC 9113 8.3.1,
    /// 8.5).
    fn request(&self, is_whole: bool) -> Option<&'static str> {
        let has = |bits: u8| self.pseudo & bits == bits;
        let connects = self.method == b"CONNECT";
        if self.pseudo & PROTOCOL != 0 {
            return Some("extended CONNECT is not offered");
        }
        if connects && (self.pseudo & (SCHEME | PATH) != 0 || !has(AUTHORITY)) {
            return Some("CONNECT has an authority alone");
        }
        if !connects && !has(METHOD | SCHEME | PATH) {
            return Some("a pseudo-header field is missing");
        }
        if is_whole && self.length.is_some_and(|length| length > 0) {
            return Some("a body is missing");
        }
        let is_authority = !has(AUTHORITY) || Authority::try_from(&*self.authority).is_ok();
        let is_scheme = connects || Scheme::try_from(&*self.scheme).is_ok();
        let is_path = connects || PathAndQuery::try_from(&*self.path).is_ok();
        let is_target = is_authority && is_scheme && is_path && (connects || !self.path.is_empty());
        (!is_target).then_some("the target is none")
    }

    /// Returns the status of an interim response, which another response will follow.
    pub(super) fn interim(&self) -> Option<StatusCode> {
        self.status.filter(StatusCode::is_informational)
    }

    /// Returns whether the message has a status, as responses have.
    pub(super) fn has_status(&self) -> bool {
        self.pseudo & STATUS != 0
    }

    /// Returns what could be read of a request that has this `fault`.
    pub(super) fn malformed(&self, fault: &'static str) -> Malformed {
        let path = (!self.path.is_empty()).then(|| shown(&self.path));
        Malformed {
            fault,
            method: Method::from_bytes(&self.method).ok(),
            path: path.and_then(|path| PathAndQuery::try_from(path).ok()),
            authority: Authority::try_from(&*self.authority).ok(),
        }
    }
}

fn length(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| digits)?;
    text.parse().ok()
}

/// Returns a path in which every octet that cannot be shown is a percent code.
fn shown(path: &[u8]) -> String {
    let mut shown = String::with_capacity(path.len());
    for &octet in path {
        match octet {
            b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                shown += &format!("%{octet:02X}");
            }
            _ if octet.is_ascii_graphic() => shown.push(char::from(octet)),
            _ => shown += &format!("%{octet:02X}"),
        }
    }
    shown
}

/// Returns the fault of a pseudo-header field by itself.
fn unsound_pseudo(field: &Field<'_>) -> Option<&'static str> {
    let value = field.value;
    let is_sound = match field.name {
        b":method" => !value.is_empty() && value.iter().all(|&octet| is_token(octet)),
        b":status" => {
            matches!(value, [b'1'..=b'9', more @ ..] if more.len() == 2 && more.iter().all(u8::is_ascii_digit))
        }
        b":scheme" | b":authority" | b":path" | b":protocol" => {
            let visible = value.iter().all(|&octet| octet > b' ' && octet != 0x7f);
            visible && std::str::from_utf8(value).is_ok()
        }
        _ => return Some("a pseudo-header field is unknown"),
    };
    (!is_sound).then_some("the value of a pseudo-header field is none")
}

/// Returns the fault of a regular field by itself (RFC 9113 8.2.1).
fn unsound(field: &Field<'_>) -> Option<&'static str> {
    let is_name = |octet: &u8| is_token(*octet) && !octet.is_ascii_uppercase();
    if field.name.is_empty() || field.name.len() >= NAME_MAX || !field.name.iter().all(is_name) {
        return Some("a field's name is none, or in upper case");
    }
    let is_text = |&octet: &u8| octet == b'\t' || (octet >= b' ' && octet != 0x7f);
    let is_value = field.value.iter().all(is_text);
    (!is_value).then_some("a field's value has a control character")
}

/// The octets of a name from which on the library refuses it.
const NAME_MAX: usize = 1 << 15;

fn is_token(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&octet)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Part = Part::Request { is_whole: true };

    fn fault(part: Part, fields: &[(&[u8], &[u8])]) -> Option<&'static str> {
        let mut message = Message::default();
        message.begin();
        for (name, value) in fields {
            let is_known_sound = false;
            message.field(
                part,
                &Field {
                    name,
                    value,
                    is_known_sound,
                },
            );
        }
        message.fault(part)
    }

    fn with(fields: &[(&[u8], &[u8])]) -> Option<&'static str> {
        let get: [(&[u8], &[u8]); 3] = [
            (b":method", b"GET"),
            (b":scheme", b"http"),
            (b":path", b"/"),
        ];
        fault(WHOLE, &[&get, fields].concat())
    }

    #[test]
    fn well_formed_requests_pass() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[(b"x-y", b"a\tb \xff"), (b"te", b"trailers")]), None);
        assert_eq!(with(&[(b":authority", b"a.example:80")]), None);
        let connect: [(&[u8], &[u8]); 2] = [(b":method", b"CONNECT"), (b":authority", b"a:1")];
        assert_eq!(fault(WHOLE, &connect), None);
    }

    #[test]
    fn malformed_requests_do_not() {
        for field in [
            (&b"x-y"[..], &b"a\x01b"[..]),
            (b"x-y", b"a\0"),
            (b"x-y", b"a\nb"),
            (b"x-y", b"a\x7f"),
            (b"X-y", b"a"),
            (b"x y", b"a"),
            (b"", b"a"),
            (b"x-\xe9", b"a"),
            (b"connection", b"close"),
            (b"te", b"gzip"),
            (b"content-length", b"1"),
            (b"content-length", b"x"),
            (b":path", b"/"),
            (b":status", b"200"),
            (b":unknown", b"x"),
            (b":authority", b"a b"),
            (b":authority", b""),
        ] {
            assert!(with(&[field]).is_some(), "{field:?}");
        }
        for path in [&b"/\xff"[..], b"/a b", b"/\x01", b""] {
            let fields = [
                (&b":method"[..], &b"GET"[..]),
                (b":scheme", b"http"),
                (b":path", path),
            ];
            assert!(fault(WHOLE, &fields).is_some(), "{path:?}");
            assert!(fault(WHOLE, &fields[..2]).is_some());
        }
        let late = [(&b"x"[..], &b"y"[..]), (b":authority", b"a")];
        assert!(with(&late).is_some());
    }

    #[test]
    fn trailers_have_no_pseudo_header_fields() {
        assert_eq!(fault(Part::Trailers, &[(b"grpc-status", b"0")]), None);
        for name in [&b":status"[..], b":path", b":method", b":x"] {
            assert!(fault(Part::Trailers, &[(name, b"200")]).is_some());
        }
    }

    #[test]
    fn responses_have_a_status_alone() {
        assert_eq!(fault(Part::Response, &[(b":status", b"103")]), None);
        for (name, value) in [
            (&b":status"[..], &b"20"[..]),
            (b":status", b"2000"),
            (b":path", b"/"),
        ] {
            assert!(fault(Part::Response, &[(name, value)]).is_some());
        }
    }

    #[test]
    fn what_is_known_of_a_malformed_request_is_kept() {
        let mut message = Message::default();
        message.begin();
        for (name, value) in [(&b":method"[..], &b"PUT"[..]), (b":path", b"/a\xff\x01b?c")] {
            let is_known_sound = false;
            message.field(
                WHOLE,
                &Field {
                    name,
                    value,
                    is_known_sound,
                },
            );
        }
        let malformed = message.malformed("x");
        assert_eq!(malformed.method, Some(Method::PUT));
        assert_eq!(malformed.path.unwrap(), "/a%FF%01b?c");
        assert_eq!(malformed.authority, None);
    }
}
