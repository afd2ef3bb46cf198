//! Manifests: files in which an operator lists sizes.
//!
//! A file is read when Sprat starts and whenever it has changed. A file with an error changes
//! nothing: the sizes that were read before stay.

mod lines;
mod wrong;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;
use sprat_config::paths::{EscapedSlashes, PathRules};
use sprat_config::resolved::{Manifest as Config, ManifestFormat};
use sprat_net::problem::Problem;
use sprat_net::stamp::Stamp;
use sprat_scheduler::catalogue::{Key, KeyHasher};

use self::lines::{Lines, ManifestLine};
use self::wrong::Wrong;

/// A manifest in use: the sizes that its file listed when it was last read without errors.
#[derive(Debug)]
pub(super) struct Manifest {
    config: Config,
    hasher: KeyHasher,
    sizes: ArcSwap<Sizes>,
    /// The stamp of the file that was looked at last, good or bad; none if there was no file.
    seen: Mutex<Option<Stamp>>,
    good: AtomicU64,
    bad: AtomicU64,
}

/// Sizes in the order of their keys, 16 bytes each.
#[derive(Debug, Default)]
struct Sizes(Vec<(Key, u64)>);

impl Manifest {
    /// Creates a manifest and reads its file. If the file is missing or has errors, the log says
    /// so, and it is tried again.
    pub(super) fn new(config: &Config, hasher: KeyHasher) -> Self {
        let manifest = Self {
            config: config.clone(),
            hasher,
            sizes: ArcSwap::default(),
            seen: Mutex::new(None),
            good: AtomicU64::new(0),
            bad: AtomicU64::new(0),
        };
        manifest.reload(true);
        manifest
    }

    /// Returns the configuration of the manifest.
    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether this manifest serves the configuration with keys of this hasher, for
    /// whichever cluster.
    pub(super) fn is(&self, config: &Config, hasher: &KeyHasher) -> bool {
        let own = &self.config;
        let is_same_file = own.path == config.path && own.format == config.format;
        let is_read_alike =
            own.max_bytes == config.max_bytes && own.reload_interval == config.reload_interval;
        is_same_file && is_read_alike && self.hasher == *hasher
    }

    /// Returns the number of sizes that the manifest holds.
    pub(super) fn len(&self) -> usize {
        self.sizes.load().0.len()
    }

    /// Returns how many readings of the file succeeded, and how many failed.
    pub(super) fn loads(&self) -> (u64, u64) {
        (self.good.load(Relaxed), self.bad.load(Relaxed))
    }

    /// Returns the size under the first of these keys that the manifest lists.
    pub(super) fn get(&self, keys: &[Key]) -> Option<u64> {
        let sizes = self.sizes.load();
        let find = |key| sizes.0.binary_search_by_key(key, |&(key, _)| key).ok();
        keys.iter().find_map(find).map(|index| sizes.0[index].1)
    }

    /// Reads the file if it has changed since it was last looked at, or if this is the `first`
    /// time.
    pub(super) fn reload(&self, first: bool) {
        let path = &self.config.path;
        let now = Stamp::of(path).ok();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now && !first {
            return;
        }
        *seen = now;
        let read = read(&self.config, &self.hasher);
        match read {
            Ok(sizes) => {
                tracing::info!(?path, entries = sizes.0.len(), "manifest read");
                self.sizes.store(std::sync::Arc::new(sizes));
                self.good.fetch_add(1, Relaxed);
            }
            Err(errors) => {
                self.bad.fetch_add(1, Relaxed);
                let kept = self.len();
                for error in errors {
                    tracing::error!(kept, "manifest {}: {error}", path.display());
                }
            }
        }
    }
}

/// Returns the errors of a manifest, each with its place in the file.
pub(super) fn inspect(config: &Config) -> Vec<Problem> {
    // Keys are not looked at.
    let wrong = read(config, &KeyHasher::new(0, 0)).err();
    let problem = |wrong: Wrong| {
        let place = wrong
            .place
            .map_or(String::new(), |place| format!(" {place}:"));
        let (path, message) = (config.path.display(), wrong.message);
        let problem = Problem::missing(&config.span, format!("manifest {path}:{place} {message}"));
        match wrong.help {
            Some(help) => problem.help(help),
            None => problem,
        }
    };
    wrong.into_iter().flatten().map(problem).collect()
}

