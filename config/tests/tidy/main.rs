//! The project's own rules, as tests: which crate may use which, no dead files, bounded lengths,
//! honest documents, working scripts.
//!
//! They look at the whole checkout, and live in this crate only because a test needs a crate to
//! live in.

#![forbid(unsafe_code)]

mod checks;
mod circles;
mod comments;
mod crates;
mod documents;
mod image;
mod imports;
mod lengths;
mod names;
mod parameters;
mod rooms;
mod text;
mod tree;

use tree::Tree;

/// Fails with all complaints, not with the first alone.
#[track_caller]
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn crates_depend_one_way() {
    assert_none(&crates::wrong_dependencies(&crates::packages(
        &Tree::checkout(),
    )));
}

#[test]
fn modules_form_no_large_circles() {
    assert_none(&circles::complaints(&Tree::checkout()));
}

#[test]
fn rooms_know_those_before_them_alone() {
    assert_none(&rooms::complaints(&Tree::checkout()));
}

#[test]
fn the_core_is_pure() {
    let tree = Tree::checkout();
    assert_none(&crates::impurities(&tree, &crates::packages(&tree)));
}

#[test]
fn every_source_file_is_part_of_a_target() {
    let tree = Tree::checkout();
    assert_none(&crates::dead_files(&tree, &crates::packages(&tree)));
}

#[test]
fn unsafe_code_stays_in_its_modules() {
    let tree = Tree::checkout();
    assert_none(&crates::stray_unsafe(&tree, &crates::packages(&tree)));
}

#[test]
fn the_image_gets_what_it_is_built_from() {
    let tree = Tree::checkout();
    assert_none(&image::complaints(&tree, &crates::packages(&tree)));
}

#[test]
fn files_and_functions_are_short() {
    assert_none(&lengths::complaints(&Tree::checkout()));
}

#[test]
fn types_of_a_crate_have_names_of_their_own() {
    assert_none(&names::complaints(&Tree::checkout()));
}

#[test]
fn values_that_travel_together_have_names() {
    assert_none(&parameters::complaints(&Tree::checkout()));
}

#[test]
fn doc_comments_stand_alone() {
    assert_none(&comments::complaints(&Tree::checkout()));
}

#[test]
fn nothing_is_left_to_do_and_no_path_is_private() {
    assert_none(&text::complaints(&Tree::checkout()));
}

#[test]
fn links_in_documents_resolve() {
    assert_none(&documents::broken_links(&Tree::checkout()));
}

#[test]
fn every_page_is_in_the_book() {
    assert_none(&documents::missing_in_book(&Tree::checkout()));
}

#[test]
fn every_decision_is_in_their_table() {
    assert_none(&documents::unlisted_decisions(&Tree::checkout()));
}

#[test]
fn make_targets_in_documents_exist() {
    assert_none(&documents::unknown_targets(&Tree::checkout()));
}

#[test]
fn every_check_is_in_the_table_of_checks() {
    assert_none(&checks::complaints(&Tree::checkout()));
}

#[test]
fn scripts_are_executable_and_parse() {
    assert_none(&documents::broken_scripts(&Tree::checkout()));
}
