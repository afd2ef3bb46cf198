//! Certificates that an authority issues by ACME (RFC 8555).
//!
//! Certificates are put into a storage of files. The listeners that show them find them there as
//! they find any other certificate: by looking at the file. So processes that share a storage share
//! its certificates, and a new certificate replaces another as a renewed file does. A thread beside
//! the workers asks the authority, one certificate at a time, under a lock of the storage.

#![forbid(unsafe_code)]

mod answers;
mod command;
mod https;
mod inspect;
mod issue;
mod keeper;
mod metrics;
mod schedule;
mod storage;

pub use inspect::inspect;
pub use keeper::{Keeper, PreparedThread, Shared};
pub use metrics::{ACME, AcmeView};