/// Reads the sizes of a whole file, or its errors.
fn read(config: &Config, hasher: &KeyHasher) -> Result<Sizes, Vec<Wrong>> {
    let unreadable = |error: io::Error| {
        let help = "put the file there, or leave the manifest out";
        vec![Wrong::whole(error).help(help)]
    };
    let file = File::open(&config.path).map_err(unreadable)?;
    let length = file.metadata().map_or(0, |data| data.len());
    if length > config.max_bytes {
        let bound = config.max_bytes;
        let wrong = Wrong::whole(format!(
            "it has {length} bytes, and `max_size` allows {bound}"
        ));
        return Err(vec![wrong.help("raise `max_size`, or split the file")]);
    }
    // It may grow while it is read.
    let input = BufReader::new(file.take(config.max_bytes));
    let mut found = Lines::default();
    match config.format {
        ManifestFormat::Csv => found.read_csv(input),
        ManifestFormat::JsonLines => found.read_json(input),
    }
    Ok(sizes(&found.finish()?, hasher))
}

/// Sorts the sizes by key. If two lines are for one resource, the later one counts.
fn sizes(lines: &[ManifestLine], hasher: &KeyHasher) -> Sizes {
    let key = |line: &ManifestLine| key(hasher, &line.host, &as_asked(&line.path));
    let mut sizes: Vec<_> = lines
        .iter()
        .rev()
        .map(|line| (key(line), line.bytes))
        .collect();
    sizes.sort_by_key(|&(key, _)| key);
    sizes.dedup_by_key(|&mut (key, _)| key);
    sizes.shrink_to_fit();
    Sizes(sizes)
}

/// Returns a line's target in the form in which requests are matched: its path normalised.
fn as_asked(target: &str) -> Cow<'_, str> {
    const RULES: PathRules = PathRules {
        normalize: true,
        merge_slashes: true,
        escaped_slashes: EscapedSlashes::KeepUnchanged,
    };
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    match RULES.normal(path).map(|normal| normal.path) {
        Ok(Cow::Owned(path)) => Cow::Owned(path + query),
        Ok(Cow::Borrowed(_)) | Err(_) => Cow::Borrowed(target),
    }
}

/// Returns the key of a line. An empty host stands for every host.
fn key(hasher: &KeyHasher, host: &str, path: &str) -> Key {
    hasher.url("", host, path)
}

/// Returns the keys that a request's size may be listed under: of its host or every host, with its
/// query or without.
pub(super) fn keys(hasher: &KeyHasher, host: &str, target: &str) -> [Key; 4] {
    let path = target.split('?').next().unwrap_or(target);
    [
        key(hasher, host, target),
        key(hasher, "", target),
        key(hasher, host, path),
        key(hasher, "", path),
    ]
}

