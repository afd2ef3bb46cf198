//! Parsers of command-line values, and helpers that the commands share.

use std::process::Command;
use std::time::Duration;

use sprat_config::units;

/// Parses a link's rate in bits per second, not zero.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    match units::parse_bit_rate(text).map_err(|error| error.to_string())? {
        0 => Err("a rate of zero carries nothing".to_owned()),
        rate => Ok(rate),
    }
}

/// Parses a number of bytes, from 1 to 1GB.
pub(crate) fn size(text: &str) -> Result<u32, String> {
    match units::parse_bytes(text).map_err(|error| error.to_string())? {
        bytes @ 1..=0x4000_0000 => Ok(bytes as u32),
        _ => Err("must be from 1 to 1GB".to_owned()),
    }
}

/// Parses a span of time, not zero.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    match units::parse_duration(text).map_err(|error| error.to_string())? {
        Duration::ZERO => Err("must be longer than zero".to_owned()),
        span => Ok(span),
    }
}

/// Parses a load: a share of the link, above 0 and at most 10.
pub(crate) fn load(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(load) if load > 0.0 && load <= 10.0 => Ok(load),
        _ => Err("a load is a share of the link, above 0 and at most 10, such as 0.9".to_owned()),
    }
}

/// Returns the commit of the source in the working directory, marked `-dirty`
/// if tracked files differ; `None` outside a git repository.
pub(crate) fn commit() -> Option<String> {
    let output = Command::new("git")
        .args([
            "describe",
            "--always",
            "--dirty",
            "--abbrev=12",
            "--exclude=*",
        ])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!commit.is_empty()).then_some(commit)
}

/// Raises the soft limit of open files to the hard one and returns it.
pub(crate) fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused() {
        assert_eq!(rate("10mbit"), Ok(10_000_000));
        assert!(rate("0mbit").is_err() && rate("10").is_err());
        assert_eq!(span("250ms"), Ok(Duration::from_millis(250)));
        assert!(span("0s").is_err());
        assert_eq!(load("0.9"), Ok(0.9));
        for text in ["0", "-1", "NaN", "11", "x"] {
            assert!(load(text).is_err(), "{text}");
        }
    }
}
