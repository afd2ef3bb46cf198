//! Traces: the collector that spans are sent to, and which spans.

use super::values::{count, optional_file, time};
use crate::addresses::CollectorUrl;
use crate::containers::{ByName, Or};
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::{CollectorEndpoint, Otlp, Span, Tracing};

/// The port of OTLP over gRPC, which Sprat does not speak.
const GRPC_PORT: u16 = 4317;

/// The fields of an export's request that Sprat writes itself, in lower case.
const OWN_FIELDS: [&str; 6] = [
    "connection",
    "content-length",
    "content-type",
    "host",
    "te",
    "transfer-encoding",
];

/// Resolves the tracing of requests; `Some(None)` if it is off.
pub(super) fn resolve<W>(
    raw: &Field<Or<W, raw::Tracing>>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<Tracing>> {
    let Some(tracing) = raw.get()?.value() else {
        return Some(None);
    };
    let raw = tracing.otlp.get()?;
    let endpoint = endpoint(&raw.endpoint, reporter);
    let headers = headers(&raw.headers, reporter);
    let resource = resource(raw, reporter);
    let queue_fits = queue_fits(raw, reporter);
    let otlp = Otlp {
        endpoint: endpoint?,
        headers: headers?,
        ca_file: optional_file(&raw.ca_file)?,
        resource: resource?,
        timeout: time(&raw.timeout)?,
        max_queue_size: count(&raw.max_queue_size)?,
        max_export_batch_size: count(&raw.max_export_batch_size)?,
        schedule_delay: time(&raw.schedule_delay)?,
    };
    queue_fits.then_some(())?;
    Some(Some(Tracing {
        sampling_ppm: raw.sampling.copied()?.0,
        parent_based: raw.parent_based.copied()?.0,
        otlp,
    }))
}

fn endpoint(raw: &Field<CollectorUrl>, reporter: &mut Reporter<'_>) -> Option<CollectorEndpoint> {
    let url = raw.get()?;
    if url.port == GRPC_PORT {
        let message = format!("port {GRPC_PORT} is that of OTLP over gRPC by convention");
        let help = "spans are sent over HTTP, for which collectors listen on port 4318";
        reporter.warning(&raw.span, message, Some(help.to_owned()));
    }
    Some(CollectorEndpoint {
        is_secure: url.is_secure,
        host: url.host.clone(),
        port: url.port,
        authority: url.authority.clone(),
        path: url.path.clone(),
        span: Span(raw.span.clone()),
    })
}

fn headers(
    raw: &Field<ByName<raw::SecretValue>>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<(String, String)>> {
    let Some(ByName(entries)) = raw.optional()? else {
        return Some(Vec::new());
    };
    let mut good = true;
    let mut out: Vec<(String, String)> = Vec::new();
    for (key, value) in entries {
        let name = key.get()?.to_ascii_lowercase();
        if OWN_FIELDS.contains(&name.as_str()) || out.iter().any(|(own, _)| *own == name) {
            let (message, help) = match OWN_FIELDS.contains(&name.as_str()) {
                true => (format!("`{name}` is Sprat's to write"), "remove it"),
                false => (format!("`{name}` is there twice"), "remove one of both"),
            };
            reporter.error(&key.span, message, Some(help.to_owned()));
            good = false;
        }
        out.push((name, value.get()?.0.clone()));
    }
    good.then_some(out)
}

fn resource(raw: &raw::Otlp, reporter: &mut Reporter<'_>) -> Option<Vec<(String, String)>> {
    let name = raw.service_name.get()?.0.clone();
    let mut all = vec![("service.name".to_owned(), name)];
    if let Some(ByName(entries)) = raw.resource_attributes.optional()? {
        for (key, value) in entries {
            let key_text = key.get()?.clone();
            if key_text == "service.name" {
                let message = "`service_name` says what this is".to_owned();
                let help = "remove it here, and give `service_name`".to_owned();
                reporter.error(&key.span, message, Some(help));
                return None;
            }
            all.push((key_text, value.get()?.0.clone()));
        }
    }
    Some(all)
}

/// Returns whether the queue of spans has room for a batch, and reports one that is larger.
fn queue_fits(raw: &raw::Otlp, reporter: &mut Reporter<'_>) -> bool {
    let (Some(queue), Some(batch)) = (
        count(&raw.max_queue_size),
        count(&raw.max_export_batch_size),
    ) else {
        return true;
    };
    if batch <= queue {
        return true;
    }
    let message = "a batch is larger than the queue that it is taken from".to_owned();
    let help = format!("give `max_export_batch_size` {queue} at most, or `max_queue_size` more");
    let span = match raw.max_export_batch_size.given {
        true => &raw.max_export_batch_size.span,
        false => &raw.max_queue_size.span,
    };
    reporter.error(span, message, Some(help));
    false
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::diagnostic::Errors;
    use crate::resolved::Tracing;

    fn parse(otlp: &str) -> Result<Tracing, Errors> {
        let text = format!(
            "version: 1\nlisteners: [{{address: '127.0.0.1:8080'}}]\nclusters: {{a: {{endpoints: \
             ['127.0.0.1:1']}}}}\nroutes: [{{cluster: a}}]\ntracing: {{otlp: {otlp}}}\n"
        );
        let loaded = crate::parse(&text, "test.yaml", &|_| None)?;
        Ok(loaded.config.tracing.unwrap())
    }

    fn complaint(otlp: &str) -> String {
        parse(otlp).unwrap_err().to_string()
    }

    #[test]
    fn an_endpoint_is_enough() {
        let tracing = parse("{endpoint: 'http://collector:4318'}").unwrap();
        assert_eq!((tracing.sampling_ppm, tracing.parent_based), (10_000, true));
        let otlp = tracing.otlp;
        assert_eq!(otlp.endpoint.path, "/v1/traces");
        assert_eq!(otlp.endpoint.authority, "collector:4318");
        let resource = ("service.name".to_owned(), "sprat".to_owned());
        assert_eq!(otlp.resource, [resource]);
        assert_eq!(otlp.schedule_delay, Duration::from_secs(5));
        assert_eq!(
            (otlp.max_queue_size, otlp.max_export_batch_size),
            (2048, 512)
        );
    }

    #[test]
    fn urls_are_taken_apart() {
        for (url, secure, host, port, path) in [
            ("https://a.example", true, "a.example", 443, "/v1/traces"),
            ("http://a.example/", false, "a.example", 80, "/v1/traces"),
            ("http://[::1]:4318/x?y=z", false, "::1", 4318, "/x?y=z"),
        ] {
            let own = parse(&format!("{{endpoint: '{url}'}}"))
                .unwrap()
                .otlp
                .endpoint;
            assert_eq!(
                (own.is_secure, own.host.as_str(), own.port),
                (secure, host, port)
            );
            assert_eq!(own.path, path, "{url}");
        }
    }

    #[test]
    fn parts_of_requests_are_read_to_the_ten_thousandth_of_a_percent() {
        for (text, ppm) in [
            ("0%", 0),
            ("0.1%", 1_000),
            ("12.5%", 125_000),
            ("100%", 1_000_000),
        ] {
            let text = format!("{{endpoint: 'http://a', sampling: {text}}}");
            assert_eq!(parse(&text).unwrap().sampling_ppm, ppm);
        }
        let told = complaint("{endpoint: 'http://a', sampling: 5}");
        assert!(told.contains("write 5%"), "{told}");
        let told = complaint("{endpoint: 'http://a', sampling: 101%}");
        assert!(told.contains("from 0% to 100%"), "{told}");
    }

    #[test]
    fn mistakes_are_told_with_what_to_do() {
        for (otlp, what) in [
            (
                "{endpoint: 'collector:4318'}",
                "write http://collector:4318",
            ),
            (
                "{endpoint: 'http://a', headers: {Host: b}}",
                "`host` is Sprat's to write",
            ),
            (
                "{endpoint: 'http://a', headers: {a-b: x, A-B: y}}",
                "`a-b` is there twice",
            ),
            (
                "{endpoint: 'http://a', max_queue_size: 100}",
                "give `max_export_batch_size` 100 at most",
            ),
            (
                "{endpoint: 'http://a', max_queue_sise: 100}",
                "did you mean `max_queue_size`?",
            ),
            (
                "{endpoint: 'http://a', resource_attributes: {service.name: b}}",
                "give `service_name`",
            ),
        ] {
            let told = complaint(otlp);
            assert!(told.contains(what), "{otlp}: {told}");
        }
    }

    #[test]
    fn a_value_that_no_field_has_is_refused() {
        let told = complaint("{endpoint: 'http://a', headers: {x-key: \"hu\\tsh\"}}");
        assert!(told.contains("no value of a header field"), "{told}");
    }
}
