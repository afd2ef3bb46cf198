//! Sprat's configuration: YAML in, checked newtypes out.
//!
//! [`resolved`] holds what the rest of the program sees. Raw YAML types stay
//! inside this crate: a component gets its own resolved part and nothing else.

#![forbid(unsafe_code)]

pub mod resolved;
pub mod units;

pub use resolved::Config;
