//! The options in the rest of a `bind` or a `server`, and what is said of those that Sprat has not.

/// An option that HAProxy knows.
pub(super) struct Known {
    pub(super) name: &'static str,
    /// The number of values that follow the name.
    pub(super) values: usize,
    /// The remark. It is empty for an option that is carried over, that Sprat does of its own
    /// accord, or that makes no difference to what clients and servers get.
    told: &'static str,
}

/// Makes a row of a table of options: the name, the number of values, and the remark.
pub(super) const fn known(name: &'static str, values: usize, told: &'static str) -> Known {
    Known { name, values, told }
}

/// The remark about lists of ciphers, curves and signatures.
pub(super) const LISTS: &str = "the TLS library's own list counts";

/// The remark about versions of TLS that Sprat does not speak.
pub(super) const OLDEST: &str = "Sprat speaks TLS 1.2 and 1.3 alone";

/// An option that a line has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given<'w> {
    pub(super) name: &'w str,
    /// The first of its values; empty if there is none.
    pub(super) value: &'w str,
    /// The remark, which may be empty; none if Sprat does not know the option.
    told: Option<&'static str>,
}

impl Given<'_> {
    /// Returns what is said of the option, if anything is.
    pub(super) fn remark(&self) -> Option<String> {
        let told = match (self.name, self.value) {
            ("ssl-max-ver", "TLSv1.3") => Some(""),
            ("proto", "fcgi") => Some("Sprat speaks HTTP to endpoints"),
            ("ssl-max-ver" | "ssl-min-ver", "SSLv3" | "TLSv1.0" | "TLSv1.1") => Some(OLDEST),
            _ => self.told,
        };
        match told {
            Some("") => None,
            Some(told) => Some(format!("without `{}`: {told}", self.name)),
            None => Some(format!("Sprat does not know `{}`", self.name)),
        }
    }
}

/// Returns the options among the words of a line, each with what `known` says of it.
pub(super) fn given<'w>(words: impl Iterator<Item = &'w str>, known: &[Known]) -> Vec<Given<'w>> {
    let mut words = words.fuse();
    let mut out = Vec::new();
    while let Some(name) = words.next() {
        let found = known.iter().find(|own| own.name == name);
        let values = found.map_or(0, |own| own.values);
        let value = words.by_ref().take(values).next().unwrap_or_default();
        let told = found.map(|own| own.told);
        out.push(Given { name, value, told });
    }
    out
}

/// Returns whether the options leave TLS 1.3 alone. The last `ssl-min-ver` counts.
pub(super) fn newest_alone(given: &[Given<'_>]) -> bool {
    let least = given.iter().rfind(|own| own.name == "ssl-min-ver");
    let is_forced = |own: &Given<'_>| matches!(own.name, "force-tlsv13" | "no-tlsv12");
    least.is_some_and(|own| own.value == "TLSv1.3") || given.iter().any(is_forced)
}
