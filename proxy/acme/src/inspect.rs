//! The check of ACME's configuration, without creating or changing anything.

use std::path::Path;

use sprat_config::resolved::TrustedCa;
use sprat_config::resolved::{Acme, Challenge, Config, Listener, ListenerCertificate};
use sprat_net::problem::Problem;
use sprat_net::tls::client_config;
use sprat_net::writable::replaceable;

/// Returns the problems of what the configuration says of ACME: storage, authorities, command,
/// listeners.
pub fn inspect(config: &Config) -> Vec<Problem> {
    let Some(acme) = &config.acme else {
        return Vec::new();
    };
    let mut problems: Vec<Problem> = storage(acme).into_iter().collect();
    if let Some(file) = &acme.ca_file {
        problems.extend(client_config(TrustedCa::File(file.clone())).err());
    }
    if let Challenge::Dns01(command) = &acme.challenge {
        let path = &command.program.path;
        problems.extend(runnable(path).err().map(|what| {
            let message = format!("cannot run {}: {what}", path.display());
            Problem::missing(&command.program.span, message)
        }));
    }
    let issued = config.listeners.iter().filter(|own| has_issued(own));
    let all: Vec<&Listener> = issued.collect();
    if all.is_empty() {
        let message = "no listener has a certificate that is to be issued".to_owned();
        let help = "list names in `certificates` of a listener's `tls`: {acme: [www.example.org]}";
        problems.push(Problem::doubtful(&acme.storage.span, message).help(help));
    }
    problems
}

fn has_issued(listener: &Listener) -> bool {
    let tls = listener.tls.iter();
    let mut all = tls.flat_map(|tls| &tls.certificates);
    all.any(|own| matches!(own, ListenerCertificate::Issued(_)))
}

fn storage(acme: &Acme) -> Option<Problem> {
    let path = &acme.storage.path;
    // A directory that is there is written in; one that is not is made.
    let wrong = match std::fs::metadata(path) {
        Ok(data) if !data.is_dir() => Some("it is not a directory".to_owned()),
        Ok(_) => writable(acme).err(),
        Err(_) => replaceable(path).err(),
    };
    wrong.map(|wrong| {
        let message = format!("cannot write the storage {}: {wrong}", path.display());
        let help = "make the directory, and let the user that Sprat runs as write there";
        Problem::missing(&acme.storage.span, message).help(help)
    })
}

/// Checks that files can be put into a storage that exists.
fn writable(acme: &Acme) -> Result<(), String> {
    replaceable(&acme.storage.path.join("lock"))?;
    let certificates = acme.certificates();
    match std::fs::symlink_metadata(&certificates) {
        // It may belong to another user than the storage does.
        Ok(_) => replaceable(&certificates.join("new.pem")),
        Err(_) => Ok(()),
    }
}

fn runnable(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let data = std::fs::metadata(path).map_err(|error| error.to_string())?;
    match data.is_file() && data.permissions().mode() & 0o111 != 0 {
        true => Ok(()),
        false => Err("it is not a program".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use sprat_config::resolved::{FileAt, Span};

    use super::*;

    #[test]
    fn a_storage_whose_certificates_cannot_be_written_is_told_of() {
        let directory = tempfile::tempdir().unwrap();
        let acme = Acme {
            directory_url: "https://ca.example/directory".to_owned(),
            email: None,
            storage: FileAt {
                path: directory.path().to_owned(),
                span: Span::default(),
            },
            challenge: Challenge::Http01,
            ca_file: None,
        };
        let told = || storage(&acme).map(|problem| problem.message);
        assert_eq!(told(), None);
        fs::create_dir(acme.certificates()).unwrap();
        assert_eq!(told(), None);
        assert_eq!(fs::read_dir(acme.certificates()).unwrap().count(), 0);
        fs::remove_dir(acme.certificates()).unwrap();
        // Not even root can write there.
        fs::write(acme.certificates(), "").unwrap();
        let told = told().unwrap();
        assert!(told.starts_with("cannot write the storage"), "{told}");
        assert!(told.contains("/certificates: Not a directory"), "{told}");
    }
}
