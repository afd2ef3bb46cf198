//! The committed inputs of a fuzz target.

use std::path::Path;

/// Runs a target on each of its inputs.
pub(crate) fn each(target: &str, run: impl Fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|directory| directory.join("fuzz/corpus"))
        .find(|corpus| corpus.is_dir())
        .expect("a crate lies below the directory that holds `fuzz`")
        .join(target);
    let entries = std::fs::read_dir(&directory).unwrap_or_else(|e| panic!("{directory:?}: {e}"));
    let mut count = 0;
    for entry in entries {
        let path = entry.expect("a directory lists its files").path();
        run(&std::fs::read(path).expect("a corpus is files"));
        count += 1;
    }
    assert!(count > 0, "{directory:?} is empty");
}
