//! Rules about the container images: the builder gets all that they are built from, and the build
//! has no list of crates that would grow old.

use std::collections::BTreeSet;

use crate::crates::{Package, normal};
use crate::tree::Tree;

const DOCKERFILE: &str = "Dockerfile";
const IGNORED: &str = ".dockerignore";
const COMPOSE: &str = "docker-compose.yml";

/// Returns the files that the image's build needs, or a service mounts, and does not get.
pub(crate) fn complaints(tree: &Tree, packages: &[Package]) -> Vec<String> {
    let of = |name: &str| tree.files.get(name).map(String::as_str).unwrap_or_default();
    let rules: Vec<Rule> = of(IGNORED).lines().filter_map(Rule::read).collect();
    let mut found = Vec::new();
    for (path, why) in needed(tree, packages) {
        if is_ignored(&rules, &path) {
            found.push(format!("{IGNORED}: keeps back {path}, {why}"));
        }
    }
    for (number, source) in copied(of(DOCKERFILE)) {
        let line = format!("{DOCKERFILE}:{number}: COPY {source}");
        let directories = packages.iter().map(|package| &package.directory);
        if let Some(crate_) = directories.into_iter().find(|one| covers(one, &source)) {
            found.push(format!("{line}: names the crate {crate_}; copy them all"));
        }
        // `COPY .` takes what there is.
        let mut files = tree.files.keys().filter(|path| covers(&source, path));
        if source != "." && files.all(|path| is_ignored(&rules, path)) {
            found.push(format!("{line}: nothing of it is in the context"));
        }
    }
    for (number, source) in mounted(of(COMPOSE)) {
        if !tree.files.keys().any(|path| covers(&source, path)) {
            found.push(format!("{COMPOSE}:{number}: there is no {source}"));
        }
    }
    found
}

/// Returns whether a path is that of a directory, or lies below it.
fn covers(directory: &str, path: &str) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns every file that cargo reads for the workspace's libraries and programs, or wants to be
/// there, with the reason.
fn needed(tree: &Tree, packages: &[Package]) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = ["Cargo.toml", "Cargo.lock"]
        .map(|name| (name.to_owned(), "which cargo reads".to_owned()))
        .into();
    for package in packages {
        let (name, directory) = (&package.name, &package.directory);
        let sources = format!("{directory}/src");
        let manifest = format!("{directory}/Cargo.toml");
        let targets = package.targets.iter();
        files.extend(targets.map(|root| (root.clone(), format!("a target of {name}"))));
        for (path, text) in &tree.files {
            if *path == manifest || covers(&sources, path) {
                files.push((path.clone(), format!("a file of {name}")));
            }
            if path.ends_with(".rs") && covers(&sources, path) {
                let included = included(path, text).into_iter();
                files.extend(included.map(|file| (file, format!("which {path} includes"))));
            }
        }
    }
    files
}

/// Returns the files that `include_str!`, `include_bytes!` and `include!` name in a source.
fn included(path: &str, text: &str) -> Vec<String> {
    let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| line.split("include").skip(1))
        .filter_map(|rest| {
            let macros = ["!(\"", "_str!(\"", "_bytes!(\""];
            let name = macros.iter().find_map(|start| rest.strip_prefix(start))?;
            let (name, _) = name.split_once('"')?;
            Some(normal(&format!("{directory}/{name}")))
        })
        .collect()
}

/// Returns the paths that a Dockerfile copies out of the context, with the numbers of the lines.
fn copied(dockerfile: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (index, line) in dockerfile.lines().enumerate() {
        let Some(arguments) = line.strip_prefix("COPY ").or(line.strip_prefix("ADD ")) else {
            continue;
        };
        if arguments.contains("--from=") {
            continue;
        }
        let words = arguments.split_whitespace();
        let mut words: Vec<&str> = words.filter(|word| !word.starts_with("--")).collect();
        // The last is where it goes.
        words.pop();
        let sources = words.iter().map(|word| (index + 1, clean(word).to_owned()));
        found.extend(sources);
    }
    found
}

/// Returns the checkout's files that a compose file's services mount, with the numbers of the
/// lines. Docker makes the directories that a service writes into.
fn mounted(compose: &str) -> BTreeSet<(usize, String)> {
    let lines = compose.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let mount = line.trim().strip_prefix("- ./")?;
            let (source, target) = mount.split_once(':')?;
            target
                .ends_with(":ro")
                .then(|| (index + 1, source.to_owned()))
        })
        .collect()
}

/// Returns a path without its `./` and slashes: `./a/` -> `a`.
fn clean(path: &str) -> &str {
    let path = path.trim_start_matches("./").trim_matches('/');
    if path.is_empty() { "." } else { path }
}

