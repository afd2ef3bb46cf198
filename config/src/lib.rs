//! Sprat's configuration: YAML in, checked newtypes out.
//!
//! ```text
//! texts -> tree (places) -> raw (keys, types, defaults) -> resolved
//! ```
//!
//! [`resolved`] holds what the rest of the program sees. Raw YAML types stay
//! inside this crate: a component gets its own resolved part and nothing else.
//!
//! Every step goes on after an error, so that [`load`] reports all that is
//! wrong with a file at once; only text that is not YAML ends it early.

#![forbid(unsafe_code)]

mod actions;
mod addresses;
mod asked;
pub mod classify;
mod containers;
mod decode;
mod diagnostic;
mod effective;
mod endpoints_file;
pub mod fields;
pub mod glob;
pub mod identity;
mod include;
mod interpolate;
mod log_fields;
mod names;
mod numbers;
pub mod paths;
mod patterns;
mod peers;
mod raw;
mod record;
mod resolve;
pub mod resolved;
mod safe_regex;
mod scalars;
mod shown;
mod sources;
pub mod stations;
mod template;
mod texts;
mod tree;
pub mod units;
mod wording;
mod words;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use decode::TextClass;
use include::{Gathered, NOT_UTF8, SAVE_AS_UTF8};

pub use diagnostic::{Diagnostic, Errors, Severity};
pub use effective::effective;
pub use endpoints_file::{check_listed, load_endpoints, parse_endpoints, read_endpoints};
pub use interpolate::Env;
pub use resolved::Config;
pub use shown::Shown;
pub use sources::Place;

/// The name of the configuration's file in a directory.
const IN_DIRECTORY: &str = "sprat.yaml";

/// The most bytes that are read of a file: the parser refuses one that long.
const MAX_BYTES_READ: u64 = (1 << 20) + 1;

/// A configuration that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T = Config> {
    /// The configuration as it was resolved.
    pub config: T,
    /// The warnings about settings that are allowed but surely not meant; shown like errors.
    pub warnings: Errors,
    /// The files that it was read from, and the directories whose entries decide which files are
    /// included. A configuration that was parsed from a text alone has none.
    pub read: Vec<PathBuf>,
}

/// Returns a variable of the process's environment; to be passed as `env`. One that is not UTF-8
/// counts as not set.
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads the configuration at `path` and all that it includes. If `path` is a directory, its
/// `sprat.yaml` is read. Variables are looked up with `env`.
///
/// # Errors
/// Everything that is wrong with the files, or that one cannot be read.
pub fn load(path: &Path, env: Env<'_>) -> Result<Loaded, Errors> {
    let path = match path.is_dir() {
        true => path.join(IN_DIRECTORY),
        false => path.to_owned(),
    };
    let name = path.display().to_string();
    let file = File::open(&path).map_err(|error| unreadable(&name, &error))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut loaded = read_from(file, &name, directory, env)?;
    loaded.read.insert(0, path);
    Ok(loaded)
}

/// Reads a configuration from `input`, such as standard input, and all that it includes, relative
/// to the working directory. `name` stands for the input in errors. Variables are looked up with
/// `env`.
///
/// # Errors
/// Everything that is wrong with the files, or that one cannot be read.
pub fn load_from(input: impl Read, name: &str, env: Env<'_>) -> Result<Loaded, Errors> {
    read_from(input, name, Path::new(""), env)
}

fn read_from(
    input: impl Read,
    name: &str,
    directory: &Path,
    env: Env<'_>,
) -> Result<Loaded, Errors> {
    let mut bytes = Vec::new();
    let read = input.take(MAX_BYTES_READ).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(name, &error))?;
    match String::from_utf8(bytes) {
        Ok(text) => {
            let gathered = include::gather(&text, name, directory, env);
            resolved(gathered, env, TextClass::String)
        }
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let sources = sources::Sources::of(name, &text);
            let mut reporter = diagnostic::Reporter::new(&sources);
            let help = Some(SAVE_AS_UTF8.to_owned());
            reporter.error(&(at..at), NOT_UTF8.to_owned(), help);
            Err(reporter.finish().unwrap_or_else(|errors| errors))
        }
    }
}

fn unreadable(name: &str, error: &io::Error) -> Errors {
    Errors::unreadable(name, format!("cannot read the file: {error}"))
}

/// Reads a configuration from `text`, which includes no files. `name` stands for the text in
/// errors. Variables are looked up with `env`.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn parse(text: &str, name: &str, env: Env<'_>) -> Result<Loaded, Errors> {
    resolved(Gathered::of_text(text, name), env, TextClass::String)
}

/// Reads a configuration from the JSON that [`Shown::json`] has made of one. A number or a truth
/// value that was not written as JSON writes it is a text there, such as `0.90` and `True`.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn parse_shown(text: &str, name: &str, env: Env<'_>) -> Result<Loaded, Errors> {
    resolved(Gathered::of_text(text, name), env, TextClass::Any)
}

