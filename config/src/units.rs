//! Quantities as people write them: `10mbit`, `1KB`, `250ms`.

use std::ops::Range;
use std::time::Duration;

/// A quantity that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is not {expected}")]
pub struct UnitError {
    /// The text that was found.
    pub found: String,
    /// The description of valid quantities, with an example.
    pub expected: &'static str,
    /// The part of [`found`](Self::found) that is wrong, in bytes.
    pub part: Range<usize>,
    /// The problem with that part.
    pub problem: UnitProblem,
}

/// The kind of fault in a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitProblem {
    /// The text does not begin with a decimal number.
    Number,
    /// The unit is missing where there must be one.
    NoUnit,
    /// The unit is not one of those allowed.
    Unit,
    /// The value is 2^63 or more, in the smallest unit.
    TooLarge,
}

type Units = &'static [(&'static str, u64)];

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// The units of bytes in lower case. Of several units with one factor, the first is written.
const BYTES: Units = &[
    ("gb", GIB),
    ("gib", GIB),
    ("g", GIB),
    ("mb", MIB),
    ("mib", MIB),
    ("m", MIB),
    ("kb", KIB),
    ("kib", KIB),
    ("k", KIB),
    ("b", 1),
];
const BIT_RATES: Units = &[
    ("gbit", 1_000_000_000),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];
const DURATIONS: Units = &[
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The description of what [`parse_bytes`] takes, for error messages.
pub const BYTES_EXPECTED: &str = "a size in bytes, such as 512, 20KB or 1.5MB";
/// The description of what [`parse_bit_rate`] takes, for error messages.
pub const BIT_RATE_EXPECTED: &str = "a rate in bits per second, such as 512kbit, 10mbit or 2.5gbit";
/// The description of what [`parse_duration`] takes, for error messages.
pub const DURATION_EXPECTED: &str = "a span of time, such as 250ms, 10s, 5m or 1h";

/// Reads bytes: `512`, `512B`, `1KB` (= 1024), `1KiB`, `10MB`, `1.5GB`.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let plain = text.trim().bytes().all(|b| b.is_ascii_digit());
    scaled(text, BYTES_EXPECTED, BYTES, plain.then_some(1))
}

/// Reads bits per second: `9600bit`, `512kbit`, `10mbit`, `2.5gbit`, as tc(8) has it.
pub fn parse_bit_rate(text: &str) -> Result<u64, UnitError> {
    scaled(text, BIT_RATE_EXPECTED, BIT_RATES, None)
}

/// Reads a span of time: `250ms`, `10s`, `5m`, `1h`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    scaled(text, DURATION_EXPECTED, DURATIONS, None).map(Duration::from_nanos)
}

/// Writes bytes in the largest unit that divides them, as [`parse_bytes`] reads them.
pub fn format_bytes(bytes: u64) -> String {
    match unscaled(bytes, BYTES) {
        (bytes, "b") => bytes.to_string(),
        (number, unit) => format!("{number}{}", unit.to_ascii_uppercase()),
    }
}

/// Writes bits per second in the largest unit that divides them, as [`parse_bit_rate`] reads them.
pub fn format_bit_rate(bits_per_s: u64) -> String {
    let (number, unit) = unscaled(bits_per_s, BIT_RATES);
    format!("{number}{unit}")
}

/// Writes a span of time in the largest unit that divides it, as [`parse_duration`] reads it, up to
/// 292 years.
pub fn format_duration(duration: Duration) -> String {
    match u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) {
        0 => "0s".to_owned(),
        nanos => {
            let (number, unit) = unscaled(nanos, DURATIONS);
            format!("{number}{unit}")
        }
    }
}

fn unscaled(value: u64, units: Units) -> (u64, &'static str) {
    units
        .iter()
        .find(|(_, factor)| (value != 0 || *factor == 1) && value.is_multiple_of(*factor))
        .map_or((value, ""), |(unit, factor)| (value / factor, unit))
}