/// A line of `.dockerignore`.
struct Rule {
    /// Whether the line begins with `!`: a path that matches is let through after all.
    lets_through: bool,
    parts: Vec<String>,
}

impl Rule {
    fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let pattern = line.trim_start_matches('!');
        Some(Self {
            lets_through: pattern.len() < line.len(),
            parts: clean(pattern).split('/').map(str::to_owned).collect(),
        })
    }

    /// Returns whether the rule matches a path, or a directory that the path lies in.
    fn matches(&self, path: &[&str]) -> bool {
        (1..=path.len()).any(|length| parts_match(&self.parts, &path[..length]))
    }
}

/// Returns whether the rules keep a path back: the last rule that matches decides.
fn is_ignored(rules: &[Rule], path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let decides = rules.iter().rev().find(|rule| rule.matches(&parts));
    decides.is_some_and(|rule| !rule.lets_through)
}

fn parts_match(pattern: &[String], path: &[&str]) -> bool {
    match (pattern.split_first(), path.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "**" => {
            (0..=path.len()).any(|skipped| parts_match(rest, &path[skipped..]))
        }
        (Some((first, rest)), Some((name, names))) => {
            name_matches(first.as_bytes(), name.as_bytes()) && parts_match(rest, names)
        }
        _ => false,
    }
}

/// Returns whether a pattern matches a name: `*` is any bytes, `?` is one.
fn name_matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skipped| name_matches(rest, &name[skipped..])),
        Some((first, rest)) => name.split_first().is_some_and(|(byte, bytes)| {
            (first == byte || *first == b'?') && name_matches(rest, bytes)
        }),
    }
}

#[cfg(test)]
fn package(directory: &str) -> Package {
    Package {
        name: format!("sprat-{directory}"),
        directory: directory.to_owned(),
        dependencies: Vec::new(),
        targets: Vec::new(),
    }
}

#[test]
fn rules_of_what_is_kept_back_are_read_as_docker_does() {
    let ignored = |rules: &str, path: &str| {
        let rules: Vec<Rule> = rules.lines().filter_map(Rule::read).collect();
        is_ignored(&rules, path)
    };
    assert!(ignored("*", "a/src/lib.rs"));
    assert!(!ignored("*\n!a", "a/src/lib.rs"));
    assert!(ignored("*\n!a", "b/src/lib.rs"));
    assert!(ignored("*\n!a\n**/*.swp", "a/src/.lib.rs.swp"));
    assert!(ignored("# a\n\n/target/", "target/x"));
    assert!(!ignored("target", "a/target/x"));
    assert!(ignored("**/target", "a/target/x"));
    assert!(ignored("**/target", "target"));
    assert!(ignored("a/?.rs", "a/b.rs"));
    assert!(!ignored("a/?.rs", "a/bc.rs"));
    assert!(!ignored("docs", "docs.rs"));
}

#[test]
fn a_crate_that_is_kept_back_is_found() {
    let tree = Tree::of(&[
        ("Cargo.toml", ""),
        ("Cargo.lock", ""),
        (".dockerignore", "*\n!Cargo.*\n!a\n**/*.css"),
        ("a/Cargo.toml", ""),
        (
            "a/src/lib.rs",
            "include_str!(\"../page.css\");\n// include_str!(\"x\")\n",
        ),
        ("a/tests/b.css", ""),
        ("b/Cargo.toml", ""),
    ]);
    assert_eq!(
        complaints(&tree, &[package("a"), package("b")]),
        [
            ".dockerignore: keeps back a/page.css, which a/src/lib.rs includes",
            ".dockerignore: keeps back b/Cargo.toml, a file of sprat-b",
        ]
    );
}

#[test]
fn what_is_copied_and_mounted_in_vain_is_found() {
    let dockerfile = "FROM x\nCOPY . .\nCOPY ./docs/a docs/b /\nCOPY --chown=1 a/Cargo.toml a/\n\
                      COPY --from=y /z /\n";
    let compose =
        "volumes:\n  - ./docs/a:/a:ro\n  - ./gone:/gone:ro\n  - ./made:/made\n  - x:/y:ro\n";
    let tree = Tree::of(&[
        (".dockerignore", "docs\n!docs/b"),
        ("Dockerfile", dockerfile),
        ("docker-compose.yml", compose),
        ("a/Cargo.toml", ""),
        ("docs/a", ""),
        ("docs/b", ""),
    ]);
    assert_eq!(
        complaints(&tree, &[package("a")]),
        [
            "Dockerfile:3: COPY docs/a: nothing of it is in the context",
            "Dockerfile:4: COPY a/Cargo.toml: names the crate a; copy them all",
            "docker-compose.yml:3: there is no gone",
        ]
    );
}
