//! Files of the tests, which are in memory.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::BTreeMap;

use sprat_import::Files;

/// Files by their paths.
#[derive(Default)]
pub(crate) struct Memory(pub(crate) BTreeMap<String, String>);

impl Memory {
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let own = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Self(own.collect())
    }
}

impl Files for Memory {
    fn read(&mut self, path: &str, _: usize) -> Result<String, String> {
        self.0
            .get(path)
            .cloned()
            .ok_or_else(|| "there is no such file".to_owned())
    }

    fn names(&mut self, directory: &str) -> Vec<String> {
        let below = |path: &String| {
            let rest = path.strip_prefix(directory)?.strip_prefix('/')?;
            (!rest.contains('/')).then(|| rest.to_owned())
        };
        self.0.keys().filter_map(below).collect()
    }
}
