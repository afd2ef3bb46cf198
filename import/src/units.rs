//! Sizes and times as other proxies write them.

use std::time::Duration;

use sprat_config::units::{format_bit_rate, format_bytes, format_duration};

use crate::yaml::{Value, word};

/// The longest time that Sprat's configuration can say.
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// Returns nginx's size (`8k`, `1m`, `1g`) in bytes.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 1 << 10),
        b'm' => (&text[..text.len() - 1], 1 << 20),
        b'g' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let bytes = whole(digits)?.checked_mul(factor)?;
    (bytes < 1 << 62).then_some(bytes)
}

/// Returns a whole number that is written in digits alone; none for any other text.
pub(crate) fn whole(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Reads a time that is written as parts with units (`1h 30m`, `500ms`). `bare_ms` is the unit, in
/// milliseconds, of a number without one.
pub(crate) fn time(text: &str, bare_ms: u64) -> Option<Duration> {
    let mut total_ms: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = whole(&rest[..digits])?;
        let after = &rest[digits..];
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit_ms: u64 = match &after[..letters] {
            "" => bare_ms,
            "us" => return Some(Duration::from_micros(number)),
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        total_ms = total_ms.checked_add(number.checked_mul(unit_ms)?)?;
        rest = after[letters..].trim_start();
    }
    Some(Duration::from_millis(total_ms))
}

/// Returns a time as Sprat writes it: at least a millisecond, at most a year.
pub(crate) fn time_value(time: Duration) -> Value {
    word(format_duration(time.clamp(Duration::from_millis(1), YEAR)))
}

/// Returns a number of bytes as Sprat writes it.
pub(crate) fn size_value(bytes: u64) -> Value {
    word(format_bytes(bytes))
}

/// Returns a rate in bytes a second as Sprat writes it, in bits a second.
pub(crate) fn rate_value(bytes_per_s: u64) -> Value {
    word(format_bit_rate(bytes_per_s.saturating_mul(8).max(8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read() {
        assert_eq!(size("8k"), Some(8192));
        assert_eq!(size("1M"), Some(1 << 20));
        assert_eq!(size("12"), Some(12));
        assert_eq!(size("1.5m"), None);
        assert_eq!(size(""), None);
        assert_eq!(time("1h30m", 1000), Some(Duration::from_secs(5400)));
        assert_eq!(time("500ms", 1000), Some(Duration::from_millis(500)));
        assert_eq!(time("60", 1000), Some(Duration::from_secs(60)));
        assert_eq!(time("5000", 1), Some(Duration::from_secs(5)));
        assert_eq!(time("5x", 1), None);
        assert_eq!(time("-1", 1), None);
    }
}
