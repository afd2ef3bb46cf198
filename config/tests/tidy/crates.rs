//! Rules about crates: which may use which, what the core may not use, which files belong to a
//! target, and which modules may have `unsafe`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::tree::Tree;

/// The modules that may have `unsafe`: a small, documented one for each boundary.
const UNSAFE_MODULES: [&str; 12] = [
    "proxy/net/src/sys.rs",
    "filters/envoy-module/src/abi/callbacks.rs",
    "filters/envoy-module/src/abi/guard.rs",
    "filters/envoy-module/src/abi/hooks.rs",
    "filters/envoy-module/src/abi/lent.rs",
    "filters/envoy-module/src/abi/metrics.rs",
    "filters/envoy-module/src/abi/stream.rs",
    "filters/envoy-module/src/abi/tests.rs",
    "filters/envoy-wasm/src/body.rs",
    "filters/envoy-wasm/src/tests.rs",
    "filters/envoy-wasm/src/tests/fake.rs",
    // A test: nothing but an allocator can count allocations.
    "scheduler/tests/allocations.rs",
];

/// The names that the core may not have: clocks, sockets, threads, files, processes.
const IMPURE: [&str; 8] = [
    "Instant::now",
    "SystemTime",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "async fn",
];

/// The crates that the core may not depend on, because they would bring the same into it.
const IMPURE_CRATES: [&str; 9] = [
    "async-std",
    "hyper",
    "libc",
    "log",
    "rand",
    "smol",
    "socket2",
    "tokio",
    "tracing",
];

pub(crate) struct Package {
    pub(crate) name: String,
    /// The package's directory, relative to the checkout, such as `proxy`.
    pub(crate) directory: String,
    /// The name of each dependency, and whether only tests use it.
    pub(crate) dependencies: Vec<(String, bool)>,
    /// The root files of the package's targets, relative to the checkout, such as
    /// `proxy/src/main.rs`.
    pub(crate) targets: Vec<String>,
}

/// Returns the workspace's members, as cargo sees them.
pub(crate) fn packages(tree: &Tree) -> Vec<Package> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(tree.root.join("Cargo.toml"))
        .output()
        .expect("cargo can be run, as it ran this test");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value =
        serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    list(&metadata["packages"])
        .map(|package| read_package(tree, package))
        .collect()
}

