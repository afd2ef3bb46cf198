//! The single values of a configuration: what each accepts, and its schema.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::decode::{Context, Decode, Found, Text, TextClass, shortened, similar};
use crate::tree::Node;
use crate::units::{self, UnitError, UnitProblem};

/// The regular expression of a value with a variable, whose text is known only later.
pub(crate) const VARIABLE: &str = r"\$\{";
/// The regular expression of names that an operator may give.
pub(crate) const NAME_PATTERN: &str = "^[A-Za-z0-9._-]{1,64}$";

/// Checks a name that an operator gives; the error says which names are valid.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=64).contains(&name.len()) && name.bytes().all(valid) {
        Ok(())
    } else {
        Err("use 1 to 64 letters, digits, dots, hyphens and underscores".to_owned())
    }
}

/// A fault in a scalar: the part that is wrong, a message in place of the usual one, and help.
pub(crate) struct Fault {
    pub(crate) part: Option<Range<usize>>,
    pub(crate) message: Option<String>,
    pub(crate) help: Option<String>,
}

impl Fault {
    /// The fault of a scalar that is not what was expected, without further help.
    pub(crate) const PLAIN: Self = Self {
        part: None,
        message: None,
        help: None,
    };

    pub(crate) fn help(help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..Self::PLAIN
        }
    }

    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            part: None,
            message: Some(message.into()),
            help: Some(help.into()),
        }
    }

    /// Returns the same fault for a text that has this number of bytes more before it.
    pub(crate) fn after(self, bytes: usize) -> Self {
        let part = self.part;
        Self {
            part: part.map(|part| part.start + bytes..part.end + bytes),
            ..self
        }
    }
}

/// A type that is read from a single scalar.
pub(crate) trait Leaf: Sized + 'static {
    fn expected() -> Cow<'static, str>;

    /// Returns the part of the schema that says which values are accepted, without variables.
    fn accepts() -> Value;

    /// Whether a plain number is accepted. `TEXT` is the same for plain text.
    const NUMBER: bool = false;
    const TEXT: bool = true;

    fn parse(text: &str, class: TextClass) -> Result<Self, Fault>;
}

impl<T: Leaf> Decode for T {
    fn expected() -> Cow<'static, str> {
        <T as Leaf>::expected()
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let schema = json!({"anyOf": [T::accepts(), {"type": "string", "pattern": VARIABLE}]});
        schema.try_into().expect("an object is a schema")
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        let expected = <T as Leaf>::expected;
        let text = cx.scalar(node, &expected)?;
        let class_fits = match text.class {
            TextClass::Any => true,
            TextClass::String => T::TEXT,
            TextClass::Integer | TextClass::Float => T::NUMBER,
            TextClass::Bool | TextClass::Null => false,
        };
        // `8080` where text is needed reads well once quoted; `12` where a size with a unit
        // is needed does not.
        if !class_fits && T::TEXT && T::parse(&text.text, TextClass::String).is_ok() {
            cx.mismatch(&text.span, &expected(), &Found::NotText(&text.text));
            return None;
        }
        let fault = match T::parse(&text.text, text.class) {
            Ok(value) if class_fits => return Some(value),
            // Text that reads well does not fit where a number is needed.
            Ok(_) => Fault::help("write it without quotes"),
            Err(fault) => fault,
        };
        report(&text, &expected(), fault, cx);
        None
    }
}

fn report(text: &Text, expected: &str, fault: Fault, cx: &mut Context<'_, '_>) {
    let span = fault.part.map_or(text.span.clone(), |part| text.part(part));
    match (fault.message, fault.help) {
        (Some(message), help) => cx.reporter.error(&span, message, help),
        (None, help @ Some(_)) => {
            cx.mismatch_with(&span, expected, &Found::Text(&text.text), help);
        }
        (None, None) => cx.mismatch(&span, expected, &Found::Text(&text.text)),
    }
}

fn unit_fault(error: &UnitError, units: &[&str]) -> Fault {
    let unit = &error.found[error.part.clone()];
    match error.problem {
        UnitProblem::Number => Fault {
            part: Some(error.part.clone()),
            ..Fault::PLAIN
        },
        UnitProblem::NoUnit => Fault {
            part: Some(error.part.clone()),
            message: Some(format!("`{}` has no unit", shortened(unit))),
            help: Some(format!("write {}", error.expected)),
        },
        UnitProblem::Unit => Fault {
            part: Some(error.part.clone()),
            message: Some(format!("`{}` is not a unit here", shortened(unit))),
            help: Some(match similar(unit, units.iter().copied()) {
                Some(unit) => format!("did you mean `{unit}`?"),
                None => format!(
                    "the units are {}",
                    crate::wording::listed(units.iter().copied())
                ),
            }),
        },
        UnitProblem::TooLarge => {
            Fault::new("this is too large", format!("write {}", error.expected))
        }
    }
}

