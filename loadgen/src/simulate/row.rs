//! A row of a simulation's report.

use super::measure::SimulatedMeasures;

/// The results of one system at one load.
#[derive(Clone, Debug, Default)]
pub(super) struct SimulationRow {
    pub(super) system: String,
    pub(super) load: f64,
    pub(super) measures: SimulatedMeasures,
    pub(super) theory_ms: Option<f64>,
    pub(super) theory_slowdown: Option<f64>,
    /// The percentage of requests that began after their deadline.
    pub(super) late_percent: Option<f64>,
    /// The mean response time of each class in ms, by the class's name.
    pub(super) classes: Vec<(&'static str, f64)>,
}
