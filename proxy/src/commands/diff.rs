//! `sprat diff`: what a reload from one configuration to another would change.

use std::path::PathBuf;

use anyhow::ensure;
use clap::{Parser, ValueEnum};
use serde_json::json;
use sprat_config::Config;

use crate::serve::changes::Changes;
use crate::serve::loaded::is_stdin;

/// Which configurations are compared, and how that is told.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// The configuration that is served by; `-` is standard input.
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The configuration that is to be.
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// How differences are written.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    format: Format,
}

/// A way to write differences.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people, one difference in a line.
    Text,
    /// For programs to read.
    Json,
}

/// What a comparison came to.
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
    args: &Args,
    load: impl Fn(&std::path::Path) -> anyhow::Result<Config>,
) -> anyhow::Result<Compared> {
    ensure!(
        !(is_stdin(&args.old) && is_stdin(&args.new)),
        "standard input is one configuration: give the other as a file"
    );
    let own = load(&args.old)?;
    let mut next = load(&args.new)?;
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
