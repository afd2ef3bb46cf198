//! The command `sprat catalogue`, which reads and writes snapshot files.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use serde::Deserialize;
use sprat_scheduler::catalogue::{KeyHasher, MAX_KNOWN_BYTES, Packed};
use sprat_sizes::dump::{First, Line, push_line};
use sprat_sizes::snapshot::{self, Header, Writer};

/// What to do with a snapshot file.
#[derive(Subcommand)]
pub(crate) enum SnapshotAction {
    /// Print the file as JSON lines: first its header, then the entries.
    Dump {
        /// The snapshot to read
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Write the file from JSON lines on standard input: lines that `dump` prints, or {"cluster",
    /// "host", "path", "bytes"}.
    Load {
        /// The snapshot to write; an existing one is replaced.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The header fields that distinguish variants, if the lines have no header; as `vary` in
        /// the configuration.
        #[arg(long, value_name = "FIELD", default_value = "accept-encoding")]
        vary: Vec<String>,
    },
    /// Print how many sizes the file holds, how old and how large they are.
    Stats {
        /// The snapshot to read
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Runs an action on a snapshot file, and writes its output to `out`.
pub(crate) fn run(
    action: SnapshotAction,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    match action {
        SnapshotAction::Dump { file } => dump(&file, out),
        SnapshotAction::Load { file, vary } => load(&file, vary, input, out),
        SnapshotAction::Stats { file } => stats(&file, out),
    }
}

fn verify(file: &Path) -> anyhow::Result<Header> {
    let header = snapshot::verify(file).with_context(|| file.display().to_string())?;
    header.with_context(|| format!("{}: there is no such file", file.display()))
}

fn dump(file: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let header = verify(file)?;
    let mut lines = Vec::new();
    push_line(&mut lines, &First::from(&header));
    let mut written = Ok(());
    snapshot::each(file, |packed, asked_again| {
        push_line(&mut lines, &Line::new(packed, asked_again));
        if lines.len() > 64 << 10 && written.is_ok() {
            written = out.write_all(&lines);
            lines.clear();
        }
    })?;
    written?;
    out.write_all(&lines)?;
    Ok(())
}

fn stats(file: &Path, out: &mut dyn Write) -> anyhow::Result<()> {
    let header = verify(file)?;
    let (mut entries, mut again, mut bytes, mut largest) = (0_u64, 0_u64, 0_u128, 0);
    let (mut oldest, mut newest) = (u32::MAX, 0);
    snapshot::each(file, |packed, asked_again| {
        entries += 1;
        again += u64::from(asked_again);
        bytes += u128::from(packed.bytes());
        largest = largest.max(packed.bytes());
        oldest = oldest.min(packed.learnt_s());
        newest = newest.max(packed.learnt_s());
    })?;
    let time = |unix_s: u32| match jiff::Timestamp::from_second(i64::from(unix_s)) {
        Ok(time) => time.to_string(),
        Err(_) => unix_s.to_string(),
    };
    writeln!(out, "saved        {}", time(header.saved_s))?;
    writeln!(out, "vary         {}", header.vary.join(", "))?;
    writeln!(out, "entries      {entries}")?;
    writeln!(out, "asked again  {again}")?;
    if entries > 0 {
        writeln!(out, "learnt       {} to {}", time(oldest), time(newest))?;
        writeln!(out, "mean size    {}", bytes / u128::from(entries))?;
        writeln!(out, "largest      {largest}")?;
    }
    Ok(())
}

/// A line of input that names its resource, instead of the resource's key.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    cluster: String,
    host: String,
    path: String,
    bytes: u64,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    First(First),
    Line(Line),
    Named(Named),
}

fn load(
    file: &Path,
    vary: Vec<String>,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let random = RandomState::new();
    let now_s = SystemTime::UNIX_EPOCH.elapsed()?.as_secs();
    let mut header = Header {
        hasher: KeyHasher::new(random.hash_one(0), random.hash_one(1)),
        saved_s: u32::try_from(now_s)?,
        vary,
    };
    let mut entries = Vec::new();
    for (index, line) in input.lines().enumerate() {
        let number = index + 1;
        let line = line.with_context(|| format!("line {number}"))?;
        if line.trim().is_empty() {
            continue;
        }
        let read = serde_json::from_str(&line).map_err(|_| {
            anyhow::anyhow!(
                "it is neither a line of `dump` nor {{\"cluster\", \"host\", \"path\", \"bytes\"}}"
            )
        });
        let entry = read.and_then(|input| match input {
            Input::First(first) if entries.is_empty() => {
                header = read_header(&first)?;
                Ok(None)
            }
            Input::First(_) => bail!("a header stands before every entry, or there is none"),
            Input::Line(line) => read_line(&line).map(Some),
            Input::Named(named) => read_named(&named, &header).map(Some),
        });
        entries.extend(entry.with_context(|| format!("line {number}"))?);
    }
    let mut writer = Writer::create(file, &header)?;
    writer.write(&entries)?;
    writer.finish()?;
    writeln!(out, "{}: {} entries", file.display(), entries.len())?;
    Ok(())
}

fn hex(text: &str, digits: usize) -> anyhow::Result<u64> {
    ensure!(
        text.len() == digits,
        "`{text}` does not have {digits} hexadecimal digits"
    );
    u64::from_str_radix(text, 16).with_context(|| format!("`{text}` is no hexadecimal number"))
}

fn read_header(first: &First) -> anyhow::Result<Header> {
    let middle = first.secret.len() / 2;
    let (high, low) = match first.secret.is_ascii() {
        true => first.secret.split_at(middle),
        false => ("", ""),
    };
    Ok(Header {
        hasher: KeyHasher::new(hex(high, 16)?, hex(low, 16)?),
        saved_s: first.saved,
        vary: first.vary.clone(),
    })
}

fn read_line(line: &Line) -> anyhow::Result<(Packed, bool)> {
    ensure!(line.fields < 16, "`fields` is at most 15");
    let key = hex(&line.key, 12)?;
    let bytes = line.bytes.min(MAX_KNOWN_BYTES);
    let packed = Packed::from_parts(key, bytes, line.fields, line.agreements, line.learnt);
    Ok((packed, line.asked_again))
}

/// Reads a line that names its resource. A size that an operator gives is worth as much as one
/// that was asked for again.
fn read_named(named: &Named, header: &Header) -> anyhow::Result<(Packed, bool)> {
    ensure!(named.path.starts_with('/'), "`path` begins with a slash");
    let key = header.hasher.url(&named.cluster, &named.host, &named.path);
    let packed = Packed::from_parts(key.bits(), named.bytes, 0, 0, header.saved_s);
    Ok((packed, true))
}
