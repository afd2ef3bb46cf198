//! Rules about checks that are run by hand. `make checks` has them all in its table, and those that
//! it runs beside each other listen on no port in common.

use std::collections::BTreeSet;

use crate::documents::target_name;
use crate::tree::Tree;

const TABLE: &str = "scripts/checks.sh";

/// The targets of the Makefile that check and measure nothing, or that `make test` runs.
const NO_CHECKS: [&str; 11] = [
    "build", "checks", "clean", "filter", "fmt", "help", "install", "lint", "run", "schema", "test",
];

/// Returns the checks that the table of `make checks` lacks, the targets in it that do not exist,
/// and the checks that run beside each other on one port.
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
    let shared = shared_ports(tree, of(TABLE));
    forgotten.chain(gone).chain(shared).collect()
}

/// Returns complaints about checks that use the same port at a time. Those at `link` run beside
/// each other, and beside one at `any`, on one loopback interface. Those in a lab have namespaces
/// with an interface each.
fn shared_ports(tree: &Tree, table: &str) -> Vec<String> {
    let beside = rows(table).filter_map(|row| {
        let place = row.split('|').nth(2)?.trim();
        let target = called_target(row)?;
        let script = tree.files.get(&format!("scripts/{target}.sh"))?;
        let is_beside = ["link", "any"].contains(&place) && !script.contains("/lab.sh");
        is_beside.then(|| (place, target, ports(script)))
    });
    let beside: Vec<_> = beside.collect();
    let mut complaints = Vec::new();
    for (at, (place, target, own)) in beside.iter().enumerate() {
        for (other_place, other, ports) in &beside[at + 1..] {
            let together = *place == "link" || *other_place == "link";
            let common = own.intersection(ports).next();
            if let (true, Some(port)) = (together && target != other, common) {
                complaints.push(format!(
                    "{TABLE}: {target} and {other} run beside each other, and both use port {port}"
                ));
            }
        }
    }
    complaints
}

/// Returns the ports of the loopback interface that a script names.
fn ports(script: &str) -> BTreeSet<&str> {
    let after = |mark| script.split(mark).skip(1);
    let named = after("127.0.0.1:").chain(after("PORT="));
    let digits = named.map(|text| {
        let end = text.find(|letter: char| !letter.is_ascii_digit());
        &text[..end.unwrap_or(text.len())]
    });
    digits.filter(|port| port.len() >= 4).collect()
}

/// Returns the lines of the script's table.
fn rows(script: &str) -> impl Iterator<Item = &str> {
    let mut lines = script.lines();
    lines.find(|line| line.ends_with("<<'TABLE'"));
    lines.take_while(|line| *line != "TABLE")
}

/// Returns the target that a row of the table calls: `name | 5 | any | A=1 make target | ...` ->
/// `target`.
fn called_target(row: &str) -> Option<&str> {
    let command = row.split('|').nth(3)?;
    let (_, after) = command.split_once("make ")?;
    after.split_whitespace().next()
}

#[test]
fn checks_beside_each_other_on_one_port_are_found() {
    let table = "    cat <<'TABLE'\na | 5 | any | make a | | f |\nb | 5 | any | make b | | f |\n\
                 c | 5 | link | make c | | f |\nd | 5 | link | make d | | f |\n\
                 e | 5 | alone | make e | | f |\nTABLE\n";
    let tree = Tree::of(&[
        ("Makefile", "a: ## A\nb: ## B\nc: ## C\nd: ## D\ne: ## E\n"),
        (TABLE, table),
        ("scripts/a.sh", "ONE=127.0.0.1:9501 TWO=127.0.0.1:9502\n"),
        ("scripts/b.sh", "curl http://127.0.0.1:9501/\n"),
        ("scripts/c.sh", "FIRST_PORT=9502\n"),
        ("scripts/d.sh", ". \"$ROOT/scripts/lab.sh\"\nPORT=9502\n"),
        ("scripts/e.sh", "PORT=9502\n"),
    ]);
    let both = "a and c run beside each other, and both use port 9502";
    assert_eq!(complaints(&tree), [format!("scripts/checks.sh: {both}")]);
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
