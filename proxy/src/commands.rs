//! The command line and its commands.

mod catalogue;
pub(crate) mod cli;
mod diff;
mod explain;
mod healthcheck;
mod import;
mod link;
mod trial;