#[cfg(test)]
mod again;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use sprat_config::resolved::Span;

    use super::*;

    const HASHER: KeyHasher = KeyHasher::new(1, 2);

    fn parsed(format: ManifestFormat, text: &str) -> Result<Sizes, Vec<String>> {
        let mut lines = Lines::default();
        match format {
            ManifestFormat::Csv => lines.read_csv(text.as_bytes()),
            ManifestFormat::JsonLines => lines.read_json(text.as_bytes()),
        }
        let told = |wrong: &Wrong| wrong.to_string();
        let lines = lines.finish();
        let lines = lines.map_err(|all| all.iter().map(told).collect::<Vec<_>>())?;
        Ok(sizes(&lines, &HASHER))
    }

    fn config(path: &Path, format: ManifestFormat) -> Config {
        Config {
            path: path.to_owned(),
            span: Span::default(),
            format,
            cluster: None,
            max_bytes: 1000,
            reload_interval: Duration::from_secs(1),
        }
    }

    fn get(sizes: &Sizes, host: &str, target: &str) -> Option<u64> {
        let all = keys(&HASHER, host, target);
        let find = |wanted: &Key| sizes.0.iter().find(|(key, _)| key == wanted);
        all.iter().find_map(find).map(|(_, bytes)| *bytes)
    }

    #[test]
    fn the_fuzzers_corpus_is_read_again_as_it_is_written() {
        crate::corpus::each("manifest", again::run);
    }

    #[test]
    fn both_formats_say_the_same() {
        let csv = "# sizes\nhost, bytes, path\n, 10, /a\nimg.example, 20, /a\n, 30, /b?x=1\n,31,\"/c,d\"\n,40,/a\n";
        let json = r#"{"path": "/a", "bytes": 10}
{"host": "img.example", "path": "/a", "bytes": 20}

{"path": "/b?x=1", "bytes": 30}
{"path": "/c,d", "bytes": 31}
{"path": "/a", "bytes": 40}
"#;
        for (format, text) in [
            (ManifestFormat::Csv, csv),
            (ManifestFormat::JsonLines, json),
        ] {
            let sizes = parsed(format, text).unwrap();
            assert_eq!(sizes.0.len(), 4);
            for (host, target, expected) in [
                ("www.example", "/a", Some(40)),
                ("IMG.example", "/a", Some(20)),
                ("img.example", "/a?v=7", Some(20)),
                ("any", "/b?x=1", Some(30)),
                ("any", "/b", None),
                ("any", "/c,d", Some(31)),
            ] {
                assert_eq!(get(&sizes, host, target), expected, "{format:?} {target}");
            }
        }
    }

    #[test]
    fn every_error_has_its_line() {
        let csv = "path,bytes\n/a,1\n/b\nc,2\n/d,-3\n/e,many\n";
        assert_eq!(
            parsed(ManifestFormat::Csv, csv).unwrap_err(),
            [
                "line 3: it has 1 columns, and the first line names 2 (put a value with a comma \
                 in it between double quotes)",
                "line 4, column 1: the path `c` does not begin with `/` (write `/c`: paths are \
                 as requests have them)",
                "line 5, column 2: `-3` is not a number of bytes (write a whole number without \
                 a unit, such as 2048)",
                "line 6, column 2: `many` is not a number of bytes (write a whole number without \
                 a unit, such as 2048)",
            ]
        );
        let json = "{\"path\": \"/a\", \"bytes\": 1}\n{\"path\": \"/a\"}\n[1]\n{\"path\": \"/a\", \"bytes\": 1, \"size\": 2}\n";
        let errors = parsed(ManifestFormat::JsonLines, json).unwrap_err();
        let starts = [
            "line 2, column 14: missing field `bytes` (write an object such as {",
            "line 3, column ",
            "line 4, column 33: unknown field `size`",
        ];
        assert_eq!(errors.len(), 3, "{errors:?}");
        for (error, start) in errors.iter().zip(starts) {
            assert!(error.starts_with(start), "{error}");
        }
        let errors = parsed(ManifestFormat::Csv, "/a,1\n/b,2\n").unwrap_err();
        let help = "(write `path,bytes` or `host,path,bytes` there)";
        let no_column = "line 1, column 1: the first line names the columns, and `/a` is none";
        assert_eq!(errors, [format!("{no_column} {help}")]);
        for (first, said) in [
            (
                "path",
                "line 1: the first line does not name the column `bytes`",
            ),
            (
                "path,bytes,path",
                "line 1, column 3: the column `path` is named twice",
            ),
        ] {
            let errors = parsed(ManifestFormat::Csv, &format!("{first}\n")).unwrap_err();
            assert_eq!(errors, [format!("{said} {help}")]);
        }
        let many = "x\n".repeat(100);
        let errors = parsed(ManifestFormat::JsonLines, &many).unwrap_err();
        assert_eq!(errors.len(), 11);
        assert_eq!(errors[10], "90 more errors");
        let long = "x".repeat(100_000);
        let errors = parsed(ManifestFormat::JsonLines, &long).unwrap_err();
        let said = "line 1: it is longer than 65536 bytes (each object has a line of its own)";
        assert_eq!(errors, [said]);
        let errors =
            parsed(ManifestFormat::JsonLines, "{\"path\": \"a\", \"bytes\": 1}").unwrap_err();
        assert!(errors[0].contains("(write `/a`"), "{errors:?}");
    }

    #[test]
    fn a_bad_file_never_replaces_a_good_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sizes.jsonl");
        let config = config(&path, ManifestFormat::JsonLines);
        let manifest = Manifest::new(&config, HASHER);
        let say = |text: &str| {
            std::fs::write(&path, text).unwrap();
            manifest.reload(false);
            manifest.get(&keys(&HASHER, "host", "/a"))
        };
        assert_eq!(manifest.loads(), (0, 1), "there is none yet");
        assert_eq!(say("{\"path\": \"/a\", \"bytes\": 10}\n"), Some(10));
        assert_eq!(say("{\"path\": \"/a\", \"bytes\": }\n"), Some(10));
        assert_eq!(say(&"\n".repeat(1001)), Some(10));
        assert_eq!(manifest.loads(), (1, 3));
        // Unchanged, it is not read again.
        manifest.reload(false);
        assert_eq!(manifest.loads(), (1, 3));
        std::fs::remove_file(&path).unwrap();
        manifest.reload(false);
        assert_eq!(manifest.get(&keys(&HASHER, "host", "/a")), Some(10));
        assert_eq!(say("{\"path\": \"/a\", \"bytes\": 300}\n"), Some(300));
        assert_eq!(manifest.loads(), (2, 4));
    }
}
