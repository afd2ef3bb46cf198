//! What a `bind` asks for beside its addresses and certificates.

use super::options::{Given, Known, LISTS, OLDEST, given, known};
use super::parse::Line;

/// The remark about certificates that are made as clients ask for them.
const MAKES: &str = "Sprat makes no certificates: list one for each name";

/// The remark about versions of TLS that are shut out.
const NEWEST: &str = "clients may speak TLS 1.3, too";

/// The options of a `bind` (HAProxy 3.0).
const OPTIONS: [Known; 77] = [
    known("accept-netscaler-cip", 1, "Sprat has no such header"),
    known("accept-proxy", 0, ""),
    known("allow-0rtt", 0, ""),
    known("alpn", 1, ""),
    known("backlog", 1, ""),
    known("ca-file", 1, ""),
    known("ca-ignore-err", 1, "no error of a certificate is ignored"),
    known("ca-sign-file", 1, MAKES),
    known("ca-sign-pass", 1, MAKES),
    known("ca-verify-file", 1, ""),
    known("cc", 1, "the system's congestion control counts"),
    known("ciphers", 1, LISTS),
    known("ciphersuites", 1, LISTS),
    known("client-sigalgs", 1, LISTS),
    known("crl-file", 1, ""),
    known("crt", 1, ""),
    known("crt-ignore-err", 1, "no error of a certificate is ignored"),
    // There are words of its own about this one.
    known("crt-list", 1, ""),
    known("curves", 1, LISTS),
    known("default-crt", 1, ""),
    known("defer-accept", 0, ""),
    known("ecdhe", 1, LISTS),
    known("expose-fd", 1, ""),
    known("force-sslv3", 0, OLDEST),
    known("force-tlsv10", 0, OLDEST),
    known("force-tlsv11", 0, OLDEST),
    known("force-tlsv12", 0, NEWEST),
    known("force-tlsv13", 0, ""),
    known("generate-certificates", 0, MAKES),
    known("gid", 1, ""),
    known("group", 1, ""),
    known("guid-prefix", 1, ""),
    known("id", 1, ""),
    known(
        "idle-ping",
        1,
        "idle connections are not asked whether they live",
    ),
    known("interface", 1, ""),
    known("label", 1, ""),
    known("level", 1, ""),
    known("maxconn", 1, ""),
    known("mode", 1, ""),
    known("mss", 1, "segments are as large as the path allows"),
    known("name", 1, ""),
    known("namespace", 1, ""),
    known("nbconn", 1, ""),
    known("nice", 1, ""),
    known("no-alpn", 0, ""),
    known("no-ca-names", 0, ""),
    known("no-sslv3", 0, ""),
    known("no-tls-tickets", 0, ""),
    known("no-tlsv10", 0, ""),
    known("no-tlsv11", 0, ""),
    known("no-tlsv12", 0, ""),
    known("no-tlsv13", 0, NEWEST),
    known("npn", 1, ""),
    known("ocsp-update", 1, "Sprat staples no answers of OCSP"),
    known("prefer-client-ciphers", 0, ""),
    known("process", 1, ""),
    known("proto", 1, ""),
    known("severity-output", 1, ""),
    known("shards", 1, ""),
    known("sigalgs", 1, LISTS),
    known("ssl", 0, ""),
    known("ssl-max-ver", 1, NEWEST),
    known("ssl-min-ver", 1, ""),
    known(
        "strict-sni",
        0,
        "clients that name no host of these certificates get the first one",
    ),
    known("tcp-md5sig", 1, "segments are not signed"),
    known("tcp-ss", 1, ""),
    known("tcp-ut", 1, "other bounds end connections that stand still"),
    known("tfo", 0, ""),
    known("thread", 1, ""),
    known(
        "tls-ticket-keys",
        1,
        "Sprat makes the keys of session tickets itself",
    ),
    known("tls-tickets", 0, ""),
    known(
        "transparent",
        0,
        "addresses that are not the machine's cannot be listened on",
    ),
    known("uid", 1, ""),
    known("user", 1, ""),
    known("v4v6", 0, ""),
    known("v6only", 0, ""),
    known("verify", 1, ""),
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
