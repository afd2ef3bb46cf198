//! Quantities as people write them: `10mbit`, `1KB`, `250ms`.

use std::time::Duration;

/// A quantity that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}")]
pub struct UnitError {
    /// What was written.
    pub found: String,
    /// What can be written, with an example.
    pub expected: &'static str,
}

/// Bytes: `512`, `512B`, `1KB` (= 1024), `1KiB`, `10MB`, `1.5GB`.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    const EXPECTED: &str = "a size in bytes, such as 512, 20KB or 1.5MB";
    scaled(text, EXPECTED, |unit| {
        Some(match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1.0,
            "k" | "kb" | "kib" => 1024.0,
            "m" | "mb" | "mib" => 1_048_576.0,
            "g" | "gb" | "gib" => 1_073_741_824.0,
            _ => return None,
        })
    })
}

/// Bits per second: `9600bit`, `512kbit`, `10mbit`, `2.5gbit`, as tc(8) has it.
pub fn parse_bit_rate(text: &str) -> Result<u64, UnitError> {
    const EXPECTED: &str = "a rate in bits per second, such as 512kbit, 10mbit or 2.5gbit";
    scaled(text, EXPECTED, |unit| {
        Some(match unit.to_ascii_lowercase().as_str() {
            "bit" => 1.0,
            "kbit" => 1e3,
            "mbit" => 1e6,
            "gbit" => 1e9,
            _ => return None,
        })
    })
}

/// A span of time: `250ms`, `10s`, `5m`, `1h`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    const EXPECTED: &str = "a span of time, such as 250ms, 10s, 5m or 1h";
    scaled(text, EXPECTED, |unit| {
        Some(match unit {
            "us" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 6e10,
            "h" => 3.6e12,
            _ => return None,
        })
    })
    .map(Duration::from_nanos)
}

fn scaled(
    text: &str,
    expected: &'static str,
    factor: impl Fn(&str) -> Option<f64>,
) -> Result<u64, UnitError> {
    let error = || UnitError {
        found: text.to_owned(),
        expected,
    };
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| error())?;
    let value = number * factor(unit.trim()).ok_or_else(error)?;
    if value.is_finite() && value < 2f64.powi(63) {
        Ok(value.round() as u64)
    } else {
        Err(error())
    }
}
