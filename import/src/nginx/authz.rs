//! nginx's `auth_request`: a location that is asked whether a request is served.

use std::time::Duration;

use super::converter::Converter;
use super::framing::FRAMING;
use super::here::Here;
use super::known;
use super::locations::{self, Kind, Location};
use super::parse::Directive;
use super::pass::Pass;
use super::scope::Scope;
use super::variables::{expand, has_variables, template, variable};
use crate::units::{time, time_value};
use crate::yaml::{Value, map, put_list, text};

/// The fields of the request that the server is told by default.
const TOLD: [&str; 3] = ["Authorization", "Cookie", "Origin"];

/// The time that nginx waits for an answer by default.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// The directives, beside the guards, by which a location may answer requests itself: its server
/// would not be asked about all of them.
const ENDS: [&str; 9] = [
    "allow",
    "deny",
    "if",
    "limit_except",
    "limit_req",
    "return",
    "rewrite",
    "satisfy",
    "try_files",
];

/// The parts of a request that the authorization server is told.
#[derive(Default)]
struct Told {
    /// The names of the request's fields that the server is told.
    allowed: Vec<String>,
    is_other: bool,
    /// The fields with values of their own that the server is told.
    added: Vec<Value>,
}

impl<'a> Converter<'a, '_> {
    /// Returns the `ext_authz` that asks the server of an `auth_request`.
    ///
    /// # Errors
    ///
    /// The reason why Sprat cannot ask it.
    pub(super) fn ext_authz(&mut self, here: &Here<'a>, own: &Directive) -> Result<Value, String> {
        let asked = own.arg(0);
        if !asked.starts_with('/') || has_variables(asked) || asked.contains('?') {
            return Err("what is asked is not a fixed path".to_owned());
        }
        let server = here.scope.of_server();
        let all = locations::read(server.own(), &server);
        let location = locations::find(&all, asked).ok_or("no location has its path")?;
        let there = Here {
            scope: location.scope.clone(),
            rewrite: None,
            ..here.clone()
        };
        let inner = location.directive.inner();
        let ends = |own: &&Directive| ENDS.contains(&&*own.name) || known::is_guard(&own.name);
        if let Some(own) = inner.iter().find(ends) {
            return Err(format!("its location has `{}`", own.name));
        }
        let pass = inner.iter().find(|own| own.name == "proxy_pass");
        let pass = pass.ok_or("its location has no `proxy_pass`")?;
        let url = expand(pass.arg(0), &here.constants);
        let parts = Pass::read(&url).filter(|own| !own.target.is_empty());
        let parts = parts.filter(|_| !has_variables(&url));
        let parts = parts.ok_or("it is not known whom to ask")?;
        let path = path(location, asked, parts.uri.as_deref())?;
        let told = self.told(&location.scope)?;
        let way = self.way(&there, &parts);
        let cluster = self.clusters.lead(&way, pass.id, self.ledger);
        let cluster = cluster.ok_or("no server of its upstream is left")?;
        self.ledger.carried(location.directive.id);
        self.ledger.carried(pass.id);
        let read = location.scope.one("proxy_read_timeout");
        let read = read.and_then(|own| time(own.arg(0), 1000));
        let mut keys = vec![
            ("cluster".to_owned(), text(cluster)),
            ("path".to_owned(), text(path)),
            (
                "timeout".to_owned(),
                time_value(read.filter(|own| !own.is_zero()).unwrap_or(READ_TIMEOUT)),
            ),
        ];
        if told.is_other {
            let names = told.allowed.iter().map(text).collect();
            keys.push(("allowed_headers".to_owned(), Value::List(names)));
        }
        put_list(&mut keys, "headers_to_add", told.added);
        let passed_on = self.passed_on(&here.scope);
        put_list(&mut keys, "allowed_upstream_headers", passed_on);
        let told = "of the request's fields the server gets those of `allowed_headers`; if it \
                    refuses, clients get its answer, whichever status that has";
        self.ledger.nearly(own.id, told);
        Ok(Value::Map(keys))
    }

    /// Returns the parts of a request that a location tells the authorization server.
    fn told(&mut self, scope: &Scope<'a>) -> Result<Told, String> {
        let mut told = Told {
            allowed: TOLD.map(str::to_owned).to_vec(),
            ..Told::default()
        };
        let all = scope.all(&["proxy_set_header"]);
        for own in &all {
            let (name, value) = (own.arg(0).to_ascii_lowercase(), own.arg(1));
            let is_it = |other: &String| other.eq_ignore_ascii_case(&name);
            let own_field = format!("http_{}", name.replace('-', "_"));
            match variable(value).as_deref() {
                _ if FRAMING.contains(&&*name) => {}
                _ if name == "host" => {
                    let told = "the server is asked with its own name as `Host`";
                    self.ledger.nearly(own.id, told);
                    continue;
                }
                _ if value.is_empty() => {
                    told.is_other |= told.allowed.iter().any(is_it);
                    told.allowed.retain(|other| !is_it(other));
                }
                Some(field) if field == own_field => {
                    if !told.allowed.iter().any(is_it) {
                        told.allowed.push(own.arg(0).to_owned());
                        told.is_other = true;
                    }
                }
                _ => {
                    let value = template(value).map_err(|name| {
                        format!("its location tells the server `${name}`, which is not known")
                    })?;
                    if value.contains("%RESP(") || value.contains("%UPSTREAM_HOST") {
                        return Err("a request knows nothing of its response".to_owned());
                    }
                    let pair = [("name", text(own.arg(0))), ("value", text(value))];
                    told.added.push(map(pair));
                }
            }
            self.ledger.carried(own.id);
        }
        Ok(told)
    }

    /// Returns the fields of the server's answer that the backend of a place gets.
    fn passed_on(&mut self, scope: &Scope<'a>) -> Vec<Value> {
        let mut found = Vec::new();
        let fields = scope.all(&["proxy_set_header", "grpc_set_header"]);
        for own in scope.all(&["auth_request_set"]) {
            let is_it = |field: &&&Directive| answered(&[own], field.arg(0), field.arg(1));
            match fields.iter().find(is_it) {
                Some(field) => {
                    self.ledger.carried(own.id);
                    found.push(text(field.arg(0)));
                }
                None => {
                    let told = "what the server answers goes to backends alone, by the name that \
                                the field has: see `allowed_upstream_headers`";
                    self.ledger.not(own.id, told);
                }
            }
        }
        found
    }
}

