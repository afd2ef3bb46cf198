//! The common ground of measurements and predictions: the cost of a response on
//! the wire, how figures are written, and charts.
//!
//! The load generator measures and `sprat whatif` predicts. Both mean the same by a
//! response's cost, and look the same on paper.

#![forbid(unsafe_code)]

pub mod axis;
pub mod link;
pub mod page;
pub mod plot;
pub mod text;
pub mod wire;
