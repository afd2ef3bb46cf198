//! HAProxy's conditions: `acl`, and the words after `if` and `unless`.

use std::collections::BTreeMap;

use sprat_config::resolved::HostPattern;

use super::parse::{Line, Section};
use crate::ledger::Ledger;
use crate::networks::normal_network;
use crate::patterns::{Pattern, escaped};
use crate::restrict::{Delta, found_in, named};
use crate::yaml::{map, text};

/// The most combinations of conditions that a line is split into.
const MAX_COMBINED: usize = 64;

/// A test of a request.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// The test holds if any of these conditions does.
    Any(Vec<Delta>),
    /// The request came over TLS.
    Tls,
    /// The test counts requests over time, or connections.
    Counts,
    /// The test is one that routes cannot make.
    Unknown,
}

/// A set of tests that must all be met: those in `holds` hold, those in `fails` do not.
#[derive(Clone, Debug, Default)]
pub(super) struct Conjunction {
    pub(super) holds: Vec<Test>,
    pub(super) fails: Vec<Test>,
}

impl Conjunction {
    fn has(&self, is_one: impl Fn(&Test) -> bool) -> bool {
        self.holds.iter().chain(&self.fails).any(is_one)
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.has(|test| matches!(test, Test::Unknown | Test::Tls | Test::Counts))
    }

    pub(super) fn counts(&self) -> bool {
        self.has(|test| matches!(test, Test::Counts))
    }

    /// Returns whether the condition depends on whether a request came over TLS.
    pub(super) fn tells_tls(&self) -> bool {
        self.has(|test| matches!(test, Test::Tls))
    }

    /// Returns the condition without its test that a request came in plain text.
    pub(super) fn beyond_plain(mut self) -> Self {
        self.fails.retain(|test| !matches!(test, Test::Tls));
        self
    }

    /// Replaces tests of clients' addresses by unknown ones.
    pub(super) fn forget_clients(&mut self) {
        let asks = |test: &Test| match test {
            Test::Any(list) => list.iter().any(|own| matches!(own, Delta::Clients(_))),
            _ => false,
        };
        for test in self.holds.iter_mut().chain(&mut self.fails) {
            if asks(test) {
                *test = Test::Unknown;
            }
        }
    }

    /// Replaces tests for TLS by their outcome, as all requests come over TLS (`on_tls`) or none
    /// does.
    pub(super) fn settle_tls(&mut self, on_tls: bool) {
        for test in self.holds.iter_mut().chain(&mut self.fails) {
            if matches!(test, Test::Tls) {
                *test = Test::Any(vec![Delta::Always(on_tls)]);
            }
        }
    }
}

/// The tests of a section by their names.
type TestsByName = BTreeMap<String, Vec<Test>>;

/// The named tests of a section.
pub(super) struct Acls<'s> {
    section: &'s Section,
    own: TestsByName,
    /// The tests of the section's `defaults`, which the rules in `defaults` use.
    inherited: TestsByName,
}

impl<'s> Acls<'s> {
    pub(super) fn of(section: &'s Section, ledger: &mut Ledger) -> Self {
        let (mut own, mut inherited) = (TestsByName::new(), TestsByName::new());
        for line in section.all(&["acl"]) {
            let test = test(&line.words[2.min(line.words.len())..]);
            match test {
                Test::Unknown => {
                    ledger.not(line.id, "routes cannot ask that; see where it is used");
                }
                Test::Counts => ledger.not(
                    line.id,
                    "see `rate_limit` of a route and `per_client` of a listener",
                ),
                Test::Any(_) | Test::Tls => ledger.carried(line.id),
            }
            let named = match section.inherits(line) {
                true => &mut inherited,
                false => &mut own,
            };
            named.entry(line.word(1).to_owned()).or_default().push(test);
        }
        Self {
            section,
            own,
            inherited,
        }
    }

