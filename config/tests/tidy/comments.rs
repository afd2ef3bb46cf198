//! Doc comments that do not stand alone: rustdoc shows the first sentence by itself.

use crate::tree::Tree;

/// Doc comments that say too little, by what is wrong with them. None of these may
/// grow; lower them as they shrink.
const AT_MOST: [(Fault, usize); 3] = [
    (Fault::Short, 184),
    (Fault::Subject, 85),
    (Fault::Actor, 74),
];

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

/// Says of which fault there is more than there may be, or less than is said above.
pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.with_extension("rs") {
        if !path.contains("/src/") {
            continue;
        }
        for (line, comment) in doc_comments(text) {
            found
                .extend(faults(&comment).map(|fault| (fault, format!("{path}:{line}: {comment}"))));
        }
    }
    let mut complaints = Vec::new();
    for (fault, most) in AT_MOST {
        let of_it: Vec<&str> = found
            .iter()
            .filter(|(each, _)| *each == fault)
            .map(|(_, place)| place.as_str())
            .collect();
        if of_it.len() > most {
            complaints.push(format!(
                "{} doc comments are {fault:?}, {most} may be; the last: {}",
                of_it.len(),
                of_it[of_it.len() - 1],
            ));
        } else if of_it.len() < most {
            complaints.push(format!(
                "{} doc comments are {fault:?}: lower `AT_MOST` in {}",
                of_it.len(),
                file!()
            ));
        }
    }
    complaints
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
