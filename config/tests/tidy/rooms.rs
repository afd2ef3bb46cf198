//! Rooms: a crate's folders, in an order in which each may know those before it alone.

use crate::circles::imported;
use crate::tree::Tree;

/// The rooms of the crates that have them, from the ground up.
const ROOMS: [(&str, &[&str]); 1] = [(
    "proxy/server/src/",
    &["observe", "setup", "client", "exchange", "serve"],
)];

/// What stands before the rooms: a crate's roots.
const OUTSIDE: [&str; 2] = ["lib.rs", "main.rs"];

/// The rooms of the crate with these sources; none if it has none.
pub(crate) fn of(root: &str) -> &'static [&'static str] {
    let found = ROOMS.iter().find(|(own, _)| *own == root);
    found.map_or(&[], |(_, rooms)| rooms)
}

/// Files that know a room above their own, or that stand in none.
pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (root, rooms) in ROOMS {
        for (path, text) in tree.with_extension("rs") {
            let Some(rest) = path.strip_prefix(root) else {
                continue;
            };
            let place: Vec<&str> = rest
                .trim_end_matches(".rs")
                .trim_end_matches("/mod")
                .split('/')
                .collect();
            let Some(floor) = rooms.iter().position(|room| *room == place[0]) else {
                if !OUTSIDE.contains(&rest) {
                    complaints.push(format!("{path}: belongs into one of {rooms:?}"));
                }
                continue;
            };
            for import in imported(text, &place[..place.len() - 1]) {
                let above = rooms[floor + 1..].iter().find(|room| **room == import[0]);
                complaints.extend(above.map(|above| {
                    format!(
                        "{path}: {} may not know {above} ({})",
                        place[0],
                        import.join("::")
                    )
                }));
            }
        }
    }
    complaints
}

#[test]
fn an_edge_against_the_order_is_found() {
    let tree = Tree::of(&[
        (
            "proxy/server/src/lib.rs",
            "mod serve;\nuse crate::serve::x;\n",
        ),
        ("proxy/server/src/odd.rs", ""),
        ("proxy/server/src/client.rs", "mod a;\n"),
        (
            "proxy/server/src/client/a.rs",
            "use crate::setup::listener;\nuse crate::{exchange::record, observe};\n",
        ),
        ("proxy/server/src/client/b/c.rs", "use super::exchange;\n"),
        ("proxy/server/src/serve/d.rs", "use crate::client::a;\n"),
    ]);
    let rooms = of("proxy/server/src/");
    assert_eq!(
        complaints(&tree),
        [
            "proxy/server/src/client/a.rs: client may not know exchange (exchange::record)"
                .to_owned(),
            format!("proxy/server/src/odd.rs: belongs into one of {rooms:?}"),
        ]
    );
}