    /// Returns the tests that a name stands for in a line; the name holds if any of them does.
    fn tests(&self, name: &str, line: &Line) -> Vec<Test> {
        let fixed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|own| (*own).to_owned()).collect();
            vec![test(&words)]
        };
        // An `acl` of the same name in the other would make it hold for more requests.
        let known = match self.section.inherits(line) {
            true => self.inherited.get(name),
            false => self.own.get(name).or_else(|| self.inherited.get(name)),
        };
        if let Some(own) = known {
            return own.clone();
        }
        match name {
            "METH_GET" => fixed(&["method", "GET", "HEAD"]),
            "METH_POST" | "METH_PUT" | "METH_DELETE" | "METH_HEAD" | "METH_OPTIONS"
            | "METH_CONNECT" | "METH_TRACE" => fixed(&["method", &name[5..]]),
            // Sprat's listeners speak nothing else.
            "HTTP" | "TRUE" => vec![Test::Any(vec![Delta::Always(true)])],
            "FALSE" => vec![Test::Any(vec![Delta::Always(false)])],
            "LOCALHOST" => fixed(&["src", "127.0.0.0/8", "::1"]),
            _ => vec![Test::Unknown],
        }
    }

    /// Reads the condition after `if` or `unless` in a line: any of these must hold. None if the
    /// line has no condition.
    pub(super) fn condition(&self, line: &Line) -> Option<Vec<Conjunction>> {
        let is_start = |word: &String| word == "if" || word == "unless";
        let at = line.words.iter().position(is_start)?;
        let mut any: Vec<Conjunction> = vec![Conjunction::default()];
        let mut done: Vec<Conjunction> = Vec::new();
        let mut rest = line.words[at + 1..].iter();
        while let Some(word) = rest.next() {
            if word == "or" || word == "||" {
                done.append(&mut any);
                any = vec![Conjunction::default()];
                continue;
            }
            let (mut word, mut inverted) = (word.as_str(), false);
            while let Some(bare) = word.strip_prefix('!') {
                inverted = !inverted;
                word = if bare.is_empty() {
                    rest.next().map_or("", String::as_str)
                } else {
                    bare
                };
            }
            let tests = match word {
                "{" => {
                    let inner: Vec<String> = rest
                        .by_ref()
                        .take_while(|word| *word != "}")
                        .cloned()
                        .collect();
                    vec![test(&inner)]
                }
                "" => vec![Test::Unknown],
                name => self.tests(name, line),
            };
            match inverted {
                true => any
                    .iter_mut()
                    .for_each(|own| own.fails.extend(tests.clone())),
                false => {
                    let with = |test: &Test| {
                        let with = |own: &Conjunction| {
                            let mut own = own.clone();
                            own.holds.push(test.clone());
                            own
                        };
                        any.iter().map(with).collect::<Vec<_>>()
                    };
                    any = tests.iter().flat_map(with).collect();
                }
            }
            if any.len() + done.len() > MAX_COMBINED {
                return Some(vec![unknown()]);
            }
        }
        done.append(&mut any);
        if line.words[at] == "if" {
            return Some(done);
        }
        // Not any of them: where each is one test, all of those must fail.
        let mut none = Conjunction::default();
        for own in done {
            match (&own.holds[..], &own.fails[..]) {
                ([one], []) => none.fails.push(one.clone()),
                ([], [one]) => none.holds.push(one.clone()),
                _ => return Some(vec![unknown()]),
            }
        }
        Some(vec![none])
    }
}

fn unknown() -> Conjunction {
    Conjunction {
        holds: vec![Test::Unknown],
        fails: Vec::new(),
    }
}

/// The way in which values are compared.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Equal,
    Begins,
    Ends,
    Holds,
    Regex,
    Directory,
    Domain,
    Found,
}

/// Reads a test: a criterion with its values.
fn test(words: &[String]) -> Test {
    let Some((criterion, rest)) = words.split_first() else {
        return Test::Unknown;
    };
    let (base, argument) = match criterion.split_once('(') {
        Some((base, argument)) => (base, argument.split(')').next().unwrap_or_default()),
        None => (&**criterion, ""),
    };
    let (argument, more) = argument.split_once(',').unwrap_or((argument, ""));
    // What changes the sample, such as `,lower`.
    let converted = criterion.split_once("),").map(|(_, rest)| rest);
    let plain = matches!(converted, None | Some("lower"));
    // A host without its port.
    let is_host = argument.eq_ignore_ascii_case("host");
    // One of a field's values by its number: any of them would be another test.
    if !more.is_empty() && !is_host && !counts(base) {
        return Test::Unknown;
    }
    let plain = plain
        || (is_host
            && matches!(
                converted,
                Some("field(1,:)" | "field(1,:),lower" | "host_only")
            ));
    if !plain || (base != "path" && !criterion.contains('(') && criterion.contains(',')) {
        return Test::Unknown;
    }
    let (mut how, base) = suffix(base);
    let mut caseless = matches!(converted, Some(own) if own.contains("lower"));
    let mut values = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "-i" => caseless = true,
            "-m" => {
                how = match rest.next().map_or("", String::as_str) {
                    "str" => How::Equal,
                    "beg" => How::Begins,
                    "end" => How::Ends,
                    "sub" => How::Holds,
                    "reg" => How::Regex,
                    "dir" => How::Directory,
                    "dom" => How::Domain,
                    "found" => How::Found,
                    "ip" => How::Equal,
                    _ => return Test::Unknown,
                };
            }
            "-f" | "-M" | "-n" | "-u" => return Test::Unknown,
            "--" => {}
            value => values.push(value.to_owned()),
        }
    }
    sampled(base, argument, how, caseless, &values)
}

