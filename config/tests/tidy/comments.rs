//! Doc comments that do not stand alone: rustdoc shows the first sentence by itself.

use crate::tree::Tree;

/// Words of a comment that is called short.
const FEW: usize = 3;

/// What is wrong with a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It has three words or fewer.
    Short,
    /// It begins with It, Its or Of, and so does not name its subject.
    Subject,
    /// It hides who acts behind nobody, somebody or whoever.
    Actor,
}

/// Says which doc comments say too little.
pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let sources = tree.with_extension("rs");
    let sources = sources.filter(|(path, _)| path.contains("/src/"));
    let comments = sources.flat_map(|(path, text)| {
        let of_file = doc_comments(text).into_iter();
        of_file.map(move |(line, comment)| (format!("{path}:{line}"), comment))
    });
    comments
        .flat_map(|(place, comment)| {
            let faults: Vec<Fault> = faults(&comment).collect();
            let told = faults.into_iter().map(move |fault| {
                format!("{place}: a doc comment that {}: {comment}", fault.words())
            });
            told.collect::<Vec<_>>()
        })
        .collect()
}

impl Fault {
    fn words(self) -> &'static str {
        match self {
            Self::Short => "has three words or fewer",
            Self::Subject => "begins with It, Its or Of: name its subject",
            Self::Actor => "says nobody, somebody or whoever: name who acts",
        }
    }
}

fn faults(comment: &str) -> impl Iterator<Item = Fault> {
    let words: Vec<&str> = comment.split_whitespace().collect();
    let hidden = ["nobody", "somebody", "whoever"];
    let is_hidden = |word: &&str| {
        let word = word.trim_matches(|c: char| !c.is_alphabetic());
        hidden.iter().any(|each| word.eq_ignore_ascii_case(each))
    };
    [
        (words.len() <= FEW).then_some(Fault::Short),
        words
            .first()
            .is_some_and(|first| ["It", "Its", "Of"].contains(first))
            .then_some(Fault::Subject),
        words.iter().any(is_hidden).then_some(Fault::Actor),
    ]
    .into_iter()
    .flatten()
}

/// The doc comments of a file: the line each begins at, and its text in one line.
fn doc_comments(text: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut last = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let said = line
            .strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"));
        let Some(said) = said.filter(|_| !line.starts_with("////")) else {
            continue;
        };
        match comments.last_mut() {
            Some((_, comment)) if number > 0 && last == Some(number - 1) => {
                comment.push(' ');
                comment.push_str(said.trim());
            }
            _ => comments.push((number + 1, said.trim().to_owned())),
        }
        last = Some(number);
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found_by_their_words() {
        let of = |comment| faults(comment).collect::<Vec<_>>();
        assert_eq!(of("The flow's rate."), [Fault::Short]);
        assert_eq!(of("The flow's rate in bytes."), []);
        assert_eq!(of("Its rate in bytes."), [Fault::Subject]);
        assert_eq!(of("Ends when (nobody) reads it."), [Fault::Actor]);
        let text = "/// One.\n/// Two.\nfn a() {}\n    /// Three.\n";
        let comments = [(1, "One. Two.".to_owned()), (4, "Three.".to_owned())];
        assert_eq!(doc_comments(text), comments);
    }
}
