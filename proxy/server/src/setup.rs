//! What one configuration sets up, and a worker's connections are served by.

pub(crate) mod assembly;
pub(crate) mod generation;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod request_ids;
pub mod routing;
pub(crate) mod serving;