fn sampled(base: &str, argument: &str, how: How, caseless: bool, values: &[String]) -> Test {
    let any = |list: Vec<Delta>| match list.is_empty() {
        true => Test::Unknown,
        false => Test::Any(list),
    };
    match base {
        "path" => paths(how, caseless, values),
        // They have the query as well, which only what they begin with tells nothing of.
        "url" | "capture.req.uri" => {
            let is_path = |own: &String| own.starts_with('/') && !own.contains('?');
            match how == How::Begins && values.iter().all(is_path) {
                true => paths(how, caseless, values),
                false => Test::Unknown,
            }
        }
        "method" if how == How::Equal && !caseless && !values.is_empty() => {
            any(vec![Delta::Methods(values.to_vec())])
        }
        "src" if how == How::Equal => {
            let networks: Option<Vec<String>> =
                values.iter().map(|own| normal_network(own)).collect();
            match networks {
                Some(list) if !list.is_empty() => any(vec![Delta::Clients(list)]),
                _ => Test::Unknown,
            }
        }
        "ssl_fc" | "fc_ssl" => Test::Tls,
        "dst_port" | "fe_port" => match values {
            [own] if own == "443" => Test::Tls,
            _ => Test::Unknown,
        },
        "always_true" | "req_proto_http" | "req.proto_http" => any(vec![Delta::Always(true)]),
        "always_false" => any(vec![Delta::Always(false)]),
        "hdr" | "req.hdr" | "req.fhdr" if argument.eq_ignore_ascii_case("host") => {
            host(how, values)
        }
        // Each of the values in a list is looked at by itself.
        "hdr" | "req.hdr" if matches!(how, How::Equal | How::Begins | How::Ends) => {
            any(listed(argument, how, caseless, values))
        }
        "hdr" | "req.hdr" | "req.fhdr" => any(fields(argument, how, caseless, values)
            .into_iter()
            .map(Delta::Header)
            .collect()),
        "cook" | "req.cook" | "cookie" => any(fields(argument, how, caseless, values)
            .into_iter()
            .map(Delta::Cookie)
            .collect()),
        "url_param" | "urlp" => any(fields(argument, how, caseless, values)
            .into_iter()
            .map(Delta::Parameter)
            .collect()),
        other if counts(other) => Test::Counts,
        _ => Test::Unknown,
    }
}

fn paths(how: How, caseless: bool, values: &[String]) -> Test {
    let of = |own: &String| Some(Delta::Path(pattern(own, how, caseless)?));
    // Without one of them it would be another test.
    match values.iter().map(of).collect::<Option<Vec<Delta>>>() {
        Some(list) if !list.is_empty() => Test::Any(list),
        _ => Test::Unknown,
    }
}

/// Returns whether a sample counts requests or connections.
fn counts(base: &str) -> bool {
    let of_all = [
        "act_conn",
        "avg_queue",
        "be_conn",
        "be_conn_free",
        "be_sess_rate",
        "dst_conn",
        "fe_conn",
        "fe_req_rate",
        "fe_sess_rate",
        "queue",
        "srv_conn",
        "srv_sess_rate",
    ];
    let of_client = [
        "bytes_in_rate",
        "bytes_out_rate",
        "clr_gpc",
        "clr_gpc0",
        "clr_gpc1",
        "conn_cnt",
        "conn_cur",
        "conn_rate",
        "get_gpc",
        "get_gpc0",
        "get_gpc1",
        "glitch_cnt",
        "glitch_rate",
        "gpc0_rate",
        "gpc1_rate",
        "gpc_rate",
        "http_err_cnt",
        "http_err_rate",
        "http_fail_cnt",
        "http_fail_rate",
        "http_req_cnt",
        "http_req_rate",
        "inc_gpc",
        "inc_gpc0",
        "inc_gpc1",
        "kbytes_in",
        "kbytes_out",
        "sess_cnt",
        "sess_rate",
        "trackers",
        "updt_conn_cnt",
    ];
    let starts = ["src_", "sc_", "sc0_", "sc1_", "sc2_"];
    let own = starts.iter().find_map(|start| base.strip_prefix(start));
    of_all.contains(&base) || own.is_some_and(|own| of_client.contains(&own))
}

