//! Tests that Sprat takes the YAML of the documents.
//!
//! A block with `version` is a whole configuration. Any other is a fragment: what it lacks is put
//! around it (a listener, a route to each cluster, the clusters and classes that it names), and
//! nothing else.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use sprat_config::{Errors, Loaded, parse, parse_filter};

/// The pages whose YAML is another program's: Envoy's, and that of `sprat-loadgen network`.
const OTHERS: [&str; 3] = ["envoy.md", "envoy-module.md", "networks.md"];

/// The page about the filters' configuration.
const FILTER: &str = "filter.md";

/// A fenced block of a page, and the place where it begins.
struct Block {
    place: String,
    text: String,
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let entries = std::fs::read_dir(root.join("docs")).unwrap();
    let pages = entries.map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = pages
        .filter(|path| path.extension().is_some_and(|found| found == "md"))
        .filter(|path| !OTHERS.iter().any(|name| path.ends_with(name)))
        .chain([root.join("README.md")])
        .collect();
    pages.sort();
    pages
}

/// Returns the blocks of a language in a page.
fn blocks(page: &Path, language: &str) -> Vec<Block> {
    let fence = format!("```{language}");
    let name = page.file_name().unwrap().to_string_lossy();
    let text = std::fs::read_to_string(page).unwrap();
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match &mut open {
            None if line.trim() == fence => {
                let place = format!("{name}:{}", index + 1);
                let text = String::new();
                open = Some(Block { place, text });
            }
            None => {}
            Some(_) if line.trim() == "```" => blocks.extend(open.take()),
            Some(block) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "{name}: a block has no end");
    blocks
}

/// Returns the keys at the top level of a block.
fn top_keys(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.starts_with([' ', '#']));
    lines
        .filter_map(|line| Some(line.split_once(':')?.0))
        .collect()
}

/// Returns the names that stand after one of these keys, at any depth.
fn named<'a>(text: &'a str, keys: &[&str]) -> BTreeSet<&'a str> {
    let words = |line: &'a str| {
        let line = line.split('#').next().unwrap_or_default();
        let words = line.split(|c: char| " {},[]".contains(c));
        words.filter(|word| !word.is_empty()).collect::<Vec<_>>()
    };
    let pairs = text.lines().flat_map(|line| {
        let words = words(line);
        words
            .windows(2)
            .map(|two| (two[0], two[1]))
            .collect::<Vec<_>>()
    });
    pairs
        .filter(|(key, _)| key.strip_suffix(':').is_some_and(|key| keys.contains(&key)))
        .map(|(_, name)| name)
        .collect()
}

/// Returns the names in a mapping at the top level, each on a line of its own.
fn names_under<'a>(text: &'a str, key: &str) -> BTreeSet<&'a str> {
    let heading = format!("{key}:");
    let lines = text.lines().skip_while(|line| !line.starts_with(&heading));
    let inside = lines
        .skip(1)
        .take_while(|line| line.starts_with([' ', '#']));
    inside
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| Some(line.trim().split_once(':')?.0))
        .collect()
}

/// Returns a fragment with all that it lacks of a whole configuration.
fn framed(text: &str) -> String {
    let keys = top_keys(text);
    let mut whole = format!("version: 1\n{text}\n");
    if !keys.contains("listeners") {
        whole.push_str("listeners: [{address: 0.0.0.0:8080}]\n");
    }
    let mut clusters = named(text, &["cluster", "fallback"]);
    if keys.contains("clusters") {
        clusters = names_under(text, "clusters");
    } else {
        clusters.insert("farm");
        whole.push_str("clusters:\n");
        for name in &clusters {
            whole.push_str(&format!("  {name}: {{endpoints: [127.0.0.1:8000]}}\n"));
        }
    }
    if !keys.contains("routes") {
        whole.push_str("routes:\n");
        for name in &clusters {
            whole.push_str(&format!(
                "  - {{match: {{prefix: /{name}}}, cluster: {name}}}\n"
            ));
        }
    } else if !keys.contains("clusters") && !named(text, &["cluster"]).contains("farm") {
        whole.push_str("  - {match: {prefix: /of-the-frame}, cluster: farm}\n");
    }
    if !keys.contains("classes") {
        let built_in = ["default", "background"];
        let classes = named(text, &["class"]);
        let classes: Vec<_> = classes
            .into_iter()
            .filter(|name| !built_in.contains(name))
            .collect();
        if !classes.is_empty() {
            whole.push_str("classes:\n");
            for name in classes {
                whole.push_str(&format!("  {name}: {{level: 2}}\n"));
            }
        }
    }
    whole
}

/// Returns the configurations that a block may stand for, the most likely first. Files that the
/// block includes do not exist here.
fn readings(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with("include:"));
    let text: &str = &lines.map(|line| format!("{line}\n")).collect::<String>();
    let first = text.lines().next().unwrap_or_default();
    if text.lines().any(|line| line.starts_with("version: 1")) {
        return vec![text.to_owned()];
    }
    if first.starts_with("    ") {
        // Keys of a listener or a cluster, and perhaps keys of the top level after them.
        let listener = format!("listeners:\n  - address: 0.0.0.0:443\n{text}");
        let cluster = format!("clusters:\n  farm:\n    endpoints: [10.0.0.1:8000]\n{text}");
        return vec![framed(&listener), framed(&cluster)];
    }
    vec![framed(text)]
}