/// Returns whether a field for backends has the value of the field of the same name in the answer
/// to an `auth_request` of this place.
pub(super) fn is_answered(scope: &Scope<'_>, name: &str, value: &str) -> bool {
    scope
        .one("auth_request")
        .is_some_and(|own| own.arg(0) != "off")
        && answered(&scope.all(&["auth_request_set"]), name, value)
}

fn answered(sets: &[&Directive], name: &str, value: &str) -> bool {
    let field = format!(
        "upstream_http_{}",
        name.to_ascii_lowercase().replace('-', "_")
    );
    let Some(asked) = variable(value) else {
        return false;
    };
    let sets_it = |own: &&&Directive| {
        own.arg(0).trim_start_matches('$') == asked
            && variable(own.arg(1)).as_deref() == Some(&field)
    };
    sets.iter().any(|own| sets_it(&own))
}

/// Returns the path of the request to the authorization server.
fn path(location: &Location<'_>, asked: &str, uri: Option<&str>) -> Result<String, String> {
    let path = match (uri, &location.kind) {
        (None, _) => asked.to_owned(),
        (Some(uri), Kind::Exact(_)) => uri.to_owned(),
        (Some(uri), Kind::Prefix { path, .. }) => {
            let rest = asked.strip_prefix(path.as_str()).unwrap_or_default();
            format!("{uri}{rest}")
        }
        _ => return Err("its location has no fixed path".to_owned()),
    };
    match path.contains('?') {
        true => Err("a query in its path".to_owned()),
        false => Ok(path),
    }
}
