//! The prediction as people and programs read it: one set of figures, in three forms.

mod charts;
mod content;
mod page;
mod terminal;
mod words;

use sprat_measure::plot::PlotError;

pub use content::*;
pub use terminal::{brief, terminal};

/// Returns the report as JSON.
///
/// # Errors
/// A path is not UTF-8.
pub fn json(report: &Report) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(report)? + "\n")
}

/// Returns the report as a page of HTML that needs no other file.
///
/// # Errors
/// A figure cannot be drawn.
pub fn page(report: &Report) -> Result<String, PlotError> {
    page::html(report)
}
