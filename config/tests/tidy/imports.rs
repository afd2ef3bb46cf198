//! The modules that each module takes something from, within its crate. As in the compiler, each
//! path is followed through re-exports to the module that defines what it names. What a macro is
//! given counts as well. Tests are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

use crate::tree::Tree;

/// A module's path in its crate; the crate's root has none.
pub(crate) type Module = Vec<String>;

/// The most re-exports of re-exports that are followed.
const MAX_DEPTH: usize = 16;

/// The modules of one crate.
#[derive(Default)]
pub(crate) struct Crate {
    /// The contents of the modules, by their paths.
    modules: BTreeMap<Module, Contents>,
    /// The module that defines each exported macro.
    macros: HashMap<String, Module>,
    /// The modules that belong to tests, which are not among `modules`.
    for_tests: Vec<Module>,
}

/// A path that a `use` names.
struct Import {
    path: Vec<String>,
    /// Whether modules see it that are not below its own.
    is_public: bool,
}

/// The names in one module, and the paths that it uses.
#[derive(Default)]
struct Contents {
    file: String,
    /// The names that the module defines itself.
    defined: BTreeSet<String>,
    /// The names that the module imports, with what they stand for.
    aliases: HashMap<String, Import>,
    /// The modules whose names the module imports all (`use path::*`).
    globs: Vec<Import>,
    /// The paths by which the module's own code takes something.
    taken: BTreeSet<Vec<String>>,
    /// The modules that belong to tests.
    for_tests: BTreeSet<String>,
}

/// Returns the crates of a tree, by the directory of their sources.
pub(crate) fn crates(tree: &Tree) -> BTreeMap<String, Crate> {
    let mut crates: BTreeMap<String, Crate> = BTreeMap::new();
    for (path, text) in tree.with_extension("rs") {
        let Some((root, rest)) = path.split_once("src/") else {
            continue;
        };
        let root = format!("{root}src/");
        let is_beside = rest == "main.rs" && tree.files.contains_key(&format!("{root}lib.rs"));
        if is_beside || rest.starts_with("bin/") {
            continue;
        }
        let Ok(parsed) = syn::parse_file(text) else {
            continue;
        };
        crates
            .entry(root)
            .or_default()
            .read(path, &place(rest), &parsed.items);
    }
    for own in crates.values_mut() {
        own.leave_tests_out();
    }
    crates
}

/// A file of a crate's sources that is not for tests.
pub(crate) struct Source<'t> {
    pub(crate) path: &'t str,
    /// The directory of the crate.
    pub(crate) directory: &'t str,
    pub(crate) module: Module,
    pub(crate) parsed: syn::File,
}

/// Returns the sources of all crates, without those for tests.
pub(crate) fn sources(tree: &Tree) -> Vec<Source<'_>> {
    let crates = crates(tree);
    let mut sources = Vec::new();
    for (path, text) in tree.with_extension("rs") {
        let Some((directory, rest)) = path.split_once("/src/") else {
            continue;
        };
        let own = crates.get(&format!("{directory}/src/"));
        if own.is_some_and(|own| own.has_for_tests(rest)) {
            continue;
        }
        if let Ok(parsed) = syn::parse_file(text) {
            sources.push(Source {
                path,
                directory,
                module: place(rest),
                parsed,
            });
        }
    }
    sources
}

/// Returns the module of a file, by its path in the crate's sources.
fn place(rest: &str) -> Module {
    let rest = rest.trim_end_matches(".rs").trim_end_matches("/mod");
    let names = rest.split('/').map(str::to_owned);
    names
        .filter(|name| !["lib", "main"].contains(&&**name))
        .collect()
}

impl Crate {
    fn read(&mut self, file: &str, module: &[String], items: &[Item]) {
        let mut reader = Reader::default();
        reader.own.file = file.to_owned();
        let mut inner = Vec::new();
        for item in items {
            if let Item::Mod(ItemMod {
                ident,
                content: Some((_, items)),
                attrs,
                ..
            }) = item
                && !is_for_tests(attrs)
            {
                inner.push((ident.to_string(), items));
            } else {
                reader.read(item);
            }
        }
        for name in &reader.exported_macros {
            self.macros.insert(name.clone(), module.to_vec());
        }
        self.modules.insert(module.to_vec(), reader.own);
        for (name, items) in inner {
            self.read(file, &[module, &[name]].concat(), items);
        }
    }

