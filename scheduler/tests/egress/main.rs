//! The uplink's scheduler as its drivers see it: exact orders and shares,
//! every small case, and properties over random operations.

mod at_once;
#[path = "../operations/bytes.rs"]
mod bytes;
mod change;
mod class_operations;
mod classes;
mod clients;
#[path = "../operations/corpus.rs"]
mod corpus;
mod desk;
mod driver;
mod floods;
mod floor;
mod flows;
mod from_bytes;
mod groups;
mod link;
mod marks;
mod newcomers;
mod orders;
mod pauses;
mod properties;
mod random_operations;
mod requests;
mod settling;
mod shares;
mod small_cases;
mod survey;

#[test]
fn the_corpus_runs() {
    corpus::each("egress", from_bytes::run);
}
mod whole;