/// Parses a configuration in which every variable of `${NAME}` is set.
fn read(text: &str, place: &str) -> Result<Loaded, Errors> {
    parse(text, place, &|_| Some("value".to_owned()))
}

#[test]
fn the_yaml_of_documents_is_accepted_without_a_warning() {
    let mut seen = 0;
    let mut complaints = Vec::new();
    for page in documents().iter().filter(|page| !page.ends_with(FILTER)) {
        for Block { place, text } in blocks(page, "yaml") {
            seen += 1;
            let mut last = String::new();
            let accepted = readings(&text)
                .iter()
                .any(|reading| match read(reading, &place) {
                    Ok(loaded) if loaded.warnings.is_empty() => true,
                    Ok(loaded) => {
                        last = format!("{}\n{reading}", loaded.warnings);
                        false
                    }
                    Err(errors) => {
                        last = format!("{errors}\n{reading}");
                        false
                    }
                });
            if !accepted {
                complaints.push(format!("{place}:\n{last}"));
            }
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n\n"));
    assert!(seen > 50, "{seen} blocks");
}

/// Checks the JSON of the filters' page: its YAML is Envoy's, and has the filters' own
/// configuration as JSON.
#[test]
fn the_json_of_the_filters_page_is_accepted() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(FILTER);
    let blocks = blocks(&page, "json");
    assert!(!blocks.is_empty());
    for Block { place, text } in blocks {
        let loaded = parse_filter(&text, &place, &|_| None);
        let loaded = loaded.unwrap_or_else(|errors| panic!("{place}: {errors}"));
        assert!(loaded.warnings.is_empty(), "{place}: {}", loaded.warnings);
    }
}

/// Returns every word that a configuration may have: keys, and values that are names.
fn vocabulary() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut left = vec![sprat_config::schema()];
    while let Some(value) = left.pop() {
        match value {
            serde_json::Value::Object(members) => {
                for (key, member) in members {
                    if key == "properties" {
                        let keys = member.as_object().unwrap().keys();
                        words.extend(keys.cloned());
                    }
                    let named = key == "const" || key == "enum";
                    let values = match &member {
                        serde_json::Value::Array(values) if named => values.clone(),
                        one if named => vec![one.clone()],
                        _ => Vec::new(),
                    };
                    words.extend(
                        values
                            .iter()
                            .filter_map(|one| Some(one.as_str()?.to_owned())),
                    );
                    left.push(member);
                }
            }
            serde_json::Value::Array(items) => left.extend(items),
            _ => {}
        }
    }
    words
}

/// Returns the words in backticks of a table's cell, but for those that are no names.
fn names_in(cell: &str) -> impl Iterator<Item = &str> {
    let codes = cell.split('`').skip(1).step_by(2);
    let words = codes
        .filter(|code| !code.starts_with(['/', '-', '$']) && !code.starts_with("sprat "))
        .flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-'));
    words.filter(|word| word.bytes().any(|byte| byte.is_ascii_lowercase()))
}

/// Checks the middle column of the pages about other proxies, which has Sprat's own words.
#[test]
fn keys_beside_those_of_other_proxies_exist() {
    let known = vocabulary();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let (mut seen, mut unknown) = (0, Vec::new());
    for other in ["nginx", "haproxy", "caddy", "traefik", "envoy"] {
        let name = format!("from-{other}.md");
        let text = std::fs::read_to_string(directory.join(&name)).unwrap();
        for (index, line) in text.lines().enumerate() {
            let Some(row) = line.strip_prefix("| ") else {
                continue;
            };
            // A bar within code is written with a backslash before it.
            let row = row.replace("\\|", " ");
            let cells: Vec<&str> = row.split(" | ").collect();
            let ours = cells.get(1).copied().unwrap_or_default();
            for word in names_in(ours.trim_end_matches(" |")) {
                seen += 1;
                if !known.contains(word) {
                    unknown.push(format!("{name}:{}: {word}", index + 1));
                }
            }
        }
    }
    assert!(seen > 100, "{seen} words");
    assert!(unknown.is_empty(), "no such key:\n{}", unknown.join("\n"));
}

#[test]
fn a_fragment_that_is_wrong_is_refused() {
    let place = "test";
    assert!(read(&framed("uplink: {rate: 10mbit}\n"), place).is_ok());
    assert!(read(&framed("uplink: {rate: 10}\n"), place).is_err());
    assert!(read(&framed("uplnik: {rate: 10mbit}\n"), place).is_err());
    let undefined = "version: 1\nlisteners: [{address: 0.0.0.0:80}]\nroutes: [{cluster: farm}]\n";
    assert!(read(&readings(undefined)[0], place).is_err());
}
