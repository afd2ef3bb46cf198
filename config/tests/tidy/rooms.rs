//! Rooms: a crate's folders in an order, each of which may know only those before it.

use crate::imports;
use crate::tree::Tree;

/// The rooms of the crates that have them, from the ground up.
const ROOMS: [(&str, &[&str]); 1] = [(
    "proxy/server/src/",
    &["observe", "setup", "client", "exchange", "serve"],
)];

/// Returns the files that know a room above their own, or that stand in none.
pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let crates = imports::crates(tree);
    let mut complaints = Vec::new();
    for (root, rooms) in ROOMS {
        let Some(own) = crates.get(root) else {
            complaints.push(format!("{root}: there is no such crate"));
            continue;
        };
        for (module, path) in own.modules() {
            let Some(room) = module.first() else {
                continue;
            };
            let Some(floor) = rooms.iter().position(|known| known == room) else {
                complaints.push(format!("{path}: belongs into one of {rooms:?}"));
                continue;
            };
            for taken in own.taken_by(module) {
                let is_above = |above: &&str| taken.first().is_some_and(|own| own == above);
                if rooms[floor + 1..].iter().any(is_above) {
                    complaints.push(format!("{path}: {room} may not know {}", taken.join("::")));
                }
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
            "mod serve;\npub use exchange::record::Record;\n",
        ),
        ("proxy/server/src/odd.rs", ""),
        ("proxy/server/src/client.rs", "mod a;\n"),
        (
            "proxy/server/src/client/a.rs",
            "use crate::setup::listener;\nuse crate::{Record, observe};\n",
        ),
        ("proxy/server/src/exchange.rs", "mod record;\n"),
        (
            "proxy/server/src/exchange/record.rs",
            "pub struct Record;\n",
        ),
        ("proxy/server/src/client/b/c.rs", "use super::exchange;\n"),
        ("proxy/server/src/serve/d.rs", "use crate::client::a;\n"),
    ]);
    let rooms = ROOMS[0].1;
    assert_eq!(
        complaints(&tree),
        [
            "proxy/server/src/client/a.rs: client may not know exchange::record".to_owned(),
            format!("proxy/server/src/odd.rs: belongs into one of {rooms:?}"),
        ]
    );
}
