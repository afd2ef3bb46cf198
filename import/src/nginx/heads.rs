//! The fields of heads that backends and clients get, and pages in place of answers.

use super::authz;
use super::clusters::is_unix;
use super::converter::{Block, Converter};
use super::framing::FRAMING;
use super::here::Here;
use super::locations;
use super::parse::Directive;
use super::pass::prefix_of;
use super::scope::Scope;
use super::variables::{expand, has_variables, template, variable};
use crate::units::time;
use crate::yaml::{Map, Value, map, put_list, text, word};

/// The statuses of answers to which nginx adds fields without `always`.
const GOOD: [u16; 10] = [200, 201, 204, 206, 301, 302, 303, 304, 307, 308];

impl<'a> Converter<'a, '_> {
    /// Returns the keys by which a route changes the heads of its requests.
    pub(super) fn request_keys(&mut self, here: &Here<'a>, pass: &Directive, target: &str) -> Map {
        let kind = prefix_of(pass);
        let mut host = None;
        let (mut set, mut removed) = (Vec::new(), Vec::new());
        for own in here.scope.all(&[&format!("{kind}_set_header")]) {
            let name = own.arg(0).to_ascii_lowercase();
            let value = expand(own.arg(1), &here.constants);
            if name == "host" {
                host = Some((own, value));
                continue;
            }
            if FRAMING.contains(&&*name) {
                self.ledger.carried(own.id);
                continue;
            }
            if value.is_empty() {
                self.ledger.carried(own.id);
                removed.push(text(own.arg(0)));
                continue;
            }
            if self.is_forwarding(own, &name, &value) {
                continue;
            }
            if authz::is_answered(&here.scope, &name, &value) {
                self.ledger.carried(own.id);
                continue;
            }
            match template(&value) {
                Ok(value) if !value.contains("%RESP(") && !value.contains("%UPSTREAM_HOST") => {
                    let told = value.contains("%REQ(:AUTHORITY)%") && own.arg(1).contains("$host");
                    match told {
                        true => self
                            .ledger
                            .nearly(own.id, "the host has its port, if one was asked for"),
                        false => self.ledger.carried(own.id),
                    }
                    set.push(map([("name", text(own.arg(0))), ("value", text(value))]));
                }
                Ok(_) => self
                    .ledger
                    .not(own.id, "a request knows nothing of its response"),
                Err(name) => {
                    let told = format!("there is no `${name}`: the field is taken away");
                    self.ledger.not(own.id, told);
                    removed.push(text(own.arg(0)));
                }
            }
        }
        let mut out = Map::new();
        if let Some(host) = self.host(pass, host, target) {
            out.push(("host_rewrite".to_owned(), text(host)));
        }
        put_list(&mut out, "request_headers_to_remove", removed);
        put_list(&mut out, "request_headers_to_set", set);
        out
    }

    /// Returns whether listeners send a field by themselves, and settles the field's directive if
    /// so.
    fn is_forwarding(&mut self, own: &Directive, name: &str, value: &str) -> bool {
        if !self.x_forwarded {
            return false;
        }
        let variable = variable(value).unwrap_or_default();
        match (name, &*variable) {
            ("x-forwarded-for", "proxy_add_x_forwarded_for") => {
                let told = "what clients say there themselves is left out, unless `trusted` of \
                            the listener's `forwarding` has them";
                self.ledger.nearly(own.id, told);
                true
            }
            ("x-forwarded-for", "remote_addr")
            | ("x-forwarded-proto", "scheme")
            | ("x-forwarded-host", "host" | "http_host") => {
                self.ledger.carried(own.id);
                true
            }
            _ => false,
        }
    }

    /// Returns the `Host` that backends get, if it differs from the client's.
    fn host(
        &mut self,
        pass: &Directive,
        set: Option<(&'a Directive, String)>,
        target: &str,
    ) -> Option<String> {
        let asked = target.strip_suffix(if pass.arg(0).contains("s://") {
            ":443"
        } else {
            ":80"
        });
        let default = match is_unix(target) {
            true => "localhost".to_owned(),
            false => asked.unwrap_or(target).to_owned(),
        };
        let Some((own, value)) = set else {
            return Some(default);
        };
        match variable(&value).as_deref() {
            Some("proxy_host") => {
                self.ledger.carried(own.id);
                return Some(default);
            }
            Some("host" | "http_host") => {
                match value.contains("http_host") {
                    true => self.ledger.carried(own.id),
                    false => self.ledger.nearly(
                        own.id,
                        "Sprat passes on the port, too, if one was asked for",
                    ),
                }
                return None;
            }
            _ => {}
        }
        let port = value
            .strip_prefix("${host}:")
            .or(value.strip_prefix("$host:"));
        if port.is_some() {
            self.ledger.nearly(
                own.id,
                "Sprat passes on the host and the port that were asked for",
            );
            return None;
        }
        let is_host = !value.is_empty() && !has_variables(&value) && {
            let valid = |b: u8| b.is_ascii_alphanumeric() || b".:[]-_".contains(&b);
            value.bytes().all(valid)
        };
        if is_host {
            self.ledger.carried(own.id);
            return Some(value);
        }
        let told = "`host_rewrite` is a fixed one: Sprat passes on what was asked for";
        self.ledger.not(own.id, told);
        None
    }

    /// Returns the keys by which a route changes the heads of its responses. `status` is that of
    /// the answer, which decides what nginx adds; without it the backend's status does.
    pub(super) fn response_keys(&mut self, scope: &Scope<'a>, status: Option<u16>) -> Map {
        let (mut added, mut set) = (Vec::new(), Vec::new());
        for own in scope.all(&["add_header"]) {
            let is_always = own.arg(2) == "always";
            if !is_always && status.is_some_and(|status| !GOOD.contains(&status)) {
                self.ledger.carried(own.id);
                continue;
            }
            let name = own.arg(0).to_ascii_lowercase();
            let value = match template(own.arg(1)) {
                _ if name == "alt-svc" => {
                    self.ledger.not(own.id, "Sprat does not speak HTTP/3");
                    continue;
                }
                _ if FRAMING.contains(&&*name) || name == "host" => {
                    self.ledger.not(own.id, "Sprat writes this field itself");
                    continue;
                }
                Err(name) => {
                    self.ledger
                        .not(own.id, format!("there is no `${name}` in fields"));
                    continue;
                }
                Ok(value) if value.is_empty() => {
                    self.ledger.carried(own.id);
                    continue;
                }
                Ok(value) => value,
            };
            match is_always || status.is_some() {
                true => self.ledger.carried(own.id),
                false => self.ledger.nearly(own.id, "Sprat adds it to errors, too"),
            }
            added.push(map([("name", text(own.arg(0))), ("value", text(value))]));
        }
        if let Some(value) = self.expires(scope, status) {
            set.push(map([
                ("name", text("Cache-Control")),
                ("value", text(value)),
            ]));
        }
        let mut removed = Vec::new();
        if status.is_none() {
            for own in scope.all(&["proxy_hide_header", "grpc_hide_header"]) {
                self.ledger.carried(own.id);
                removed.push(text(own.arg(0)));
            }
        }
        let mut out = Map::new();
        put_list(&mut out, "response_headers_to_remove", removed);
        put_list(&mut out, "response_headers_to_set", set);
        put_list(&mut out, "response_headers_to_add", added);
        out
    }

    /// Returns the `Cache-Control` that an `expires` asks for.
    fn expires(&mut self, scope: &Scope<'a>, status: Option<u16>) -> Option<String> {
        let own = scope.one("expires")?;
        if status.is_some_and(|status| !GOOD.contains(&status)) {
            self.ledger.carried(own.id);
            return None;
        }
        let value = match own.arg(0) {
            "off" => {
                self.ledger.carried(own.id);
                return None;
            }
            "epoch" => "no-cache".to_owned(),
            "max" => "max-age=315360000".to_owned(),
            text if text.starts_with('-') => "no-cache".to_owned(),
            text => match time(text, 1000) {
                Some(time) => format!("max-age={}", time.as_secs()),
                None => {
                    self.ledger
                        .not(own.id, "`Cache-Control` takes a fixed time");
                    return None;
                }
            },
        };
        let told = "`Cache-Control` alone is sent, which counts above `Expires`, with errors, too";
        self.ledger.nearly(own.id, told);
        Some(value)
    }

    /// Returns the keys of a route's error pages.
    pub(super) fn page_keys(&mut self, place: &Block<'_, 'a>, scope: &Scope<'a>) -> Map {
        let intercept = scope.one("proxy_intercept_errors");
        if let Some(own) = intercept {
            self.ledger.carried(own.id);
        }
        let intercepts = intercept.is_some_and(|own| own.arg(0) == "on");
        let mut pages = Vec::new();
        for own in scope.all(&["error_page"]) {
            match page(own, place, intercepts) {
                Ok(page) => {
                    self.ledger.carried(own.id);
                    pages.push(page);
                }
                Err(told) => self.ledger.not(own.id, told),
            }
        }
        let mut out = Map::new();
        put_list(&mut out, "error_pages", pages);
        out
    }
}

