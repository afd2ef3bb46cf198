//! Configurations of other proxies as Sprat's: text in, YAML out.
//!
//! ```text
//! text -> directives (places) -> what they ask for -> a document -> YAML
//!                    \-> a ledger: what was carried over, nearly, or not
//! ```
//!
//! An import reads only through [`Files`], and drops nothing without a word. Each directive has its
//! [`Outcome`], and all but those that are carried over have a comment in the YAML at their place.
//! A directive that guards something and cannot be carried over becomes a refusal of what it
//! guards.
//!
//! Everything is bounded: bytes ([`MAX_BYTES`]), files ([`MAX_FILES`]), includes and blocks within
//! each other ([`MAX_DEPTH`]), directives ([`MAX_DIRECTIVES`]), and what is made of them
//! ([`MAX_ROUTES`]).

#![forbid(unsafe_code)]

mod document;
mod endpoints;
mod files;
mod haproxy;
mod ledger;
mod limits;
mod networks;
mod nginx;
mod options;
mod patterns;
mod restrict;
mod sessions;
mod sockets;
mod transports;
mod units;
mod yaml;

pub use document::Imported;
pub use files::{Fault, Files, Place};
pub use ledger::{Note, Outcome, Summary};
pub use limits::{MAX_BYTES, MAX_DEPTH, MAX_DIRECTIVES, MAX_FILES, MAX_ROUTES};
pub use options::Options;

/// Imports a configuration of nginx.
///
/// # Errors
///
/// The text is not nginx's, or has nothing that Sprat could serve.
pub fn nginx(path: &str, files: &mut dyn Files, options: &Options) -> Result<Imported, Fault> {
    nginx::import(path, files, options)
}

/// Imports a configuration of HAProxy.
///
/// # Errors
///
/// The text is not HAProxy's, or has nothing that Sprat could serve.
pub fn haproxy(path: &str, files: &mut dyn Files, options: &Options) -> Result<Imported, Fault> {
    haproxy::import(path, files, options)
}
