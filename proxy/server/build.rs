//! Says which commit an optimised build is made of, for `sprat --version` and
//! `sprat_build_info`: `SPRAT_COMMIT` if it is set, as where the sources are without
//! their history, or else what git says. Other builds say `unknown`, or each commit
//! would have the tests compiled anew. It also says whether the C library is in the program, and
//! compresses the configuration's schema.

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Where the schema stands, which a test of its crate keeps in step with the types.
const SCHEMA: &str = "../../config/schema.json";

fn main() {
    if let Err(error) = compress_schema() {
        println!("cargo::error=cannot compress {SCHEMA}: {error}");
    }
    println!("cargo::rerun-if-env-changed=SPRAT_COMMIT");
    let commit = std::env::var("SPRAT_COMMIT")
        .ok()
        .filter(|it| !it.is_empty());
    let commit = match std::env::var("PROFILE").as_deref() {
        Ok("release") => commit.or_else(git_commit),
        _ => commit,
    };
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=SPRAT_BUILD_COMMIT={commit}");
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let linked = match features.split(',').any(|feature| feature == "crt-static") {
        true => "static",
        false => "dynamic",
    };
    println!("cargo::rustc-env=SPRAT_BUILD_LINKED={linked}");
    for (name, key) in [
        ("TARGET", "SPRAT_BUILD_TARGET"),
        ("PROFILE", "SPRAT_BUILD_PROFILE"),
    ] {
        let value = std::env::var(name).unwrap_or_default();
        println!("cargo::rustc-env={key}={value}");
    }
}

/// Writes the schema for the program, an eighth of what it has as text.
fn compress_schema() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed={SCHEMA}");
    let text = std::fs::read(SCHEMA)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&text)?;
    let out = std::env::var_os("OUT_DIR").unwrap_or_default();
    std::fs::write(Path::new(&out).join("schema.json.gz"), encoder.finish()?)
}

/// Returns the commit that is checked out, marked if files have been changed since.
fn git_commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let directory = git(&["rev-parse", "--absolute-git-dir"])?;
    // Each commit and each change of branch writes this one.
    println!("cargo::rerun-if-changed={directory}/logs/HEAD");
    let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    let mark = if changed.is_empty() { "" } else { "-changed" };
    Some(commit + mark)
}
