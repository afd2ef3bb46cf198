//! Checks whether files could be written, which write nothing.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

/// Checks that a file can be appended to, or created where there is none.
///
/// # Errors
///
/// The file cannot be written; the text says why.
pub fn appendable(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(data) if data.is_dir() => Err("it is a directory".to_owned()),
        Ok(_) => may(path, Access::WRITE_OK).map_err(|error| error.to_string()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => directory_writable(path),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks that a file can be replaced by another, or created where there is none.
///
/// # Errors
///
/// The file cannot be replaced; the text says why.
pub fn replaceable(path: &Path) -> Result<(), String> {
    match fs::metadata(path) {
        Ok(data) if data.is_dir() => Err("it is a directory".to_owned()),
        _ => directory_writable(path),
    }
}

/// Checks that files can be created in this one's directory.
fn directory_writable(path: &Path) -> Result<(), String> {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    let entered = fs::metadata(parent.join("."));
    let entered = entered.and_then(|_| may(parent, Access::WRITE_OK | Access::EXEC_OK));
    entered.map_err(|error| format!("its directory {}: {error}", parent.display()))
}

/// Checks that this process has access to a path, with the rights that it acts by.
fn may(path: &Path, access: Access) -> io::Result<()> {
    Ok(accessat(CWD, path, access, AtFlags::EACCESS)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    use super::*;

    #[test]
    fn looking_says_what_stands_in_the_way_and_creates_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let file = at("file");
        fs::write(&file, "").unwrap();
        for looks in [appendable, replaceable] {
            assert_eq!(looks(&file), Ok(()));
            assert_eq!(looks(&at("new")), Ok(()));
            assert_eq!(looks(directory.path()), Err("it is a directory".to_owned()));
            let missing = looks(&at("none/new")).unwrap_err();
            assert!(missing.contains("/none: No such file"), "{missing}");
            let beside = looks(&file.join("new")).unwrap_err();
            assert!(beside.contains("Not a directory"), "{beside}");
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert_eq!(appendable(Path::new("name-of-a-file-alone")), Ok(()));
    }

    #[test]
    fn rights_are_those_of_the_process() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o400)).unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o500)).unwrap();
        // Root's power over files is the thread's own to give away.
        set_capabilities(
            None,
            CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            },
        )
        .unwrap();
        let denied = appendable(&file).unwrap_err();
        assert!(denied.starts_with("Permission denied"), "{denied}");
        for denied in [appendable(&file.with_extension("new")), replaceable(&file)] {
            let denied = denied.unwrap_err();
            assert!(denied.contains(": Permission denied"), "{denied}");
        }
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(replaceable(&file), Ok(()));
    }
}