    fn leave_tests_out(&mut self) {
        self.for_tests = self
            .modules
            .iter()
            .flat_map(|(module, own)| {
                let names = own.for_tests.iter();
                names.map(move |name| [&module[..], std::slice::from_ref(name)].concat())
            })
            .collect();
        let for_tests = &self.for_tests;
        self.modules
            .retain(|module, _| !for_tests.iter().any(|own| module.starts_with(own)));
    }

    /// Returns whether a file belongs to tests, by its path in the crate's sources.
    pub(crate) fn has_for_tests(&self, rest: &str) -> bool {
        let module = place(rest);
        self.for_tests.iter().any(|own| module.starts_with(own))
    }

    /// Returns each module with its file.
    pub(crate) fn modules(&self) -> impl Iterator<Item = (&Module, &str)> {
        let each = self.modules.iter();
        each.map(|(module, own)| (module, &*own.file))
    }

    /// Returns the other modules that a module takes something from.
    pub(crate) fn taken_by(&self, module: &Module) -> BTreeSet<Module> {
        let paths = self.modules[module].taken.iter();
        let found = paths.filter_map(|path| self.resolve(module, path, 0));
        found.filter(|found| found != module).collect()
    }

    /// Returns the module that defines what a path names; none if it is not in this crate.
    fn resolve(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (mut at, mut rest) = (from.clone(), path);
        match &*path[0] {
            "crate" => at = Vec::new(),
            "super" | "self" => {}
            name if self.has_below(from, name) => {}
            // The name of an item, or one that a `use` gives; what is an item's own comes after.
            name => {
                let own = &self.modules[from];
                let is_itself = own.aliases.get(name).is_some_and(|own| own.path == path);
                if is_itself || own.defined.contains(name) {
                    return None;
                }
                let found = self.defining(from, name, from, depth)?;
                // The alias of a module.
                let is_module = found.last().is_some_and(|last| last == name);
                (at, rest) = (found, &path[1..]);
                if !is_module {
                    return Some(at);
                }
            }
        }
        while let Some(word) = rest.first()
            && ["crate", "super", "self"].contains(&&**word)
        {
            if word == "super" {
                at.pop();
            }
            rest = &rest[1..];
        }
        for name in rest {
            if self.has_below(&at, name) {
                at.push(name.clone());
            } else {
                return Some(self.defining(&at, name, from, depth).unwrap_or(at));
            }
        }
        Some(at)
    }

    fn has_below(&self, module: &[String], name: &str) -> bool {
        let below = [module, &[name.to_owned()]].concat();
        self.modules.contains_key(&below)
    }

    /// Returns the module that defines what a name stands for in a module, as `asks` sees it.
    fn defining(&self, at: &Module, name: &str, asks: &Module, depth: usize) -> Option<Module> {
        let own = self.modules.get(at)?;
        if own.defined.contains(name) {
            return Some(at.clone());
        }
        if depth > MAX_DEPTH {
            return None;
        }
        let sees = |import: &&Import| import.is_public || asks.starts_with(at);
        if let Some(alias) = own.aliases.get(name).filter(sees) {
            return self.resolve(at, &alias.path, depth + 1);
        }
        if at.is_empty()
            && let Some(module) = self.macros.get(name)
        {
            return Some(module.clone());
        }
        own.globs.iter().filter(sees).find_map(|glob| {
            let from = self.resolve(at, &glob.path, depth + 1)?;
            self.defining(&from, name, at, depth + 1)
        })
    }
}

/// A reader of the items of one module.
#[derive(Default)]
struct Reader {
    own: Contents,
    exported_macros: Vec<String>,
}

