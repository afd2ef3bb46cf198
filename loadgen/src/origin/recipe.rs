//! Recipes: the responses that URLs order from the origin.

use std::time::Duration;

use http::{StatusCode, Uri};
use sprat_config::units;

use crate::content::Content;

/// The longest delay that can be asked for.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// A response as a URL orders it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recipe {
    pub(super) content: Content,
    pub(super) delay: Duration,
    pub(super) body_delay: Duration,
    pub(super) chunked: bool,
    pub(super) rate_bits_per_s: Option<u64>,
    pub(super) status: StatusCode,
    pub(super) close: bool,
    pub(super) trailers: bool,
    pub(super) fault: Option<Fault>,
    pub(super) at: Option<u64>,
    /// The number of attempts for which fault and status hold; all of them if `None`.
    pub(super) attempts: Option<u32>,
}

/// A way in which a response goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    ResetHead,
    ResetBody,
    Short,
    Long,
    Garbage,
    StallHead,
    StallBody,
    HeaderFlood,
}

impl Fault {
    pub(super) const ALL: [(&str, Self); 8] = [
        ("reset_head", Self::ResetHead),
        ("reset_body", Self::ResetBody),
        ("short", Self::Short),
        ("long", Self::Long),
        ("garbage", Self::Garbage),
        ("stall_head", Self::StallHead),
        ("stall_body", Self::StallBody),
        ("header_flood", Self::HeaderFlood),
    ];
}

/// The reason why a URL is no recipe.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum RecipeError {
    #[error("`{0}` is not served here; ask for /size/<bytes>/<id>")]
    Path(String),
    #[error(
        "`{knob}` is not a knob; the knobs are delay, body_delay, chunked, text, rate, status, close, trailers, fault, at and attempts"
    )]
    Knob { knob: String },
    #[error("`{value}` in `{knob}` is not {expected}")]
    Value {
        knob: String,
        value: String,
        expected: &'static str,
    },
}

impl Recipe {
    pub(super) fn of_uri(uri: &Uri) -> Result<Self, RecipeError> {
        let content =
            Content::of_path(uri.path()).ok_or_else(|| RecipeError::Path(uri.path().to_owned()))?;
        let mut recipe = Self {
            content,
            delay: Duration::ZERO,
            body_delay: Duration::ZERO,
            chunked: false,
            rate_bits_per_s: None,
            status: StatusCode::OK,
            close: false,
            trailers: false,
            fault: None,
            at: None,
            attempts: None,
        };
        for part in uri.query().unwrap_or("").split('&') {
            if !part.is_empty() {
                let (knob, value) = part.split_once('=').unwrap_or((part, ""));
                recipe.turn(knob, value)?;
            }
        }
        Ok(recipe)
    }

    /// Returns the recipe for the `attempt`th attempt, counted from 1: a fault
    /// that is over leaves a plain response.
    pub(super) fn at_attempt(self, attempt: u32) -> Self {
        match self.attempts {
            Some(attempts) if attempt > attempts => Self {
                status: StatusCode::OK,
                fault: None,
                ..self
            },
            _ => self,
        }
    }

    fn turn(&mut self, knob: &str, value: &str) -> Result<(), RecipeError> {
        let bad = |expected| RecipeError::Value {
            knob: knob.to_owned(),
            value: value.to_owned(),
            expected,
        };
        let delay = || {
            units::parse_duration(value)
                .ok()
                .filter(|delay| *delay <= DELAY_MAX)
                .ok_or_else(|| bad("a delay of at most 1h, such as 50ms"))
        };
        let switch = || match value {
            "1" | "" => Ok(true),
            "0" => Ok(false),
            _ => Err(bad("0 or 1")),
        };
        match knob {
            "delay" => self.delay = delay()?,
            "body_delay" => self.body_delay = delay()?,
            "chunked" => self.chunked = switch()?,
            "text" => self.content = self.content.in_words(switch()?),
            "close" => self.close = switch()?,
            "trailers" => self.trailers = switch()?,
            "rate" => {
                let rate = units::parse_bit_rate(value).ok().filter(|rate| *rate > 0);
                self.rate_bits_per_s = Some(rate.ok_or_else(|| bad("a rate, such as 1mbit"))?);
            }
            "status" => {
                let status = value.parse().ok().filter(|code| (200..600).contains(code));
                self.status = status
                    .and_then(|code| StatusCode::from_u16(code).ok())
                    .ok_or_else(|| bad("a final status code, 200 to 599"))?;
            }
            "fault" => {
                let fault = Fault::ALL.into_iter().find(|(name, _)| *name == value);
                self.fault = Some(
                    fault
                        .ok_or_else(|| bad("a known fault, such as reset_body"))?
                        .1,
                );
            }
            "at" => self.at = Some(value.parse().map_err(|_| bad("a number of bytes"))?),
            "attempts" => {
                let attempts = value.parse().map_err(|_| bad("a number of attempts"))?;
                self.attempts = Some(attempts);
            }
            _ => {
                return Err(RecipeError::Knob {
                    knob: knob.to_owned(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(uri: &str) -> Result<Recipe, RecipeError> {
        Recipe::of_uri(&uri.parse().unwrap())
    }

    #[test]
    fn knobs_combine() {
        let found = recipe("/size/10/a?delay=50ms&body_delay=1s&chunked=1&rate=1mbit&status=503&close=1&trailers=1&fault=short&at=3&attempts=2").unwrap();
        let plain = recipe("/size/10/a").unwrap();
        assert_eq!(
            found,
            Recipe {
                delay: Duration::from_millis(50),
                body_delay: Duration::from_secs(1),
                chunked: true,
                rate_bits_per_s: Some(1_000_000),
                status: StatusCode::SERVICE_UNAVAILABLE,
                close: true,
                trailers: true,
                fault: Some(Fault::Short),
                at: Some(3),
                attempts: Some(2),
                ..plain
            }
        );
        assert_eq!(found.clone().at_attempt(2), found);
        let third = found.at_attempt(3);
        assert_eq!((third.status, third.fault), (StatusCode::OK, None));
        let plain = recipe("/size/10/a").unwrap();
        assert_eq!(plain.clone().at_attempt(9), plain);
    }

    #[test]
    fn words_are_what_a_client_checks_by_the_same_url() {
        let uri = "/size/10/a?chunked=1&text=1";
        assert_eq!(recipe(uri).unwrap().content, Content::of_path(uri).unwrap());
        let letters = recipe("/size/10/a?text=0").unwrap();
        assert_eq!(letters, recipe("/size/10/a").unwrap());
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (uri, expected) in [
            ("/", "`/` is not served here"),
            ("/size/x/a", "`/size/x/a` is not served here"),
            ("/size/1/a?dealy=1s", "`dealy` is not a knob"),
            (
                "/size/1/a?delay=2h",
                "`2h` in `delay` is not a delay of at most 1h",
            ),
            ("/size/1/a?rate=0bit", "`0bit` in `rate`"),
            ("/size/1/a?status=100", "`100` in `status`"),
            ("/size/1/a?chunked=2", "`2` in `chunked`"),
            ("/size/1/a?text=yes", "`yes` in `text`"),
            ("/size/1/a?fault=oops", "`oops` in `fault`"),
            ("/size/1/a?at=-1", "`-1` in `at`"),
            ("/size/1/a?attempts=x", "`x` in `attempts`"),
        ] {
            let error = recipe(uri).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
