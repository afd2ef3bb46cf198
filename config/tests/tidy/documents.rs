//! Rules about documents and scripts: links resolve, pages are in the book, make targets
//! exist, scripts are executable and parse.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::tree::Tree;

/// Returns the links to files, and to parts of pages, that do not exist. Links to other sites are
/// not followed.
pub(crate) fn broken_links(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in tree.with_extension("md") {
        let directory = Path::new(path).parent().unwrap_or(Path::new(""));
        for (number, line) in prose(text) {
            for target in link_targets(line) {
                let (file, part) = target.split_once('#').unwrap_or((target, ""));
                if file.contains("://") || file.starts_with("mailto:") {
                    continue;
                }
                let found = resolved(directory, file);
                let page = match file {
                    "" => Some(text),
                    _ => tree.files.get(&found).map(String::as_str),
                };
                // What git keeps and this does not read (pictures, results) is there.
                let exists = page.is_some() || tree.root.join(&found).exists();
                let is_page = file.is_empty() || file.ends_with(".md");
                let has_part = match page {
                    Some(page) if is_page && !part.is_empty() => anchors(page).contains(part),
                    _ => true,
                };
                if !exists || !has_part {
                    complaints.push(format!("{path}:{number}: there is no {target}"));
                }
            }
        }
    }
    complaints
}

/// Returns a link's file, relative to the checkout: `docs` and `../config/a.yaml` ->
/// `config/a.yaml`.
fn resolved(directory: &Path, file: &str) -> String {
    let mut parts: Vec<&str> = directory.iter().filter_map(|part| part.to_str()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the names by which links may refer to a page's headings, as GitHub and mdBook both make
/// them. Of headings that are alike, the second has `-1` at its end.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let headings = prose(page).filter_map(|(_, line)| {
        let text = line.trim_start_matches('#');
        (text.len() < line.len() && text.starts_with(' ')).then_some(text.trim())
    });
    for heading in headings {
        let plain = heading.to_lowercase();
        let kept = plain.chars().filter_map(|letter| match letter {
            ' ' => Some('-'),
            letter if letter.is_alphanumeric() || "-_".contains(letter) => Some(letter),
            _ => None,
        });
        let name: String = kept.collect();
        let again = (1..).map(|number| format!("{name}-{number}"));
        let free = [name.clone()].into_iter().chain(again);
        anchors.extend(free.into_iter().find(|name| !anchors.contains(name)));
    }
    anchors
}

const SUMMARY: &str = "docs/SUMMARY.md";

/// Returns the pages of `docs/` that the book's table of contents lacks, or has twice.
pub(crate) fn missing_in_book(tree: &Tree) -> Vec<String> {
    let summary = tree.files.get(SUMMARY).map(String::as_str);
    let targets = summary.unwrap_or_default().lines().flat_map(link_targets);
    let targets: Vec<String> = targets.map(|file| format!("docs/{file}")).collect();
    let pages = tree.with_extension("md").map(|(path, _)| path);
    let pages = pages.filter(|path| path.starts_with("docs/") && *path != SUMMARY);
    pages
        .filter_map(|page| {
            let times = targets.iter().filter(|target| *target == page).count();
            let wrong = match times {
                1 => return None,
                0 => "is not in the book: give it a line",
                _ => "is in the book twice",
            };
            Some(format!("{SUMMARY}: {page} {wrong}"))
        })
        .collect()
}

const DECISIONS: &str = "docs/decisions/";

/// Returns the decisions that the table of decisions lacks, and its rows that lead to no decision
/// or stand in another order than that of their numbers.
pub(crate) fn unlisted_decisions(tree: &Tree) -> Vec<String> {
    let table = format!("{DECISIONS}README.md");
    let number = |text: &str| {
        text.split_once(['.', ' '])
            .and_then(|(n, _)| n.parse::<u32>().ok())
    };
    let rows = tree.files.get(&table).map(String::as_str);
    let rows: Vec<(u32, &str)> = (rows.unwrap_or_default().lines())
        .filter_map(|row| {
            let page = link_targets(row).last()?;
            Some((number(row.strip_prefix("| ")?)?, page))
        })
        .collect();
    let mut told: Vec<(u32, &str)> = Vec::new();
    for (path, text) in tree.with_extension("md") {
        if let Some(page) = path.strip_prefix(DECISIONS) {
            let decisions = prose(text).filter_map(|(_, line)| number(line.strip_prefix("**")?));
            told.extend(decisions.map(|number| (number, page)));
        }
    }
    told.sort_unstable();
    let missing = told.iter().filter(|one| !rows.contains(one));
    let mut found: Vec<String> = missing
        .map(|(number, page)| format!("{table}: decision {number} of {page} has no row"))
        .collect();
    let extra = rows.iter().filter(|row| !told.contains(row));
    found.extend(extra.map(|(number, page)| format!("{table}: {page} has no decision {number}")));
    if !rows.is_sorted_by(|a, b| a.0 < b.0) {
        found.push(format!("{table}: its numbers are not in order"));
    }
    found
}

/// Returns the targets of a line's links: `[text](target)` and `![text](target "title")` ->
/// `target`.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next())
}

/// Returns the lines outside of code fences, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    fenced(text)
        .filter(|(_, _, inside)| !inside)
        .map(|(number, line, _)| (number, line))
}

/// Returns each line with its number, and whether it stands in a code fence.
fn fenced(text: &str) -> impl Iterator<Item = (usize, &str, bool)> {
    let mut inside = false;
    text.lines().enumerate().map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (index + 1, line, inside || fence)
    })
}