impl Reader {
    fn read(&mut self, item: &Item) {
        let (name, attributes) = match item {
            Item::Const(own) => (&own.ident, &own.attrs),
            Item::Enum(own) => (&own.ident, &own.attrs),
            Item::Fn(own) => (&own.sig.ident, &own.attrs),
            Item::Static(own) => (&own.ident, &own.attrs),
            Item::Struct(own) => (&own.ident, &own.attrs),
            Item::Trait(own) => (&own.ident, &own.attrs),
            Item::Type(own) => (&own.ident, &own.attrs),
            Item::Union(own) => (&own.ident, &own.attrs),
            Item::Mod(own) => {
                if is_for_tests(&own.attrs) {
                    self.own.for_tests.insert(own.ident.to_string());
                }
                return;
            }
            Item::Macro(own) => {
                // What `macro_rules!` expands to is taken where it is called.
                if own.ident.is_none() {
                    self.visit_macro(&own.mac);
                }
                if let Some(name) = &own.ident {
                    self.own.defined.insert(name.to_string());
                    if own
                        .attrs
                        .iter()
                        .any(|one| one.path().is_ident("macro_export"))
                    {
                        self.exported_macros.push(name.to_string());
                    }
                }
                return;
            }
            Item::Use(own) => return self.import(own),
            Item::Impl(own) if is_for_tests(&own.attrs) => return,
            other => return self.visit_item(other),
        };
        if !is_for_tests(attributes) {
            self.own.defined.insert(name.to_string());
            self.visit_item(item);
        }
    }

    /// Reads a `use` of the module: a re-export gives a name, and takes nothing by itself.
    fn import(&mut self, own: &ItemUse) {
        if is_for_tests(&own.attrs) {
            return;
        }
        let is_public = !matches!(own.vis, Visibility::Inherited);
        for (path, name) in leaves(&own.tree) {
            if !is_public {
                self.own.taken.insert(path.clone());
            }
            let import = Import { path, is_public };
            match name {
                Some(name) => _ = self.own.aliases.insert(name, import),
                None => self.own.globs.push(import),
            }
        }
    }

    /// Notes a path that code takes something by. A single word may be a variable's: only the
    /// name of a type or a constant counts.
    fn take(&mut self, path: Vec<String>) {
        let is_name = path[0].starts_with(|first: char| first.is_uppercase());
        if is_name || path.len() > 1 {
            self.own.taken.insert(path);
        }
    }

    /// Notes the paths among the tokens that a macro is given.
    fn take_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Ident(word) => {
                    if colons != 2 && !path.is_empty() {
                        self.take(std::mem::take(&mut path));
                    }
                    path.push(word.to_string());
                    colons = 0;
                }
                TokenTree::Punct(sign) if sign.as_char() == ':' => colons += 1,
                other => {
                    if !path.is_empty() {
                        self.take(std::mem::take(&mut path));
                    }
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.take_tokens(group.stream());
                    }
                }
            }
        }
        if !path.is_empty() {
            self.take(path);
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter().map(|part| part.ident.to_string());
            self.take(names.collect());
        }
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, own: &'ast syn::Macro) {
        self.take_tokens(own.tokens.clone());
        syn::visit::visit_macro(self, own);
    }

    /// Reads a `use` within a function.
    fn visit_item_use(&mut self, own: &'ast ItemUse) {
        let paths = leaves(&own.tree).into_iter().map(|(path, _)| path);
        self.own.taken.extend(paths);
    }
}

/// Returns the paths of a `use`, each with its name; none stands for all names of the path.
fn leaves(tree: &UseTree) -> Vec<(Vec<String>, Option<String>)> {
    let below = |name: String, tree: &UseTree| {
        let add = |(path, alias): (Vec<String>, _)| ([vec![name.clone()], path].concat(), alias);
        leaves(tree).into_iter().map(add).collect::<Vec<_>>()
    };
    let mut found = match tree {
        UseTree::Path(own) => below(own.ident.to_string(), &own.tree),
        UseTree::Name(own) => vec![(vec![own.ident.to_string()], Some(own.ident.to_string()))],
        UseTree::Rename(own) => vec![(vec![own.ident.to_string()], Some(own.rename.to_string()))],
        UseTree::Glob(_) => vec![(Vec::new(), None)],
        UseTree::Group(own) => own.items.iter().flat_map(leaves).collect(),
    };
    for (path, name) in &mut found {
        // `a::{self}` has the name of `a`.
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
            if name.as_deref() == Some("self") {
                *name = path.last().cloned();
            }
        }
    }
    found
}

