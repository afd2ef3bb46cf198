//! A rule about checks that are run by hand: `make checks` knows them all.

use std::collections::BTreeSet;

use crate::documents::target_name;
use crate::tree::Tree;

const TABLE: &str = "scripts/checks.sh";

/// Targets of the Makefile that check and measure nothing, or that `make test` runs.
const NO_CHECKS: [&str; 11] = [
    "build", "checks", "clean", "filter", "fmt", "help", "install", "lint", "run", "schema", "test",
];

/// Checks that the table of `make checks` has not, and targets in it that are not there.
pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let of = |name: &str| tree.files.get(name).map(String::as_str).unwrap_or_default();
    let targets: BTreeSet<&str> = of("Makefile").lines().filter_map(target_name).collect();
    let called: BTreeSet<&str> = rows(of(TABLE)).filter_map(called_target).collect();
    let forgotten = targets
        .difference(&called)
        .filter(|target| !NO_CHECKS.contains(target))
        .map(|target| format!("{TABLE}: `make {target}` is missing in the table"));
    let gone = called
        .difference(&targets)
        .map(|target| format!("{TABLE}: the Makefile has no target {target}"));
    forgotten.chain(gone).collect()
}

/// The lines of the script's table.
fn rows(script: &str) -> impl Iterator<Item = &str> {
    let mut lines = script.lines();
    lines.find(|line| line.ends_with("<<'TABLE'"));
    lines.take_while(|line| *line != "TABLE")
}

/// `name | 5 | any | A=1 make target | ...` -> `target`
fn called_target(row: &str) -> Option<&str> {
    let command = row.split('|').nth(3)?;
    let (_, after) = command.split_once("make ")?;
    after.split_whitespace().next()
}

#[test]
fn a_forgotten_check_is_found() {
    let table = "    cat <<'TABLE'\na | 5 | any | X=1 make a | Y=2 | f |\nc | 5 | link | make c | | f |\nTABLE\n\
                 b | 5 | any | make b | | f |\n";
    let tree = Tree::of(&[
        ("Makefile", "run: ## Run\na: ## A\nb: ## B\n"),
        (TABLE, table),
    ]);
    assert_eq!(
        complaints(&tree),
        [
            "scripts/checks.sh: `make b` is missing in the table",
            "scripts/checks.sh: the Makefile has no target c",
        ]
    );
}
