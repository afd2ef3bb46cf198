//! A server as a process: its workers, its configuration's file, its signals.

pub(crate) mod accept;
pub mod changes;
pub(crate) mod descriptors;
pub(crate) mod inspect;
pub mod loaded;
pub(crate) mod notify;
pub mod operate;
pub(crate) mod reload;
pub mod server;
pub mod simulation;
pub(crate) mod worker;
