//! The command `sprat diff`, which shows what a reload from one configuration to another would
//! change.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use sprat_config::{Config, process_env};
use sprat_top::Listener;

use sprat_server::changes::Changes;
use sprat_server::loaded::is_stdin;

/// The configurations to compare, and the format of the differences.
#[derive(Debug, Parser)]
#[command(
    override_usage = "sprat diff [OPTIONS] OLD NEW\n       sprat diff [OPTIONS] --admin ADDRESS NEW"
)]
pub(crate) struct DiffArgs {
    /// The old configuration and the new one; `-` is standard input. With `--admin` only the new
    /// one.
    #[arg(value_name = "OLD NEW", num_args = 1..=2, required = true)]
    files: Vec<PathBuf>,
    /// Compare with the configuration of a running server, as its admin listener shows it. Secrets
    /// are not shown, and not compared; variables are those of this shell.
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<String>,
    /// A file with the token of the server's `admin.token_file`.
    #[arg(long, value_name = "FILE", requires = "admin")]
    token_file: Option<PathBuf>,
    /// Format of the differences.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// A way to write differences.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people, one difference per line.
    Text,
    /// For programs to read.
    Json,
}

/// The result of a comparison: the differences as a text, and whether there are any.
pub(super) struct Compared {
    pub(super) text: String,
    pub(super) differs: bool,
}

/// Compares two configurations, which `load` reads.
///
/// # Errors
///
/// One of them is refused.
pub(super) fn run(
    args: &DiffArgs,
    load: impl Fn(&Path) -> anyhow::Result<Config>,
) -> anyhow::Result<Compared> {
    let (own, mut next) = match (&args.admin, &args.files[..]) {
        (Some(admin), [new]) => running(admin, args.token_file.as_deref(), &load(new)?)?,
        (Some(_), _) => bail!("with `--admin` the server has one configuration: give the other"),
        (None, [old, new]) => {
            ensure!(
                !(is_stdin(old) && is_stdin(new)),
                "standard input is one configuration: give the other as a file"
            );
            (load(old)?, load(new)?)
        }
        (None, _) => bail!("give two configurations, or one and `--admin ADDRESS`"),
    };
    let changes = Changes::prepare(&mut next, &own);
    let differs = !changes.is_empty();
    let text = match args.format {
        Format::Text => changes.text(),
        Format::Json => {
            let mut all = serde_json::to_value(&changes)?;
            all["differs"] = json!(differs);
            serde_json::to_string_pretty(&all)?
        }
    };
    Ok(Compared { text, differs })
}

/// Returns what a server serves by, and another configuration as that server would tell of
/// it: without secrets, which would be differences otherwise.
fn running(
    admin: &str,
    token_file: Option<&Path>,
    new: &Config,
) -> anyhow::Result<(Config, Config)> {
    let listener = Listener::new(admin, token_file)?;
    let name = listener.name();
    let told = listener.configuration();
    let told = told.map_err(|error| error.context(format!("the admin listener {name}")))?;
    let own = told_of(&told, &format!("what {name} serves by"))?;
    let next = told_of(
        new.shown.json(),
        "the configuration that is to be, without secrets",
    )?;
    Ok((own, next))
}

/// Parses a configuration in the form in which the admin listener shows it.
fn told_of(told: &Value, name: &str) -> anyhow::Result<Config> {
    // A user and a password that are not told are no part of a URL.
    let text = told.to_string().replace("://(not shown)@", "://");
    match sprat_config::parse_shown(&text, name, &process_env) {
        Ok(loaded) => Ok(loaded.config),
        Err(errors) => bail!("{}", errors.render(false)),
    }
}
