//! Numbers without a unit.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::decode::Class;
use crate::scalars::{Fault, Leaf};

/// A number from 1 to 1000.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor(pub(crate) f64);

impl Leaf for Factor {
    const NUMBER: bool = true;
    const TEXT: bool = false;

    fn expected() -> Cow<'static, str> {
        "a number from 1 to 1000".into()
    }

    fn accepts() -> Value {
        json!({"type": "number", "minimum": 1, "maximum": 1000})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text.parse() {
            Ok(number) if (1.0..=1000.0).contains(&number) => Ok(Self(number)),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// A share, from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share(pub(crate) f64);

impl Leaf for Share {
    const NUMBER: bool = true;
    const TEXT: bool = false;

    fn expected() -> Cow<'static, str> {
        "a share, from 0 to 1".into()
    }

    fn accepts() -> Value {
        json!({"type": "number", "minimum": 0, "maximum": 1})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text.parse() {
            Ok(number) if (0.0..=1.0).contains(&number) => Ok(Self(number)),
            _ => Err(Fault::PLAIN),
        }
    }
}
