//! The answers that refused clients get, each in a form that the client reads.

use sprat_config::fields::{Fields, accepts_json, problem};
use sprat_scheduler::station::Refusal;

/// A response that the filter gives in a backend's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status of the answer.
    pub status: u16,
    /// The answer's fields, to which the host adds the length.
    pub fields: Vec<(&'static str, String)>,
    /// The body of the answer.
    pub body: String,
    /// The reason in one word, for logs.
    pub reason: &'static str,
    /// Whether the client reads a status of gRPC instead, which is [`Answer::GRPC_STATUS`] if the
    /// host has not a better one.
    pub is_grpc: bool,
}

/// Returns whether the client is a browser that shows pages.
fn accepts_html(request: &(impl Fields + ?Sized)) -> bool {
    request.any("accept", &mut |value| value.contains("text/html"))
}

/// The form in which a client reads a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Html,
    Json,
    Text,
    Grpc,
}

impl Form {
    /// Returns the form that a client with these fields reads best.
    pub(crate) fn of(request: &(impl Fields + ?Sized)) -> Self {
        let grpc = |value: &str| value.starts_with("application/grpc");
        if request.any("content-type", &mut |value| grpc(value)) {
            return Self::Grpc;
        }
        match (accepts_html(request), accepts_json(request)) {
            (true, _) => Self::Html,
            (false, true) => Self::Json,
            (false, false) => Self::Text,
        }
    }
}

const TITLE: &str = "Service Unavailable";

impl Answer {
    /// The gRPC status `UNAVAILABLE`: the client may try again after a while.
    pub const GRPC_STATUS: &str = "14";

    /// Creates a 503 that says why the request is refused, and when to ask again (SDIS02's informed
    /// dropping).
    pub(crate) fn to_refused(refusal: &Refusal, form: Form) -> Self {
        let (reason, detail) = (refusal.reason.name(), refusal.reason.detail());
        let seconds = refusal.retry_after_s();
        let (content_type, body) = match form {
            Form::Html => (
                "text/html; charset=utf-8",
                format!(
                    "<!doctype html><title>503 {TITLE}</title><h1>503 {TITLE}</h1>\
                     <p>The server has too much to do: {detail}.\
                     <p>Try again in {seconds} s.\n"
                ),
            ),
            Form::Grpc => ("text/plain; charset=utf-8", detail.to_owned()),
            Form::Json | Form::Text => problem(form == Form::Json, 503, TITLE, detail, reason),
        };
        let status = format!("sprat; error=http_request_denied; details=\"{detail}\"");
        Self {
            status: 503,
            fields: vec![
                ("content-type", content_type.to_owned()),
                ("retry-after", seconds.to_string()),
                ("proxy-status", status),
            ],
            body,
            reason,
            is_grpc: form == Form::Grpc,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sprat_scheduler::station::RefusalReason;

    use super::*;

    #[test]
    fn each_client_is_told_in_its_own_form() {
        let refusal = Refusal {
            reason: RefusalReason::QueueFull,
            retry_after: Some(Duration::from_millis(2100)),
        };
        let answer = |accept: &str| {
            let fields = [("accept", accept)];
            Answer::to_refused(&refusal, Form::of(&fields[..]))
        };
        let json = answer("application/json");
        assert_eq!(json.fields[0].1, "application/problem+json");
        assert_eq!(json.fields[1], ("retry-after", "3".to_owned()));
        assert!(
            json.body.contains("\"reason\":\"queue_full\""),
            "{}",
            json.body
        );
        let html = answer("text/html,*/*;q=0.8");
        assert!(html.body.contains("Try again in 3 s."), "{}", html.body);
        let call = [
            ("content-type", "application/grpc+proto"),
            ("accept", "*/*"),
        ];
        let call = Answer::to_refused(&refusal, Form::of(&call[..]));
        assert!(call.is_grpc);
        assert_eq!(call.body, "as many requests wait as may");
        let text = answer("image/png");
        assert_eq!(
            text.body,
            "503 Service Unavailable: as many requests wait as may\n"
        );
    }
}
