//! The checkout: its text files, by path relative to its root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The directories that git does not keep (see `.gitignore`), and git's own.
const SKIPPED: [&str; 6] = [".git", ".tools", ".venv", "target", "results", "artifacts"];

/// The text files of a directory, each read once.
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    /// The contents of each file, by its path with `/` between the parts.
    pub(crate) files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the checkout that this test was compiled in.
    pub(crate) fn checkout() -> Tree {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("a crate lies in the workspace")
            .to_owned();
        let mut tree = Tree {
            root: root.clone(),
            files: BTreeMap::new(),
        };
        tree.read(&root, "");
        tree
    }

    /// Creates a made-up tree, for the tests of the rules themselves.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        Tree {
            root: PathBuf::from("/nowhere"),
            files,
        }
    }

    pub(crate) fn with_extension<'a>(
        &'a self,
        extension: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + 'a {
        self.files
            .iter()
            .filter(move |(path, _)| {
                Path::new(path)
                    .extension()
                    .is_some_and(|found| found == extension)
            })
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn read(&mut self, directory: &Path, prefix: &str) {
        let entries = fs::read_dir(directory).expect("the checkout can be listed");
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().expect("the checkout can be listed");
            let path = format!("{prefix}{name}");
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.read(&entry.path(), &format!("{path}/"));
            } else if kind.is_file() {
                // Pictures and other binaries are not UTF-8, and not of interest.
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    self.files.insert(path, text);
                }
            }
        }
    }
}
