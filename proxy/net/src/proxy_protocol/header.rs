//! The bytes of a PROXY header, read and written.

use std::net::SocketAddr;

use proxy_header::{ParseConfig, Protocol, ProxiedAddress, ProxyHeader};
use sprat_config::resolved::ProxyVersion;

/// The bytes that version 2 begins with; version 1's least header is longer.
pub(super) const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The most bytes of version 1's line, its line end included.
pub(super) const LINE_MAX: usize = 107;

/// Returns the ends of the connection that a whole header names; `None` if it names none, or the
/// ends of something other than a stream.
///
/// # Errors
///
/// The bytes are no header, or more than one.
pub(super) fn told(header: &[u8]) -> Result<Option<Ends>, NoHeader> {
    if is_local(header) {
        return Ok(None);
    }
    if !header.starts_with(SIGNATURE) && !has_exact_ports(header) {
        return Err(NoHeader);
    }
    let parsed = ProxyHeader::parse(header, ParseConfig::default());
    let (parsed, length) = parsed.map_err(|_| NoHeader)?;
    match parsed.proxied_address() {
        _ if length != header.len() => Err(NoHeader),
        Some(told) if told.protocol == Protocol::Stream => Ok(Some(Ends {
            client: told.source,
            local: told.destination,
        })),
        Some(_) | None => Ok(None),
    }
}

/// Returns whether the bytes are a whole header of version 2 with the command LOCAL. Its family
/// and addresses are to be discarded, whatever they are (2.2).
fn is_local(header: &[u8]) -> bool {
    const LOCAL: u8 = 0x20;
    match header.strip_prefix(SIGNATURE) {
        Some([LOCAL, _, high, low, rest @ ..]) => {
            usize::from(u16::from_be_bytes([*high, *low])) == rest.len()
        }
        _ => false,
    }
}

/// Returns whether the ports in a line of version 1, if it has any, are written as 2.1 has them:
/// without a sign or leading zeros. (Addresses are: the library takes no other form.)
fn has_exact_ports(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\r\n").unwrap_or(line);
    let mut words = line.split(|&byte| byte == b' ').skip(1);
    if words.next() == Some(b"UNKNOWN") {
        return true;
    }
    let is_port = |word: &[u8]| match word {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    words.skip(2).all(is_port)
}

/// The error of bytes that are no header.
#[derive(Debug, PartialEq)]
pub(super) struct NoHeader;

/// The two ends of a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// The address of the client.
    pub client: SocketAddr,
    /// The address that the client is connected to.
    pub local: SocketAddr,
}

/// Returns the header for a connection to an endpoint. Without `ends`, it says that the
/// connection is for the proxy's own purposes.
pub fn header(version: ProxyVersion, ends: Option<Ends>) -> Vec<u8> {
    let header = ends.map_or_else(ProxyHeader::with_local, |ends| {
        let (client, local) = alike(ends);
        ProxyHeader::with_address(ProxiedAddress::stream(client, local))
    });
    let mut bytes = Vec::with_capacity(LINE_MAX);
    let encoded = match version {
        ProxyVersion::V1 => header.encode_v1(&mut bytes),
        ProxyVersion::V2 => header.encode_v2(&mut bytes),
    };
    encoded.expect("two addresses of one family, over a stream, have a header");
    bytes
}

