//! What a `bind` asks for beside its addresses and certificates.

use super::options::{Given, Known, LISTS, OLDEST, given};
use super::parse::Line;

/// The remark about certificates that are made as clients ask for them.
const MAKES: &str = "Sprat makes no certificates: list one for each name";

/// The remark about versions of TLS that are shut out.
const NEWEST: &str = "clients may speak TLS 1.3, too";

/// The options of a `bind` (HAProxy 3.0).
const OPTIONS: [Known; 77] = [
    ("accept-netscaler-cip", 1, "Sprat has no such header"),
    ("accept-proxy", 0, ""),
    ("allow-0rtt", 0, ""),
    ("alpn", 1, ""),
    ("backlog", 1, ""),
    ("ca-file", 1, ""),
    ("ca-ignore-err", 1, "no error of a certificate is ignored"),
    ("ca-sign-file", 1, MAKES),
    ("ca-sign-pass", 1, MAKES),
    ("ca-verify-file", 1, ""),
    ("cc", 1, "the system's congestion control counts"),
    ("ciphers", 1, LISTS),
    ("ciphersuites", 1, LISTS),
    ("client-sigalgs", 1, LISTS),
    ("crl-file", 1, ""),
    ("crt", 1, ""),
    ("crt-ignore-err", 1, "no error of a certificate is ignored"),
    // There are words of its own about this one.
    ("crt-list", 1, ""),
    ("curves", 1, LISTS),
    ("default-crt", 1, ""),
    ("defer-accept", 0, ""),
    ("ecdhe", 1, LISTS),
    ("expose-fd", 1, ""),
    ("force-sslv3", 0, OLDEST),
    ("force-tlsv10", 0, OLDEST),
    ("force-tlsv11", 0, OLDEST),
    ("force-tlsv12", 0, NEWEST),
    ("force-tlsv13", 0, ""),
    ("generate-certificates", 0, MAKES),
    ("gid", 1, ""),
    ("group", 1, ""),
    ("guid-prefix", 1, ""),
    ("id", 1, ""),
    (
        "idle-ping",
        1,
        "idle connections are not asked whether they live",
    ),
    ("interface", 1, ""),
    ("label", 1, ""),
    ("level", 1, ""),
    ("maxconn", 1, ""),
    ("mode", 1, ""),
    ("mss", 1, "segments are as large as the path allows"),
    ("name", 1, ""),
    ("namespace", 1, ""),
    ("nbconn", 1, ""),
    ("nice", 1, ""),
    ("no-alpn", 0, ""),
    ("no-ca-names", 0, ""),
    ("no-sslv3", 0, ""),
    ("no-tls-tickets", 0, ""),
    ("no-tlsv10", 0, ""),
    ("no-tlsv11", 0, ""),
    ("no-tlsv12", 0, ""),
    ("no-tlsv13", 0, NEWEST),
    ("npn", 1, ""),
    ("ocsp-update", 1, "Sprat staples no answers of OCSP"),
    ("prefer-client-ciphers", 0, ""),
    ("process", 1, ""),
    ("proto", 1, ""),
    ("severity-output", 1, ""),
    ("shards", 1, ""),
    ("sigalgs", 1, LISTS),
    ("ssl", 0, ""),
    ("ssl-max-ver", 1, NEWEST),
    ("ssl-min-ver", 1, ""),
    (
        "strict-sni",
        0,
        "clients that name no host of these certificates get the first one",
    ),
    ("tcp-md5sig", 1, "segments are not signed"),
    ("tcp-ss", 1, ""),
    ("tcp-ut", 1, "other bounds end connections that stand still"),
    ("tfo", 0, ""),
    ("thread", 1, ""),
    (
        "tls-ticket-keys",
        1,
        "Sprat makes the keys of session tickets itself",
    ),
    ("tls-tickets", 0, ""),
    (
        "transparent",
        0,
        "addresses that are not the machine's cannot be listened on",
    ),
    ("uid", 1, ""),
    ("user", 1, ""),
    ("v4v6", 0, ""),
    ("v6only", 0, ""),
    ("verify", 1, ""),
];

/// The options by which all clients would come to stand before a listener that does something else.
const NEEDED: [&str; 3] = ["accept-netscaler-cip", "tcp-md5sig", "transparent"];

/// The wishes of a `bind` that are not met.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    /// The wishes that a listener cannot do without.
    pub(super) needed: Vec<String>,
    pub(super) others: Vec<String>,
}

impl Remarks {
    pub(super) fn of(given: &[Given<'_>]) -> Self {
        let mut out = Self::default();
        for own in given {
            let list = match NEEDED.contains(&own.name) {
                true => &mut out.needed,
                false => &mut out.others,
            };
            list.extend(own.remark());
        }
        out
    }
}

/// Returns the options of a `bind`.
pub(super) fn options(line: &Line) -> Vec<Given<'_>> {
    given(line.words.iter().skip(2).map(String::as_str), &OPTIONS)
}

/// Returns whether HTTP/2 is not to be offered in the TLS handshake.
pub(super) fn no_http2(given: &[Given<'_>]) -> bool {
    let lacks_it = |list: &str| !list.split(',').any(|own| own == "h2");
    given.iter().any(|own| match own.name {
        "alpn" => lacks_it(own.value),
        "proto" => own.value == "h1",
        name => name == "no-alpn",
    })
}
