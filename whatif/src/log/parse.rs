//! The way from a line to its entry, by the format's reader, and to its format.

use super::entry::{Entry, Fault};
use super::format::Format;
use super::{common, envoy, haproxy, json};

impl Format {
    /// Reads a line of this format, or of one that the same reader reads: a log may have
    /// lines of the combined format among those of the common one.
    ///
    /// # Errors
    /// What is missing in the line, or wrong with it.
    pub fn read(self, line: &[u8]) -> Result<Entry, Fault> {
        if line.trim_ascii().is_empty() {
            return Err(Fault::Empty);
        }
        let entry = match self {
            Self::Clf | Self::Combined | Self::SpratCombined => {
                common::read(line).map(|(entry, _)| Entry {
                    before_ns: 0,
                    ..entry
                })
            }
            Self::NginxTimed => common::read(line).map(|(entry, _)| entry),
            Self::Sprat => json::read_sprat(line),
            Self::Haproxy => haproxy::read(line),
            Self::Caddy => json::read_caddy(line),
            Self::Envoy => envoy::read(line),
            Self::EnvoyJson => json::read_envoy(line),
        };
        entry.map_err(|fault| match Self::of(line) {
            Some(other) => Fault::Other(other),
            None => fault,
        })
    }

    /// Finds the format of a line, if there is one.
    pub fn of(line: &[u8]) -> Option<Self> {
        if line.trim_ascii_start().starts_with(b"{") {
            let readers = [
                (json::read_sprat as fn(&[u8]) -> _, Self::Sprat),
                (json::read_caddy, Self::Caddy),
                (json::read_envoy, Self::EnvoyJson),
            ];
            let mut readers = readers.into_iter();
            return readers.find_map(|(read, format)| read(line).is_ok().then_some(format));
        }
        if let Ok((_, format)) = common::read(line) {
            return Some(format);
        }
        if haproxy::read(line).is_ok() {
            return Some(Self::Haproxy);
        }
        envoy::read(line).is_ok().then_some(Self::Envoy)
    }

    /// Finds the format that most of some lines have; of two that as many lines have, the one that
    /// comes first.
    pub(super) fn of_most<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Self> {
        let mut counts = [0_usize; Self::ALL.len()];
        let mut firsts = Vec::new();
        for format in lines.filter_map(Self::of) {
            if !firsts.contains(&format) {
                firsts.push(format);
            }
            counts[format as usize] += 1;
        }
        let most = firsts.iter().map(|format| counts[*format as usize]).max()?;
        let found = firsts.into_iter();
        found
            .into_iter()
            .find(|format| counts[*format as usize] == most)
    }
}