/// Resolves what was gathered; `quoted` is the class of texts in quotes.
fn resolved(gathered: Gathered, env: Env<'_>, quoted: TextClass) -> Result<Loaded, Errors> {
    let loaded = read_as::<raw::File, _>(gathered, env, quoted, |raw, root, reporter| {
        let config = resolve::file(raw, reporter)?;
        let shown = Shown::of(root, reporter.sources());
        Some(Config { shown, ..config })
    });
    loaded.map_err(|errors| errors.translated(peers::ours))
}

/// Reads an uplink by itself: the text is what a file has under the key `uplink`.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn parse_uplink(
    text: &str,
    name: &str,
    env: Env<'_>,
) -> Result<Loaded<resolved::Uplink>, Errors> {
    let gathered = Gathered::of_text(text, name);
    read_as::<raw::Uplink, _>(gathered, env, TextClass::String, |raw, _, reporter| {
        resolve::uplink(raw, reporter)
    })
}

/// Returns the names of all policies that an uplink may have.
pub fn policy_names() -> &'static [&'static str] {
    <raw::Policy as record::Variants>::NAMES
}

/// Reads an Envoy filter's configuration: JSON, or YAML.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn parse_filter(
    text: &str,
    name: &str,
    env: Env<'_>,
) -> Result<Loaded<resolved::Filter>, Errors> {
    let gathered = Gathered::of_text(text, name);
    read_as::<raw::Filter, _>(gathered, env, TextClass::String, |raw, _, reporter| {
        resolve::filter(raw, reporter)
    })
}

fn read_as<R: decode::Decode, T>(
    gathered: Gathered,
    env: Env<'_>,
    quoted: TextClass,
    resolve: impl FnOnce(&R, &Arc<tree::Node>, &mut diagnostic::Reporter<'_>) -> Option<T>,
) -> Result<Loaded<T>, Errors> {
    let mut reporter = diagnostic::Reporter::resume(&gathered.sources, gathered.found);
    let config = gathered.root.and_then(|root| {
        let mut cx = decode::Context::new(&mut reporter, env);
        cx.quoted = quoted;
        let raw = R::decode(&root, &mut cx)?;
        resolve(&raw, &root, &mut reporter)
    });
    let warnings = reporter.finish()?;
    let config = config.expect("a part is missing only if its error was reported");
    let read = gathered.read;
    Ok(Loaded {
        config,
        warnings,
        read,
    })
}

/// Returns the JSON Schema (draft 2020-12) of the configuration's file, made from the types that
/// read it. `schema.json` has it for programs that only print it.
pub fn schema() -> serde_json::Value {
    schema_of::<raw::File>("Sprat configuration")
}

/// Returns the JSON Schema of an Envoy filter's configuration.
pub fn filter_schema() -> serde_json::Value {
    schema_of::<raw::Filter>("Configuration of Sprat's Envoy filters")
}

fn schema_of<R: decode::Decode>(title: &str) -> serde_json::Value {
    let generator = schemars::SchemaGenerator::default();
    let mut schema = generator.into_root_schema_for::<decode::Of<R>>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_of_the_process() {
        let all = std::env::vars_os();
        let all = all.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        let all: Vec<_> = all.collect();
        assert!(!all.is_empty());
        for (name, value) in all {
            assert_eq!(process_env(&name), value.into_string().ok(), "{name}");
        }
        assert_eq!(process_env("SPRAT_IS_NOWHERE_SET"), None);
    }

    #[test]
    fn what_is_shown_is_read_again() {
        let text = "version: 1\nlisteners: [{address: '127.0.0.1:8080'}]\n\
             clusters: {a: {endpoints: [{address: '127.0.0.1:1', weight: 010}]}}\n\
             routes: [{cluster: a}]\nclasses: {gold: {level: 01, idle_only: True}}\n\
             uplink: {rate: 10mbit, guard_factor: 2.50}\n";
        let own = parse(text, "test", &|_| None).unwrap().config;
        let told = own.shown.json().to_string();
        assert!(told.contains(r#""2.50""#), "{told}");
        let again = parse_shown(&told, "told", &|_| None).unwrap().config;
        assert_eq!(again.clusters[0].endpoints[0].weight, 10);
        assert_eq!(again.classes.list, own.classes.list);
        assert_eq!(again.uplink, own.uplink);
        assert_eq!(again.shown, own.shown);
        // A file's text is no number.
        assert!(parse(&told, "told", &|_| None).is_err());
    }

    #[test]
    fn every_policy_has_its_name() {
        let names = [
            "fcfs",
            "fair",
            "srpt",
            "srpt-aged",
            "bands",
            "edf",
            "vrd",
            "srq",
            "las",
            "sfd",
        ];
        assert_eq!(policy_names(), names);
        for name in names {
            let text = format!("policy: {name}");
            let uplink = parse_uplink(&text, "test", &|_| None).unwrap().config;
            assert_eq!(uplink.policy.name(), name);
        }
    }
}
