//! Circles of modules: files that cannot be understood, moved or tested one at a time.
//!
//! A crate's modules at the top are a graph by what each takes from the others
//! (`crate::name`), tests left out.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Tree;

/// Modules that may import each other in a circle.
const AT_MOST: usize = 3;

/// Crates with a larger circle, which may not grow; lower them as it shrinks.
const LARGER: [(&str, usize); 2] = [("proxy/src/", 5), ("filters/envoy-module/src/", 6)];

/// What each module imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Says which circles are larger than they may be, or smaller than is said above.
pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (root, graph) in graphs(tree) {
        let largest = largest_circle(&graph);
        let known = LARGER.iter().find(|(larger, _)| *larger == root);
        let most = known.map_or(AT_MOST, |&(_, most)| most);
        if largest.len() > most {
            let names = largest.join(", ");
            complaints.push(format!(
                "{root}: {} modules import each other in a circle, {most} may: {names}",
                largest.len()
            ));
        } else if known.is_some() && largest.len() < most {
            complaints.push(format!(
                "{root}: the largest circle has {} modules: lower `LARGER` in {}",
                largest.len(),
                file!()
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
        let module = rest.split('/').next().unwrap_or(rest);
        let module = module.strip_suffix(".rs").unwrap_or(module);
        if ["lib", "main", "bin"].contains(&module) || rest.contains("tests") {
            continue;
        }
        let graph = graphs.entry(format!("{root}src/")).or_default();
        let imports = graph.entry(module.to_owned()).or_default();
        imports.extend(imported(text).into_iter().filter(|name| name != module));
    }
    for graph in graphs.values_mut() {
        let modules: BTreeSet<String> = graph.keys().cloned().collect();
        for imports in graph.values_mut() {
            imports.retain(|name| modules.contains(name));
        }
    }
    graphs
}

/// The names that follow `crate::`, one or several in braces, but for those of tests and
/// comments.
fn imported(text: &str) -> Vec<String> {
    let own = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or(text);
    let code: String = own
        .lines()
        .map(|line| line.split("//").next().unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n");
    let mut names = Vec::new();
    for (at, found) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || "_:".contains(before)) {
            continue;
        }
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            None => names.extend(identifier(rest)),
            Some(group) => names.extend(firsts(group)),
        }
    }
    names
}

/// The first identifier of each element of a group in braces.
fn firsts(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut names = Vec::new();
    let mut element = 0;
    for (at, letter) in group.char_indices() {
        let ends = depth == 0 && (letter == ',' || letter == '}');
        if ends {
            names.extend(identifier(group[element..at].trim_start()));
            element = at + 1;
        }
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
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
                    #[cfg(test)]\nmod tests {\nuse crate::seven;\n}\n";
        assert_eq!(imported(text), ["one", "two", "three", "five"]);
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
