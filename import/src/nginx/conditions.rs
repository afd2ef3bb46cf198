//! The conditions of nginx's `if`, as far as routes can ask them.

use super::here::Here;
use super::parse::Directive;
use crate::patterns::Pattern;
use crate::restrict::{Delta, found_in, named, present};

/// The requests that the block of an `if` is for.
pub(super) enum Condition {
    /// Requests that meet the condition.
    When(Delta),
    /// All requests but those that meet the condition.
    Unless(Delta),
    /// The condition is whether a file exists, and Sprat looks for no files.
    OfFiles,
    /// The condition is one that routes cannot ask.
    Unknown,
}

/// The way in which a variable is compared.
enum Comparison<'t> {
    IsSet,
    Equals(&'t str),
    Finds(Pattern),
}

/// Reads the condition between the parentheses of an `if`. `takes_addresses` says whether nginx
/// takes clients' addresses from a field: it then knows other addresses than Sprat.
pub(super) fn read(directive: &Directive, here: &Here<'_>, takes_addresses: bool) -> Condition {
    let mut words: Vec<&str> = directive.args.iter().map(String::as_str).collect();
    if let Some(first) = words.first_mut() {
        *first = first.strip_prefix('(').unwrap_or(first);
    }
    if let Some(last) = words.last_mut() {
        *last = last.strip_suffix(')').unwrap_or(last);
    }
    words.retain(|word| !word.is_empty() || directive.args.iter().any(String::is_empty));
    // `if ($a = "")` leaves an empty word, and the parenthesis by itself.
    let words: Vec<&str> = match words[..] {
        [variable, sign, value, ""] => vec![variable, sign, value],
        _ => words,
    };
    let (variable, test, inverted) = match words[..] {
        [variable] => (variable, Comparison::IsSet, false),
        ["-f" | "-d" | "-e" | "-x" | "!-f" | "!-d" | "!-e" | "!-x", _] => {
            return Condition::OfFiles;
        }
        [variable, sign] if sign == "=" || sign == "!=" => {
            (variable, Comparison::Equals(""), sign == "!=")
        }
        [variable, sign, value] => {
            let pattern = |caseless| Comparison::Finds(Pattern::new(value, caseless));
            match sign {
                "=" => (variable, Comparison::Equals(value), false),
                "!=" => (variable, Comparison::Equals(value), true),
                "~" => (variable, pattern(false), false),
                "~*" => (variable, pattern(true), false),
                "!~" => (variable, pattern(false), true),
                "!~*" => (variable, pattern(true), true),
                _ => return Condition::Unknown,
            }
        }
        _ => return Condition::Unknown,
    };
    let Some(name) = variable.strip_prefix('$') else {
        return Condition::Unknown;
    };
    if let Some(value) = here.constants.get(name) {
        return constant(value, &test, inverted);
    }
    if takes_addresses && matches!(name, "remote_addr" | "binary_remote_addr") {
        return Condition::Unknown;
    }
    let delta = delta(name, &test, here, inverted);
    match delta {
        None => Condition::Unknown,
        Some((delta, false)) => Condition::When(delta),
        Some((delta, true)) => Condition::Unless(delta),
    }
}

/// Returns the outcome of a test on a value that is known beforehand.
fn constant(value: &str, test: &Comparison<'_>, inverted: bool) -> Condition {
    let holds = match test {
        Comparison::IsSet => !matches!(value, "" | "0"),
        Comparison::Equals(other) => value == *other,
        Comparison::Finds(_) => return Condition::Unknown,
    };
    Condition::When(Delta::Always(holds != inverted))
}

