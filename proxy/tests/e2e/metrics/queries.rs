//! The queries that the documents quote.

use std::path::{Path, PathBuf};

/// A piece of code in a document that names metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// The name of the document's file.
    pub(crate) page: String,
    /// The text that Prometheus is asked.
    pub(crate) text: String,
}

/// The pages about Envoy's filters, whose counters have other names in Envoy's statistics.
const OF_FILTERS: [&str; 3] = ["envoy.md", "envoy-module.md", "filter.md"];

pub(crate) fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Returns the queries of all documents.
pub(crate) fn quoted() -> Vec<Query> {
    let mut directories = vec![documents()];
    let mut all = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let page = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() {
                directories.push(path);
            } else if page.ends_with(".md") && !OF_FILTERS.contains(&&*page) {
                let texts = in_page(&std::fs::read_to_string(&path).unwrap());
                all.extend(texts.into_iter().map(|text| Query {
                    page: page.clone(),
                    text,
                }));
            }
        }
    }
    all
}

/// Returns the pieces of a page's code that name metrics: paragraphs of blocks, indented lines, and
/// texts between backticks.
fn in_page(page: &str) -> Vec<String> {
    let (mut all, mut block) = (Vec::new(), None::<String>);
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            block = match block {
                None => Some(String::new()),
                Some(last) => {
                    all.push(last);
                    None
                }
            };
        } else if let Some(block) = &mut block {
            if line.is_empty() {
                all.push(std::mem::take(block));
            }
            *block += line;
            block.push('\n');
        } else if let Some(code) = line.strip_prefix("    ") {
            all.push(code.to_owned());
        } else {
            all.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    let all = all.into_iter().map(|text| text.trim().to_owned());
    all.filter(|text| names(text).next().is_some()).collect()
}

/// Returns the metrics that a text names. The text `sprat_net::tls` names a crate, and `sprat_`
/// nothing.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(move |c| !is_of_word(c));
    words.filter(|word| word.starts_with("sprat_") && !word.contains("::"))
}

#[test]
fn queries_are_found_in_code() {
    let page = "Text with sprat_plain, `sprat_a{b=\"c\"}` and `other`, `sprat_net::tls`.\n\
        \n    rate(sprat_b[5m])\n    make sprat\n\n```promql\n# Two lines\nsprat_c\n  / sprat_d\n\n\
        sprat_e\n```\nAfter `sprat_f`.\n";
    assert_eq!(
        in_page(page),
        [
            "sprat_a{b=\"c\"}",
            "rate(sprat_b[5m])",
            "# Two lines\nsprat_c\n  / sprat_d",
            "sprat_e",
            "sprat_f"
        ]
    );
}
