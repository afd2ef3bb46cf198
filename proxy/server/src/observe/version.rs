//! The version of this program, and what it was built from.

/// The version, as the manifest has it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that the program was built from; `unknown` in builds that are not optimised.
pub(crate) const COMMIT: &str = env!("SPRAT_BUILD_COMMIT");

/// The machine that the program runs on, as the compiler names it.
pub(crate) const TARGET: &str = env!("SPRAT_BUILD_TARGET");

/// The library that does the cryptography of TLS.
pub(crate) const TLS: &str = "ring";

/// The text that `sprat --version` has behind the name.
pub const LONG: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("SPRAT_BUILD_COMMIT"),
    ", ",
    env!("SPRAT_BUILD_PROFILE"),
    ", ",
    env!("SPRAT_BUILD_TARGET"),
    ", ",
    env!("SPRAT_BUILD_LINKED"),
    ", TLS by ring)"
);
