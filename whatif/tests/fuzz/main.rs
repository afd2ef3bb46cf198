//! The committed inputs of the fuzz target for access logs (`fuzz/`).

#[path = "../../../scheduler/tests/operations/corpus.rs"]
mod corpus;
mod logs;

#[test]
fn the_corpus_of_access_logs_is_read() {
    corpus::each("access_log", logs::read);
}
