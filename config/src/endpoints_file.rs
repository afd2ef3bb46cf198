//! A file with a cluster's endpoints: YAML or JSON as under `endpoints`, or an address in
//! each line.

use std::fs::File;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;

use crate::containers::List;
use crate::decode::TextClass;
use crate::diagnostic::{Errors, Reporter};
use crate::include::Gathered;
use crate::raw;
use crate::read_as;
use crate::resolve::{endpoints, fits_cluster};
use crate::resolved::{Cluster, Endpoint};

/// The most endpoints of one file.
const MAX_ENDPOINTS: usize = 4096;

/// Reads the endpoints in a file.
///
/// # Errors
///
/// Everything that is wrong with it, or that it cannot be read.
pub fn load_endpoints(path: &Path, cluster: &Cluster) -> Result<Vec<Endpoint>, Errors> {
    match File::open(path) {
        Ok(file) => read_endpoints(file, path, cluster),
        Err(error) => Err(crate::unreadable(&path.display().to_string(), &error)),
    }
}

/// Reads the endpoints in a file that is open; `path` stands for it in errors.
///
/// # Errors
///
/// Everything that is wrong with it, or that it cannot be read.
pub fn read_endpoints(file: File, path: &Path, cluster: &Cluster) -> Result<Vec<Endpoint>, Errors> {
    let name = path.display().to_string();
    let mut text = String::new();
    match file.take(crate::MAX_BYTES_READ).read_to_string(&mut text) {
        Ok(_) => parse_endpoints(&text, &name, cluster),
        Err(error) => Err(crate::unreadable(&name, &error)),
    }
}

/// Reads `text` as the endpoints of a cluster; `name` stands for it in errors.
///
/// # Errors
///
/// Everything that is wrong with the text.
pub fn parse_endpoints(text: &str, name: &str, cluster: &Cluster) -> Result<Vec<Endpoint>, Errors> {
    let Some(first) = significant(text).next() else {
        let message = "there is no endpoint in it; `[]` is a list of none".to_owned();
        return Err(Errors::unreadable(name, message));
    };
    let text = match is_yaml(first) {
        true => text.to_owned(),
        false => as_yaml(text),
    };
    let gathered = Gathered::of_text(&text, name);
    let quoted = TextClass::String;
    let loaded =
        read_as::<List<raw::Endpoint, 0>, _>(gathered, &|_| None, quoted, |raw, root, to| {
            if let Some(last) = raw.0.get(MAX_ENDPOINTS) {
                let message = format!("a file has {MAX_ENDPOINTS} endpoints at most");
                to.error(&last.span, message, None);
                return None;
            }
            let found = endpoints(&raw.0, to)?;
            fits(&found, cluster, &root.span, to).then_some(found)
        });
    Ok(loaded?.config)
}

/// Checks that a cluster can have endpoints that a file gave it before.
///
/// # Errors
/// What it cannot have.
pub fn check_listed(found: &[Endpoint], cluster: &Cluster) -> Result<(), String> {
    fits_cluster(found, cluster).map_or(Ok(()), |(message, _)| Err(message))
}

/// Returns whether a cluster can have these endpoints, and reports what it cannot have.
fn fits(
    found: &[Endpoint],
    cluster: &Cluster,
    all: &std::ops::Range<usize>,
    reporter: &mut Reporter<'_>,
) -> bool {
    match fits_cluster(found, cluster) {
        None => true,
        Some((message, help)) => {
            reporter.error(all, message, Some(help.to_owned()));
            false
        }
    }
}

/// Returns the lines of a text that are neither empty nor comments.
fn significant(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Returns whether a file is YAML or JSON, by its first significant line.
fn is_yaml(first: &str) -> bool {
    // An address of IPv6 begins as a list does.
    first.starts_with(['-', '[', '{']) && first.parse::<SocketAddr>().is_err()
}

/// Turns lines with addresses into a YAML list; each address stays in its line.
fn as_yaml(text: &str) -> String {
    let line = |line: &str| match significant(line).next() {
        Some(address) => format!("- '{}'\n", address.replace('\'', "''")),
        None => "\n".to_owned(),
    };
    text.lines().map(line).collect()
}
