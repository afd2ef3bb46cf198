//! Conditions: `acl`, and what follows `if` and `unless`.

use std::collections::BTreeMap;

use super::parse::{Line, Section};
use crate::ledger::Ledger;
use crate::nginx::normal_network;
use crate::patterns::{Pattern, escaped};
use crate::restrict::{Delta, found_in, named};
use crate::yaml::{map, text};

/// Combinations of conditions that a line is split into at most.
const MAX_COMBINED: usize = 64;

/// A test of a request.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// Any of these conditions holds.
    Any(Vec<Delta>),
    /// The request came over TLS.
    Tls,
    /// Counts requests over time, or connections.
    Counts,
    /// Routes cannot ask that.
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

    /// Returns whether the condition asks if a request came over TLS.
    pub(super) fn tells_tls(&self) -> bool {
        self.has(|test| matches!(test, Test::Tls))
    }

    /// Returns what it asks beyond that a request came in plain text.
    pub(super) fn beyond_plain(mut self) -> Self {
        self.fails.retain(|test| !matches!(test, Test::Tls));
        self
    }

    /// Puts in what is known of whether requests come over TLS.
    pub(super) fn settle_tls(&mut self, on_tls: bool) {
        for test in self.holds.iter_mut().chain(&mut self.fails) {
            if matches!(test, Test::Tls) {
                *test = Test::Any(vec![Delta::Always(on_tls)]);
            }
        }
    }
}

/// The named tests of a section.
pub(super) struct Acls {
    named: BTreeMap<String, Vec<Test>>,
}

impl Acls {
    pub(super) fn of(section: &Section, ledger: &mut Ledger) -> Self {
        let mut named: BTreeMap<String, Vec<Test>> = BTreeMap::new();
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
            named.entry(line.word(1).to_owned()).or_default().push(test);
        }
        Self { named }
    }

    /// Returns the tests of which any makes what a name says hold.
    fn tests(&self, name: &str) -> Vec<Test> {
        let fixed = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|own| (*own).to_owned()).collect();
            vec![test(&words)]
        };
        if let Some(own) = self.named.get(name) {
            return own.clone();
        }
        match name {
            "METH_GET" => fixed(&["method", "GET", "HEAD"]),
            "METH_POST" | "METH_PUT" | "METH_DELETE" | "METH_HEAD" | "METH_OPTIONS"
            | "METH_CONNECT" | "METH_TRACE" => fixed(&["method", &name[5..]]),
            "TRUE" => vec![Test::Any(vec![Delta::Always(true)])],
            "FALSE" => vec![Test::Any(vec![Delta::Always(false)])],
            "LOCALHOST" => fixed(&["src", "127.0.0.0/8", "::1"]),
            _ => vec![Test::Unknown],
        }
    }

    /// Reads what follows `if` or `unless` in a line: any of these must hold.
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
                name => self.tests(name),
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
    Found,
}

/// Reads a criterion with its values.
fn test(words: &[String]) -> Test {
    let Some((criterion, rest)) = words.split_first() else {
        return Test::Unknown;
    };
    let (base, argument) = match criterion.split_once('(') {
        Some((base, argument)) => (base, argument.split(')').next().unwrap_or_default()),
        None => (&**criterion, ""),
    };
    let argument = argument.split(',').next().unwrap_or_default();
    // What changes the sample, such as `,lower`.
    let converted = criterion.split_once("),").map(|(_, rest)| rest);
    let plain = matches!(
        converted,
        None | Some("lower" | "field(1,:)" | "field(1,:),lower" | "host_only")
    );
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
                    "dir" | "dom" => How::Directory,
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
        "path" | "url" | "capture.req.uri" => {
            let patterns = values.iter().filter_map(|own| pattern(own, how, caseless));
            any(patterns.map(Delta::Path).collect())
        }
        "method" => any(vec![Delta::Methods(values.to_vec())]),
        "src" => {
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
        "always_true" => any(vec![Delta::Always(true)]),
        "always_false" => any(vec![Delta::Always(false)]),
        "hdr" | "req.hdr" | "req.fhdr" if argument.eq_ignore_ascii_case("host") => {
            host(how, values)
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
        other
            if other.starts_with("sc") || other.starts_with("src_") || other.ends_with("_conn") =>
        {
            Test::Counts
        }
        "be_sess_rate" | "fe_sess_rate" | "fe_req_rate" | "be_conn_free" | "queue"
        | "avg_queue" => Test::Counts,
        _ => Test::Unknown,
    }
}

/// Splits what is compared from how: `path_beg` is `path`, by how it begins.
fn suffix(base: &str) -> (How, &str) {
    let kinds = [
        ("_beg", How::Begins),
        ("_end", How::Ends),
        ("_sub", How::Holds),
        ("_reg", How::Regex),
        ("_dir", How::Directory),
        ("_dom", How::Directory),
        ("_str", How::Equal),
    ];
    let found = kinds
        .iter()
        .find_map(|(end, how)| Some((*how, base.strip_suffix(end)?)));
    found.unwrap_or((How::Equal, base))
}

/// Returns the expression that is found in the texts that a value stands for.
fn pattern(value: &str, how: How, caseless: bool) -> Option<Pattern> {
    let own = escaped(value);
    let text = match how {
        How::Equal => format!("^{own}$"),
        How::Begins => format!("^{own}"),
        How::Ends => format!("{own}$"),
        How::Holds => own,
        How::Regex => value.to_owned(),
        How::Directory => format!("(?:^|/){}(?:/|$)", own.trim_matches('/')),
        How::Found => return None,
    };
    let pattern = Pattern::new(&text, caseless);
    crate::patterns::check(&pattern.whole()).ok()?;
    Some(pattern)
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

fn host(how: How, values: &[String]) -> Test {
    let mut hosts = Vec::new();
    for value in values {
        let value = value.to_ascii_lowercase();
        match how {
            How::Equal => hosts.push(value),
            How::Ends if value.starts_with('.') => hosts.push(format!("*{value}")),
            How::Ends | How::Directory => {
                hosts.push(format!("*.{value}"));
                hosts.push(value);
            }
            _ => {
                let pattern = pattern(&value, how, true);
                return match pattern.filter(|_| values.len() == 1) {
                    Some(pattern) => {
                        Test::Any(vec![Delta::Header(found_in("host", &pattern, false))])
                    }
                    None => Test::Unknown,
                };
            }
        }
    }
    match hosts.is_empty() {
        true => Test::Unknown,
        false => Test::Any(vec![Delta::Hosts(hosts)]),
    }
}
