//! TLS: what is shown to clients and backends, whom they are believed to be,
//! handshakes, and files that change while Sprat runs.
//!
//! rustls does the protocol, with the algorithms of ring. Its default cipher
//! suites are those of Mozilla's "intermediate" with forward secrecy and AEAD.

mod certificates;
mod files;
mod handshake;
mod listener;
mod metrics;
mod pem;

use std::io;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::{SupportedProtocolVersion, version};
use sprat_config::resolved::{Config, TlsVersion};
use sprat_config::{Errors, Severity};

use crate::background::Background;
pub(crate) use certificates::PeerNames;
pub(crate) use handshake::{HandshakeStats, Secured, accept};
pub(crate) use listener::ListenerTls;
pub(crate) use metrics::TlsView;

/// The algorithms.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The versions from `minimum` on.
fn versions(minimum: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    static ALL: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];
    match minimum {
        TlsVersion::V1_2 => &ALL,
        TlsVersion::V1_3 => &ALL[..1],
    }
}

/// A thread that looks at the files of all of these, and has them read again
/// when they change; none if there are none.
///
/// # Errors
///
/// No thread can be had.
pub(crate) fn watch(listeners: &[Option<Arc<ListenerTls>>]) -> io::Result<Option<Background>> {
    let listeners = listeners.iter().flatten();
    files::watch(listeners.map(|own| Arc::clone(own) as _).collect())
}

/// Reads every file of `config` that has to do with TLS, and adds what is
/// wrong with it to the `complaints` about the configuration.
pub(crate) fn inspect(config: &Config, complaints: &mut Errors) {
    for listener in &config.listeners {
        let Some(tls) = &listener.tls else { continue };
        let problems = match ListenerTls::new(&listener.name, tls) {
            Ok((_, warnings)) => warnings,
            Err(problems) => problems,
        };
        for problem in problems {
            let severity = match problem.fatal {
                true => Severity::Error,
                false => Severity::Warning,
            };
            complaints.add(severity, &problem.span, problem.message, problem.help);
        }
    }
}
