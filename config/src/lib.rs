//! Sprat's configuration: YAML in, checked newtypes out.
//!
//! ```text
//! text -> tree (places) -> raw (keys, types, defaults) -> resolved
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
pub mod classify;
mod conditions;
mod containers;
mod decode;
mod diagnostic;
pub mod fields;
pub mod identity;
mod interpolate;
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
pub mod stations;
mod template;
mod tree;
pub mod units;
mod wording;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub use diagnostic::{Diagnostic, Errors, Place, Severity};
pub use resolved::Config;
pub use shown::Shown;

/// Bytes that are read of a file; the parser refuses one that long.
const MAX_BYTES_READ: u64 = (1 << 20) + 1;

/// Looks up an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A configuration that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T = Config> {
    /// The configuration as it was resolved.
    pub config: T,
    /// What is allowed but surely not meant; shown like errors.
    pub warnings: Errors,
}

/// The process's environment, to be passed as `env`. A variable that is not
/// UTF-8 counts as not set.
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Reads the file at `path`; variables in it are looked up with `env`.
///
/// # Errors
/// Everything that is wrong with the file, or that it cannot be read.
pub fn load(path: &Path, env: Env<'_>) -> Result<Loaded, Errors> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => load_from(file, &name, env),
        Err(error) => Err(unreadable(&name, &error)),
    }
}

/// Reads the file that `input` is, such as standard input; `name` stands for it in
/// errors, and variables in it are looked up with `env`.
///
/// # Errors
/// Everything that is wrong with the file, or that it cannot be read.
pub fn load_from(input: impl Read, name: &str, env: Env<'_>) -> Result<Loaded, Errors> {
    let mut bytes = Vec::new();
    let read = input.take(MAX_BYTES_READ).read_to_end(&mut bytes);
    read.map_err(|error| unreadable(name, &error))?;
    match String::from_utf8(bytes) {
        Ok(text) => parse(&text, name, env),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let mut reporter = diagnostic::Reporter::new(name, &text);
            let message = "the file is not UTF-8 from here on".to_owned();
            let help = "save it as UTF-8".to_owned();
            reporter.error(&(at..at + 1), message, Some(help));
            Err(reporter.finish().unwrap_or_else(|errors| errors))
        }
    }
}

fn unreadable(name: &str, error: &io::Error) -> Errors {
    Errors::unreadable(name, format!("cannot read the file: {error}"))
}

/// Reads `text`; `name` stands for it in errors, and variables in it are
/// looked up with `env`.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn parse(text: &str, name: &str, env: Env<'_>) -> Result<Loaded, Errors> {
    let loaded = read_as::<raw::File, _>(text, name, env, |raw, root, reporter| {
        let config = resolve::file(raw, reporter)?;
        let shown = Shown::of(root);
        Some(Config { shown, ..config })
    });
    loaded.map_err(|errors| errors.translated(peers::ours))
}

/// Reads an uplink by itself: what the file has under the key `uplink`.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn parse_uplink(
    text: &str,
    name: &str,
    env: Env<'_>,
) -> Result<Loaded<resolved::Uplink>, Errors> {
    read_as::<raw::Uplink, _>(text, name, env, |raw, _, reporter| {
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
    read_as::<raw::Filter, _>(text, name, env, |raw, _, reporter| {
        resolve::filter(raw, reporter)
    })
}

fn read_as<R: decode::Decode, T>(
    text: &str,
    name: &str,
    env: Env<'_>,
    resolve: impl FnOnce(&R, &tree::Node, &mut diagnostic::Reporter<'_>) -> Option<T>,
) -> Result<Loaded<T>, Errors> {
    let mut reporter = diagnostic::Reporter::new(name, text);
    let config = tree::parse(text, &mut reporter).and_then(|root| {
        let mut cx = decode::Context::new(&mut reporter, env);
        let raw = R::decode(&root, &mut cx)?;
        resolve(&raw, &root, &mut reporter)
    });
    let warnings = reporter.finish()?;
    let config = config.expect("a part is missing only if its error was reported");
    Ok(Loaded { config, warnings })
}

/// The text of the file's JSON Schema (draft 2020-12), for editors and other tools: what
/// [`schema`] makes, which a program that only prints it need not carry.
pub const SCHEMA: &str = include_str!("../schema.json");

/// The JSON Schema of the file, made from the types that read it.
pub fn schema() -> serde_json::Value {
    schema_of::<raw::File>("Sprat configuration")
}

/// The same of an Envoy filter's configuration.
pub fn filter_schema() -> serde_json::Value {
    schema_of::<raw::Filter>("Configuration of Sprat's Envoy filters")
}

fn schema_of<R: decode::Decode>(title: &str) -> serde_json::Value {
    let generator = schemars::SchemaGenerator::default();
    let mut schema = generator.into_root_schema_for::<decode::Of<R>>();
    schema.insert("title".to_owned(), title.into());
    schema.to_value()
}