/// Reads a decimal number and a unit, in whole multiples of the smallest unit (rounded down).
/// `unit_default` is the factor if no unit is written; if there is no such factor, a unit is
/// required.
fn scaled(
    text: &str,
    expected: &'static str,
    units: Units,
    unit_default: Option<u64>,
) -> Result<u64, UnitError> {
    let start = text.len() - text.trim_start().len();
    let end = text.trim_end().len().max(start);
    let fail = |part: Range<usize>, problem| UnitError {
        found: text.to_owned(),
        expected,
        part,
        problem,
    };
    let body = &text[start..end];
    let digits = body
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(body.len());
    let number = start..start + digits;
    let unit = body[digits..].trim_start();
    let unit_part = end - unit.len()..end;
    let factor = match unit {
        "" => unit_default.ok_or(UnitProblem::NoUnit),
        _ => units
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(unit))
            .map(|(_, factor)| *factor)
            .ok_or(UnitProblem::Unit),
    };
    if digits == 0 {
        return Err(fail(start..end, UnitProblem::Number));
    }
    let (whole, fraction) =
        decimal(&body[..digits]).ok_or_else(|| fail(number.clone(), UnitProblem::Number))?;
    let factor = factor.map_err(|problem| {
        let part = if unit.is_empty() { number } else { unit_part };
        fail(part, problem)
    })?;
    (|| {
        let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
        let fraction_value = fraction.parse::<u128>().unwrap_or(0) * u128::from(factor)
            / 10u128.pow(u32::try_from(fraction.len()).ok()?);
        let value = whole.checked_add(u64::try_from(fraction_value).ok()?)?;
        (value < 1 << 63).then_some(value)
    })()
    .ok_or_else(|| fail(start..end, UnitProblem::TooLarge))
}

/// Returns the digits before and after the point; none if there are more than nine after it, so
/// that the caller's sums cannot overflow.
fn decimal(number: &str) -> Option<(&str, &str)> {
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (number, None),
    };
    let fraction_ok = fraction
        .is_none_or(|f| (1..=9).contains(&f.len()) && f.bytes().all(|b| b.is_ascii_digit()));
    (!whole.is_empty() && fraction_ok).then_some((whole, fraction.unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("512B", 512),
            ("1KB", 1024),
            ("1 kib", 1024),
            ("1.5MB", 1_572_864),
            ("2g", 2 << 30),
        ] {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_bit_rate("10mbit"), Ok(10_000_000));
        assert_eq!(parse_bit_rate("2.5Gbit"), Ok(2_500_000_000));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!(parse_duration("2min"), Ok(Duration::from_secs(120)));
    }

    #[test]
    fn says_which_part_is_wrong() {
        use UnitProblem::*;
        let of = |error: UnitError| (error.found[error.part].to_owned(), error.problem);
        for (text, part, problem) in [
            ("", "", Number),
            ("fast", "fast", Number),
            ("-1KB", "-1KB", Number),
            ("1.2.3KB", "1.2.3", Number),
            (".5KB", ".5", Number),
            ("5.KB", "5.", Number),
            ("1.5", "1.5", NoUnit),
            (" 20 kilos ", "kilos", Unit),
            ("99999999999GB", "99999999999GB", TooLarge),
        ] {
            assert_eq!(
                of(parse_bytes(text).unwrap_err()),
                (part.to_owned(), problem)
            );
        }
        assert_eq!(
            of(parse_bit_rate("10").unwrap_err()),
            ("10".to_owned(), NoUnit)
        );
        assert_eq!(
            of(parse_duration("10 sec").unwrap_err()),
            ("sec".to_owned(), Unit)
        );
    }

    proptest! {
        #[test]
        fn round_trips(value in 0u64..(1 << 63), shift in 0u32..63) {
            let value = value >> shift;
            prop_assert_eq!(parse_bytes(&format_bytes(value)), Ok(value));
            prop_assert_eq!(parse_bit_rate(&format_bit_rate(value)), Ok(value));
            let time = Duration::from_nanos(value);
            prop_assert_eq!(parse_duration(&format_duration(time)), Ok(time));
        }

        #[test]
        fn never_panics_and_points_inside(text in "\\PC{0,24}|[0-9. ]{0,30}[a-zA-Z]{0,5}") {
            for error in [
                parse_bytes(&text).err(),
                parse_bit_rate(&text).err(),
                parse_duration(&text).err(),
            ].into_iter().flatten() {
                prop_assert!(error.found.get(error.part.clone()).is_some());
            }
        }
    }

    #[test]
    fn the_largest_value_is_below_two_to_the_63() {
        assert_eq!(parse_bytes("9223372036854775807"), Ok((1 << 63) - 1));
        for text in ["9223372036854775808", "8589934592GB"] {
            let error = parse_bytes(text).unwrap_err();
            assert_eq!(error.problem, UnitProblem::TooLarge, "{text}");
        }
    }
}