/// Returns complaints about `make NAME` in a document's code, if the Makefile has no such target.
pub(crate) fn unknown_targets(tree: &Tree) -> Vec<String> {
    let makefile = tree
        .files
        .get("Makefile")
        .map(String::as_str)
        .unwrap_or_default();
    let known: BTreeSet<&str> = makefile.lines().filter_map(target_name).collect();
    let mut complaints = Vec::new();
    for (path, text) in tree.with_extension("md") {
        for (number, line, inside) in fenced(text) {
            // Code is a fence's or an indented block's line, or stands in backticks.
            let whole = (inside || line.starts_with("    ")).then_some(line);
            for code in line.split('`').skip(1).step_by(2).chain(whole) {
                for target in targets_of_command(code).filter(|target| !known.contains(target)) {
                    complaints.push(format!(
                        "{path}:{number}: the Makefile has no target {target}"
                    ));
                }
            }
        }
    }
    complaints
}

/// Returns the target that a line of the Makefile defines: `run: deps ## text` -> `run`.
pub(crate) fn target_name(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(':')?;
    let plain = name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    (plain && !name.is_empty() && !rest.starts_with('=')).then_some(name)
}

/// Returns the targets that a command names: `make clean test N=1 # why` -> `clean`, `test`.
fn targets_of_command(code: &str) -> impl Iterator<Item = &str> {
    let code = code.trim().trim_start_matches("$ ");
    let arguments = code.strip_prefix("make ").unwrap_or_default();
    let arguments = arguments.split('#').next().unwrap_or_default();
    arguments
        .split_whitespace()
        .filter(|word| !word.contains('=') && !word.starts_with('-'))
}

/// Returns the scripts that cannot be run: they are not executable, or not bash's syntax.
pub(crate) fn broken_scripts(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (path, text) in &tree.files {
        let first = text.lines().next().unwrap_or_default();
        let file = tree.root.join(path);
        if first.starts_with("#!") && !path.ends_with(".rs") {
            let mode = file
                .metadata()
                .map(|metadata| metadata.permissions().mode())
                .unwrap_or_default();
            if mode & 0o111 == 0 {
                complaints.push(format!("{path}: not executable (chmod +x)"));
            }
        }
        if path.ends_with(".sh") || (first.starts_with("#!") && first.ends_with("bash")) {
            let output = Command::new("bash")
                .arg("-n")
                .arg(&file)
                .output()
                .expect("bash can be run");
            if !output.status.success() {
                complaints.push(format!(
                    "{path}: {}",
                    String::from_utf8_lossy(&output.stderr)
                ));
            }
        }
    }
    complaints
}

#[test]
fn broken_links_are_found() {
    let text = "[a](missing.md) [b](https://x.invalid/y) [c](#here)\n```\n[d](code.md)\n```\n\
                ![e](p.svg \"t\")\n[f](../b.md#what-it-is-1) [g](../b.md#what-it-was)\n## Here\n";
    let other = "# What *it* is?\n```\n# What it was\n```\n## What `it` is\n";
    let tree = Tree::of(&[("docs/a.md", text), ("b.md", other)]);
    assert_eq!(
        broken_links(&tree),
        [
            "docs/a.md:1: there is no missing.md",
            "docs/a.md:5: there is no p.svg",
            "docs/a.md:6: there is no ../b.md#what-it-was",
        ]
    );
}

#[test]
fn pages_that_are_not_in_the_book_are_found() {
    let summary = "[A](a.md)\n- [B](b/c.md)\n- [A](a.md)\n";
    let pages = [
        (SUMMARY, summary),
        ("docs/a.md", ""),
        ("docs/b/c.md", ""),
        ("docs/d.md", ""),
        ("e.md", ""),
    ];
    assert_eq!(
        missing_in_book(&Tree::of(&pages)),
        [
            "docs/SUMMARY.md: docs/a.md is in the book twice",
            "docs/SUMMARY.md: docs/d.md is not in the book: give it a line",
        ]
    );
}

#[test]
fn decisions_without_a_row_are_found() {
    let rows = "| number | decision | topic |\n| ---: | --- | --- |\n\
                | 2 | B | [a](a.md) |\n| 1 | A | [a](a.md) |\n| 3 | C | [a](a.md) |\n";
    let tree = Tree::of(&[
        ("docs/decisions/README.md", rows),
        (
            "docs/decisions/a.md",
            "**1. A.** It is **3. so.**\n\n**2. B** (x)\n",
        ),
        ("docs/decisions/b.md", "**4. D.** And **why**.\n"),
    ]);
    assert_eq!(
        unlisted_decisions(&tree),
        [
            "docs/decisions/README.md: decision 4 of b.md has no row",
            "docs/decisions/README.md: a.md has no decision 3",
            "docs/decisions/README.md: its numbers are not in order",
        ]
    );
}

#[test]
fn unknown_make_targets_are_found() {
    let tree = Tree::of(&[
        (
            "Makefile",
            "VAR := x\nrun: deps ## Run\n\tmake nothing\ntest-2-all:\n",
        ),
        (
            "a.md",
            "`make run` and `make tset`; make of it what you can\n\n    make test-2-all N=1\n\n```\nmake gone # x\n```\n",
        ),
    ]);
    assert_eq!(
        unknown_targets(&tree),
        [
            "a.md:1: the Makefile has no target tset",
            "a.md:6: the Makefile has no target gone"
        ]
    );
}
