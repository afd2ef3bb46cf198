//! The test that the command lines in the documents are valid command lines of Sprat.

// Clippy's exception for tests does not reach the functions that they call.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use super::*;

/// A command line in a document: where it stands, and its words.
struct Line {
    place: String,
    words: Vec<String>,
    /// Whether it stands in a sentence, where an argument may be left to the reader.
    is_inline: bool,
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let entries = std::fs::read_dir(root.join("docs")).unwrap();
    let pages = entries.map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = pages
        .filter(|path| path.extension().is_some_and(|found| found == "md"))
        .chain([root.join("README.md")])
        .collect();
    pages.sort();
    pages
}

/// Returns the commands of a shell's line as words without quotes, each up to a pipe, a redirection
/// or a comment.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut is_over) = (None::<String>, None, false);
    for letter in line.chars().chain([' ']) {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), letter) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&' | '>' | '<' | ' ') => {
                // The number of a file descriptor belongs to its redirection.
                let is_descriptor = letter == '>' && word.as_deref() == Some("2");
                let last = commands.last_mut().unwrap();
                last.extend(word.take().filter(|_| !is_over && !is_descriptor));
                match letter {
                    ' ' => {}
                    '>' | '<' => is_over = true,
                    _ => {
                        commands.push(Vec::new());
                        is_over = false;
                    }
                }
            }
            (None, letter) => word.get_or_insert_default().push(letter),
        }
    }
    commands
}

/// Returns the calls of `sprat` on a page, in its blocks of code and in its sentences.
fn lines(page: &Path) -> Vec<Line> {
    let name = page.file_name().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(page).unwrap();
    let (mut found, mut is_code, mut begun) = (Vec::new(), false, String::new());
    for (index, line) in text.lines().enumerate() {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        if is_fence {
            continue;
        }
        let is_inline = !is_code && !line.starts_with("    ") && begun.is_empty();
        let codes: Vec<String> = if is_inline {
            let codes = line.split('`').skip(1).step_by(2);
            codes.map(str::to_owned).collect()
        } else {
            begun.push_str(line.trim_start().trim_start_matches("$ "));
            if let Some(more) = begun.strip_suffix('\\') {
                begun.truncate(more.len());
                continue;
            }
            vec![std::mem::take(&mut begun)]
        };
        let words = codes.iter().flat_map(|code| commands(code));
        let own = words.filter(|words| words.len() > 1 && words[0] == "sprat");
        found.extend(own.map(|words| Line {
            place: format!("{name}:{}", index + 1),
            words,
            is_inline,
        }));
    }
    found
}

/// Returns the error of a command line, if it has one.
fn complaint(line: &Line) -> Option<String> {
    let error = Arguments::try_parse_from(&line.words).err()?;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        ErrorKind::MissingRequiredArgument if line.is_inline => None,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if line.is_inline => None,
        _ => Some(format!("{}: {:?}: {error}", line.place, line.words)),
    }
}

#[test]
fn command_lines_in_documents_are_understood() {
    let lines: Vec<_> = pages().iter().flat_map(|page| lines(page)).collect();
    let in_blocks = lines.iter().filter(|line| !line.is_inline).count();
    assert!(
        in_blocks > 20 && lines.len() > 60,
        "{in_blocks} of {}",
        lines.len()
    );
    let wrong: Vec<_> = lines.iter().filter_map(complaint).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_shells_line_is_cut_into_commands() {
    for (line, expected) in [
        (
            "sprat check a.yaml   # why",
            vec!["sprat", "check", "a.yaml"],
        ),
        ("sprat run -c a 2> log &", vec!["sprat", "run", "-c", "a"]),
        (
            "x | sprat whatif - --json | jq",
            vec!["sprat", "whatif", "-", "--json"],
        ),
        (
            "sprat explain --request 'GET http://a/' > out",
            vec!["sprat", "explain", "--request", "GET http://a/"],
        ),
    ] {
        let found = commands(line);
        assert!(
            found.iter().any(|words| *words == expected),
            "{line}: {found:?}"
        );
    }
}

#[test]
fn a_command_line_that_is_wrong_is_found() {
    let line = |text: &str| Line {
        place: String::new(),
        words: commands(text).remove(0),
        is_inline: false,
    };
    assert_eq!(complaint(&line("sprat check a.yaml")), None);
    for wrong in [
        "sprat check",
        "sprat chekc a.yaml",
        "sprat check a.yaml --strict",
    ] {
        assert!(complaint(&line(wrong)).is_some(), "{wrong}");
    }
}
