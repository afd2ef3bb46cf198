//! Names of types are unique in their crate, so that a reader knows from the name which type it is.
//! The types of what an operator writes, and of what the proxy gets of it, share a name on purpose:
//! a key keeps its name from the file to where it acts.

use std::collections::BTreeMap;

use syn::Item;
use syn::visit::Visit;

use crate::imports::{self, Source, attributes, is_for_tests};
use crate::tree::Tree;

/// The modules whose types mirror each other.
const MIRRORS: [&str; 2] = ["raw", "resolved"];

/// The files that define a type of one name, each with its index in [`MIRRORS`] if it is in one.
type Places<'t> = Vec<(&'t str, Option<usize>)>;

pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let sources = imports::sources(tree);
    let mut crates: BTreeMap<&str, BTreeMap<String, Places<'_>>> = BTreeMap::new();
    for source in &sources {
        let mut reader = Reader::default();
        reader.visit_file(&source.parsed);
        let names = crates.entry(source.directory).or_default();
        for name in reader.names {
            let places = names.entry(name).or_default();
            places.push((source.path, mirror(source)));
        }
    }
    let mut complaints = Vec::new();
    for (directory, names) in crates {
        for (name, places) in names {
            if !is_clear(&places) {
                let files: Vec<&str> = places.into_iter().map(|(path, _)| path).collect();
                let files = files.join("\n    ");
                complaints.push(format!(
                    "{directory}: `{name}` is the name of several types; have one for each\n    {files}"
                ));
            }
        }
    }
    complaints
}

/// Returns the index in [`MIRRORS`] of the module that a file is in; none if it is in neither.
fn mirror(source: &Source<'_>) -> Option<usize> {
    let first = source.module.first()?;
    MIRRORS.iter().position(|own| own == first)
}

/// Returns whether a name stands for one type, or for a pair of mirrors.
fn is_clear(places: &Places<'_>) -> bool {
    match &places[..] {
        [_] => true,
        [(_, one), (_, other)] => one.is_some() && other.is_some() && one != other,
        _ => false,
    }
}

/// A reader of the names of one file's types.
#[derive(Default)]
struct Reader {
    names: Vec<String>,
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        let name = match item {
            Item::Enum(own) => Some(&own.ident),
            Item::Struct(own) => Some(&own.ident),
            Item::Trait(own) => Some(&own.ident),
            Item::Type(own) => Some(&own.ident),
            Item::Union(own) => Some(&own.ident),
            _ => None,
        };
        self.names.extend(name.map(ToString::to_string));
        // What stands within modules and functions.
        syn::visit::visit_item(self, item);
    }
}

#[test]
fn types_of_one_name_are_found() {
    let tree = Tree::of(&[
        (
            "a/src/lib.rs",
            "mod b;\nmod raw;\nmod resolved;\n#[cfg(test)]\nmod t;\n\
             struct One;\nstruct Own;\nstruct Key;\nimpl One { fn one() {} }\n\
             #[cfg(test)]\nmod tests { struct Own; }",
        ),
        (
            "a/src/b.rs",
            "mod inner { enum One {} }\nfn f() { trait Local {} }\nfn g() { type Local = u8; }\n\
             #[cfg(test)]\nstruct Own;\nimpl Iterator for B { type Item = One; }",
        ),
        ("a/src/raw.rs", "mod b;\nstruct Route;\nstruct Twice;"),
        ("a/src/raw/b.rs", "enum Rule {}\nstruct Twice;\nstruct Key;"),
        (
            "a/src/resolved.rs",
            "struct Rule;\ntype Route = u8;\nstruct Twice;",
        ),
        ("a/src/t.rs", "struct Own;"),
        ("b/c/src/lib.rs", "struct One;"),
    ]);
    let of = |name: &str, files: &[&str]| {
        let files = files.join("\n    ");
        format!("a: `{name}` is the name of several types; have one for each\n    {files}")
    };
    let expected = [
        of("Key", &["a/src/lib.rs", "a/src/raw/b.rs"]),
        of("Local", &["a/src/b.rs", "a/src/b.rs"]),
        of("One", &["a/src/b.rs", "a/src/lib.rs"]),
        of(
            "Twice",
            &["a/src/raw.rs", "a/src/raw/b.rs", "a/src/resolved.rs"],
        ),
    ];
    assert_eq!(complaints(&tree), expected);
}
