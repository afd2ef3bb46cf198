//! Values that travel together have names: no function outside tests takes a tuple, which says
//! nothing at the call. Nor does one return a tuple of three values or more, or an alias have one:
//! the reader would have to guess which is which. A trait decides what its methods take and return,
//! so the methods of foreign traits are left alone.

use std::collections::BTreeSet;

use syn::visit::Visit;
use syn::{FnArg, ImplItem, Item, ItemType, ReturnType, Signature, TraitItemFn, Type, TypeTuple};

use crate::imports::{self, attributes, is_for_tests};
use crate::tree::Tree;

const INSTEAD: &str = "have a struct with named fields, or a parameter for each part";

/// The least number of values in a wide tuple, which needs names where it is returned.
const WIDE_FROM: usize = 3;

pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in imports::sources(tree) {
        let mut reader = Reader::default();
        reader.visit_file(&source.parsed);
        let functions = reader.functions();
        complaints.extend(
            functions.map(|name| format!("{}: `{name}` takes a tuple: {INSTEAD}", source.path)),
        );
        let wide = reader.wide.iter();
        complaints.extend(wide.map(|what| {
            let path = source.path;
            format!("{path}: {what} a tuple of {WIDE_FROM} values or more: name them in a struct")
        }));
    }
    complaints
}

/// A reader of the functions of one file.
#[derive(Default)]
struct Reader {
    taken: Vec<Taken>,
    /// The names of the file's aliases for tuples.
    aliases: BTreeSet<String>,
    /// The functions and the aliases that have a wide tuple, each with what it does with it.
    wide: Vec<String>,
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
        if let ReturnType::Type(_, own) = &signature.output
            && has_wide_tuple(own)
        {
            self.wide.push(format!("`{}` returns", signature.ident));
        }
    }

    fn read_alias(&mut self, alias: &ItemType) {
        if is_tuple(&alias.ty) {
            self.aliases.insert(alias.ident.to_string());
        }
        if has_wide_tuple(&alias.ty) {
            self.wide.push(format!("`{}` stands for", alias.ident));
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
            Item::Type(own) => self.read_alias(own),
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

/// Returns whether there is a wide tuple anywhere in a type: in a list, say, or what an iterator
/// gives.
fn has_wide_tuple(own: &Type) -> bool {
    let mut finder = WideFinder::default();
    finder.visit_type(own);
    finder.found
}

/// A finder of wide tuples in a type.
#[derive(Default)]
struct WideFinder {
    found: bool,
}

impl<'ast> Visit<'ast> for WideFinder {
    fn visit_type_tuple(&mut self, own: &'ast TypeTuple) {
        self.found |= own.elems.len() >= WIDE_FROM;
        syn::visit::visit_type_tuple(self, own);
    }
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

#[test]
fn wide_tuples_are_found_where_they_are_returned_or_have_an_alias() {
    let tree = Tree::of(&[
        (
            "a/src/lib.rs",
            "mod b;\n#[cfg(test)]\nmod t;\n\
             type Pair = (u8, u8);\n\
             type Row = (u8, u8, u8);\n\
             type Rows<'a> = &'a [(u8, Option<(&'a u8, u8, u8)>)];\n\
             type Call = fn(u8, u8, u8) -> (u8, u8);\n\
             fn fine(a: u8, list: &[(u8, u8, u8)]) -> Option<((u8, u8), [u8; 3])> { None }\n\
             fn none() {}\n\
             fn by_name() -> Row { (1, 2, 3) }\n\
             fn direct() -> (u8, u8, u8) { fn within() -> Result<(u8, u8, u8, u8), ()> {} }\n\
             #[cfg(test)]\nmod tests { type T = (u8, u8, u8); fn in_tests() -> (u8, u8, u8) {} }",
        ),
        (
            "a/src/b.rs",
            "trait Own { fn declared(&self) -> impl Iterator<Item = (u8, u8, u8)> + '_; }\n\
             impl Own for u8 { fn declared(&self) -> Vec<(u8, u8, u8)> {} }\n\
             impl B { async fn method(&self) -> Box<dyn Fn(u8) -> (u8, u8, u8)> {}\n\
             #[cfg(test)]\nfn for_tests() -> (u8, u8, u8) {} }",
        ),
        ("a/src/t.rs", "fn in_a_file_of_tests() -> (u8, u8, u8) {}"),
        ("a/tests/t.rs", "fn in_tests() -> (u8, u8, u8) {}"),
    ]);
    let expected = [
        ("a/src/b.rs", "`declared` returns"),
        ("a/src/b.rs", "`method` returns"),
        ("a/src/lib.rs", "`Row` stands for"),
        ("a/src/lib.rs", "`Rows` stands for"),
        ("a/src/lib.rs", "`direct` returns"),
        ("a/src/lib.rs", "`within` returns"),
    ];
    let expected = expected.map(|(path, what)| {
        format!("{path}: {what} a tuple of 3 values or more: name them in a struct")
    });
    assert_eq!(complaints(&tree), expected);
}
