//! The document `docs/metrics.md`, made from the table of metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use sprat_net::metrics::{About, Per};

use crate::metrics::{bound, rows};

const BEGIN: &str = "<!-- The tables: made from the program's own, not by hand. -->\n";
const HOW: &str = "run: UPDATE=1 cargo test -p sprat --test e2e metrics";

fn path() -> PathBuf {
    crate::metrics::queries::documents().join("metrics.md")
}

#[test]
fn the_document_is_up_to_date() {
    let text = std::fs::read_to_string(path()).unwrap();
    let (head, committed) = text.split_once(BEGIN).expect("the page has tables");
    let made = format!("\n{}\n{}", tables(), cardinality());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path(), format!("{head}{BEGIN}{made}")).unwrap();
    } else {
        assert_eq!(committed, made, "{HOW}");
    }
}

fn tables() -> String {
    let mut out = "## Every metric\n".to_owned();
    for chapter in sprat_server::metrics_table() {
        let header =
            "| name | type | labels | unit | what it tells |\n| --- | --- | --- | --- | --- |";
        writeln!(out, "\n### {}\n\n{header}", chapter.title).unwrap();
        for About {
            name,
            kind,
            labels,
            help,
            ..
        } in &chapter.rows
        {
            let labels: Vec<_> = labels.names().map(|label| format!("`{label}`")).collect();
            let unit = chapter
                .rows
                .iter()
                .find(|row| row.name == *name)
                .unwrap()
                .unit();
            let cells = [
                format!("`{name}`"),
                kind.name().to_owned(),
                labels.join(", "),
                unit.unwrap_or_default().replace('_', " "),
                (*help).to_owned(),
            ];
            let row: String = cells
                .iter()
                .map(|cell| format!(" {cell} |").replace("  |", " |"))
                .collect();
            writeln!(out, "|{row}").unwrap();
        }
    }
    out
}

/// Returns the number of series for each combination of things; the empty one has the series that
/// always exist.
fn coefficients() -> BTreeMap<Vec<Per>, usize> {
    let mut all = BTreeMap::new();
    for row in rows() {
        let bound = row.labels.bound();
        *all.entry(bound.per).or_insert(0) += bound.times * row.series_each();
        *all.entry(Vec::new()).or_insert(0) += bound.plus * row.series_each();
    }
    all
}

fn what(per: Per) -> &'static str {
    match per {
        Per::Cluster => "cluster",
        Per::Endpoint => "endpoint, each address of a name among them",
        Per::Class => "priority class, `default` and `background` among them",
        Per::Listener => "listener",
        Per::Name => "name of endpoints, in each cluster that has it",
        Per::Manifest => "manifest",
        Per::Certificate => "certificate, of each listener that has it",
        Per::Network => {
            "network of clients that is told of apart (`uplink.counterfactual_networks`)"
        }
    }
}

fn cardinality() -> String {
    let mut out = "## How many series\n\n\
        The configuration decides how many series there are. Clients add none, except by the\n\
        networks that they come from: their number is bounded, and at most one changes in a\n\
        minute. More workers add none: Sprat adds up their counts. At most there are\n\n"
        .to_owned();
    let all = coefficients();
    let term = |(per, times): (&Vec<Per>, &usize)| {
        let symbols: String = per.iter().map(|per| format!(" {}", per.symbol())).collect();
        format!("{times}{symbols}")
    };
    let terms: Vec<_> = all.iter().map(term).collect();
    writeln!(out, "    {}\n", terms.join(" + ")).unwrap();
    out.push_str("of them, with\n\n| | each of them |\n| --- | --- |\n");
    for per in Per::ALL {
        writeln!(out, "| {} | {} |", per.symbol(), what(per)).unwrap();
    }
    let example = |per| match per {
        Per::Cluster => 5,
        Per::Endpoint => 20,
        Per::Class => 4,
        Per::Listener => 2,
        Per::Name => 5,
        Per::Manifest => 0,
        Per::Certificate => 2,
        Per::Network => 16,
    };
    let sum: usize = rows().map(|row| bound(row, example)).sum();
    writeln!(
        out,
        "\nFive clusters by name, with twenty endpoints in all, four classes, and two listeners\n\
         with a certificate each make {sum} series. There are fewer if the queues of\n\
         `policy: srq` or `order: srq`, TLS, the PROXY protocol or a shared store are not\n\
         configured. The series of a class that a reload removed stay until the process ends; all\n\
         others end with their configuration."
    )
    .unwrap();
    out
}
