//! Numbers without a unit.

use std::ops::RangeInclusive;

use sprat_scheduler::{MAX_FLOOR_PERCENT, Sfd};

use crate::scalars::Fault;
use crate::texts::numbers;

/// The regular expression of a whole number of percent, from 1% to 100%.
const PERCENT_PATTERN: &str = r"^([1-9]|[1-9][0-9]|100)%$";

numbers! {
    /// A number from 1 to 1000.
    Factor(f64), NUMBER = true:
        "a number from 1 to 1000",
        {"type": "number", "minimum": 1, "maximum": 1000},
        |text| within(text, &(1.0..=1000.0));

    /// A number from 0 to 1000.
    Ratio(f64), NUMBER = true:
        "a number from 0 to 1000",
        {"type": "number", "minimum": 0, "maximum": 1000},
        |text| within(text, &(0.0..=1000.0));

    /// A share, from 0 to 1.
    Share(f64), NUMBER = true:
        "a share, from 0 to 1",
        {"type": "number", "minimum": 0, "maximum": 1},
        |text| within(text, &(0.0..=1.0));

    /// The share of the bytes for responses beyond the threshold of `sfd`, from 0 to
    /// `Sfd::MAX_OUT_SHARE`.
    OutShare(f64), NUMBER = true:
        // Not `Sfd::MAX_OUT_SHARE` by name: to write a fraction takes 20 KB of code, which
        // nothing else in the filters needs.
        "a share, from 0 to 0.9",
        {"type": "number", "minimum": 0, "maximum": Sfd::MAX_OUT_SHARE},
        |text| within(text, &(0.0..=Sfd::MAX_OUT_SHARE));

    /// A part of the link, in percent.
    FloorPercent(u8), NUMBER = false:
        format!("a part of the link, from 0% to {MAX_FLOOR_PERCENT}%"),
        {"type": "string", "pattern": r"^([0-9]|[1-4][0-9]|50)%$"},
        |text| percent(text, "link", &(0..=MAX_FLOOR_PERCENT));

    /// A part of the link, from 1% to 100%, in percent.
    SharePercent(u8), NUMBER = false:
        "a part of the link, from 1% to 100%",
        {"type": "string", "pattern": PERCENT_PATTERN},
        |text| percent(text, "link", &(1..=100));

    /// A part of an endpoint's places, from 1% to 100%, in percent.
    PlacesPercent(u8), NUMBER = false:
        "a part of the places, from 1% to 100%",
        {"type": "string", "pattern": PERCENT_PATTERN},
        |text| percent(text, "places", &(1..=100));

    /// A part of all requests, in millionths.
    RequestsPercent(u32), NUMBER = false:
        "a part of requests, from 0% to 100%, such as 1% or 0.1%",
        {"type": "string", "pattern": r"^(100(\.0{1,4})?|[0-9]{1,2}(\.[0-9]{1,4})?)%$"},
        millionths;
}

/// Reads a number within bounds.
fn within(text: &str, bounds: &RangeInclusive<f64>) -> Result<f64, Fault> {
    match text.parse::<f64>() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(Fault::PLAIN),
    }
}

/// Reads a whole number of percent of the whole, within bounds.
fn percent(text: &str, whole: &str, bounds: &RangeInclusive<u8>) -> Result<u8, Fault> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let percent = number.parse().ok().filter(|_| digits);
    match percent.filter(|percent| bounds.contains(percent)) {
        Some(percent) if text == format!("{percent}%") => Ok(percent),
        Some(percent) => Err(Fault::new(
            format!("`{text}` is no part of the {whole}"),
            format!("write {percent}%"),
        )),
        None => Err(Fault::PLAIN),
    }
}

/// Reads a number of percent with four places at most, in millionths of the whole.
fn millionths(text: &str) -> Result<u32, Fault> {
    let number = text.strip_suffix('%').unwrap_or(text);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |part: &str, most| {
        (1..=most).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole, 3) || !is_number(fraction, 4) {
        return Err(Fault::PLAIN);
    }
    let millionths = format!("{whole}{fraction:0<4}").parse::<u32>().ok();
    match millionths.filter(|own| *own <= 1_000_000) {
        Some(millionths) if text.ends_with('%') => Ok(millionths),
        Some(_) => Err(Fault::help(format!("write {number}%"))),
        None => Err(Fault::PLAIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::TextClass;
    use crate::scalars::Leaf;

    /// Returns the value that a text is read as; none if its type refuses it.
    fn read<T: Leaf>(text: &str) -> Option<T> {
        T::parse(text, TextClass::Any).ok()
    }

    /// Returns the help for a text that its type refuses.
    fn help<T: Leaf>(text: &str) -> Option<String> {
        T::parse(text, TextClass::Any)
            .err()
            .and_then(|fault| fault.help)
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        for (text, factor, ratio, share, out_share) in [
            ("0", false, true, true, true),
            ("0.9", false, true, true, true),
            ("0.91", false, true, true, false),
            ("1", true, true, true, false),
            ("1.01", true, true, false, false),
            ("1e3", true, true, false, false),
            ("1000.1", false, false, false, false),
            ("-0.1", false, false, false, false),
            ("inf", false, false, false, false),
            ("nan", false, false, false, false),
            ("1 000", false, false, false, false),
        ] {
            assert_eq!(read::<Factor>(text).is_some(), factor, "{text}");
            assert_eq!(read::<Ratio>(text).is_some(), ratio, "{text}");
            assert_eq!(read::<Share>(text).is_some(), share, "{text}");
            assert_eq!(read::<OutShare>(text).is_some(), out_share, "{text}");
        }
    }

    #[test]
    fn a_part_of_the_link_is_a_whole_number_of_digits_alone() {
        let share = |text| read::<SharePercent>(text).map(|own| own.0);
        let floor = |text| read::<FloorPercent>(text).map(|own| own.0);
        for (text, share_is, floor_is) in [
            ("0%", None, Some(0)),
            ("1%", Some(1), Some(1)),
            ("50%", Some(50), Some(50)),
            ("51%", Some(51), None),
            ("100%", Some(100), None),
            ("101%", None, None),
            ("+5%", None, None),
            ("05%", None, None),
            ("005%", None, None),
            ("00%", None, None),
            ("5.0%", None, None),
            ("%", None, None),
            ("", None, None),
        ] {
            assert_eq!((share(text), floor(text)), (share_is, floor_is), "{text}");
        }
        for text in ["5", "05%", "005"] {
            assert_eq!(help::<SharePercent>(text).as_deref(), Some("write 5%"));
        }
        assert_eq!(help::<SharePercent>("+5"), None);
    }

    #[test]
    fn a_part_of_requests_has_four_places_at_most() {
        let read = |text| read::<RequestsPercent>(text).map(|own| own.0);
        for (text, millionths) in [
            ("0%", Some(0)),
            ("1%", Some(10_000)),
            ("0.1%", Some(1_000)),
            ("12.0345%", Some(120_345)),
            ("0.0001%", Some(1)),
            ("100.0000%", Some(1_000_000)),
            ("100.0001%", None),
            ("0.00001%", None),
            ("0001%", None),
            ("+1%", None),
            ("1.+5%", None),
            (".5%", None),
            ("1.%", None),
            ("1,5%", None),
            ("%", None),
        ] {
            assert_eq!(read(text), millionths, "{text}");
        }
        assert_eq!(
            help::<RequestsPercent>("0.5").as_deref(),
            Some("write 0.5%")
        );
        assert_eq!(help::<RequestsPercent>("+5"), None);
    }
}