fn read_package(tree: &Tree, package: &Value) -> Package {
    let relative = |path: &str| -> String {
        let path = Path::new(path)
            .strip_prefix(&tree.root)
            .expect("members lie in the workspace");
        path.to_string_lossy().into_owned()
    };
    let manifest = relative(&text(&package["manifest_path"]));
    Package {
        name: text(&package["name"]),
        directory: manifest
            .trim_end_matches("Cargo.toml")
            .trim_end_matches('/')
            .to_owned(),
        dependencies: list(&package["dependencies"])
            .map(|dependency| (text(&dependency["name"]), dependency["kind"] == "dev"))
            .collect(),
        targets: list(&package["targets"])
            .map(|target| relative(&text(&target["src_path"])))
            .collect(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Returns a complaint about each dependency that ARCHITECTURE.md does not have.
pub(crate) fn wrong_dependencies(packages: &[Package]) -> Vec<String> {
    let members: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let mut complaints = Vec::new();
    for package in packages {
        let allowed: &[&str] = match package.name.as_str() {
            "sprat-scheduler" => &[],
            "sprat-config" => &["sprat-scheduler"],
            "sprat-encoder" => &["sprat-config"],
            "sprat-net" => &["sprat-scheduler", "sprat-config", "sprat-encoder"],
            "sprat-acme" | "sprat-uplink" | "sprat-upstream" | "sprat-sizes" | "sprat-traces" => {
                &["sprat-scheduler", "sprat-config", "sprat-net"]
            }
            "sprat-server" => &[
                "sprat-scheduler",
                "sprat-config",
                "sprat-net",
                "sprat-acme",
                "sprat-uplink",
                "sprat-upstream",
                "sprat-sizes",
                "sprat-traces",
            ],
            "sprat" => &[
                "sprat-scheduler",
                "sprat-config",
                "sprat-net",
                "sprat-acme",
                "sprat-uplink",
                "sprat-upstream",
                "sprat-sizes",
                "sprat-traces",
                "sprat-server",
                "sprat-import",
                "sprat-top",
                "sprat-whatif",
            ],
            "sprat-top" | "sprat-mutants" => &[],
            "sprat-import" => &["sprat-config"],
            // The filters' tests drive what a user has: the origin, the clients, the module.
            "sprat-filter-e2e" => &["sprat-config", "sprat-loadgen", "sprat-envoy-module"],
            "sprat-measure" => &["sprat-scheduler"],
            "sprat-whatif" | "sprat-loadgen" => {
                &["sprat-scheduler", "sprat-config", "sprat-measure"]
            }
            "sprat-envoy-wasm" | "sprat-envoy-module" => {
                &["sprat-scheduler", "sprat-config", "sprat-filter"]
            }
            _ => &["sprat-scheduler", "sprat-config"],
        };
        for (name, _) in &package.dependencies {
            if members.contains(name.as_str()) && !allowed.contains(&name.as_str()) {
                complaints.push(format!(
                    "{}/Cargo.toml: {} may not depend on {name}, only on {allowed:?}",
                    package.directory, package.name
                ));
            }
        }
    }
    complaints
}

/// Returns the places in the core that name a clock, a socket, a thread, or a crate that has one.
pub(crate) fn impurities(tree: &Tree, packages: &[Package]) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in packages
        .iter()
        .filter(|package| package.name == "sprat-scheduler")
    {
        for (name, dev) in &package.dependencies {
            if !dev && IMPURE_CRATES.contains(&name.as_str()) {
                complaints.push(format!(
                    "scheduler/Cargo.toml: the core may not depend on {name}"
                ));
            }
        }
    }
    for (path, text) in tree
        .with_extension("rs")
        .filter(|(path, _)| path.starts_with("scheduler/src/"))
    {
        for (number, line) in code_lines(text) {
            for name in IMPURE.iter().filter(|name| line.contains(**name)) {
                complaints.push(format!(
                    "{path}:{number}: {name} in the core; take it as an argument"
                ));
            }
        }
    }
    complaints
}

/// Returns the files that no target's tree of modules reaches: rustc never sees them.
pub(crate) fn dead_files(tree: &Tree, packages: &[Package]) -> Vec<String> {
    let mut reached = BTreeSet::new();
    for target in packages.iter().flat_map(|package| &package.targets) {
        reach(tree, target, true, &mut reached);
    }
    tree.with_extension("rs")
        .filter(|(path, _)| {
            packages
                .iter()
                .any(|package| path.starts_with(&format!("{}/", package.directory)))
        })
        .filter(|(path, _)| !reached.contains(*path))
        .map(|(path, _)| {
            format!("{path}: no target reaches this file; declare it with `mod`, or remove it")
        })
        .collect()
}

/// Adds a file to `reached`, and the files that its `mod name;` lead to. `owns_directory` says
/// whether its submodules lie beside it, as those of a target's root and of a `mod.rs` do.
fn reach(tree: &Tree, path: &str, owns_directory: bool, reached: &mut BTreeSet<String>) {
    let Some(text) = tree.files.get(path) else {
        return;
    };
    if !reached.insert(path.to_owned()) {
        return;
    }
    let (directory, file) = path.rsplit_once('/').unwrap_or(("", path));
    let home = if owns_directory || file == "mod.rs" {
        directory.to_owned()
    } else {
        format!("{directory}/{}", file.trim_end_matches(".rs"))
    };
    let mut explicit = None;
    for (_, line) in code_lines(text) {
        let line = line.trim();
        if let Some(given) = line.strip_prefix("#[path = \"") {
            explicit = given
                .split('"')
                .next()
                .map(|file| format!("{directory}/{file}"));
        } else if let Some(module) = declared_module(line) {
            match explicit.take() {
                Some(file) => reach(tree, &normal(&file), true, reached),
                None => {
                    reach(tree, &format!("{home}/{module}.rs"), false, reached);
                    reach(tree, &format!("{home}/{module}/mod.rs"), true, reached);
                }
            }
        }
    }
}

/// Returns a path without its `..` and `.`: `a/b/../c.rs` -> `a/c.rs`.
pub(crate) fn normal(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns the module that a line declares: `pub(crate) mod name;` -> `name`.
fn declared_module(line: &str) -> Option<&str> {
    let declaration = line.strip_suffix(';')?;
    let (before, name) = declaration.rsplit_once(' ')?;
    let is_module = before == "mod" || (before.starts_with("pub") && before.ends_with(" mod"));
    is_module.then_some(name)
}

/// Returns uses of `unsafe` outside its modules, crates that do not forbid it, and crates that have
/// such a module and do not deny it.
pub(crate) fn stray_unsafe(tree: &Tree, packages: &[Package]) -> Vec<String> {
    // Written in two parts, or this file would break its own rule.
    let keyword = concat!("un", "safe");
    let mut complaints = Vec::new();
    for (path, text) in tree
        .with_extension("rs")
        .filter(|(path, _)| !UNSAFE_MODULES.contains(path))
    {
        for (number, line) in code_lines(text) {
            if line
                .match_indices(keyword)
                .any(|(at, _)| opens_unsafe(line, at, keyword))
            {
                complaints.push(format!(
                    "{path}:{number}: only {UNSAFE_MODULES:?} may hold {keyword} code"
                ));
            }
        }
    }
    let targets = packages.iter().flat_map(|package| &package.targets);
    for target in targets.filter(|target| target.contains("/src/")) {
        let (sources, _) = target.split_at(target.rfind("/src/").map_or(0, |at| at + 5));
        let has_module = (UNSAFE_MODULES.iter()).any(|module| module.starts_with(sources));
        let guarded = tree.files.get(target).is_some_and(|text| {
            text.contains("#![forbid(unsafe_code)]")
                || (has_module && text.contains("#![deny(unsafe_code)]"))
        });
        if !guarded {
            complaints.push(format!("{target}: add #![forbid(unsafe_code)]"));
        }
    }
    complaints
}

/// Returns whether the keyword at byte `at` begins a block, an item or an attribute.
fn opens_unsafe(line: &str, at: usize, keyword: &str) -> bool {
    let before = line[..at].chars().next_back();
    let after = &line[at + keyword.len()..];
    let opens = ["(", " {", " fn ", " impl ", " extern "]
        .iter()
        .any(|next| after.starts_with(next));
    opens && !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_')
}

/// Returns the lines that are not wholly a comment, with their numbers from 1.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}

fn package(name: &str, dependencies: &[&str], targets: &[&str]) -> Package {
    Package {
        name: name.to_owned(),
        directory: name.trim_start_matches("sprat-").to_owned(),
        dependencies: dependencies
            .iter()
            .map(|name| ((*name).to_owned(), false))
            .collect(),
        targets: targets.iter().map(|target| (*target).to_owned()).collect(),
    }
}

#[test]
fn a_wrong_direction_is_found() {
    let packages = [
        package("sprat-scheduler", &["sprat-config"], &[]),
        package("sprat-config", &["sprat-scheduler", "serde"], &[]),
        package("sprat-loadgen", &["sprat"], &[]),
        package(
            "sprat",
            &[
                "sprat-config",
                "sprat-scheduler",
                "sprat-net",
                "sprat-sizes",
            ],
            &[],
        ),
        package("sprat-net", &["sprat-scheduler", "sprat"], &[]),
        package("sprat-sizes", &["sprat-net", "sprat-upstream"], &[]),
        package("sprat-upstream", &["sprat-net"], &[]),
    ];
    assert_eq!(
        wrong_dependencies(&packages),
        [
            "scheduler/Cargo.toml: sprat-scheduler may not depend on sprat-config, only on []",
            "loadgen/Cargo.toml: sprat-loadgen may not depend on sprat, only on [\"sprat-scheduler\", \"sprat-config\", \"sprat-measure\"]",
            "net/Cargo.toml: sprat-net may not depend on sprat, only on [\"sprat-scheduler\", \"sprat-config\", \"sprat-encoder\"]",
            "sizes/Cargo.toml: sprat-sizes may not depend on sprat-upstream, only on [\"sprat-scheduler\", \"sprat-config\", \"sprat-net\"]",
        ]
    );
}

#[test]
fn a_clock_in_the_core_is_found() {
    let tree = Tree::of(&[(
        "scheduler/src/lib.rs",
        "// Instant::now is not for us\nlet now = Instant::now();\n",
    )]);
    let packages = [package("sprat-scheduler", &["tokio"], &[])];
    assert_eq!(
        impurities(&tree, &packages),
        [
            "scheduler/Cargo.toml: the core may not depend on tokio",
            "scheduler/src/lib.rs:2: Instant::now in the core; take it as an argument",
        ]
    );
}

#[test]
fn a_dead_file_is_found() {
    let tree = Tree::of(&[
        (
            "a/src/lib.rs",
            "pub mod one;\n// mod dead;\n#[path = \"../odd/place.rs\"]\nmod odd;\n",
        ),
        ("a/src/one.rs", "pub(crate) mod two;\n"),
        ("a/src/one/two.rs", ""),
        ("a/odd/place.rs", ""),
        ("a/src/dead.rs", ""),
        ("a/src/two.rs", ""),
    ]);
    let found = dead_files(&tree, &[package("a", &[], &["a/src/lib.rs"])]);
    let found: Vec<&str> = found
        .iter()
        .filter_map(|complaint| complaint.split(':').next())
        .collect();
    assert_eq!(found, ["a/src/dead.rs", "a/src/two.rs"]);
}

#[test]
fn stray_unsafe_is_found() {
    let code = concat!("#![forbid(unsafe_code)]\nlet x = un", "safe { 1 };\n");
    let tree = Tree::of(&[
        ("a/src/lib.rs", code),
        ("a/src/main.rs", "#![deny(unsafe_code)]\nfn main() {}\n"),
        ("proxy/net/src/lib.rs", "#![deny(unsafe_code)]\n"),
        ("proxy/net/src/sys.rs", code),
    ]);
    let found = stray_unsafe(
        &tree,
        &[
            package("a", &[], &["a/src/lib.rs", "a/src/main.rs"]),
            package("net", &[], &["proxy/net/src/lib.rs"]),
        ],
    );
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("a/src/lib.rs:2: "), "{}", found[0]);
    assert!(found[1].starts_with("a/src/main.rs: add "), "{}", found[1]);
}
