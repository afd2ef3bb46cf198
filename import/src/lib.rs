//! Configurations of other proxies as Sprat's: text in, YAML out.
//!
//! ```text
//! text -> directives (places) -> what they ask for -> a document -> YAML
//!                    \-> a ledger: what was carried over, nearly, or not
//! ```
//!
//! Nothing is read here but through [`Files`], and nothing is dropped without a word: each
//! directive has its [`Outcome`], and all but those that are carried over have a comment
//! in the YAML at their place. What guards something and cannot be carried over refuses
//! what it guards.
//!
//! Everything is bounded: bytes ([`MAX_BYTES`]), files ([`MAX_FILES`]), includes and
//! blocks within each other ([`MAX_DEPTH`]), directives ([`MAX_DIRECTIVES`]), and what is made
//! of them ([`MAX_ROUTES`]).

#![forbid(unsafe_code)]

mod document;
mod endpoints;
mod files;
mod haproxy;
mod ledger;
mod nginx;
mod patterns;
mod restrict;
mod sessions;
mod sockets;
mod units;
mod yaml;

pub use files::{Fault, Files, Place};
pub use ledger::{Note, Outcome, Summary};

/// Bytes of all files together.
pub const MAX_BYTES: usize = 4 << 20;
/// Files that are read, the same one again among them.
pub const MAX_FILES: usize = 1024;
/// Includes within each other, and blocks within each other.
pub const MAX_DEPTH: usize = 24;
/// Directives of all files together.
pub const MAX_DIRECTIVES: usize = 50_000;
/// Routes that are made, those of places that others lead to among them.
pub const MAX_ROUTES: usize = 10_000;

/// A configuration of Sprat, and what it does not say.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The configuration in YAML, which `sprat check` accepts.
    pub yaml: String,
    /// The outcome of each directive, in the order of the files.
    pub summary: Summary,
}

/// The options that an operator has for an import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The ports whose servers are wanted, if servers of several ports differ; empty if
    /// the import is to choose.
    pub ports: Vec<u16>,
}

/// Reads a configuration of nginx.
///
/// # Errors
///
/// The text is not nginx's, or has nothing that Sprat could serve.
pub fn nginx(path: &str, files: &mut dyn Files, options: &Options) -> Result<Imported, Fault> {
    nginx::import(path, files, options)
}

/// Reads a configuration of HAProxy.
///
/// # Errors
///
/// The text is not HAProxy's, or has nothing that Sprat could serve.
pub fn haproxy(path: &str, files: &mut dyn Files, options: &Options) -> Result<Imported, Fault> {
    haproxy::import(path, files, options)
}
