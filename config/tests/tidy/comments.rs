//! Doc comments that do not stand alone: rustdoc shows the first sentence by itself.

use crate::tree::Tree;

/// The most words of a comment that counts as short.
const FEW: usize = 3;

/// The words that a first sentence begins with if it does not name its subject.
const PUZZLES: [&str; 41] = [
    "It", "Its", "Of", "What", "Who", "Whoever", "Where", "How", "Which", "Those", "That", "These",
    "As", "And", "Or", "For", "From", "In", "By", "To", "Until", "If", "Also", "Is", "Has", "Are",
    "Was", "None", "Nothing", "Why", "When", "While", "Not", "No", "With", "Without", "Same",
    "Both", "Told", "Only", "On",
];

/// The words that a function's first sentence begins with if it has no verb there.
const NOT_VERBS: [&str; 4] = ["The", "A", "An", "Whether"];

/// The derives of types whose doc comments are texts for users: the words of a help page.
const HELP_PAGES: [&str; 4] = ["Parser", "Args", "Subcommand", "ValueEnum"];

/// The rules that a comment can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The comment has three words or fewer.
    Short,
    /// The comment's beginning names no subject.
    Subject,
    /// The beginning of a function's comment has no verb.
    Verb,
    /// The comment hides its actor behind a pronoun.
    Actor,
}

/// A doc comment, and the kind of item below it.
#[derive(Debug, PartialEq, Eq)]
struct Comment {
    /// The number of the comment's first line.
    line: usize,
    /// The text of the comment, in one line.
    text: String,
    /// Whether the comment is about a module or a crate as a whole.
    is_inner: bool,
    /// Whether the comment is about a function.
    is_function: bool,
    /// Whether users read the comment as help.
    is_help: bool,
}

/// Returns a complaint about each doc comment that says too little.
pub(crate) fn complaints(tree: &Tree) -> Vec<String> {
    let sources = tree.with_extension("rs");
    let sources = sources.filter(|(path, _)| path.contains("/src/"));
    let mut complaints = Vec::new();
    for (path, text) in sources {
        // The reference of the configuration is made of them.
        let is_reference = path.starts_with("config/src/raw");
        for comment in doc_comments(text) {
            let is_shown = is_reference || comment.is_help;
            let (line, text) = (comment.line, &comment.text);
            let complain = |fault: Fault| {
                let words = fault.words();
                format!("{path}:{line}: a doc comment that {words}: {text}")
            };
            complaints.extend(comment.faults(is_shown).map(complain));
        }
    }
    complaints
}

impl Fault {
    fn words(self) -> &'static str {
        match self {
            Self::Short => "has three words or fewer",
            Self::Subject => "does not begin with its subject (`The ...`, `A ...`)",
            Self::Verb => "is a function's and does not begin with a verb (`Returns ...`)",
            Self::Actor => "says nobody, somebody or whoever: name who acts",
        }
    }
}

impl Comment {
    /// Returns the rules that the comment breaks; texts for users (`is_shown`) are under fewer.
    fn faults(&self, is_shown: bool) -> impl Iterator<Item = Fault> {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        let hidden = ["nobody", "somebody", "whoever"];
        let is_hidden = |word: &&str| {
            let word = word.trim_matches(|c: char| !c.is_alphabetic());
            hidden.iter().any(|each| word.eq_ignore_ascii_case(each))
        };
        let first = words.first().copied().unwrap_or_default();
        let puzzles = match is_shown || self.is_inner {
            true => &PUZZLES[..3],
            false => &PUZZLES[..],
        };
        let is_verbless = self.is_function && !is_shown && NOT_VERBS.contains(&first);
        [
            (words.len() <= FEW).then_some(Fault::Short),
            puzzles.contains(&first).then_some(Fault::Subject),
            is_verbless.then_some(Fault::Verb),
            words.iter().any(is_hidden).then_some(Fault::Actor),
        ]
        .into_iter()
        .flatten()
    }
}

/// Returns the doc comments of a file.
fn doc_comments(text: &str) -> Vec<Comment> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let said = |line: &str| {
        let outer = line
            .strip_prefix("///")
            .filter(|rest| !rest.starts_with('/'));
        let said = outer.or_else(|| line.strip_prefix("//!"))?;
        Some(said.trim().to_owned())
    };
    let mut comments = Vec::new();
    let (mut at, mut is_help) = (0, false);
    while let Some(line) = lines.get(at) {
        is_help |= derives_help(line);
        if text.lines().nth(at) == Some("}") {
            is_help = false;
        }
        let texts: Vec<String> = lines[at..].iter().map_while(|line| said(line)).collect();
        if texts.is_empty() {
            at += 1;
            continue;
        }
        let below = &lines[at + texts.len()..];
        let attributes = below.iter().take_while(|line| line.starts_with("#["));
        let item = below.iter().find(|line| !line.starts_with("#["));
        comments.push(Comment {
            line: at + 1,
            text: texts.join(" "),
            is_inner: line.starts_with("//!"),
            is_function: item.is_some_and(|item| is_function(item)),
            is_help: is_help || attributes.clone().any(|line| derives_help(line)),
        });
        at += texts.len();
    }
    comments
}

/// Returns whether a line derives what makes help pages of doc comments.
fn derives_help(line: &str) -> bool {
    let derives = line.strip_prefix("#[derive(").unwrap_or_default();
    let mut names = derives.split(|c: char| !c.is_alphanumeric());
    names.any(|name| HELP_PAGES.contains(&name))
}

/// Returns whether an item is a function, whatever stands before `fn`.
fn is_function(item: &str) -> bool {
    let before = item.split_whitespace().take_while(|word| *word != "fn");
    let is_modifier = |word: &str| {
        word.starts_with("pub")
            || ["const", "async", "unsafe", "extern", "\"C\"", "in"].contains(&word)
    };
    item.split_whitespace().any(|word| word == "fn") && before.into_iter().all(is_modifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found_by_their_words() {
        let of = |text: &str| {
            let comments = doc_comments(text);
            let faults = comments.iter().flat_map(|own| own.faults(own.is_help));
            faults.collect::<Vec<_>>()
        };
        assert_eq!(of("/// The flow's rate."), [Fault::Short]);
        assert_eq!(of("/// The flow's rate in bytes."), []);
        assert_eq!(of("/// Its rate in bytes."), [Fault::Subject]);
        assert_eq!(of("/// What the flow may send."), [Fault::Subject]);
        assert_eq!(of("//! What the flows may send."), []);
        assert_eq!(of("/// Ends when (nobody) reads it."), [Fault::Actor]);
        let function = "#[must_use]\n    pub(crate) const fn rate(&self) -> u64 {";
        assert_eq!(
            of(&format!("/// The flow's rate in bytes.\n{function}")),
            [Fault::Verb]
        );
        assert_eq!(of(&format!("/// Returns the flow's rate.\n{function}")), []);
        let help = "/// What is read of a log.\n#[derive(Args)]\nstruct A {\n    \
                    /// Where the log is read.\n    log: u8,\n}\n/// What is no help page.\n";
        assert_eq!(of(help), [Fault::Subject]);
    }

    #[test]
    fn comments_are_found_with_their_lines() {
        let text = "/// One.\n/// Two.\nfn a() {}\n    /// Three.\n";
        let found = doc_comments(text);
        let told = found
            .iter()
            .map(|own| (own.line, own.text.as_str(), own.is_function));
        assert_eq!(
            told.collect::<Vec<_>>(),
            [(1, "One. Two.", true), (4, "Three.", false)]
        );
    }
}