/// Returns the attributes of an item that may be for tests.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Enum(own) => &own.attrs,
        Item::Fn(own) => &own.attrs,
        Item::Impl(own) => &own.attrs,
        Item::Mod(own) => &own.attrs,
        Item::Struct(own) => &own.attrs,
        Item::Trait(own) => &own.attrs,
        Item::Type(own) => &own.attrs,
        Item::Union(own) => &own.attrs,
        _ => &[],
    }
}

pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|one| {
        let is_cfg = one.path().is_ident("cfg");
        is_cfg
            && one
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a text of what each module of a crate takes.
    fn taken(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| (format!("x/src/{name}.rs"), *text))
            .collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (&**name, *text)).collect();
        let own = &crates(&Tree::of(&files))["x/src/"];
        let each = own.modules().map(|(module, _)| {
            let all = own.taken_by(module).into_iter();
            let all: Vec<String> = all.map(|module| format!("/{}", module.join("/"))).collect();
            format!("/{}: {}", module.join("/"), all.join(" "))
        });
        each.filter(|line| !line.ends_with(": ")).collect()
    }

    #[test]
    fn a_path_is_followed_through_re_exports() {
        let found = taken(&[
            (
                "lib",
                "mod a;\npub(crate) use a::inner::Thing;\npub(crate) use crate::a::*;",
            ),
            (
                "a",
                "pub mod inner;\npub use self::inner::Thing as Renamed;\npub struct Own;",
            ),
            ("a/inner", "pub struct Thing;\nuse super::Own;"),
            ("b", "use crate::Thing;"),
            ("c", "use crate::a::{self, Renamed};\nfn f() { a::Own; }"),
            ("d", "fn f() -> crate::a::inner::Thing { crate::Renamed }"),
            ("e", "use super::Own;"),
        ]);
        let expected = [
            "/a/inner: /a",
            "/b: /a/inner",
            "/c: /a /a/inner",
            "/d: /a/inner",
            "/e: /a",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn roots_count_and_tests_do_not() {
        let found = taken(&[
            (
                "lib",
                "mod a;\n#[cfg(test)]\nmod t;\npub struct Root;\nfn f() { a::g() }\n\
                 #[cfg(test)]\nmod tests { use crate::b::B; }",
            ),
            (
                "a",
                "use crate::Root;\n#[cfg(test)]\nuse crate::b::B;\nfn g() {}",
            ),
            ("b", "pub struct B; // use crate::a;\nuse other::a::B;"),
            ("t", "use crate::b;"),
            ("main", "use x::a;"),
        ]);
        assert_eq!(found, ["/: /a", "/a: /"]);
    }

    /// A module's own `use` gives its names to none but those below it.
    #[test]
    fn a_name_of_a_glob_is_not_looked_for_in_private_imports() {
        let found = taken(&[
            ("lib", "mod a;\nmod b;\npub use a::*;\npub use b::*;"),
            ("a", "use super::B;\npub struct A;"),
            ("b", "mod below;\nuse super::A;\npub struct B;"),
            ("b/below", "fn f() { super::A }"),
        ]);
        assert_eq!(found, ["/a: /b", "/b: /a", "/b/below: /a"]);
    }

    #[test]
    fn single_words_and_what_macros_are_given_count() {
        let found = taken(&[
            ("lib", "mod a;\npub use a::*;\nstruct Whole { a: A }"),
            ("a", "pub struct A;\npub struct Own;\nfn f(a: Own) { a }"),
            (
                "b",
                "use crate::a;\nrecord! { struct B { a: List<crate::A, 1>, b: B } }",
            ),
            (
                "c",
                "fn f() { call!(x, crate::b::B { a: \"crate::a::A\" }) }",
            ),
            ("d", "use crate::*;\nfn f(a: A) {}"),
        ]);
        assert_eq!(found, ["/: /a", "/b: /a", "/c: /b", "/d: / /a"]);
    }

    #[test]
    fn modules_in_braces_are_modules() {
        let found = taken(&[("lib", "mod a { pub struct A; }\nmod b { use super::a::A; }")]);
        assert_eq!(found, ["/b: /a"]);
    }
}
