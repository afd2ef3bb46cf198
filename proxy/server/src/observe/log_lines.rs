//! The form of the lines of Sprat's own log: text for people, objects of JSON, or text with
//! priorities for the systemd journal.
//!
//! A line is one line in each form: a text from elsewhere, such as that of an error, cannot
//! begin another.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The form that the log's lines have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Text for people: time, level, target, message and fields.
    #[default]
    Text,
    /// Text after a priority (sd-daemon(3)), without the time: the journal has a clock of its own.
    Journal,
    /// An object of JSON.
    Json,
}

impl Shape {
    /// Returns the shape of lines that are to be text: with priorities, if the journal
    /// reads standard error.
    pub fn of_text() -> Self {
        let named = std::env::var("JOURNAL_STREAM").unwrap_or_default();
        // systemd says which stream the journal has, for it may have been redirected.
        let own = std::fs::metadata("/proc/self/fd/2");
        let is_it = own.is_ok_and(|own| named == format!("{}:{}", own.dev(), own.ino()));
        if is_it { Self::Journal } else { Self::Text }
    }

    /// Returns a complaint to people, made outside of the log, in the form of the log's lines.
    pub(crate) fn of_complaint(self, level: Level, text: &str) -> String {
        let text = text.trim_end();
        match self {
            Self::Text => format!("{text}\n"),
            Self::Journal => {
                let priority = priority(level);
                let lines = text.lines().map(|line| format!("<{priority}>{line}\n"));
                lines.collect()
            }
            Self::Json => {
                let line = LogLine {
                    time: now(),
                    level: name(level),
                    message: text.to_owned(),
                    target: "sprat",
                    fields: Map::new(),
                };
                serde_json::to_string(&line).unwrap_or_default() + "\n"
            }
        }
    }
}

/// A formatter that writes events as lines of one shape.
pub(crate) struct Lines(pub(crate) Shape);

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let plain = Format::default().with_ansi(false);
        let mut text = String::new();
        match self.0 {
            // A terminal's colours are control characters.
            Shape::Text if writer.has_ansi_escapes() => {
                return Format::default().format_event(context, writer, event);
            }
            Shape::Text => plain.format_event(context, Writer::new(&mut text), event)?,
            Shape::Journal => {
                write!(writer, "<{}>", priority(*event.metadata().level()))?;
                plain
                    .without_time()
                    .format_event(context, Writer::new(&mut text), event)?;
            }
            Shape::Json => {
                let line = LogLine::of(event);
                let line = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
                return writeln!(writer, "{line}");
            }
        }
        write_escaped(text.trim_end_matches('\n'), &mut writer)?;
        writer.write_char('\n')
    }
}

/// Writes text with `\xHH` in place of control characters.
fn write_escaped(text: &str, out: &mut impl fmt::Write) -> fmt::Result {
    for letter in text.chars() {
        match letter {
            '\t' => out.write_char(letter)?,
            control if control.is_control() => write!(out, "\\x{:02X}", u32::from(control))?,
            _ => out.write_char(letter)?,
        }
    }
    Ok(())
}

/// A line in JSON; the order of the fields is that of the output.
#[derive(Serialize)]
struct LogLine<'a> {
    time: String,
    level: &'static str,
    message: String,
    target: &'a str,
    fields: Map<String, Value>,
}

impl<'a> LogLine<'a> {
    fn of(event: &'a Event<'_>) -> Self {
        let mut told = EventTold::default();
        event.record(&mut told);
        Self {
            time: now(),
            level: name(*event.metadata().level()),
            message: told.message,
            target: event.metadata().target(),
            fields: told.fields,
        }
    }
}

/// The message of an event, and its fields.
#[derive(Default)]
struct EventTold {
    message: String,
    fields: Map<String, Value>,
}

impl EventTold {
    fn put(&mut self, field: &Field, value: Value) {
        self.fields.insert(field.name().to_owned(), value);
    }
}

impl Visit for EventTold {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = format!("{value:?}");
        match field.name() {
            "message" => self.message = text,
            _ => self.put(field, text.into()),
        }
    }
}

fn now() -> String {
    format!("{:.3}", jiff::Timestamp::now())
}

fn name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    }
}

/// Returns the priority that a level has in syslog (RFC 5424 6.2.1).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that the events of `say` make.
    fn written(shape: Shape, say: impl FnOnce()) -> String {
        let out = Written::default();
        let writer = out.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .event_format(Lines(shape))
            .finish();
        tracing::subscriber::with_default(log, say);
        let text = out.0.lock().unwrap().clone();
        String::from_utf8(text).unwrap()
    }

    fn say() {
        let error = "no\nsuch \u{1b}[2J \"file\"";
        tracing::warn!(%error, listener = "a\nb", port = 80, open = true, "cannot {}", "\rgo");
    }

    #[test]
    fn objects_have_all_that_is_said() {
        let text = written(Shape::Json, say);
        assert!(text.starts_with("{\"time\":\"2"), "{text}");
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert!(text.bytes().all(|byte| byte >= b' ' || byte == b'\n'));
        let mut line: Value = serde_json::from_str(&text).unwrap();
        line.as_object_mut().unwrap().remove("time");
        let expected = serde_json::json!({
            "level": "warn",
            "message": "cannot \rgo",
            "target": "sprat_server::observe::log_lines::tests",
            "fields": {
                "error": "no\nsuch \u{1b}[2J \"file\"",
                "listener": "a\nb",
                "port": 80,
                "open": true,
            },
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn the_journal_gets_priorities_and_no_time() {
        let text = written(Shape::Journal, || tracing::info!(port = 80, "listening"));
        assert_eq!(
            text,
            "<6> INFO sprat_server::observe::log_lines::tests: listening port=80\n"
        );
        let told = Shape::Journal.of_complaint(Level::ERROR, "first\n second\n");
        assert_eq!(told, "<3>first\n<3> second\n");
    }

    #[test]
    fn nothing_begins_another_line() {
        for shape in [Shape::Text, Shape::Journal] {
            let text = written(shape, say);
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            assert!(
                text.bytes().all(|byte| byte >= b' ' || byte == b'\n'),
                "{text}"
            );
            assert!(text.contains("cannot \\x0Dgo error=no\\x0Asuch "), "{text}");
        }
        let told = Shape::Json.of_complaint(Level::WARN, "a\n\"b\"");
        let line: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(
            (&line["level"], &line["message"]),
            (&"warn".into(), &"a\n\"b\"".into())
        );
    }
}
