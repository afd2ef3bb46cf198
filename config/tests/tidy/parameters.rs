//! Parameters have names for their parts: no function outside tests takes a tuple, which says
//! nothing at the call. A trait decides what its methods take, so the methods of foreign traits are
//! left alone.

use std::collections::BTreeSet;

use syn::visit::Visit;
use syn::{FnArg, ImplItem, Item, Signature, TraitItemFn, Type};

use crate::imports::{self, attributes, is_for_tests};
use crate::tree::Tree;

const INSTEAD: &str = "have a struct with named fields, or a parameter for each part";

pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in imports::sources(tree) {
        let mut reader = Reader::default();
        reader.visit_file(&source.parsed);
        let functions = reader.functions();
        complaints.extend(
            functions.map(|name| format!("{}: `{name}` takes a tuple: {INSTEAD}", source.path)),
        );
    }
    complaints
}

/// A reader of the functions of one file.
#[derive(Default)]
struct Reader {
    taken: Vec<Taken>,
    /// The names of the file's aliases for tuples.
    aliases: BTreeSet<String>,
}

/// A parameter that is a tuple, or whose type is the alias named here.
struct Taken {
    function: String,
    alias: Option<String>,
}

impl Reader {
    fn read(&mut self, signature: &Signature) {
        for parameter in &signature.inputs {
            let FnArg::Typed(parameter) = parameter else {
                continue;
            };
            let alias = match behind_references(&parameter.ty) {
                own if is_tuple(own) => None,
                Type::Path(own) => own.path.segments.last().map(|last| last.ident.to_string()),
                _ => continue,
            };
            self.taken.push(Taken {
                function: signature.ident.to_string(),
                alias,
            });
        }
    }

    /// Returns the function of each parameter that is a tuple.
    fn functions(&self) -> impl Iterator<Item = &str> {
        let is_tuple = |own: &&Taken| {
            let alias = own.alias.as_ref();
            alias.is_none_or(|name| self.aliases.contains(name))
        };
        let tuples = self.taken.iter().filter(is_tuple);
        tuples.map(|own| &*own.function)
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        match item {
            Item::Fn(own) => self.read(&own.sig),
            Item::Type(own) if is_tuple(&own.ty) => {
                self.aliases.insert(own.ident.to_string());
            }
            Item::Impl(own) if own.trait_.is_none() => {
                for item in &own.items {
                    if let ImplItem::Fn(method) = item
                        && !is_for_tests(&method.attrs)
                    {
                        self.read(&method.sig);
                    }
                }
            }
            _ => {}
        }
        // What stands within functions.
        syn::visit::visit_item(self, item);
    }

    fn visit_trait_item_fn(&mut self, method: &'ast TraitItemFn) {
        self.read(&method.sig);
        syn::visit::visit_trait_item_fn(self, method);
    }
}

fn behind_references(own: &Type) -> &Type {
    match own {
        Type::Reference(reference) => behind_references(&reference.elem),
        other => other,
    }
}

fn is_tuple(own: &Type) -> bool {
    matches!(own, Type::Tuple(tuple) if tuple.elems.len() > 1)
}

#[test]
fn tuples_are_found() {
    let tree = Tree::of(&[
        (
            "a/src/lib.rs",
            "mod b;\n#[cfg(test)]\nmod t;\n\
             type Pair = (u8, u8);\n\
             pub fn taken((a, b): (u8, u8), c: u8) { fn within(p: &mut (u8, u8)) {} }\n\
             type Lent<'a> = (&'a u8, u8);\n\
             fn by_name(one: Pair, two: &Lent<'_>) {}\n\
             fn fine(list: &[(u8, u8)], unit: (), one: Option<(u8, u8)>, t: T) -> (u8, u8) { (1, 2) }\n\
             #[cfg(test)]\nmod tests { fn in_tests(p: (u8, u8)) {} }",
        ),
        (
            "a/src/b.rs",
            "fn other(pair: Pair) {}\n\
             trait Own { fn declared(&self, p: (u8, u8)); }\n\
             impl Own for u8 { fn declared(&self, p: (u8, u8)) {} }\n\
             impl B { fn method(&self, (a, b): &(u8, u8)) {}\n\
             #[cfg(test)]\nfn for_tests(p: (u8, u8)) {} }",
        ),
        ("a/src/t.rs", "fn in_a_file_of_tests(p: (u8, u8)) {}"),
        ("a/src/main.rs", "fn of_the_binary(p: (u8, u8)) {}"),
        ("a/tests/t.rs", "fn in_tests(p: (u8, u8)) {}"),
        ("b/c/src/lib.rs", "fn fine(p: u8) {}"),
    ]);
    let expected = [
        ("a/src/b.rs", "declared"),
        ("a/src/b.rs", "method"),
        ("a/src/lib.rs", "taken"),
        ("a/src/lib.rs", "within"),
        ("a/src/lib.rs", "by_name"),
        ("a/src/lib.rs", "by_name"),
        ("a/src/main.rs", "of_the_binary"),
    ];
    let expected =
        expected.map(|(path, function)| format!("{path}: `{function}` takes a tuple: {INSTEAD}"));
    assert_eq!(complaints(&tree), expected);
}
