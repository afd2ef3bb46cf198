//! A configuration as it is read from its file, after a look at the files that it names.

use std::fmt;
use std::io;
use std::path::Path;

use sprat_config::{Errors, Loaded};
use sprat_net::problem::Purpose;

use crate::serve::inspect::inspect;

/// The name of standard input in errors.
pub const STDIN: &str = "<stdin>";

/// A configuration with errors; shown as people read them.
#[derive(Debug)]
struct RefusedConfig {
    errors: Errors,
    colour: bool,
}

impl std::error::Error for RefusedConfig {}

impl fmt::Display for RefusedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.errors.render(self.colour))
    }
}

/// The most errors that a line of the log names.
const MAX_ERRORS_IN_A_LINE: usize = 20;

/// Returns in one line, for the log, why a configuration is refused.
pub(crate) fn in_one_line(error: &anyhow::Error) -> String {
    let Some(refused) = error.downcast_ref::<RefusedConfig>() else {
        return format!("{error:#}").replace('\n', "; ");
    };
    let mut lines = refused.errors.lines();
    let first: Vec<_> = lines.by_ref().take(MAX_ERRORS_IN_A_LINE).collect();
    match lines.count() {
        0 => first.join("; "),
        more => format!("{}; and {more} more: see `sprat check`", first.join("; ")),
    }
}

/// Reads a configuration, and has `inspect` look closer at it.
pub fn look(
    file: &Path,
    colour: bool,
    inspect: impl FnOnce(&mut Loaded),
) -> anyhow::Result<Loaded> {
    let env = &sprat_config::process_env;
    let loaded = match is_stdin(file) {
        true => sprat_config::load_from(io::stdin().lock(), STDIN, env),
        false => sprat_config::load(file, env),
    };
    let mut loaded = loaded.map_err(|errors| RefusedConfig { errors, colour })?;
    inspect(&mut loaded);
    if loaded.warnings.has_errors() {
        let errors = loaded.warnings;
        anyhow::bail!(RefusedConfig { errors, colour });
    }
    Ok(loaded)
}

/// Reads a configuration, and looks at the files that it names.
pub fn load_with_files(file: &Path, purpose: Purpose, colour: bool) -> anyhow::Result<Loaded> {
    look(file, colour, |loaded| {
        inspect(&loaded.config, purpose, &mut loaded.warnings);
    })
}

/// Returns whether a configuration is to be read from standard input.
pub fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}