/// Returns the condition on a variable, and whether the block is for requests that do not meet it.
fn delta(
    name: &str,
    test: &Comparison<'_>,
    here: &Here<'_>,
    inverted: bool,
) -> Option<(Delta, bool)> {
    let list = |anchored| match test {
        Comparison::Equals(value) if !value.is_empty() => Some(vec![(*value).to_owned()]),
        Comparison::Finds(pattern) => pattern.alternatives(anchored),
        _ => None,
    };
    match name {
        "request_method" => Some((Delta::Methods(list(false)?), inverted)),
        "scheme" => match test {
            Comparison::Equals("http") => Some((Delta::Plain, inverted)),
            Comparison::Equals("https") => Some((Delta::Plain, !inverted)),
            _ => None,
        },
        "https" => match test {
            Comparison::Equals("") => Some((Delta::Plain, inverted)),
            Comparison::Equals("on") => Some((Delta::Plain, !inverted)),
            _ => None,
        },
        "ssl_protocol" => match test {
            Comparison::Equals("") => Some((Delta::Plain, inverted)),
            _ => None,
        },
        "server_port" => match test {
            Comparison::Equals("80") => Some((Delta::Plain, inverted)),
            Comparison::Equals("443") => Some((Delta::Plain, !inverted)),
            _ => None,
        },
        "host" | "http_host" => hosts(test, here).map(|own| (Delta::Hosts(own), inverted)),
        "remote_addr" | "binary_remote_addr" => match test {
            Comparison::Equals(address) if address.parse::<std::net::IpAddr>().is_ok() => {
                Some((Delta::Clients(vec![(*address).to_owned()]), inverted))
            }
            _ => None,
        },
        "uri" | "document_uri" => match test {
            Comparison::Finds(pattern) => {
                let pattern = Pattern::of_path(&pattern.text, pattern.caseless);
                Some((Delta::Path(pattern), inverted))
            }
            _ => None,
        },
        _ => of_fields(name, test, inverted),
    }
}

fn hosts(test: &Comparison<'_>, here: &Here<'_>) -> Option<Vec<String>> {
    let own = &here.matches.hosts;
    let listed = match test {
        Comparison::Equals(host) if !host.is_empty() => Some(vec![host.to_ascii_lowercase()]),
        Comparison::Finds(pattern) => pattern.alternatives(true).or_else(|| {
            // The hosts are known, unless one stands for many.
            let fixed = !own.is_empty() && own.iter().all(|host| !host.starts_with('*'));
            let fits = |host: &&String| crate::patterns::matches(&pattern.whole(), host);
            fixed.then(|| own.iter().filter(fits).cloned().collect())
        }),
        _ => None,
    };
    listed.map(|list| {
        list.into_iter()
            .map(|host| host.to_ascii_lowercase())
            .collect()
    })
}

/// Returns the condition on a field, a cookie or a parameter, and whether the block is for requests
/// that do not meet it.
fn of_fields(name: &str, test: &Comparison<'_>, inverted: bool) -> Option<(Delta, bool)> {
    type Make = fn(crate::yaml::Value) -> Delta;
    let kinds: [(&str, Make, bool); 3] = [
        ("http_", Delta::Header, true),
        ("cookie_", Delta::Cookie, false),
        ("arg_", Delta::Parameter, false),
    ];
    let own = kinds.iter().find_map(|(start, make, is_field)| {
        let rest = name.strip_prefix(start).filter(|rest| !rest.is_empty())?;
        let name = if *is_field {
            rest.replace('_', "-")
        } else {
            rest.to_owned()
        };
        Some((make, name))
    });
    let (make, name) = match own {
        Some(own) => own,
        None if name == "content_type" => (&kinds[0].1, "content-type".to_owned()),
        None => return None,
    };
    let value = match test {
        Comparison::IsSet => present(&name, false, inverted),
        // None, or an empty one.
        Comparison::Equals("") => present(&name, true, !inverted),
        Comparison::Equals(value) => named(&name, value, inverted),
        // A field that is not there is an empty text for nginx, and none for Sprat.
        Comparison::Finds(pattern) if pattern.text == "^$" => present(&name, true, !inverted),
        Comparison::Finds(pattern) => {
            if crate::patterns::finds(pattern, "")? {
                return None;
            }
            found_in(&name, pattern, inverted)
        }
    };
    Some((make(value), false))
}
