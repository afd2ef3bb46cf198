//! Bounds on the length of files and functions, with a ratchet: files and functions that are longer
//! stand in `ratchet.txt` with their length, and that list can only shrink.

use std::collections::BTreeMap;

use crate::tree::Tree;

/// The most lines of a file before its tests. A file is cut where its idea ends: the bound only
/// stops a file that has grown past that unseen.
const FILE_LINES_MAX: usize = 700;
/// The most lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 80;

const RATCHET: &str = "config/tests/tidy/ratchet.txt";

pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let listed = tree
        .files
        .get(RATCHET)
        .map(String::as_str)
        .unwrap_or_default();
    compare(&too_long(tree), &read_ratchet(listed))
}

/// Returns the lengths in lines of what is over its bound, by `path` or `path function`.
fn too_long(tree: &Tree) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for (path, text) in tree.with_extension("rs") {
        // A module of tests may be as long as what there is to test.
        if !path.contains("src/") || path.ends_with("/tests.rs") {
            continue;
        }
        let lines: Vec<&str> = text
            .lines()
            .take_while(|line| line.trim_end() != "#[cfg(test)]")
            .collect();
        if lines.len() > FILE_LINES_MAX {
            found.insert(path.to_owned(), lines.len());
        }
        for (name, length) in functions(&lines) {
            if length > FUNCTION_LINES_MAX {
                found.insert(format!("{path} {name}"), length);
            }
        }
    }
    found
}

/// Returns every function with a body, and its length. Relies on rustfmt's layout: the closing
/// brace stands at the indentation of the `fn`.
fn functions<'a>(lines: &[&'a str]) -> Vec<(&'a str, usize)> {
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = lines[index..].iter().position(|later| {
            let Some(rest) = later.strip_prefix(indent) else {
                return false;
            };
            rest == "}" || (!rest.starts_with(' ') && (rest.ends_with(';') || rest.ends_with('}')))
        });
        if let Some(last) = close {
            found.push((name, last + 1));
        }
    }
    found
}

/// Returns the function that a line begins: `    pub(crate) async fn name<T>(` -> `name`.
fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = [
        "async",
        "const",
        "default",
        "extern",
        "pub",
        concat!("un", "safe"),
    ];
    let only_qualifiers = before.split_whitespace().all(|word| {
        let word = word.split('(').next().unwrap_or(word);
        qualifiers.contains(&word) || word.starts_with('"') || word.ends_with(')')
    });
    let end = after.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
    only_qualifiers
        .then_some(&after[..end])
        .filter(|name| !name.is_empty())
}

/// Reads the lines of the ratchet, each `length path [function]`; `#` begins a comment.
fn read_ratchet(text: &str) -> BTreeMap<String, usize> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .map(|line| {
            let (length, what) = line
                .split_once(' ')
                .expect("a line of the ratchet is `length path`");
            (
                what.to_owned(),
                length
                    .parse()
                    .expect("a line of the ratchet begins with a number"),
            )
        })
        .collect()
}

fn compare(found: &BTreeMap<String, usize>, listed: &BTreeMap<String, usize>) -> Vec<String> {
    let mut complaints = Vec::new();
    for (what, &length) in found {
        match listed.get(what) {
            None => complaints.push(format!(
                "{what}: {length} lines; a file may have {FILE_LINES_MAX} before its tests, a function {FUNCTION_LINES_MAX}: it has two ideas, split them"
            )),
            Some(&bound) if length > bound => {
                complaints.push(format!("{what}: {length} lines, and it was {bound}: it may only shrink"));
            }
            Some(&bound) if length < bound => {
                complaints.push(format!("{what}: {length} lines now; lower its {bound} in {RATCHET}"));
            }
            Some(_) => {}
        }
    }
    for what in listed.keys().filter(|what| !found.contains_key(*what)) {
        complaints.push(format!(
            "{what}: short enough now; remove it from {RATCHET}"
        ));
    }
    complaints
}

#[test]
fn functions_are_measured() {
    let text = "\
pub fn one() {
    let x = 1;
}
impl A {
    pub(crate) async fn two(
        &self,
    ) -> u8 {
        match self {
            _ => {}
        }
    }
    fn three() {}
    fn declared(&self);
}
let call = fn_like(x);
";
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        functions(&lines),
        [("one", 3), ("two", 7), ("three", 1), ("declared", 1)]
    );
}

#[test]
fn tests_do_not_count() {
    let long = format!("fn a() {{}}\n#[cfg(test)]\n{}", "// a test\n".repeat(800));
    let longer = "// code\n".repeat(FILE_LINES_MAX + 1);
    let body = format!("fn b() {{\n{}}}\n", "    call();\n".repeat(79));
    let tree = Tree::of(&[
        ("a/src/ok.rs", &long),
        ("a/src/long.rs", &longer),
        ("a/src/b.rs", &body),
    ]);
    let expected = [
        ("a/src/b.rs b".to_owned(), 81),
        ("a/src/long.rs".to_owned(), FILE_LINES_MAX + 1),
    ];
    assert_eq!(too_long(&tree), BTreeMap::from(expected));
}

#[test]
fn the_ratchet_only_shrinks() {
    let ratchet = read_ratchet("# why\n500 a.rs\n90 b.rs f\n450 c.rs\n600 d.rs\n");
    let found = BTreeMap::from([
        ("a.rs".to_owned(), 501),
        ("b.rs f".to_owned(), 90),
        ("c.rs".to_owned(), 449),
        ("e.rs".to_owned(), 401),
    ]);
    let complaints = compare(&found, &ratchet);
    let told: Vec<&str> = complaints.iter().map(|complaint| &complaint[..4]).collect();
    assert_eq!(told, ["a.rs", "c.rs", "e.rs", "d.rs"]);
}
