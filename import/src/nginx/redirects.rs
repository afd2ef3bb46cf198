//! nginx's redirects: URLs with variables, as redirects of Sprat's.

use super::here::Here;
use super::replacements::replacement;
use super::variables::{Piece, pieces};
use crate::document::Route;
use crate::patterns::Pattern;
use crate::transports::Transports;
use crate::yaml::{Map, Value, map, text, word};

/// The scheme that a redirect leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scheme {
    Same,
    Http,
    Https,
}

/// The path that a redirect leads to.
#[derive(Clone, Debug, PartialEq)]
enum Target {
    /// The path of the request.
    Same,
    Fixed(String),
    /// The path of the request, where the first text is an expression and the second its
    /// substitution.
    Rewritten(String, String),
}

/// A redirect, as it is read from a URL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Redirect {
    scheme: Scheme,
    host: Option<String>,
    port: Option<String>,
    target: Target,
    strips_query: bool,
    doubt: Option<&'static str>,
}

/// Reads a URL with variables; `captures` is the expression whose groups it names.
///
/// # Errors
///
/// The part that Sprat cannot express.
pub(crate) fn read(url: &str, captures: Option<&Pattern>) -> Result<Redirect, String> {
    let schemes = [
        ("https://", Scheme::Https),
        ("http://", Scheme::Http),
        ("$scheme://", Scheme::Same),
        ("${scheme}://", Scheme::Same),
        ("//", Scheme::Same),
    ];
    let found = schemes
        .iter()
        .find_map(|(start, scheme)| Some((url.strip_prefix(start)?, scheme)));
    let mut out = Redirect {
        scheme: Scheme::Same,
        host: None,
        port: None,
        target: Target::Same,
        strips_query: true,
        doubt: None,
    };
    let path = match found {
        None => url,
        Some((rest, scheme)) => {
            out.scheme = *scheme;
            let end = rest
                .find(['/', '?', '#'])
                .into_iter()
                .chain(path_variable(rest))
                .min()
                .unwrap_or(rest.len());
            out.authority(&rest[..end])?;
            &rest[end..]
        }
    };
    out.path(path, found.is_some(), captures)?;
    Ok(out)
}

/// Returns the byte at which the first variable that stands for a path begins.
fn path_variable(text: &str) -> Option<usize> {
    let names = [
        "$request_uri",
        "${request_uri}",
        "$uri",
        "${uri}",
        "$1",
        "${1}",
    ];
    names.iter().filter_map(|name| text.find(name)).min()
}

impl Redirect {
    fn authority(&mut self, text: &str) -> Result<(), String> {
        let mut own = text;
        for name in ["${host}", "$host", "${http_host}", "$http_host"] {
            let Some(rest) = own.strip_prefix(name) else {
                continue;
            };
            own = rest;
            if let Some(port) = own.strip_prefix(':') {
                let is_port = port.parse::<u16>().is_ok_and(|port| port != 0);
                if !is_port {
                    return Err(format!("`{port}` is no fixed port"));
                }
                self.port = Some(port.to_owned());
                return Ok(());
            }
            return match own.is_empty() {
                true => Ok(()),
                false => Err("a host is a fixed one, or the one that was asked for".to_owned()),
            };
        }
        if own.contains('$') || own.is_empty() {
            return Err("a host is a fixed one, or the one that was asked for".to_owned());
        }
        self.host = Some(own.to_owned());
        Ok(())
    }

    fn path(
        &mut self,
        text: &str,
        is_absolute: bool,
        captures: Option<&Pattern>,
    ) -> Result<(), String> {
        let (text, fragment) = match text.split_once('#') {
            Some((text, _)) => (text, true),
            None => (text, false),
        };
        if fragment {
            self.doubt = Some("the fragment is left out");
        }
        let mut list = pieces(text);
        let is = |piece: &Piece, name: &str| *piece == Piece::Variable(name.to_owned());
        // `$is_args$args` or `?$args` at the end keeps the query.
        if list
            .last()
            .is_some_and(|own| is(own, "args") || is(own, "query_string"))
        {
            list.pop();
            match list.last_mut() {
                Some(own) if is(own, "is_args") => drop(list.pop()),
                Some(Piece::Text(own)) if own.ends_with('?') => drop(own.pop()),
                _ => return Err("the query is kept, or fixed".to_owned()),
            }
            list.retain(|own| *own != Piece::Text(String::new()));
            self.strips_query = false;
        }
        match &list[..] {
            [] if is_absolute => self.target = Target::Fixed("/".to_owned()),
            [] => return Err("it leads nowhere".to_owned()),
            [own] if is(own, "request_uri") => self.strips_query = false,
            [own] if is(own, "uri") || is(own, "document_uri") => {}
            [Piece::Text(lead), own] if is(own, "request_uri") || is(own, "uri") => {
                let lead = lead.strip_suffix('/').unwrap_or(lead);
                if lead.contains('?') {
                    return Err("the path cannot stand in the query".to_owned());
                }
                if is(own, "request_uri") {
                    self.strips_query = false;
                }
                if !lead.is_empty() {
                    let lead = lead.replace('\\', "\\\\");
                    self.target = Target::Rewritten("^".to_owned(), lead);
                }
            }
            [Piece::Text(path)] => {
                let path = match path.starts_with('/') {
                    true => path.clone(),
                    false => format!("/{path}"),
                };
                self.target = Target::Fixed(path);
            }
            list => {
                let pattern =
                    captures.ok_or("there is no expression here whose groups these are")?;
                let joined: String = list
                    .iter()
                    .map(|piece| match piece {
                        Piece::Text(text) => text.clone(),
                        Piece::Variable(name) => format!("${{{name}}}"),
                    })
                    .collect();
                if joined.contains('?') {
                    return Err("a query is kept, or fixed with its path".to_owned());
                }
                let (rewrite, _) = replacement(pattern, &joined)?;
                self.target = Target::Rewritten(rewrite.pattern, rewrite.substitution);
            }
        }
        Ok(())
    }

