//! The rules of who may ask what of the admin listener.
//!
//! A request names a host that is known ([`hosts`]), unless it comes over a Unix socket.
//! Pages that tell more than figures want the token, where there is one, and so does every
//! change. A change is refused to web pages of other sites. It is refused to every client
//! where the address is not a loopback address and there is no token.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use anyhow::Context as _;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use sprat_config::resolved::{Admin, HostPattern, ListenAddress};
use sprat_net::problem::Problem;

use super::changes;
use super::hosts::{self, Refusal};

/// The fewest bytes that a token may have; `MOST_BYTES` are the most.
const LEAST_BYTES: usize = 16;
const MOST_BYTES: usize = 1024;

/// The pages that the token is wanted for, beside changes.
const GUARDED: [&str; 4] = ["/flows", "/events", "/config", "/config.yaml"];

const NO_TOKEN: Refusal = (
    StatusCode::UNAUTHORIZED,
    "the token of `admin.token_file` is wanted: Authorization: Bearer TOKEN\n",
);

const NOT_HERE: Refusal = (
    StatusCode::FORBIDDEN,
    "nothing is changed by an address that is not a loopback address \
     without a token (`admin.token_file`)\n",
);

const OTHER_SITE: Refusal = (
    StatusCode::FORBIDDEN,
    "nothing is changed by a page of another site\n",
);

const NO_JSON: Refusal = (
    StatusCode::UNSUPPORTED_MEDIA_TYPE,
    "a change is asked for with Content-Type: application/json\n",
);

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The rules of who may ask what of the listener.
pub(crate) struct Rights {
    /// The names by which clients may ask the listener.
    hosts: Vec<HostPattern>,
    token: Option<String>,
    reach: Reach,
}

/// The programs that can reach the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Programs that may use the socket's file: no browser is among them.
    File,
    /// All programs of this machine.
    Machine,
    /// Programs on other machines as well.
    Network,
}

impl Reach {
    fn of(address: &ListenAddress) -> Self {
        match address.ip() {
            None => Self::File,
            Some(address) if address.ip().is_loopback() => Self::Machine,
            Some(_) => Self::Network,
        }
    }
}

impl Rights {
    /// Returns the rules of a listener that stands on this address.
    ///
    /// # Errors
    ///
    /// Fails if the token cannot be read.
    pub(crate) fn of(admin: Option<&Admin>, address: &ListenAddress) -> anyhow::Result<Self> {
        let file = admin.and_then(|admin| admin.token_file.as_ref());
        let token = file.map(|file| {
            read(&file.path).with_context(|| format!("admin.token_file {}", file.path.display()))
        });
        Ok(Self {
            hosts: admin.map(|admin| admin.hosts.clone()).unwrap_or_default(),
            token: token.transpose()?,
            reach: Reach::of(address),
        })
    }

    /// Checks that a request may be answered.
    pub(super) fn ask<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let path = request.uri().path();
        let is_change = request.method() == Method::POST && changes::is_change(path);
        // What guards against web pages has no use where no browser comes.
        if self.reach != Reach::File {
            hosts::check(request, &self.hosts)?;
            if is_change {
                check_site(request.headers())?;
            }
        }
        match &self.token {
            Some(token) if is_change || GUARDED.contains(&path) => {
                let given = bearer(request.headers());
                let is_it = given.is_some_and(|given| is_same(given, token.as_bytes()));
                is_it.then_some(()).ok_or(NO_TOKEN)
            }
            None if is_change && self.reach == Reach::Network => Err(NOT_HERE),
            _ => Ok(()),
        }
    }
}

/// Checks that a change is not asked for by a page of another site. The fields tell that a
/// browser sends by itself, and a content type that a form cannot have.
fn check_site(headers: &HeaderMap) -> Result<(), Refusal> {
    let text = |name| headers.get(name).map(|own| own.to_str().unwrap_or("?"));
    let content_type = text(CONTENT_TYPE).unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    if !content_type.eq_ignore_ascii_case("application/json") {
        return Err(NO_JSON);
    }
    let site = text(SEC_FETCH_SITE).unwrap_or("same-origin");
    let host = text(HOST).unwrap_or_default();
    let is_own = text(ORIGIN).is_none_or(|origin| {
        let authority = origin.split_once("://").map(|(_, authority)| authority);
        authority.is_some_and(|own| own.eq_ignore_ascii_case(host))
    });
    let is_own = is_own && matches!(site, "same-origin" | "none");
    is_own.then_some(()).ok_or(OTHER_SITE)
}

/// Returns the token that a request bears (RFC 6750 2.1).
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let field = fields.next().filter(|_| fields.next().is_none())?;
    let (scheme, token) = field.to_str().ok()?.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    is_bearer.then(|| token.trim().as_bytes())
}

/// Compares tokens in a time that tells nothing of where they differ.
fn is_same(given: &[u8], own: &[u8]) -> bool {
    let bytes = given.iter().zip(own);
    let difference = bytes.fold(0, |difference, (a, b)| difference | (a ^ b));
    given.len() == own.len() && std::hint::black_box(difference) == 0
}