/// Splits a criterion's name into the way of comparing and the sample: `path_beg` is `path`, by how
/// it begins.
fn suffix(base: &str) -> (How, &str) {
    let kinds = [
        ("_beg", How::Begins),
        ("_end", How::Ends),
        ("_sub", How::Holds),
        ("_reg", How::Regex),
        ("_dir", How::Directory),
        ("_dom", How::Domain),
        ("_str", How::Equal),
    ];
    let found = kinds
        .iter()
        .find_map(|(end, how)| Some((*how, base.strip_suffix(end)?)));
    found.unwrap_or((How::Equal, base))
}

/// Returns the expression that is found in the texts that a value matches.
fn pattern(value: &str, how: How, caseless: bool) -> Option<Pattern> {
    let own = escaped(value);
    let text = match how {
        How::Equal => format!("^{own}$"),
        How::Begins => format!("^{own}"),
        How::Ends => format!("{own}$"),
        How::Holds => own,
        How::Regex => value.to_owned(),
        How::Directory => between(value, "/?")?,
        How::Domain => between(value, "/?.:")?,
        How::Found => return None,
    };
    let pattern = Pattern::new(&text, caseless);
    crate::patterns::check(&pattern.whole()).ok()?;
    Some(pattern)
}

/// Returns the expression for a value between delimiters, or at the beginning or end of a text.
fn between(value: &str, delimiters: &str) -> Option<String> {
    let bare = value.trim_matches(|c| delimiters.contains(c));
    let (own, any) = (escaped(bare), escaped(delimiters));
    (!bare.is_empty()).then(|| format!("(?:^|[{any}]){own}(?:[{any}]|$)"))
}

fn fields(name: &str, how: How, caseless: bool, values: &[String]) -> Vec<crate::yaml::Value> {
    if name.is_empty() {
        return Vec::new();
    }
    // It is there, with a value or without.
    if how == How::Found || values.is_empty() {
        return vec![map([("name", text(name))])];
    }
    let mut out = Vec::new();
    for value in values {
        match (how, caseless) {
            (How::Equal, false) => out.push(named(name, value, false)),
            _ => match pattern(value, how, caseless) {
                Some(pattern) => out.push(found_in(name, &pattern, false)),
                // Without one of them it would be another test.
                None => return Vec::new(),
            },
        }
    }
    out
}

/// Returns conditions on the values of a field, with commas between them: one of them compares to
/// one of `values`.
fn listed(name: &str, how: How, caseless: bool, values: &[String]) -> Vec<Delta> {
    if name.is_empty() || values.is_empty() {
        return fields(name, how, caseless, values)
            .into_iter()
            .map(Delta::Header)
            .collect();
    }
    let start = if how == How::Ends {
        ""
    } else {
        "(?:^|,)[ \\t]*"
    };
    let end = if how == How::Begins {
        ""
    } else {
        "[ \\t]*(?:,|$)"
    };
    let of = |value: &String| {
        let pattern = Pattern::new(&format!("{start}{}{end}", escaped(value)), caseless);
        crate::patterns::check(&pattern.whole()).ok()?;
        Some(Delta::Header(found_in(name, &pattern, false)))
    };
    let found: Option<Vec<Delta>> = values.iter().map(of).collect();
    found.unwrap_or_default()
}

fn host(how: How, values: &[String]) -> Test {
    let values: Vec<String> = values.iter().map(|own| own.to_ascii_lowercase()).collect();
    let is_end = |own: &String| how == How::Ends && own.starts_with('.');
    let host = |own: &String| match how {
        How::Equal => own.clone(),
        _ => format!("*{own}"),
    };
    // A route with `hosts` that Sprat refuses would be left out, and what it refuses be served.
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let is_name = |own: &String| own.bytes().all(fits) && HostPattern::read(&host(own)).is_some();
    let is_known = how == How::Equal || values.iter().all(is_end);
    if is_known && !values.is_empty() && values.iter().all(is_name) {
        return Test::Any(vec![Delta::Hosts(values.iter().map(host).collect())]);
    }
    // What HAProxy finds within a label or anywhere in a name is more than a pattern of hosts.
    let of = |own: &String| {
        let pattern = pattern(own, how, true)?;
        Some(Delta::Header(found_in("host", &pattern, false)))
    };
    match values.iter().map(of).collect::<Option<Vec<Delta>>>() {
        Some(list) if !list.is_empty() => Test::Any(list),
        _ => Test::Unknown,
    }
}
