//! The layer that finds sizes in a directory of the files that the backends serve.
//!
//! A path is looked up below the directory and nowhere else, whatever is in it: `..` is refused,
//! and links that lead out are not followed. Only a size comes of it, and only the order of
//! responses depends on that.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sprat_config::resolved::DocumentRoot as Config;
use sprat_net::problem::Problem;
use sprat_scheduler::catalogue::{Answers, Key};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::found::Answer;
use super::learnt::seconds;

/// The most files that are looked at in parallel: a file system that hangs holds no more threads
/// than these.
const MAX_LOOKS: usize = 16;

/// A directory in use, shared by all workers.
#[derive(Debug)]
pub(super) struct DocumentRoot {
    config: Config,
    answers: Mutex<Answers>,
    places: Arc<Semaphore>,
}

impl DocumentRoot {
    pub(super) fn new(config: &Config) -> Arc<Self> {
        let ttl_s = seconds(config.ttl);
        Arc::new(Self {
            answers: Mutex::new(Answers::new(config.max_bytes, ttl_s, ttl_s)),
            places: Arc::new(Semaphore::new(MAX_LOOKS)),
            config: config.clone(),
        })
    }

    /// Looks up the size of the file that a backend serves under this path. The look goes on
    /// when the budget is spent, for the next request that asks.
    pub(super) async fn look_up(self: &Arc<Self>, key: Key, path: &str, now_s: u32) -> Answer {
        let kept = self.answers().get(key, now_s);
        if let Some(kept) = kept {
            return kept.map_or(Answer::Unknown, Answer::Size);
        }
        let Some(relative) = relative(path) else {
            return Answer::Unknown;
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            return Answer::Failed;
        };
        let root = Arc::clone(self);
        let look = spawn_blocking(move || {
            let found = size(&root.config, &relative);
            root.answers().put(key, found.as_ref().ok().copied(), now_s);
            drop(place);
            found
        });
        match timeout(self.config.budget, look).await {
            Ok(Ok(Ok(bytes))) => Answer::Size(bytes),
            Ok(Ok(Err(_))) => Answer::Unknown,
            // It takes too long, or the runtime is shutting down.
            Err(_) | Ok(Err(_)) => Answer::Failed,
        }
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Decodes a target's path to one below the directory: `/a/%62.txt` to `a/b.txt`. Returns none if
/// the path would leave the directory.
fn relative(path: &str) -> Option<PathBuf> {
    let mut relative = PathBuf::new();
    for segment in path.split('/') {
        let segment = decode(segment)?;
        match segment.as_str() {
            "" | "." => {}
            ".." => return None,
            name if name.contains(['/', '\0']) => return None,
            name => relative.push(name),
        }
    }
    Some(relative)
}

/// Decodes the percent-encoding of a path's segment: `%62` to `b`. Returns none if the result is
/// not UTF-8, or a code is cut short.
fn decode(segment: &str) -> Option<String> {
    if !segment.contains('%') {
        return Some(segment.to_owned());
    }
    let (mut bytes, mut rest) = (Vec::new(), segment.as_bytes());
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        let signed = digits.starts_with('+');
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| !signed)?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

/// Returns the reason why files in the document root cannot be looked up, if there is one.
pub(super) fn inspect(config: &Config) -> Option<Problem> {
    let look = |real: PathBuf| real.join(".").metadata();
    let error = config.path.canonicalize().and_then(look).err()?;
    let message = format!("the document root {}: {error}", config.path.display());
    let help = "the backends' files are to be readable there; until then sizes are not found so";
    Some(Problem::missing(&config.span, message).help(help))
}

/// Returns the size of a regular file below the directory. May wait for the disk.
fn size(config: &Config, relative: &Path) -> io::Result<u64> {
    let root = config.path.canonicalize()?;
    // Resolves links: what is looked at is where they lead.
    let mut file = root.join(relative).canonicalize()?;
    if file.is_dir() {
        file = file.join(&config.index).canonicalize()?;
    }
    let data = file.metadata()?;
    match file.starts_with(&root) && data.is_file() {
        true => Ok(data.len()),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use sprat_config::resolved::Span;

    use super::*;

    #[test]
    fn paths_stay_below_the_directory() {
        for (path, expected) in [
            ("/a/b.txt", Some("a/b.txt")),
            ("/a//./b", Some("a/b")),
            ("/%61%2e%62", Some("a.b")),
            ("/", Some("")),
            ("/../etc/passwd", None),
            ("/a/%2e%2E/b", None),
            ("/a%2fb", None),
            ("/..%2f..%2fetc", None),
            ("/%00", None),
            ("/%", None),
            ("/%4", None),
            ("/%zz", None),
            ("/%+1", None),
            ("/%ff", None),
            ("*", Some("*")),
        ] {
            let found = relative(path);
            assert_eq!(found.as_deref(), expected.map(Path::new), "{path}");
        }
    }

    fn tree() -> (tempfile::TempDir, Config) {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("www");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(directory.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("a"), "12345").unwrap();
        std::fs::write(root.join("sub/index.html"), "123").unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("a", root.join("in")).unwrap();
        let config = Config {
            path: root,
            span: Span::default(),
            index: "index.html".to_owned(),
            budget: Duration::from_secs(20),
            ttl: Duration::from_secs(10),
            max_bytes: 10_000,
        };
        (directory, config)
    }

    #[test]
    fn files_have_sizes_and_nothing_else_does() {
        let (_directory, config) = tree();
        let found = |path: &str| size(&config, &relative(path).unwrap()).ok();
        assert_eq!(found("/a"), Some(5));
        assert_eq!(found("/in"), Some(5));
        assert_eq!(found("/sub/"), Some(3));
        assert_eq!(found("/sub"), Some(3));
        assert_eq!(found("/"), None);
        assert_eq!(found("/out"), None, "it leads out");
        assert_eq!(found("/none"), None);
    }

    #[tokio::test]
    async fn what_was_found_is_kept_for_its_time() {
        let (_directory, config) = tree();
        let root = DocumentRoot::new(&config);
        let key = |path| sprat_scheduler::catalogue::KeyHasher::new(1, 2).url("", "", path);
        assert_eq!(root.look_up(key("/a"), "/a", 0).await, Answer::Size(5));
        assert_eq!(root.look_up(key("/n"), "/n", 0).await, Answer::Unknown);
        std::fs::write(config.path.join("a"), "1").unwrap();
        std::fs::write(config.path.join("n"), "12").unwrap();
        assert_eq!(root.look_up(key("/a"), "/a", 9).await, Answer::Size(5));
        assert_eq!(root.look_up(key("/n"), "/n", 9).await, Answer::Unknown);
        assert_eq!(root.look_up(key("/a"), "/a", 10).await, Answer::Size(1));
        assert_eq!(root.look_up(key("/n"), "/n", 10).await, Answer::Size(2));
        // No look-up waits for a place.
        let _all = root.places.try_acquire_many(16).unwrap();
        assert_eq!(root.look_up(key("/b"), "/b", 0).await, Answer::Failed);
    }
}