/// Reads a token: the file's one line.
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let most = MOST_BYTES as u64 + 2;
    File::open(path)?.take(most).read_to_string(&mut text)?;
    let token = text.trim_end_matches(['\r', '\n']);
    let is_visible = token.bytes().all(|byte| byte.is_ascii_graphic());
    let is_token = is_visible && (LEAST_BYTES..=MOST_BYTES).contains(&token.len());
    let complaint = "a token is one line of 16 to 1024 visible ASCII characters";
    is_token
        .then(|| token.to_owned())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, complaint))
}

/// Returns the problem with the token's file that a configuration names, if there is one.
pub(crate) fn inspect(admin: &Admin) -> Option<Problem> {
    let file = admin.token_file.as_ref()?;
    let error = read(&file.path).err()?;
    let message = format!("{}: {error}", file.path.display());
    Some(Problem::at(&file.span, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef";

    fn rights(token: Option<&str>, reach: Reach) -> Rights {
        Rights {
            hosts: Vec::new(),
            token: token.map(str::to_owned),
            reach,
        }
    }

    fn status(rights: &Rights, method: &Method, path: &str, fields: &[(&str, &str)]) -> u16 {
        let request = Request::builder().method(method).uri(path);
        let request = request.header(HOST, "127.0.0.1:9900");
        let request = fields.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        let asked = rights.ask(&request.body(()).unwrap());
        asked.map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

    #[test]
    fn the_token_guards_what_is_not_for_everyone() {
        let bearer = format!("Bearer {TOKEN}");
        let good = ("authorization", bearer.as_str());
        let all = [
            "/",
            "/livez",
            "/readyz",
            "/metrics",
            "/stats",
            "/dashboard.js",
        ];
        for reach in [Reach::File, Reach::Machine, Reach::Network] {
            let rights = rights(Some(TOKEN), reach);
            for path in all {
                assert_eq!(status(&rights, &Method::GET, path, &[]), 200, "{path}");
            }
            for path in GUARDED {
                assert_eq!(status(&rights, &Method::GET, path, &[]), 401, "{path}");
                assert_eq!(status(&rights, &Method::GET, path, &[good]), 200, "{path}");
            }
            assert_eq!(status(&rights, &Method::POST, "/drain", &[JSON]), 401);
            assert_eq!(status(&rights, &Method::POST, "/drain", &[JSON, good]), 200);
        }
        let rights = rights(Some(TOKEN), Reach::Machine);
        for wrong in [
            "Bearer 0123456789abcdeF",
            "Bearer 0123456789abcdef0",
            "Bearer ",
            "Basic 0123456789abcdef",
            TOKEN,
        ] {
            let wrong = ("authorization", wrong);
            assert_eq!(status(&rights, &Method::GET, "/flows", &[wrong]), 401);
            assert_eq!(status(&rights, &Method::GET, "/flows", &[good, wrong]), 401);
        }
    }

    #[test]
    fn without_a_token_changes_are_for_this_machine() {
        for (reach, expected) in [
            (Reach::File, 200),
            (Reach::Machine, 200),
            (Reach::Network, 403),
        ] {
            let rights = rights(None, reach);
            assert_eq!(status(&rights, &Method::POST, "/drain", &[JSON]), expected);
            assert_eq!(status(&rights, &Method::GET, "/flows", &[]), 200);
        }
    }

    #[test]
    fn pages_of_other_sites_change_nothing() {
        let rights = rights(None, Reach::Machine);
        let ask = |fields: &[_]| status(&rights, &Method::POST, "/log-level", fields);
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data",
            "",
        ] {
            assert_eq!(ask(&[("content-type", kind)]), 415, "{kind}");
        }
        assert_eq!(ask(&[]), 415);
        for (origin, expected) in [
            ("http://127.0.0.1:9900", 200),
            ("http://127.0.0.1:9901", 403),
            ("http://other.example", 403),
            ("null", 403),
        ] {
            assert_eq!(ask(&[JSON, ("origin", origin)]), expected, "{origin}");
        }
        for (site, expected) in [
            ("same-origin", 200),
            ("none", 200),
            ("same-site", 403),
            ("cross-site", 403),
        ] {
            assert_eq!(ask(&[JSON, ("sec-fetch-site", site)]), expected, "{site}");
        }
    }

    #[test]
    fn a_file_is_used_by_no_web_page() {
        let rights = rights(None, Reach::File);
        for fields in [&[][..], &[("origin", "http://other.example")]] {
            assert_eq!(status(&rights, &Method::POST, "/drain", fields), 200);
        }
        let nameless = Request::get("/metrics").body(()).unwrap();
        assert!(rights.ask(&nameless).is_ok());
    }

    #[test]
    fn a_token_is_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        assert!(read(&path).is_err());
        let long = "x".repeat(MOST_BYTES);
        for (text, is_good) in [
            ("0123456789abcdef", true),
            ("0123456789abcdef\r\n", true),
            (long.as_str(), true),
            (&format!("{long}x"), false),
            ("0123456789abcde", false),
            ("0123456789 abcdef", false),
            ("0123456789abcdef\n0123456789abcdef", false),
            ("0123456789abcdeé", false),
            ("", false),
        ] {
            std::fs::write(&path, text).unwrap();
            let token = read(&path).ok();
            assert_eq!(
                token.as_deref(),
                is_good.then_some(text.trim_end()),
                "{text}"
            );
        }
    }
}
