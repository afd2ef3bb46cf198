//! Files that are too large, too deep, damaged, or unreadable.

use std::fmt::Write as _;

use proptest::prelude::*;
use sprat_config::{load, parse};

use super::{HEAD, TAIL, TAIL_CLUSTERS, brief, errors};

#[test]
fn aliases_cannot_stand_for_billions() {
    let mut text = "x-0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        let list = [alias.as_str(); 10].join(", ");
        writeln!(text, "x-{level}: &a{level} [{list}]").unwrap();
    }
    assert_eq!(
        brief(&errors(&text)),
        [
            "6:10 the configuration comes to more than 500000 values | an alias counts as all that it repeats"
        ]
    );
}

#[test]
fn aliases_cannot_stand_for_much_text() {
    let text = format!(
        "x-0: &a {}\nx-1: [{}]\n",
        "a".repeat(1 << 19),
        vec!["*a"; 1000].join(", ")
    );
    assert_eq!(
        brief(&errors(&text)),
        [
            "2:6 the configuration comes to more than 500000 values | an alias counts as all that it repeats"
        ]
    );
}

#[test]
fn short_items_cannot_stand_for_much_memory() {
    let routes = format!("[{}]", vec!["{}"; 150_000].join(","));
    let text = format!("{HEAD}{TAIL_CLUSTERS}routes: {routes}\n");
    let found = brief(&parse(&text, "farm.yaml", &|_| None).unwrap_err());
    let wanted = "the configuration takes more than 128 MB of memory | an alias counts as all that it repeats";
    assert!(found.len() == 1 && found[0].ends_with(wanted), "{found:?}");
}

#[test]
fn depth_and_length_are_bounded() {
    let deep = errors(&"[".repeat(10_000)).to_string();
    assert!(deep.starts_with("error: this is not YAML: "), "{deep}");
    let block: String = (0..200).map(|i| format!("{}a:\n", " ".repeat(i))).collect();
    let block = errors(&block).to_string();
    assert!(block.starts_with("error: this is not YAML: "), "{block}");
    let long = errors(&"# 45678901234567\n".repeat(1 << 16));
    assert_eq!(brief(&long), ["1:1 the file is larger than 1048576 bytes"]);
    // A thousand complaints are enough.
    let wrong: String = (0..5000).map(|i| format!("key{i}: 1\n")).collect();
    assert_eq!(errors(&wrong).diagnostics().len(), 1000);
    // Warnings crowd no error out.
    let routes = "- {cluster: farm}\n".repeat(1500);
    let wrong = errors(&format!(
        "{HEAD}{TAIL_CLUSTERS}routes:\n{routes}- {{cluster: frm}}\n"
    ));
    assert_eq!(wrong.diagnostics().len(), 1001);
    assert!(wrong.to_string().contains("there is no cluster `frm`"));
}

#[test]
fn files_that_cannot_be_read_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sprat.yaml");
    let absent = load(&path, &|_| None).unwrap_err().to_string();
    assert!(
        absent.contains("cannot read the file: No such file"),
        "{absent}"
    );
    assert!(absent.contains("sprat.yaml"), "{absent}");
    std::fs::write(&path, b"version: 1\nname: \xff\xfe\n").unwrap();
    let binary = load(&path, &|_| None).unwrap_err();
    assert_eq!(
        brief(&binary),
        ["2:7 the file is not UTF-8 from here on | save it as UTF-8"]
    );
    std::fs::write(&path, format!("\u{feff}{HEAD}{TAIL}").replace('\n', "\r\n")).unwrap();
    load(&path, &|_| None).unwrap();
}

fn check_places(text: &str) -> Result<(), TestCaseError> {
    let found = match parse(text, "sprat.yaml", &|name| Some(name.to_owned())) {
        Ok(loaded) => loaded.warnings,
        Err(errors) => errors,
    };
    for diagnostic in found.diagnostics() {
        let place = diagnostic.place.as_ref().unwrap();
        let marked = text.get(place.span.clone());
        prop_assert!(marked.is_some_and(|marked| !marked.contains('\n')));
        let before = &text[..place.span.start];
        prop_assert_eq!(place.line, before.matches('\n').count() + 1);
        let line = before.rsplit('\n').next().unwrap();
        prop_assert_eq!(place.column, line.chars().count() + 1);
    }
    let _ = (found.render(false), found.render(true));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn arbitrary_text_never_panics(text in "(\\PC|[\\t\\r\\n\u{0}]){0,200}") {
        check_places(&text)?;
    }

    #[test]
    fn yaml_like_text_never_panics(
        parts in proptest::collection::vec(
            prop_oneof![
                Just("version: 1\n"), Just("uplink:"), Just("clusters: "), Just("routes: "),
                Just("- "), Just("\n"), Just("\n  "), Just("{"), Just("}"), Just("["), Just("]"),
                Just(", "), Just(": "), Just("&a "), Just("*a"), Just("<<: "), Just("${X}"),
                Just("${"), Just("10mbit"), Just("'"), Just("\""), Just("|\n"), Just("? "),
                Just("#"), Just("!!str "), Just("ä"), Just("\r\n"), Just("name: "), Just("---\n"),
            ],
            0..60,
        ),
    ) {
        check_places(&parts.concat())?;
    }

    #[test]
    fn a_damaged_file_never_panics(
        at in 0usize..4000, length in 0usize..20, put in "\\PC{0,3}",
    ) {
        let mut text = include_str!("../../examples/full.yaml").to_owned();
        let start = at % text.len();
        let end = (start + length).min(text.len());
        text.replace_range(start..end, &put);
        check_places(&text)?;
    }
}