/// Returns both addresses in one family: IPv4 if both are of it, IPv6 otherwise.
fn alike(ends: Ends) -> (SocketAddr, SocketAddr) {
    let canonical = |at: SocketAddr| SocketAddr::new(at.ip().to_canonical(), at.port());
    let (client, local) = (canonical(ends.client), canonical(ends.local));
    if client.is_ipv4() == local.is_ipv4() {
        return (client, local);
    }
    let mapped = |at: SocketAddr| match at {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        SocketAddr::V6(_) => at,
    };
    (mapped(client), mapped(local))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(client: &str, local: &str) -> Option<Ends> {
        Some(Ends {
            client: client.parse().unwrap(),
            local: local.parse().unwrap(),
        })
    }

    #[test]
    fn headers_are_written_as_the_specification_has_them() {
        let line = |ends| String::from_utf8(header(ProxyVersion::V1, ends)).unwrap();
        let v4 = ends("192.0.2.1:5000", "198.51.100.1:443");
        assert_eq!(line(v4), "PROXY TCP4 192.0.2.1 198.51.100.1 5000 443\r\n");
        let v6 = ends("[2001:db8::1]:5000", "[::ffff:198.51.100.1]:443");
        let mapped = "PROXY TCP6 2001:db8::1 ::ffff:198.51.100.1 5000 443\r\n";
        assert_eq!(line(v6), mapped);
        let both_mapped = ends("[::ffff:192.0.2.1]:5000", "198.51.100.1:443");
        assert_eq!(line(both_mapped), line(v4));
        assert_eq!(line(None), "PROXY UNKNOWN\r\n");
        let binary = header(ProxyVersion::V2, v4);
        let rest = [
            &[0x21, 0x11, 0, 12][..],
            &[192, 0, 2, 1, 198, 51, 100, 1],
            &[0x13, 0x88, 0x01, 0xbb],
        ];
        assert_eq!(binary, [&SIGNATURE[..], &rest.concat()].concat());
        let local = header(ProxyVersion::V2, None);
        assert_eq!(local[..13], [&SIGNATURE[..], &[0x20]].concat());
    }

    #[test]
    fn a_line_has_numbers_in_one_form() {
        let line = |family, rest| format!("PROXY {family} {rest}\r\n").into_bytes();
        assert!(matches!(
            told(&line("TCP4", "192.0.2.1 192.0.2.2 5000 0")),
            Ok(Some(_))
        ));
        assert!(matches!(
            told(&line("TCP6", "2001:DB8::1 ::1 65535 80")),
            Ok(Some(_))
        ));
        assert_eq!(told(&line("UNKNOWN", "a b +1 011")), Ok(None));
        for rest in [
            "192.0.2.1 192.0.2.2 +1 80",
            "192.0.2.1 192.0.2.2 1 +80",
            "192.0.2.1 192.0.2.2 011 80",
            "192.0.2.1 192.0.2.2 11 080",
            "192.0.2.1 192.0.2.2 00 80",
            "192.0.2.1 192.0.2.2 -1 80",
            "192.0.2.1 192.0.2.2 65536 80",
            "192.0.2.1 192.0.2.2  1 80",
            "192.0.2.1 192.0.2.2 1 80 ",
            "192.0.2.1 192.0.2.2 1 ",
            "192.0.2.01 192.0.2.2 1 80",
            "192.0.2.1 192.0.2.+2 1 80",
            "0xc0.0.2.1 192.0.2.2 1 80",
            "192.0.513 192.0.2.2 1 80",
            "2001:db8::1 ::1 1 80",
        ] {
            assert_eq!(told(&line("TCP4", rest)), Err(NoHeader), "{rest:?}");
        }
        for rest in [
            "::1 ::1 +1 80",
            "::1%1 ::1 1 80",
            "[::1] ::1 1 80",
            "::00001 ::1 1 80",
            "192.0.2.1 192.0.2.2 1 80",
        ] {
            assert_eq!(told(&line("TCP6", rest)), Err(NoHeader), "{rest:?}");
        }
    }

    #[test]
    fn addresses_of_a_local_header_are_discarded_whatever_they_are() {
        let with = |rest: &[u8]| [&SIGNATURE[..], rest].concat();
        for rest in [
            &[0x20, 0x00, 0, 0][..],
            &[0x20, 0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            &[0x20, 0x11, 0, 0],
            &[0x20, 0x31, 0, 0],
            &[0x20, 0xff, 0, 3, 1, 2, 3],
        ] {
            assert_eq!(told(&with(rest)), Ok(None), "{rest:x?}");
        }
        for rest in [
            &[0x20, 0x11, 0, 3, 1, 2][..],
            &[0x20, 0x11, 0, 1, 1, 2],
            // A PROXY command needs its addresses.
            &[0x21, 0x11, 0, 0],
            &[0x21, 0xff, 0, 0],
        ] {
            assert_eq!(told(&with(rest)), Err(NoHeader), "{rest:x?}");
        }
    }
}
