//! The command `sprat import`, which turns the configuration of another proxy into one of Sprat's.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::anyhow;
use clap::{Parser, ValueEnum};
use sprat_import::{Files, Imported, Options, Outcome, Summary};

/// What is imported, and how strictly.
#[derive(Debug, Parser)]
pub(crate) struct ImportArgs {
    /// The proxy whose configuration it is.
    #[arg(value_enum)]
    from: From,
    /// The configuration, or its directory, such as /etc/nginx; included files are read, too.
    #[arg(value_name = "FILE")]
    file: String,
    /// Import the servers on this port, if those on other ports need a Sprat of their own; may be
    /// given several times.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,
    /// Fail if any directive is not carried over at all.
    #[arg(long)]
    strict: bool,
}

/// A proxy whose configurations are read.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum From {
    /// A configuration of nginx, such as /etc/nginx/nginx.conf.
    Nginx,
    /// A configuration of HAProxy, such as /etc/haproxy/haproxy.cfg.
    Haproxy,
}

/// The result of an import.
pub(super) struct Done {
    /// The configuration in YAML.
    pub(super) yaml: String,
    /// A list of the directives that were not carried over as they are, after their number.
    pub(super) told: String,
    /// The error of `--strict`, if a directive was not carried over at all.
    pub(super) refused: Option<anyhow::Error>,
}

/// Imports the configuration of another proxy.
///
/// # Errors
///
/// The configuration cannot be read, or nothing can be made of it.
pub(super) fn run(args: &ImportArgs) -> anyhow::Result<Done> {
    let Imported { yaml, summary } = read(args.from, &args.file, &args.port)?;
    let lost = summary.count(Outcome::Not);
    let refused = (args.strict && lost > 0)
        .then(|| anyhow!("{lost} directives are not carried over, and --strict allows none"));
    Ok(Done {
        told: told(&summary),
        yaml,
        refused,
    })
}

/// Imports a file of this proxy, or the file in a directory that the proxy would read.
///
/// # Errors
///
/// The configuration cannot be read, or nothing can be made of it.
pub(super) fn read(from: From, file: &str, ports: &[u16]) -> anyhow::Result<Imported> {
    let options = Options {
        ports: ports.to_vec(),
    };
    let main = match from {
        From::Nginx => "nginx.conf",
        From::Haproxy => "haproxy.cfg",
    };
    let file = match Path::new(file).is_dir() {
        true => format!("{}/{main}", file.trim_end_matches('/')),
        false => file.to_owned(),
    };
    Ok(match from {
        From::Nginx => sprat_import::nginx(&file, &mut Disk, &options)?,
        From::Haproxy => sprat_import::haproxy(&file, &mut Disk, &options)?,
    })
}

/// Returns a line with the numbers of directives that were carried over, nearly carried over, and
/// not supported.
pub(super) fn counts(summary: &Summary) -> String {
    let count = |outcome| summary.count(outcome);
    format!(
        "{} directives: {} carried over, {} nearly, {} not supported",
        summary.notes.len(),
        count(Outcome::Carried),
        count(Outcome::Nearly),
        count(Outcome::Not),
    )
}

/// Returns the numbers of directives, and a line for each that was not carried over as it is.
fn told(summary: &Summary) -> String {
    let mut out = format!("{}\n", counts(summary));
    for note in summary.exceptions() {
        out.push_str(&note.to_string());
        out.push('\n');
    }
    out.trim_end().to_owned()
}

/// The file system of this machine, as the importer reads it.
struct Disk;

impl Files for Disk {
    fn read(&mut self, path: &str, max_bytes: usize) -> Result<String, String> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| error.to_string())?;
        // The caller refuses what is longer.
        let read = file.take(max_bytes as u64).read_to_end(&mut bytes);
        read.map_err(|error| error.to_string())?;
        String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
    }

    fn names(&mut self, directory: &str) -> Vec<String> {
        let entries = std::fs::read_dir(Path::new(directory));
        let names = entries.into_iter().flatten().filter_map(|entry| {
            let name = entry.ok()?.file_name();
            Some(name.to_str()?.to_owned())
        });
        names.collect()
    }
}