fn out_of_range(written: &str, lowest: &str, highest: &str) -> Fault {
    let written = shortened(written);
    Fault::new(
        format!("`{written}` is out of range"),
        format!("give at least {lowest} and at most {highest}"),
    )
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count<const MIN: u64, const MAX: u64>(pub(crate) u64);

impl<const MIN: u64, const MAX: u64> Leaf for Count<MIN, MAX> {
    const NUMBER: bool = true;
    const TEXT: bool = false;

    fn expected() -> Cow<'static, str> {
        match MIN == MAX {
            true => format!("the number {MIN}").into(),
            false => format!("a whole number from {MIN} to {MAX}").into(),
        }
    }

    fn accepts() -> Value {
        json!({"type": "integer", "minimum": MIN, "maximum": MAX})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        match text.parse() {
            Ok(number) if (MIN..=MAX).contains(&number) => Ok(Self(number)),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// A truth value: `true` or `false`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag(pub(crate) bool);

impl Decode for Flag {
    fn expected() -> Cow<'static, str> {
        "`true` or `false`".into()
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": VARIABLE}],
        })
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        let text = cx.scalar(node, &Self::expected)?;
        match (text.class, text.text.to_ascii_lowercase().as_str()) {
            (TextClass::Bool | TextClass::Any, "true") => Some(Self(true)),
            (TextClass::Bool | TextClass::Any, "false") => Some(Self(false)),
            _ => {
                cx.mismatch(&text.span, &Self::expected(), &Found::Text(&text.text));
                None
            }
        }
    }
}

/// A number of bytes, from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<const MIN: u64, const MAX: u64>(pub(crate) u64);

/// The largest number of bytes that can be written, 2^63 - 1.
pub(crate) const MAX_SIZE: u64 = (1 << 63) - 1;

impl<const MIN: u64, const MAX: u64> Leaf for Bytes<MIN, MAX> {
    const NUMBER: bool = true;

    fn expected() -> Cow<'static, str> {
        match (MIN, MAX) {
            (0, MAX_SIZE) => units::BYTES_EXPECTED.into(),
            (_, MAX_SIZE) => {
                let lowest = units::format_bytes(MIN);
                format!("{}, at least {lowest}", units::BYTES_EXPECTED).into()
            }
            _ => {
                let (lowest, highest) = (units::format_bytes(MIN), units::format_bytes(MAX));
                format!("{}, from {lowest} to {highest}", units::BYTES_EXPECTED).into()
            }
        }
    }

    fn accepts() -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": MIN, "maximum": MAX},
            {
                "type": "string",
                "pattern": r"^\s*[0-9]+(\.[0-9]{1,9})?\s*([bB]|[kKmMgG]([iI]?[bB])?)\s*$|^\s*[0-9]+\s*$",
            },
        ]})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        const UNITS: &[&str] = &["B", "KB", "MB", "GB"];
        let bytes = units::parse_bytes(text).map_err(|error| unit_fault(&error, UNITS))?;
        if (MIN..=MAX).contains(&bytes) {
            Ok(Self(bytes))
        } else if MAX == MAX_SIZE {
            let lowest = units::format_bytes(MIN);
            Err(Fault::new(
                format!("`{}` is too small", shortened(text)),
                format!("give at least {lowest}"),
            ))
        } else {
            let (lowest, highest) = (units::format_bytes(MIN), units::format_bytes(MAX));
            Err(out_of_range(text, &lowest, &highest))
        }
    }
}

/// A rate in bits per second; not zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitRate(pub(crate) u64);

impl Leaf for BitRate {
    fn expected() -> Cow<'static, str> {
        units::BIT_RATE_EXPECTED.into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": r"^\s*(?=[0-9.]*[1-9])[0-9]+(\.[0-9]{1,9})?\s*[kKmMgG]?[bB][iI][tT]\s*$",
        })
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        const UNITS: &[&str] = &["bit", "kbit", "mbit", "gbit"];
        match units::parse_bit_rate(text).map_err(|error| unit_fault(&error, UNITS))? {
            0 => Err(Fault::new(
                "a rate of zero sends nothing",
                "give the link's rate, such as 10mbit, or `auto`, or `unlimited`",
            )),
            rate => Ok(Self(rate)),
        }
    }
}

/// A span of time, from `MIN_MS` milliseconds to a year.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time<const MIN_MS: u64>(pub(crate) Duration);

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl<const MIN_MS: u64> Leaf for Time<MIN_MS> {
    fn expected() -> Cow<'static, str> {
        units::DURATION_EXPECTED.into()
    }

    fn accepts() -> Value {
        let nonzero = if MIN_MS > 0 { "(?=[0-9.]*[1-9])" } else { "" };
        let unit = "([hHsS]|[mM][iI][nN]|[mMuUnN]?[sS]|[mM])";
        json!({
            "type": "string",
            "pattern": format!(r"^\s*{nonzero}[0-9]+(\.[0-9]{{1,9}})?\s*{unit}\s*$"),
        })
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        const UNITS: &[&str] = &["ms", "s", "m", "h"];
        let time = units::parse_duration(text).map_err(|error| unit_fault(&error, UNITS))?;
        let lowest = Duration::from_millis(MIN_MS);
        if (lowest..=YEAR).contains(&time) {
            Ok(Self(time))
        } else {
            Err(out_of_range(text, &units::format_duration(lowest), "8760h"))
        }
    }
}
