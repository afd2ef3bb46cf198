//! The present figures of a server, and its responses in progress, as JSON.
//!
//! The order of responses is looked at ten times a second at most, however many clients ask.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::observe::metrics::Metrics;
use crate::observe::stage::Stage;

/// The age up to which a look at the responses in progress does for all clients that ask.
const FRESH_FOR: Duration = Duration::from_millis(100);

/// The most responses in progress that an answer tells of.
pub(super) const MOST_FLOWS: usize = 200;

/// A server's present figures, and its responses in progress.
pub(super) struct Live {
    metrics: Arc<Metrics>,
    stage: watch::Receiver<Stage>,
    /// The last look at the responses in progress: when it was, and what was seen.
    looked: Mutex<Option<(Instant, Value)>>,
}

impl Live {
    /// Makes the view of a server's figures and responses.
    pub(super) fn new(metrics: &Arc<Metrics>, stage: watch::Receiver<Stage>) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            stage,
            looked: Mutex::default(),
        }
    }

    /// Returns the present figures as JSON.
    pub(super) fn stats(&self) -> String {
        let stage = *self.stage.borrow();
        json(&self.metrics.figures(stage))
    }

    /// Returns the responses in progress as JSON, the first `most`, as they are or were 0.1 s ago.
    pub(super) fn flows(&self, most: usize) -> String {
        // Held while it is looked: those who ask meanwhile see the same.
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        looked.take_if(|(at, _)| at.elapsed() >= FRESH_FOR);
        let (_, seen) =
            looked.get_or_insert_with(|| (Instant::now(), self.metrics.flows(MOST_FLOWS)));
        let mut seen = seen.clone();
        drop(looked);
        if let Some(Value::Array(flows)) = seen.get_mut("flows") {
            flows.truncate(most);
        }
        json(&seen)
    }
}

fn json(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
