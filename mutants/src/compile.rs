//! The one build: mutants that do not compile are taken out until the rest does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

use crate::instrument::Instrumented;
use crate::listing::{Genre, Mutant};
use crate::tree::Tree;

/// The most rounds of taking mutants out, before the build is given up.
const ROUNDS_MAX: usize = 20;
/// The errors of the borrow checker: in an instrumented file both branches move or borrow what only
/// one may.
const OF_BORROWS: [&str; 12] = [
    "E0373", "E0381", "E0382", "E0384", "E0499", "E0502", "E0503", "E0505", "E0506", "E0507",
    "E0597", "E0716",
];

/// The outcome of building a package's mutants.
#[derive(Default)]
pub(crate) struct Built {
    /// The mutants that do not compile in any form.
    pub(crate) unviable: BTreeSet<u32>,
    /// The mutants that do not compile behind a switch, but might by themselves.
    pub(crate) untried: BTreeSet<u32>,
    /// The programs of the package's tests.
    pub(crate) tests: Vec<TestBinary>,
}

/// A program of tests, as cargo has built it.
#[derive(Debug)]
pub(crate) struct TestBinary {
    /// The target's name, such as `sprat_config` or `egress`.
    pub(crate) name: String,
    /// The file of the program.
    pub(crate) path: PathBuf,
    /// The directory that the program runs in: its package's.
    pub(crate) directory: PathBuf,
}

/// Builds the tests of a package with all of its mutants in them.
///
/// # Errors
/// Code that does not compile for other reasons than a mutant.
pub(crate) fn build(
    tree: &Tree,
    package: &str,
    mutants: &[(u32, &Mutant)],
) -> anyhow::Result<Built> {
    let count = mutants.iter().map(|(number, _)| *number as usize).max();
    let count = count.unwrap_or(0) + 1;
    let wrapper = wrapper(tree)?;
    let mut built = Built::default();
    for _ in 0..ROUNDS_MAX {
        let left: Vec<_> = mutants
            .iter()
            .copied()
            .filter(|(number, _)| {
                !built.unviable.contains(number) && !built.untried.contains(number)
            })
            .collect();
        let files = tree.instrumented(package, &left, count)?;
        let messages = cargo(tree, &wrapper, &["check", "--package", package, "--lib"])?;
        let errors = errors(&messages);
        if errors.is_empty() {
            let switched = switched(&files);
            for (number, _) in left {
                if !switched.contains(&number) {
                    built.untried.insert(number);
                }
            }
            let arguments = ["test", "--no-run", "--package", package, "--tests"];
            let messages = cargo(tree, &wrapper, &arguments)?;
            ensure!(
                self::errors(&messages).is_empty(),
                "the tests of {package} do not compile: {:?}",
                self::errors(&messages)
            );
            built.tests = binaries(&messages);
            ensure!(!built.tests.is_empty(), "{package} has no tests");
            return Ok(built);
        }
        take_out(&errors, &files, &left, &mut built)?;
    }
    bail!("{package} does not compile after {ROUNDS_MAX} rounds")
}

/// Takes out the mutants that caused these errors.
fn take_out(
    errors: &[Complaint],
    files: &BTreeMap<String, Instrumented>,
    left: &[(u32, &Mutant)],
    built: &mut Built,
) -> anyhow::Result<()> {
    let genres: BTreeMap<u32, Genre> = left
        .iter()
        .map(|(number, mutant)| (*number, mutant.genre))
        .collect();
    let mut some = false;
    for error in errors {
        let places = error.places.iter();
        let blamed = places
            .filter_map(|(file, bytes)| files.get(file)?.blamed(bytes))
            .next();
        let Some((numbers, own)) = blamed else {
            continue;
        };
        for number in numbers {
            some = true;
            let borrow = OF_BORROWS.contains(&error.code.as_str());
            let body = genres.get(number) == Some(&Genre::FnValue);
            if own && (body || !borrow) {
                built.unviable.insert(*number);
            } else {
                built.untried.insert(*number);
            }
        }
    }
    ensure!(some, "errors that are no mutant's: {errors:?}");
    Ok(())
}

/// Returns the mutants that have a switch in the text.
fn switched(files: &BTreeMap<String, Instrumented>) -> BTreeSet<u32> {
    let marks = files.values().flat_map(|file| &file.marks);
    marks
        .flat_map(|mark| mark.numbers.iter().copied())
        .collect()
}

/// Writes the program that cargo runs instead of the compiler for the workspace's own crates. It
/// lets them use a function that stable compilers do not offer. Other crates are built as usual,
/// and so not again.
fn wrapper(tree: &Tree) -> anyhow::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = tree.copy.with_extension("rustc");
    let text = "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec \"$@\"\n";
    if !fs::read_to_string(&path).is_ok_and(|there| there == text) {
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(path)
}

/// Runs cargo in the copy, and returns its messages in JSON.
fn cargo(tree: &Tree, wrapper: &Path, arguments: &[&str]) -> anyhow::Result<Vec<Value>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--quiet", "--message-format", "json"])
        .current_dir(&tree.copy)
        .env("RUSTC_WORKSPACE_WRAPPER", wrapper)
        .env("CARGO_TARGET_DIR", tree.root.join("target"))
        .stderr(Stdio::piped())
        .output()
        .context("cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    ensure!(
        output.status.success() || !errors(&messages).is_empty(),
        "cargo {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(messages)
}

/// An error of the compiler, with the places that it names; the primary one comes first.
#[derive(Debug)]
struct Complaint {
    code: String,
    places: Vec<(String, std::ops::Range<usize>)>,
    // Read where it is shown for debugging.
    #[allow(dead_code)]
    message: String,
}

fn errors(messages: &[Value]) -> Vec<Complaint> {
    let compiler = messages
        .iter()
        .filter(|message| message["reason"] == "compiler-message");
    let errors = compiler
        .map(|message| &message["message"])
        .filter(|message| message["level"] == "error")
        .filter(|message| list(&message["spans"]).next().is_some());
    errors.map(complaint).collect()
}

fn complaint(message: &Value) -> Complaint {
    let number = |value: &Value| value.as_u64().unwrap_or(0) as usize;
    let mut spans: Vec<&Value> = list(&message["spans"]).collect();
    spans.sort_by_key(|span| span["is_primary"] != true);
    let places = spans.into_iter().map(|span| {
        let range = number(&span["byte_start"])..number(&span["byte_end"]);
        (text(&span["file_name"]), range)
    });
    Complaint {
        code: text(&message["code"]["code"]),
        places: places.collect(),
        message: text(&message["message"]),
    }
}

fn binaries(messages: &[Value]) -> Vec<TestBinary> {
    let artifacts = messages.iter().filter(|message| {
        message["reason"] == "compiler-artifact" && message["profile"]["test"] == true
    });
    let found = artifacts.filter_map(|message| {
        let manifest = PathBuf::from(text(&message["manifest_path"]));
        Some(TestBinary {
            name: text(&message["target"]["name"]),
            path: PathBuf::from(message["executable"].as_str()?),
            directory: manifest.parent()?.to_owned(),
        })
    });
    found.collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    let values = value.as_array().map(Vec::as_slice).unwrap_or_default();
    values.iter()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
