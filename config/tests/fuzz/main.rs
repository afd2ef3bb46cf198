//! The committed inputs of the fuzz targets for configurations (`fuzz/`).

#[path = "../../../scheduler/tests/operations/corpus.rs"]
mod corpus;
mod parsing;

#[test]
fn the_corpus_of_configurations_is_read() {
    corpus::each("config", parsing::file);
}

#[test]
fn the_corpus_of_filters_is_read() {
    corpus::each("filter", parsing::filter);
}
