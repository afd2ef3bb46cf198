//! The formats of access logs that can be read.

use std::fmt;

/// A format of access logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Format {
    /// Common log format: Apache's `common`
    Clf,
    /// Combined log format: Apache's and nginx's `combined`
    Combined,
    /// nginx's combined format with `$request_time` somewhere after it
    NginxTimed,
    /// Sprat's access log, `format: json`
    Sprat,
    /// Sprat's access log, `format: combined`
    SpratCombined,
    /// HAProxy's `option httplog`, with or without syslog's words before it
    Haproxy,
    /// Caddy's access log (JSON)
    Caddy,
    /// Envoy's default text format, and Istio's
    Envoy,
    /// Envoy's JSON with `start_time`, `response_code` and `bytes_sent`
    EnvoyJson,
}

impl Format {
    /// All formats that can be read.
    pub const ALL: [Self; 9] = [
        Self::Clf,
        Self::Combined,
        Self::NginxTimed,
        Self::Sprat,
        Self::SpratCombined,
        Self::Haproxy,
        Self::Caddy,
        Self::Envoy,
        Self::EnvoyJson,
    ];

    /// Returns the format's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clf => "clf",
            Self::Combined => "combined",
            Self::NginxTimed => "nginx-timed",
            Self::Sprat => "sprat",
            Self::SpratCombined => "sprat-combined",
            Self::Haproxy => "haproxy",
            Self::Caddy => "caddy",
            Self::Envoy => "envoy",
            Self::EnvoyJson => "envoy-json",
        }
    }

    /// Returns whether the format's bytes are those of head and body together.
    pub fn counts_heads(self) -> bool {
        self == Self::Haproxy
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
