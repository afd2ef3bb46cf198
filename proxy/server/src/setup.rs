//! The parts that one configuration sets up, by which a worker's connections are served.

pub(crate) mod assembly;
pub(crate) mod generation;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod request_ids;
pub mod routing;
pub(crate) mod serving;
