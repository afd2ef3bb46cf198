//! The time stamps of logs, as they are read.

use jiff::civil::DateTime;
use jiff::tz::Offset;

use super::scan::number;

/// A point in time, and the unit that it is rounded down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// The nanoseconds since 1970, UTC.
    pub(super) ns: u64,
    pub(super) grain_ns: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

const MONTHS: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Reads a stamp such as `10/Oct/2000:13:55:36 -0700`.
pub(super) fn common(text: &[u8]) -> Option<Stamp> {
    let (date, zone) = (text.get(..20)?, text.get(20..)?);
    let [b' ', sign @ (b'+' | b'-'), hours @ .., m0, m1] = zone else {
        return None;
    };
    if hours.len() != 2 {
        return None;
    }
    let minutes = number(hours)? * 60 + number(&[*m0, *m1])?;
    let seconds = i32::try_from(minutes * 60).ok()?;
    let offset = Offset::from_seconds(if *sign == b'-' { -seconds } else { seconds }).ok()?;
    at(date_time(date)?, offset, SECOND_NS)
}

/// Reads `06/Feb/2009:12:14:14.655`, HAProxy's local time, as UTC: what counts is the
/// time between two stamps.
pub(super) fn haproxy(text: &[u8]) -> Option<Stamp> {
    let fraction = text.get(20..)?.strip_prefix(b".")?;
    let stamp = at(date_time(text.get(..20)?)?, Offset::UTC, 1_000_000)?;
    let ms = number(fraction).filter(|_| fraction.len() == 3)?;
    let ns = stamp.ns.checked_add(ms * 1_000_000)?;
    Some(Stamp { ns, ..stamp })
}

/// Reads date and time, such as `10/Oct/2000:13:55:36`.
fn date_time(text: &[u8]) -> Option<DateTime> {
    let &[d0, d1, b'/', m0, m1, m2, b'/', ref rest @ ..] = text else {
        return None;
    };
    let &[y0, y1, y2, y3, b':', h0, h1, b':', n0, n1, b':', s0, s1] = rest else {
        return None;
    };
    let month = MONTHS.iter().position(|month| **month == [m0, m1, m2])? + 1;
    let small = |digits: [u8; 2]| number(&digits).and_then(|value| i8::try_from(value).ok());
    let year = i16::try_from(number(&[y0, y1, y2, y3])?).ok()?;
    // A leap second counts as the one before.
    let second = small([s0, s1])?.min(if [s0, s1] == *b"60" { 59 } else { i8::MAX });
    let (hour, minute) = (small([h0, h1])?, small([n0, n1])?);
    DateTime::new(year, month as i8, small([d0, d1])?, hour, minute, second, 0).ok()
}

fn at(time: DateTime, offset: Offset, grain_ns: u64) -> Option<Stamp> {
    let timestamp = offset.to_timestamp(time).ok()?;
    let ns = u64::try_from(timestamp.as_nanosecond()).ok()?;
    Some(Stamp { ns, grain_ns })
}

/// Reads a time of RFC 3339, such as `2016-04-15T20:17:00.310Z`.
pub(super) fn rfc3339(text: &str) -> Option<Stamp> {
    let timestamp: jiff::Timestamp = text.parse().ok()?;
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    Some(Stamp {
        ns: u64::try_from(timestamp.as_nanosecond()).ok()?,
        grain_ns: 10u64.pow(9 - digits.min(9) as u32),
    })
}

/// Reads a number of seconds, milliseconds, microseconds or nanoseconds since 1970. The size of the
/// number tells its unit, which is good for the years from 1973 to 5138.
pub(super) fn unix(value: f64) -> Option<Stamp> {
    let (unit_ns, grain_ns) = match value {
        v if !(0.0..1e20).contains(&v) => return None,
        v if v < 1e11 => (1e9, 1000),
        v if v < 1e14 => (1e6, 1000),
        v if v < 1e17 => (1e3, 1000),
        _ => (1.0, 1000),
    };
    let ns = (value * unit_ns).round();
    // What is beyond has no place in 64 bits; conversions saturate.
    (ns < u64::MAX as f64).then_some(Stamp {
        ns: ns as u64,
        grain_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = SECOND_NS;

    #[test]
    fn stamps_are_read_exactly() {
        let second = |ns| Some(Stamp { ns, grain_ns: S });
        assert_eq!(
            common(b"10/Oct/2000:13:55:36 -0700"),
            second(971_211_336 * S)
        );
        assert_eq!(common(b"01/Jan/1970:01:00:00 +0100"), second(0));
        assert_eq!(
            common(b"29/Feb/2024:00:00:00 +0000"),
            second(1_709_164_800 * S)
        );
        assert_eq!(
            common(b"30/Jun/2015:23:59:60 +0000"),
            second(1_435_708_799 * S)
        );
        let ms = |ns| {
            Some(Stamp {
                ns,
                grain_ns: 1_000_000,
            })
        };
        assert_eq!(
            haproxy(b"06/Feb/2009:12:14:14.655"),
            ms(1_233_922_454_655 * 1_000_000)
        );
        assert_eq!(
            rfc3339("2016-04-15T20:17:00.310Z"),
            ms(1_460_751_420_310 * 1_000_000)
        );
        assert_eq!(
            rfc3339("2016-04-15T22:17:00+02:00"),
            second(1_460_751_420 * S)
        );
        let caddy = unix(1_646_861_401.524_102_4);
        assert_eq!(
            caddy.map(|stamp| stamp.ns / 1000),
            Some(1_646_861_401_524_102)
        );
        assert_eq!(
            unix(1_646_861_401_524.0).map(|stamp| stamp.ns),
            Some(1_646_861_401_524_000_000)
        );
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "10/Oct/2000:13:55:36",
            "10/Okt/2000:13:55:36 -0700",
            "31/Feb/2000:13:55:36 -0700",
            "10/Oct/2000:24:55:36 -0700",
            "10/Oct/2000:13:55:36 -07:00",
            "10/Oct/1969:13:55:36 +0000",
            "10/Oct/2000:13:55:61 +0000",
        ] {
            assert_eq!(common(text.as_bytes()), None, "{text}");
        }
        assert_eq!(haproxy(b"06/Feb/2009:12:14:14.65"), None);
        // Its second is the last that 64 bits have, and has but 709 ms.
        assert_eq!(haproxy(b"21/Jul/2554:23:34:33.999"), None);
        assert_eq!(rfc3339("yesterday"), None);
        assert_eq!(unix(-1.0), None);
        assert_eq!(unix(f64::NAN), None);
    }
}
