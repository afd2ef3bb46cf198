//! The look at all that a configuration names outside of itself: files, directories, stores.
//!
//! `sprat check`, `sprat run` and a reload ask [`inspect`] alone, and the parts
//! answer with what they open things with in operation: what a check passes is
//! served. Nothing is created or changed by looking.

use sprat_config::resolved::Config;
use sprat_config::{Errors, Severity};
use sprat_net::problem::{Gravity, Purpose};
use sprat_net::tls;

use crate::observe::access_log;
use crate::observe::admin;
use crate::serve::descriptors;

/// Adds the problems with what `config` names to the `complaints` about it.
pub(crate) fn inspect(config: &Config, purpose: Purpose, complaints: &mut Errors) {
    let mut problems = tls::inspect(config);
    problems.extend(sprat_net::listening::inspect(config));
    problems.extend(sprat_acme::inspect(config));
    problems.extend(sprat_upstream::inspect(config));
    problems.extend(crate::setup::routing::inspect(config));
    problems.extend(sprat_net::buffer::inspect(config));
    problems.extend(config.access_log.iter().filter_map(access_log::inspect));
    problems.extend(sprat_traces::inspect(config));
    problems.extend(config.admin.iter().filter_map(admin::inspect));
    problems.extend(sprat_sizes::inspect(config, purpose));
    for problem in problems {
        let severity = match (problem.gravity, purpose) {
            (Gravity::Fatal, _) | (Gravity::Missing, Purpose::Check) => Severity::Error,
            (Gravity::Missing, Purpose::Serve) | (Gravity::Doubtful, _) => Severity::Warning,
        };
        complaints.add(severity, &problem.span.0, problem.message, problem.help);
    }
    descriptors::inspect(config, complaints);
}
