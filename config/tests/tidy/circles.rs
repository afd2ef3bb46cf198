//! Circles of modules: files that cannot be understood, moved or tested one at a time.
//!
//! A crate's modules at the top are a graph by what each takes from the others
//! (`crate::name`, or `super::name` where that is the same), tests left out. Where a
//! crate has rooms (`rooms.rs`), it is the modules in them.

use std::collections::{BTreeMap, BTreeSet};

use crate::rooms;
use crate::tree::Tree;

/// Modules that may import each other in a circle.
const AT_MOST: usize = 3;

/// What each module imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Says which circles are larger than they may be.
pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (root, graph) in graphs(tree) {
        let largest = largest_circle(&graph);
        if largest.len() > AT_MOST {
            let names = largest.join(", ");
            complaints.push(format!(
                "{root}: {} modules import each other in a circle, {AT_MOST} may: {names}",
                largest.len()
            ));
        }
    }
    complaints
}

/// The modules of each crate, by the directory of its sources.
fn graphs(tree: &Tree) -> BTreeMap<String, Graph> {
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for (path, text) in tree.with_extension("rs") {
        let Some((root, rest)) = path.split_once("src/") else {
            continue;
        };
        let root = format!("{root}src/");
        let place: Vec<&str> = rest
            .trim_end_matches(".rs")
            .trim_end_matches("/mod")
            .split('/')
            .collect();
        if ["lib", "main", "bin"].contains(&place[0]) || rest.contains("tests") {
            continue;
        }
        let rooms = rooms::of(&root);
        let module = node(rooms, &place);
        let imports = imported(text, &place[..place.len() - 1]);
        let imports = imports.iter().map(|path| node(rooms, path));
        let graph = graphs.entry(root).or_default();
        let known = graph.entry(module.clone()).or_default();
        known.extend(imports.filter(|name| *name != module));
    }
    for graph in graphs.values_mut() {
        let modules: BTreeSet<String> = graph.keys().cloned().collect();
        for imports in graph.values_mut() {
            imports.retain(|name| modules.contains(name));
        }
    }
    graphs
}

/// The node of a path in a crate: its first name, and the second within a room.
fn node(rooms: &[&str], path: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = path.iter().map(AsRef::as_ref).collect();
    match names[..] {
        [room, module, ..] if rooms.contains(&room) => format!("{room}/{module}"),
        [first, ..] => first.to_owned(),
        [] => String::new(),
    }
}

/// The paths, of two names at most, that follow `crate::`, or `super::` in a file that
/// lies so far below its crate's root, but for those of tests and comments.
pub(crate) fn imported(text: &str, above: &[&str]) -> Vec<Vec<String>> {
    let own = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let code: String = own
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = Vec::new();
    for (word, prefix) in [("crate::", &[][..]), ("super::", above)] {
        for (at, _) in code.match_indices(word) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|before| before.is_alphanumeric() || "_:".contains(before)) {
                continue;
            }
            for path in paths(&code[at + word.len()..], 2) {
                let names = prefix.iter().map(|name| (*name).to_owned());
                found.push(names.chain(path).take(2).collect());
            }
        }
    }
    found
}

/// The paths that begin there, one or several in braces, cut after so many names.
fn paths(text: &str, depth: usize) -> Vec<Vec<String>> {
    if let Some(group) = text.strip_prefix('{') {
        return elements(group)
            .iter()
            .flat_map(|element| paths(element, depth))
            .collect();
    }
    let Some(first) = identifier(text) else {
        return Vec::new();
    };
    let rest = text[first.len()..].strip_prefix("::");
    let rest = rest.filter(|_| depth > 1);
    let mut below = rest.map_or(Vec::new(), |rest| paths(rest, depth - 1));
    if below.is_empty() {
        below.push(Vec::new());
    }
    let whole = |names: Vec<String>| std::iter::once(first.clone()).chain(names).collect();
    below.into_iter().map(whole).collect()
}

/// The elements of a group, up to the brace that closes it.
fn elements(group: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut found = Vec::new();
    let mut element = 0;
    for (at, letter) in group.char_indices() {
        let ends = depth == 0 && (letter == ',' || letter == '}');
        if ends {
            found.push(group[element..at].trim());
            element = at + 1;
        }
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let name = &text[..end.unwrap_or(text.len())];
    (!name.is_empty()).then(|| name.to_owned())
}

/// The most modules each of which reaches all the others.
fn largest_circle(graph: &Graph) -> Vec<String> {
    let reach = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from.clone()];
        while let Some(module) = next.pop() {
            for import in &graph[&module] {
                if reached.insert(import.clone()) {
                    next.push(import.clone());
                }
            }
        }
        reached
    };
    let reached: BTreeMap<&String, _> = graph.keys().map(|name| (name, reach(name))).collect();
    let circle = |name: &String| {
        let others = reached[name].iter();
        let circle = others.filter(|other| reached[other].contains(name));
        circle.cloned().collect::<Vec<_>>()
    };
    let circles = graph.keys().map(circle);
    circles.max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_imported_counts_but_tests_and_comments() {
        let text = "use crate::one::Thing;\nuse crate::{two::{a, b}, three};\n\
                    // use crate::four;\nfn f() { crate::five::g(); other_crate::six() }\n\
                    use super::eight;\nuse super::super::nine;\n\
                    #[cfg(test)]\nmod tests {\nuse crate::seven;\n}\n";
        let found = imported(text, &["above"]);
        let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
        let imports = ["one::Thing", "two::a", "two::b", "three", "five::g"];
        assert_eq!(found[..5], imports);
        assert_eq!(found[5..], ["above::eight", "above::super"]);
    }

    #[test]
    fn modules_in_rooms_are_told_apart() {
        let [first, second, ..] = *rooms::of("proxy/server/src/") else {
            panic!("the proxy has rooms");
        };
        let place = |room: &str, module: &str| format!("proxy/server/src/{room}/{module}.rs");
        let tree = Tree::of(&[
            (&place(first, "a"), "use super::b;\n"),
            (&place(first, "b"), &format!("use crate::{second}::c::d;\n")),
            (&place(second, "c"), &format!("use crate::{first}::a;\n")),
            (&place(second, "d"), &format!("use crate::{first}::b;\n")),
        ]);
        let circle = largest_circle(&graphs(&tree)["proxy/server/src/"]);
        let expected = [(first, "a"), (first, "b"), (second, "c")];
        assert_eq!(
            circle,
            expected.map(|(room, name)| format!("{room}/{name}"))
        );
    }

    #[test]
    fn a_circle_that_is_too_large_is_named() {
        let ring = |count: usize| {
            let module = |at: usize| {
                let next = (at + 1) % count;
                (
                    format!("x/src/m{at}.rs"),
                    format!("use crate::m{next}::T;\n"),
                )
            };
            let files: Vec<_> = (0..count).map(module).collect();
            let files: Vec<_> = files
                .iter()
                .map(|(path, text)| (&**path, &**text))
                .collect();
            complaints(&Tree::of(&files))
        };
        assert_eq!(ring(3), [""; 0]);
        let complaint = ring(4).join("");
        assert!(complaint.contains("x/src/: 4 modules"), "{complaint}");
        assert!(complaint.ends_with("m0, m1, m2, m3"), "{complaint}");
    }
}
