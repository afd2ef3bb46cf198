//! The paths of Unix sockets that Sprat takes.

/// The complaint about a path that Sprat does not take.
pub(crate) const BAD_PATH: &str = "a Unix socket has an absolute path of 107 bytes at most";

/// Returns whether Sprat takes a path for a Unix socket.
pub(crate) fn is_path(path: &str) -> bool {
    let is_usual = |b: u8| (b' '..=b'~').contains(&b);
    let is_absolute = path.starts_with('/') && !path.starts_with("//") && !path.ends_with('/');
    is_absolute && path.len() <= 107 && path.bytes().all(is_usual)
}
