//! Lists of words and paragraphs, for errors and the schema.

use crate::decode::{Context, Expected, shortened, similar};
use crate::tree::Node;

/// Returns words as a list: `a`, `b` and `c`.
pub(crate) fn listed<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let mut words: Vec<_> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} and {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// Joins the lines of a doc comment to one paragraph.
pub(crate) fn paragraph(doc: &[&str]) -> String {
    let lines: Vec<_> = doc.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}

/// Returns words as a choice: `a`, `b` or `c`.
pub(crate) fn alternatives(known: &[&'static str]) -> String {
    let listed = listed(known.iter().copied());
    match listed.rsplit_once(" and ") {
        Some((head, last)) => format!("{head} or {last}"),
        None => listed,
    }
}

/// Reads a scalar that has to be one of the known words; reports any other text.
pub(crate) fn choose(
    node: &Node,
    expected: Expected<'_>,
    known: &[&'static str],
    cx: &mut Context<'_, '_>,
) -> Option<&'static str> {
    let text = cx.scalar(node, expected)?;
    let found = known.iter().find(|word| **word == text.text).copied();
    if found.is_none() {
        let message = format!("expected {}, found `{}`", expected(), shortened(&text.text));
        let help = similar(&text.text, known.iter().copied())
            .map(|word| format!("did you mean `{word}`?"));
        cx.reporter.error(&text.span, message, help);
    }
    found
}
