//! Lists of words and paragraphs, as errors and schema have them.

/// `a`, `b` and `c`.
pub(crate) fn listed<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    let mut words: Vec<_> = words.into_iter().map(|word| format!("`{word}`")).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} and {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}

/// The lines of a doc comment as one paragraph.
pub(crate) fn paragraph(doc: &[&str]) -> String {
    let lines: Vec<_> = doc.iter().map(|line| line.trim()).collect();
    lines.join(" ")
}

/// `a`, `b` or `c`.
pub(crate) fn alternatives(known: &[&'static str]) -> String {
    let listed = listed(known.iter().copied());
    match listed.rsplit_once(" and ") {
        Some((head, last)) => format!("{head} or {last}"),
        None => listed,
    }
}
