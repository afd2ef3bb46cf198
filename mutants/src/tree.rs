//! The copy of the workspace, in which the sources are instrumented.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::instrument::{Instrumented, instrument};
use crate::listing::Mutant;

/// The text that is appended to a crate's root: the switch.
const SWITCH: &str = include_str!("switch.txt");
/// The text that is put before a crate's root: the switch needs a function of the compiler's own,
/// and mutants need not be clean.
const BEFORE: &str = "#![feature(core_intrinsics, const_eval_select)] #![allow(warnings, internal_features, \
     arithmetic_overflow, unconditional_panic, overflowing_literals, unconditional_recursion)] ";

/// A copy of the checkout.
pub(crate) struct Tree {
    /// The directory of the checkout itself.
    pub(crate) root: PathBuf,
    /// The directory of the copy.
    pub(crate) copy: PathBuf,
}

impl Tree {
    /// Copies the files of the checkout, except those that git ignores. Unchanged files are not
    /// written again, so that cargo does not build them again.
    ///
    /// # Errors
    /// Git or the file system.
    pub(crate) fn copied(root: &Path, copy: PathBuf) -> anyhow::Result<Self> {
        let mut git = Command::new("git");
        let listed = git
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(root)
            .output()
            .context("git ls-files")?;
        ensure!(listed.status.success(), "git ls-files has failed");
        let listed = String::from_utf8(listed.stdout).context("a file's name is not UTF-8")?;
        let mut kept = BTreeSet::new();
        for path in listed.split('\0').filter(|path| !path.is_empty()) {
            let from = root.join(path);
            if !from.is_file() || from.is_symlink() {
                continue;
            }
            kept.insert(copy.join(path));
            // Sources come later, instrumented.
            if !(path.ends_with(".rs") && path.contains("/src/")) {
                write(&copy.join(path), &fs::read(&from)?)?;
            }
        }
        remove_others(&copy, &kept)?;
        Ok(Self {
            root: root.to_owned(),
            copy,
        })
    }

    /// Writes all sources to the copy, those of a package with its mutants behind switches.
    ///
    /// # Errors
    /// Sources that do not parse, or the file system.
    pub(crate) fn instrumented(
        &self,
        package: &str,
        mutants: &[(u32, &Mutant)],
        count: usize,
    ) -> anyhow::Result<BTreeMap<String, Instrumented>> {
        let mut by_file: BTreeMap<&str, Vec<(u32, &Mutant)>> = BTreeMap::new();
        for &(number, mutant) in mutants {
            by_file
                .entry(&mutant.file)
                .or_default()
                .push((number, mutant));
        }
        let lib = format!("{}/src/lib.rs", package.trim_start_matches("sprat-"));
        let mut done = BTreeMap::new();
        for path in self.sources()? {
            let source = fs::read_to_string(self.root.join(&path))?;
            let here = by_file.get(path.as_str()).map(Vec::as_slice);
            let mut text = source;
            if let Some(here) = here {
                let instrumented = instrument(&text, here).with_context(|| path.clone())?;
                text = instrumented.text.clone();
                done.insert(path.clone(), instrumented);
            }
            if path == lib {
                let switch = SWITCH.replace("COUNT", &count.to_string());
                text = format!("{BEFORE}{text}{switch}");
                if let Some(instrumented) = done.get_mut(&path) {
                    instrumented.shift(BEFORE.len());
                }
            }
            write(&self.copy.join(&path), text.as_bytes())?;
        }
        Ok(done)
    }

    fn sources(&self) -> anyhow::Result<Vec<String>> {
        let mut git = Command::new("git");
        let listed = git
            .args([
                "ls-files",
                "--cached",
                "--others",
                "--exclude-standard",
                "*.rs",
            ])
            .current_dir(&self.root)
            .output()?;
        let listed = String::from_utf8(listed.stdout)?;
        let sources = listed.lines().filter(|path| path.contains("/src/"));
        let there = sources.filter(|path| self.root.join(path).is_file());
        Ok(there.map(str::to_owned).collect())
    }
}

/// Writes a file, unless it has this text already.
fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(path, text).with_context(|| path.display().to_string())
}

/// Removes the files that the checkout no longer has.
fn remove_others(directory: &Path, kept: &BTreeSet<PathBuf>) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
