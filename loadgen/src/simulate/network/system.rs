//! The systems that serve: each decides what goes onto the links, and when.

use std::fmt;
use std::str::FromStr;

use sprat_config::units;

/// A way to serve the requests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum System {
    /// Each connection writes what TCP lets it, as in nginx.
    Fair,
    /// The server serves by size, with a rate beyond all links.
    Unlimited,
    /// The server serves by size, at the shared link's own rate.
    Named,
    /// The server serves by size, at this many bits per second.
    Rate(u64),
    /// The server serves by size, at the shared link's own rate, or at this many bits per second:
    /// as long as a [`Gate`](sprat_scheduler::rate_control::gate::Gate) finds no slower link.
    Watched(Option<u64>),
    /// The server serves by size, at the rate that a search finds while a
    /// [`Gate`](sprat_scheduler::rate_control::gate::Gate) lets it act.
    Auto,
    /// The server serves by size, at the rate that
    /// [`RateControl`](sprat_scheduler::RateControl) finds without a gate.
    Search,
    /// The server serves each client's responses by size, at so many hundredths of the rate of the
    /// client's own link.
    Clients(u64),
    /// The server serves each client's responses by size, at the rate found for the client as by
    /// `Auto`.
    ClientsAuto,
}

impl System {
    /// The systems that a run compares, unless the command line names others.
    pub(super) const USUAL: [Self; 5] = [
        Self::Fair,
        Self::Unlimited,
        Self::Named,
        Self::Watched(None),
        Self::Auto,
    ];
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fair => f.write_str("fair"),
            Self::Unlimited => f.write_str("unlimited"),
            Self::Named => f.write_str("named"),
            Self::Rate(bits_per_s) => write!(f, "{}kbit", bits_per_s / 1000),
            Self::Watched(None) => f.write_str("watched"),
            Self::Watched(Some(bits_per_s)) => write!(f, "watched-{}kbit", bits_per_s / 1000),
            Self::Auto => f.write_str("auto"),
            Self::Search => f.write_str("search"),
            Self::Clients(percent) => write!(f, "clients-{percent}"),
            Self::ClientsAuto => f.write_str("clients-auto"),
        }
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = |text| units::parse_bit_rate(text).ok().filter(|rate| *rate > 0);
        let percent = |text: &str| text.parse().ok().filter(|percent| *percent > 0);
        let system = match text {
            "fair" => Some(Self::Fair),
            "unlimited" => Some(Self::Unlimited),
            "named" => Some(Self::Named),
            "watched" => Some(Self::Watched(None)),
            "auto" => Some(Self::Auto),
            "search" => Some(Self::Search),
            "clients-auto" => Some(Self::ClientsAuto),
            _ => match text.split_once('-') {
                Some(("watched", text)) => rate(text).map(|rate| Self::Watched(Some(rate))),
                Some(("clients", text)) => percent(text).map(Self::Clients),
                _ => rate(text).map(Self::Rate),
            },
        };
        system.ok_or_else(|| {
            format!(
                "`{text}` is no system: fair, unlimited, named, watched, auto, search, a rate \
                 such as 11mbit, watched-11mbit, clients-100 (per cent of each client's own \
                 rate), or clients-auto"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        let systems = [
            System::Search,
            System::Watched(Some(11_000_000)),
            System::Rate(11_000_000),
            System::Rate(500_000),
            System::Clients(110),
            System::ClientsAuto,
        ];
        for system in System::USUAL.into_iter().chain(systems) {
            assert_eq!(system.to_string().parse(), Ok(system));
        }
        for text in [
            "",
            "0mbit",
            "fast",
            "10",
            "watched-",
            "watched-0mbit",
            "clients-0",
        ] {
            assert!(text.parse::<System>().is_err(), "{text}");
        }
    }
}
