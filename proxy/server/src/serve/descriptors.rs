//! The number of files that the process may have open (`RLIMIT_NOFILE`): a connection is
//! one of them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sprat_config::resolved::Config;
use sprat_config::{Errors, Severity};

/// The files that a process of this kind has open beside connections: logs, timers,
/// listening sockets, the admin listener's connections.
const OWN: u64 = 256;

/// Raises the soft limit to the hard one, as far as a process may by itself.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => tracing::debug!(files = limit.maximum, "the limit on open files is raised"),
        Err(error) => tracing::warn!(%error, "the limit on open files cannot be raised"),
    }
}

/// Warns if the listeners may take more connections than the process may have
/// files open, once it has raised its limit.
pub(crate) fn inspect(config: &Config, complaints: &mut Errors) {
    let clients = config.listeners.iter().map(|it| it.max_connections as u64);
    let clients = clients.fold(0, u64::saturating_add);
    if let Some(limit) = getrlimit(Resource::Nofile).maximum
        && let Some((message, help)) = doubt(clients, limit)
    {
        complaints.add_of_all(Severity::Warning, message, Some(help));
    }
}

fn doubt(clients: u64, limit: u64) -> Option<(String, String)> {
    if clients.saturating_add(OWN) <= limit {
        return None;
    }
    let message = format!(
        "the listeners' `max_connections` come to {clients}, and the process may have {limit} \
         files open: connections beyond that are not accepted"
    );
    let help = "raise the limit (`ulimit -Hn`, systemd's `LimitNOFILE`, Docker's \
                `--ulimit nofile`), or lower `max_connections`; each request may need a \
                connection to a backend, too"
        .to_owned();
    Some((message, help))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_more_connections_than_files() {
        assert_eq!(doubt(16_384, 1_048_576), None);
        assert_eq!(doubt(1_024 - OWN, 1_024), None);
        let (message, _) = doubt(16_384, 1_024).unwrap();
        assert!(message.contains("come to 16384"), "{message}");
        assert!(message.contains("1024 files"), "{message}");
        assert!(doubt(u64::MAX, 1_024).is_some());
    }
}
