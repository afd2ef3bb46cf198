//! The two formats of `/metrics`: Prometheus' text format, and OpenMetrics for a scraper
//! that asks for it.

use std::fmt;

use http::HeaderValue;

/// A format of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposition {
    /// Prometheus' text format 0.0.4: what every scraper reads.
    Text,
    /// The text format OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Exposition {
    /// Returns the format that a request's `Accept` fields prefer (RFC 9110 12.5.1):
    /// text, unless OpenMetrics is named and weighs no less.
    pub(crate) fn preferred<'a>(accept: impl Iterator<Item = &'a HeaderValue>) -> Self {
        let (mut open, mut text) = (0.0_f32, 0.0_f32);
        for field in accept.filter_map(|field| field.to_str().ok()) {
            for range in field.split(',') {
                let (format, weight) = weighed(range);
                match format {
                    Some(Self::OpenMetrics) => open = open.max(weight),
                    Some(Self::Text) => text = text.max(weight),
                    None => {}
                }
            }
        }
        match open > 0.0 && open >= text {
            true => Self::OpenMetrics,
            false => Self::Text,
        }
    }

    /// Returns the format's media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Reads a media range: the format that it names, and its weight.
fn weighed(range: &str) -> (Option<Exposition>, f32) {
    let mut parts = range.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let (mut version, mut weight) = (None, 1.0);
    for parameter in parts {
        match parameter.split_once('=') {
            Some((key, value)) if key.eq_ignore_ascii_case("version") => {
                version = Some(value.trim_matches('"'));
            }
            Some((key, value)) if key.eq_ignore_ascii_case("q") => {
                weight = value.parse().unwrap_or(0.0);
            }
            _ => {}
        }
    }
    let format = match (name.as_str(), version) {
        ("application/openmetrics-text", None | Some("1.0.0")) => Some(Exposition::OpenMetrics),
        ("text/plain", None | Some("0.0.4")) | ("text/*" | "*/*", _) => Some(Exposition::Text),
        _ => None,
    };
    (format, weight)
}

/// A writer that turns OpenMetrics, as it is written, into Prometheus' text format. There a
/// counter's description has the name of its sample, which ends in `_total`, and nothing
/// marks the end.
pub(super) struct PlainText<'a> {
    out: &'a mut String,
    /// A comment that is not yet whole.
    comment: String,
    /// The description of a metric whose type comes next.
    help: String,
    at_line_start: bool,
}

impl<'a> PlainText<'a> {
    /// Creates a writer that appends to `out`.
    pub(super) fn new(out: &'a mut String) -> Self {
        Self {
            out,
            comment: String::new(),
            help: String::new(),
            at_line_start: true,
        }
    }

    fn end_comment(&mut self) {
        let comment = std::mem::take(&mut self.comment);
        if comment.starts_with("# HELP ") {
            self.help = comment;
        } else if let Some(described) = comment.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').unwrap_or((described, ""));
            let suffix = if kind == "counter" { "_total" } else { "" };
            let help = std::mem::take(&mut self.help);
            let help = help.strip_prefix("# HELP ");
            if let Some(help) = help.and_then(|help| help.strip_prefix(name)) {
                self.out.extend(["# HELP ", name, suffix, help, "\n"]);
            }
            self.out.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        }
    }
}

impl fmt::Write for PlainText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive('\n') {
            let is_comment =
                !self.comment.is_empty() || (self.at_line_start && part.starts_with('#'));
            self.at_line_start = part.ends_with('\n');
            if !is_comment {
                self.out.push_str(part);
                continue;
            }
            self.comment.push_str(part.trim_end_matches('\n'));
            if self.at_line_start {
                self.end_comment();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn preferred(accept: &str) -> Exposition {
        Exposition::preferred([HeaderValue::from_str(accept).unwrap()].iter())
    }

    #[test]
    fn scrapers_get_the_format_that_they_read() {
        let old =
            "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let of_2_42 = "application/openmetrics-text;version=1.0.0,\
                       application/openmetrics-text;version=0.0.1;q=0.75,\
                       text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let of_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                    application/openmetrics-text;version=0.0.1;q=0.5,\
                    text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,\
                    text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        for (accept, format) in [
            (of_2_42, Exposition::OpenMetrics),
            (of_3, Exposition::OpenMetrics),
            ("application/openmetrics-text", Exposition::OpenMetrics),
            (
                "Application/OpenMetrics-Text; Version=\"1.0.0\"",
                Exposition::OpenMetrics,
            ),
            (old, Exposition::Text),
            (browser, Exposition::Text),
            ("*/*", Exposition::Text),
            ("text/plain", Exposition::Text),
            ("text/plain;version=0.0.4;q=1,*/*;q=0.1", Exposition::Text),
            (
                "text/plain, application/openmetrics-text;q=0.9",
                Exposition::Text,
            ),
            ("application/openmetrics-text;q=0", Exposition::Text),
            ("application/json", Exposition::Text),
            ("", Exposition::Text),
        ] {
            assert_eq!(preferred(accept), format, "{accept}");
        }
        assert_eq!(Exposition::preferred([].iter()), Exposition::Text);
    }

    #[test]
    fn text_names_a_counter_as_its_sample() {
        let mut out = String::new();
        let mut plain = PlainText::new(&mut out);
        // In pieces, as they come.
        for piece in [
            "# HEL",
            "P a One #\n# TYPE ",
            "a",
            " counter\na_total{b=\"#\"}",
            " 1\n",
        ] {
            plain.write_str(piece).unwrap();
        }
        plain
            .write_str("# HELP c Two\n# TYPE c gauge\nc 2\n# EOF\n")
            .unwrap();
        assert_eq!(
            out,
            "# HELP a_total One #\n# TYPE a_total counter\na_total{b=\"#\"} 1\n\
             # HELP c Two\n# TYPE c gauge\nc 2\n"
        );
    }
}
