//! What serves: who decides what goes onto the links, and when.

use std::fmt;
use std::str::FromStr;

use sprat_config::units;

/// A way to serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum System {
    /// Each connection writes what TCP lets it, as in nginx.
    Fair,
    /// By size, with a rate beyond all links.
    Unlimited,
    /// By size, at the shared link's own rate.
    Named,
    /// By size, at this many bits per second.
    Rate(u64),
    /// By size, at the rate that [`RateControl`](sprat_scheduler::RateControl) finds.
    Auto,
    /// By size; the search for the rate acts while a
    /// [`Gate`](sprat_scheduler::rate_control::gate::Gate) lets it.
    Gate,
}

impl System {
    /// Those that a run compares, unless it is told others.
    pub(super) const USUAL: [Self; 5] = [
        Self::Fair,
        Self::Unlimited,
        Self::Named,
        Self::Auto,
        Self::Gate,
    ];
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fair => f.write_str("fair"),
            Self::Unlimited => f.write_str("unlimited"),
            Self::Named => f.write_str("named"),
            Self::Rate(bits_per_s) => write!(f, "{}kbit", bits_per_s / 1000),
            Self::Auto => f.write_str("auto"),
            Self::Gate => f.write_str("gate"),
        }
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "fair" => Ok(Self::Fair),
            "unlimited" => Ok(Self::Unlimited),
            "named" => Ok(Self::Named),
            "auto" => Ok(Self::Auto),
            "gate" => Ok(Self::Gate),
            _ => match units::parse_bit_rate(text) {
                Ok(bits_per_s) if bits_per_s > 0 => Ok(Self::Rate(bits_per_s)),
                _ => Err(format!(
                    "`{text}` is no system: fair, unlimited, named, auto, gate or a rate such as 11mbit"
                )),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        let systems = [
            System::Gate,
            System::Rate(11_000_000),
            System::Rate(500_000),
        ];
        for system in System::USUAL.into_iter().chain(systems) {
            assert_eq!(system.to_string().parse(), Ok(system));
        }
        for text in ["", "0mbit", "fast", "10"] {
            assert!(text.parse::<System>().is_err(), "{text}");
        }
    }
}