/// Returns the page that an `error_page` puts in place of answers.
fn page(own: &Directive, place: &Block<'_, '_>, intercepts: bool) -> Result<Value, &'static str> {
    let (uri, codes) = own.args.split_last().ok_or("it names no page")?;
    let (codes, changed): (Vec<&String>, Vec<&String>) =
        codes.iter().partition(|own| !own.starts_with('='));
    let mut statuses = Vec::new();
    for code in codes {
        match code.parse::<u16>() {
            Ok(400..=599) => statuses.push(word(code)),
            _ => return Err("pages are for statuses from 400 to 599"),
        }
    }
    let file = file(uri, place).ok_or(
        "a page is a file, or text in the configuration: give `error_pages` its `file` or `body`",
    )?;
    let mut pairs = vec![
        ("status".to_owned(), Value::List(statuses)),
        ("file".to_owned(), text(file)),
    ];
    if let Some(changed) = changed.first() {
        let status = changed[1..].parse::<u16>().ok();
        let status = status.filter(|own| (200..=599).contains(own));
        let status = status.ok_or("the page's own status is not known")?;
        pairs.push(("response_code".to_owned(), word(status)));
    }
    if intercepts {
        pairs.push(("intercept".to_owned(), word("true")));
    }
    Ok(Value::Map(pairs))
}

/// Returns the file that nginx serves for a path; none if it serves no file there.
fn file(uri: &str, place: &Block<'_, '_>) -> Option<String> {
    if !uri.starts_with('/') || has_variables(uri) {
        return None;
    }
    let location = locations::find(place.locations, uri)?;
    let names = [
        "proxy_pass",
        "return",
        "fastcgi_pass",
        "uwsgi_pass",
        "grpc_pass",
        "alias",
    ];
    let inner = location.directive.inner();
    if inner.iter().any(|own| names.contains(&&*own.name)) {
        return None;
    }
    let root = location.scope.one("root")?.arg(0);
    let is_fixed = root.starts_with('/') && !has_variables(root);
    is_fixed.then(|| format!("{}{uri}", root.trim_end_matches('/')))
}
