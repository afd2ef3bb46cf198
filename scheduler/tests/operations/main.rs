//! Sequences of operations that a fuzzer writes (`fuzz/`), on the station and on
//! the catalogue's table. Here they are run on the committed corpus, and on some
//! hundred random ones.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod bytes;
mod catalogue;
mod corpus;
mod station;

use proptest::prelude::*;

fn anything() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..400)
}

#[test]
fn the_corpus_of_the_station_runs() {
    corpus::each("station", station::run);
}

#[test]
fn the_corpus_of_the_catalogue_runs() {
    corpus::each("catalogue", catalogue::run);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_station_keeps_its_books(data in anything()) {
        station::run(&data);
    }

    #[test]
    fn the_table_says_what_it_was_told(data in anything()) {
        catalogue::run(&data);
    }
}
