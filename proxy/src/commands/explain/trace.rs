//! The part of `sprat explain` that names a request's trace, and tells whether it is sampled.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use sprat_config::Config;

/// Describes the trace of a request with these fields; null if tracing is not configured.
pub(super) fn value(config: &Config, fields: &[(HeaderName, HeaderValue)]) -> Value {
    let Some(tracing) = &config.tracing else {
        return Value::Null;
    };
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name, value.clone());
    }
    let trace = sprat_traces::parent_trace(&headers).map(|own| own.to_string());
    let decided = sprat_traces::is_sampled_by_parent(tracing, &headers);
    let part = match &trace {
        Some(trace) => format!("part of {trace}"),
        None if headers.contains_key(sprat_traces::TRACEPARENT) => {
            "another one: its traceparent is malformed".to_owned()
        }
        None => "another one".to_owned(),
    };
    let percent = f64::from(tracing.sampling_ppm) / 1e4;
    let sampled = match decided {
        Some(true) => "sampled, as its traceparent says".to_owned(),
        Some(false) => "not sampled, as its traceparent says".to_owned(),
        None => format!("sampled by chance, {percent}%"),
    };
    json!({
        "trace_id": trace,
        "sampled": decided,
        "sampling_percent": percent,
        "why": format!("{part}; {sampled}"),
    })
}
