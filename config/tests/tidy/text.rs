//! Rules about the text of any file: nothing is left to do, and no path is private.

use crate::tree::Tree;

pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    // Each word in two parts, or this file would break its own rule.
    let unfinished = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
    ];
    let homes = [
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/Us", "ers/"),
    ];
    let checkout = format!("{}/", tree.root.display());
    let mut complaints = Vec::new();
    for (path, text) in &tree.files {
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            for word in unfinished.iter().filter(|word| has_word(line, word)) {
                complaints.push(format!("{path}:{number}: {word}: do it, or file it"));
            }
            let private = homes.iter().find(|home| has_path(line, home)).copied();
            let private =
                private.or_else(|| line.contains(&checkout).then_some("this checkout's path"));
            if let Some(private) = private {
                complaints.push(format!(
                    "{path}:{number}: {private}...: a path of one machine"
                ));
            }
        }
    }
    complaints
}

/// Returns whether a word stands in a line on its own, not inside a longer one.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// Returns whether an absolute path begins with `start` in a line, not in the middle of a longer
/// path.
fn has_path(line: &str, start: &str) -> bool {
    line.match_indices(start).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || ".-_/}".contains(letter))
    })
}

#[test]
fn what_is_left_and_what_is_private_is_found() {
    let text = concat!(
        "// TO",
        "DO: later\nmasTO",
        "DON\nsee \"/ho",
        "me/me/x\"\n$A/ho",
        "me/x\n"
    );
    let tree = Tree::of(&[("a.rs", text)]);
    let found = complaints(&tree);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("a.rs:1: "), "{}", found[0]);
    assert!(found[1].starts_with("a.rs:3: "), "{}", found[1]);
}
