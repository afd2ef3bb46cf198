//! The committed corpus of the fuzz target for configurations (`fuzz/`).

#[path = "../../../scheduler/tests/operations/corpus.rs"]
mod corpus;
mod parsing;

#[test]
fn the_corpus_of_configurations_is_read() {
    corpus::each("config", parsing::run);
}
