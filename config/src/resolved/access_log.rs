//! Access logs: their targets, their formats and their filters.

use std::net::{AddrParseError, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::Span;
use crate::template::Template;

pub use crate::log_fields::{LOG_FIELDS, LogField, LogFieldFacts, LogValue};

/// An access log: its target, its format, and the requests that it tells of.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// The target that the log is written to.
    pub target: LogTarget,
    /// The place of the target in the configuration.
    pub span: Span,
    /// The format of a line.
    pub format: LogFormat,
    /// The filters: a request has a line if one of them takes it, or if there is none.
    pub filters: Vec<LogFilter>,
}

/// The target that a log is written to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// The standard output of the process.
    Stdout,
    /// A file, appended to; reopened on SIGUSR1.
    File(PathBuf),
    /// A syslog server, by datagrams.
    Syslog(Syslog),
}

/// A syslog server, and the source that messages to it name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Syslog {
    /// The address that the server takes messages at.
    pub address: SyslogAddress,
    /// The number of the facility, up to 23 (RFC 5424 6.2.1).
    pub facility: u8,
    /// The name of the program in each message.
    pub app_name: String,
}

impl Syslog {
    /// Returns the settings of a server that gets the messages of Sprat itself as a daemon.
    pub fn of_daemon(address: SyslogAddress) -> Self {
        Self {
            address,
            facility: 3,
            app_name: "sprat".to_owned(),
        }
    }
}

/// The address that a syslog server takes datagrams at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SyslogAddress {
    /// The path of a local socket.
    Local(PathBuf),
    /// An address to send to over UDP.
    Udp(SocketAddr),
}

impl std::str::FromStr for SyslogAddress {
    type Err = AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.starts_with('/') {
            true => Ok(Self::Local(text.into())),
            false => text.parse().map(Self::Udp),
        }
    }
}

/// The names of syslog's facilities, in the order of their numbers.
pub(crate) const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];

/// A template of log lines: text with fields of a request.
pub type LogTemplate = Template<LogField>;

/// The format of a line of an access log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// The combined log format, followed by size, wait, slowdown, class, duration and endpoint.
    Combined,
    /// A JSON object with these keys and values.
    Fields(Vec<(String, LogTemplate)>),
    /// A text of the operator's choosing.
    Text(LogTemplate),
}

impl LogFormat {
    /// Returns the templates that lines are made of.
    pub fn templates(&self) -> impl Iterator<Item = &LogTemplate> {
        let (keys, text) = match self {
            Self::Json | Self::Combined => (&[][..], None),
            Self::Fields(keys) => (&keys[..], None),
            Self::Text(text) => (&[][..], Some(text)),
        };
        keys.iter().map(|(_, template)| template).chain(text)
    }
}

/// A format that is chosen by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedFormat {
    /// One JSON object a line.
    Json,
    /// The combined log format, with more fields at its end.
    Combined,
}

/// A filter that takes a request if it meets all conditions that are given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// The least status of a request that the filter takes.
    pub min_status: Option<u16>,
    /// The least time to the end of the response.
    pub min_duration: Option<Duration>,
    /// The names of the classes whose requests the filter takes; empty for all.
    pub classes: Vec<String>,
}

impl LogFilter {
    /// Returns whether the filter takes a request with this status, duration and class.
    pub fn takes(&self, status: Option<u16>, duration: Duration, class: &str) -> bool {
        self.min_status
            .is_none_or(|least| status.is_some_and(|status| status >= least))
            && self.min_duration.is_none_or(|least| duration >= least)
            && (self.classes.is_empty() || self.classes.iter().any(|own| own == class))
    }
}

/// The identifiers of requests: the field that has them, and whether clients may give their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId {
    /// The name of the field, in lower case.
    pub header: String,
    /// Whether an identifier that the client gives is taken over, if it may be one.
    pub preserve_external: bool,
    /// Whether the client gets the identifier with the response.
    pub in_response: bool,
}

impl Default for RequestId {
    fn default() -> Self {
        Self {
            header: "x-request-id".to_owned(),
            preserve_external: true,
            in_response: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_takes_requests_of_which_all_that_it_says_holds() {
        let all = LogFilter::default();
        let errors = LogFilter {
            min_status: Some(400),
            ..LogFilter::default()
        };
        let slow = LogFilter {
            min_duration: Some(Duration::from_secs(2)),
            ..LogFilter::default()
        };
        let classed = LogFilter {
            classes: vec!["gold".to_owned(), "silver".to_owned()],
            ..LogFilter::default()
        };
        let both = LogFilter {
            min_status: Some(400),
            min_duration: Some(Duration::from_secs(2)),
            classes: vec!["gold".to_owned()],
        };
        for (status, ms, class, taken) in [
            (Some(200), 0, "gold", [true, false, false, true, false]),
            (
                Some(399),
                1999,
                "bronze",
                [true, false, false, false, false],
            ),
            (Some(400), 2000, "gold", [true, true, true, true, true]),
            (Some(503), 2001, "silver", [true, true, true, true, false]),
            (Some(404), 1999, "gold", [true, true, false, true, false]),
            (Some(200), 3000, "gold", [true, false, true, true, false]),
            (None, 3000, "bronze", [true, false, true, false, false]),
        ] {
            let takes = [&all, &errors, &slow, &classed, &both]
                .map(|filter| filter.takes(status, Duration::from_millis(ms), class));
            assert_eq!(takes, taken, "{status:?} {ms} {class}");
        }
    }
}
