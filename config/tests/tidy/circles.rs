//! Circles of modules: files that cannot be understood, moved or tested one at a time.
//!
//! The modules below a module, and its own file, are the nodes of a graph. Its edges are what each
//! takes from the others (`imports.rs`). A module with all that is below it is one node here, and a
//! graph of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{self, Crate, Module};
use crate::tree::Tree;

/// The most modules that may import each other in a circle.
const AT_MOST: usize = 3;

/// The names of the nodes that each node imports.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns a complaint about each circle that is larger than [`AT_MOST`].
pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (root, own) in imports::crates(tree) {
        for (above, graph) in graphs(&own) {
            for circle in circles(&graph) {
                if circle.len() <= AT_MOST {
                    continue;
                }
                let mut complaint = format!(
                    "{root}{}: {} modules import each other in a circle, {AT_MOST} may:",
                    above.join("/"),
                    circle.len(),
                );
                for from in &circle {
                    let within = graph[from].iter().filter(|to| circle.contains(to));
                    let within: Vec<&str> = within.map(String::as_str).collect();
                    complaint += &format!("\n    {from} -> {}", within.join(", "));
                }
                complaints.push(complaint);
            }
        }
    }
    complaints
}

/// Returns a graph for each module with others below it.
fn graphs(own: &Crate) -> BTreeMap<Module, Graph> {
    let mut graphs: BTreeMap<Module, Graph> = BTreeMap::new();
    for (from, _) in own.modules() {
        for to in own.taken_by(from) {
            let common = from.iter().zip(&to).take_while(|(one, two)| one == two);
            let above = from[..common.count()].to_vec();
            let [from, to] = [from, &to].map(|module| {
                let name = module.get(above.len()).map(String::as_str);
                name.unwrap_or("itself").to_owned()
            });
            let graph = graphs.entry(above).or_default();
            graph.entry(to.clone()).or_default();
            graph.entry(from).or_default().insert(to);
        }
    }
    graphs
}

/// Returns the sets of nodes that all reach each other.
fn circles(graph: &Graph) -> BTreeSet<Vec<String>> {
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
    graph.keys().map(circle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints_about(files: &[(String, String)]) -> String {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (&**path, &**text))
            .collect();
        complaints(&Tree::of(&files)).join("\n")
    }

    /// Returns modules in a folder, each of which takes the next one's `T`, by the path that `path`
    /// makes.
    fn ring(count: usize, path: impl Fn(usize) -> String) -> Vec<(String, String)> {
        let module = |at: usize| {
            let text = format!("pub struct T{at};\nuse {};\n", path((at + 1) % count));
            (format!("x/src/f/m{at}.rs"), text)
        };
        (0..count).map(module).collect()
    }

    #[test]
    fn a_circle_that_is_too_large_is_named() {
        let plain = |next| format!("super::m{next}::T{next}");
        assert_eq!(complaints_about(&ring(3, plain)), "");
        let expected = "x/src/f: 4 modules import each other in a circle, 3 may:\n    m0 -> m1\n    \
                        m1 -> m2\n    m2 -> m3\n    m3 -> m0";
        assert_eq!(complaints_about(&ring(4, plain)), expected);
        // By names that the folder's own file gives them.
        let mut files = ring(4, |next| format!("super::T{next}"));
        let uses = (0..4).map(|at| format!("mod m{at};\npub use m{at}::T{at};\n"));
        files.push(("x/src/f.rs".to_owned(), uses.collect()));
        assert_eq!(complaints_about(&files), expected);
    }

    #[test]
    fn the_file_above_is_part_of_a_circle() {
        let mut files = ring(3, |next| match next {
            0 => "super::T".to_owned(),
            _ => format!("super::m{next}::T{next}"),
        });
        files.push((
            "x/src/f.rs".to_owned(),
            "mod m0;\npub struct T;\nfn f() { m0::g() }\n".to_owned(),
        ));
        let complaint = complaints_about(&files);
        assert!(complaint.contains("itself -> m0\n"), "{complaint}");
        assert!(complaint.contains("m2 -> itself"), "{complaint}");
    }
}