    /// Returns the routes that redirect the requests of a place, with `keys` added, and a remark if
    /// the redirect is not quite the same.
    pub(super) fn routes(
        &self,
        here: &Here<'_>,
        status: u16,
        keys: &Map,
    ) -> (Vec<Route>, Option<&'static str>) {
        let (found, doubt) = self.variants(here.transports, status);
        if found.is_empty() {
            return (vec![here.respond(403)], doubt);
        }
        let route = |(own, is_for_plain): (Map, bool)| {
            let mut route = here.route(own);
            route.keys.extend(keys.clone());
            Route {
                is_for_plain,
                ..route
            }
        };
        (found.into_iter().map(route).collect(), doubt)
    }

    /// Returns the keys of the redirect's routes, for requests that come over the transports `on`.
    /// Each has a flag for whether it is for plain text alone. A remark says what is not quite the
    /// same. The list is empty if the redirect would lead clients to where they are.
    pub(crate) fn variants(
        &self,
        on: Transports,
        status: u16,
    ) -> (Vec<(Map, bool)>, Option<&'static str>) {
        let leads_on = self.host.is_some() || self.port.is_some() || self.target != Target::Same;
        let one = |https: bool| {
            let redirect = Value::Map(self.keys(https, status));
            (vec![("redirect".to_owned(), redirect)], https)
        };
        match self.scheme {
            Scheme::Https if !on.tls => (vec![one(true)], self.doubt),
            Scheme::Https => {
                let plain = on.plain.then(|| one(true));
                let found = plain.into_iter().chain(leads_on.then(|| one(false)));
                (found.collect(), self.doubt)
            }
            Scheme::Http | Scheme::Same if leads_on || self.strips_query => {
                let stays = (self.scheme == Scheme::Http && on.tls)
                    .then_some("a client that came over TLS stays there");
                (vec![one(false)], self.doubt.or(stays))
            }
            Scheme::Http | Scheme::Same => {
                let told = "it leads to where the client is: it answers 403";
                (Vec::new(), Some(told))
            }
        }
    }

    fn keys(&self, https: bool, status: u16) -> Map {
        let mut out = Map::new();
        let mut put = |key: &str, value: Value| out.push((key.to_owned(), value));
        if https {
            put("https_redirect", word("true"));
        }
        if let Some(host) = &self.host {
            put("host_redirect", text(host));
        }
        if let Some(port) = &self.port {
            put("port_redirect", word(port));
        }
        match &self.target {
            Target::Same => {}
            Target::Fixed(path) => put("path_redirect", text(path)),
            Target::Rewritten(pattern, substitution) => {
                let rewrite = [
                    ("pattern", text(pattern)),
                    ("substitution", text(substitution)),
                ];
                put("regex_rewrite", map(rewrite));
            }
        }
        let has_query = matches!(&self.target, Target::Fixed(path) if path.contains('?'));
        if self.strips_query && !has_query {
            put("strip_query", word("true"));
        }
        if status != 301 {
            put("response_code", word(status));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(url: &str, captures: Option<&str>) -> String {
        let pattern = captures.map(|own| Pattern::new(own, false));
        let own = read(url, pattern.as_ref()).unwrap();
        Value::Map(own.keys(own.scheme == Scheme::Https, 301)).inline()
    }

    #[test]
    fn urls_are_read() {
        for (url, expected) in [
            ("https://$host$request_uri", "{https_redirect: true}"),
            (
                "https://www.example.org$request_uri",
                "{https_redirect: true, host_redirect: www.example.org}",
            ),
            (
                "$scheme://a.example/new",
                "{host_redirect: a.example, path_redirect: /new, strip_query: true}",
            ),
            ("/new$is_args$args", "{path_redirect: /new}"),
            ("/new?a=b", "{path_redirect: '/new?a=b'}"),
            (
                "https://$host:8443$uri",
                "{https_redirect: true, port_redirect: 8443, strip_query: true}",
            ),
            (
                "/v2$request_uri",
                "{regex_rewrite: {pattern: '^', substitution: /v2}}",
            ),
        ] {
            assert_eq!(keys(url, None), expected, "{url}");
        }
        assert_eq!(
            keys("/b/$1", Some("^/a/(.*)$")),
            "{regex_rewrite: {pattern: '^/a/(.*)$', substitution: '/b/\\1'}, strip_query: true}"
        );
        assert!(read("https://$server_addr/", None).is_err());
        assert!(read("/b/$1", None).is_err());
    }
}
