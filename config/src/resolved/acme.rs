//! Certificates that an authority issues by ACME.

use std::path::PathBuf;
use std::time::Duration;

use super::FileAt;

/// An authority that issues certificates (RFC 8555).
#[derive(Clone, Debug, PartialEq)]
pub struct Acme {
    /// The URL of the authority's directory: `https://`.
    pub directory_url: String,
    /// The address that the authority sends mail to.
    pub email: Option<String>,
    /// The directory for the account, the certificates and their keys.
    pub storage: FileAt,
    /// The proof by which the authority knows that Sprat controls a name.
    pub challenge: Challenge,
    /// The authorities that Sprat trusts for the connection to the directory; none for the
    /// system's.
    pub ca_file: Option<FileAt>,
}

/// A proof that Sprat controls a name.
#[derive(Clone, Debug, PartialEq)]
pub enum Challenge {
    /// The proof by an answer to an HTTP request (RFC 8555 8.3).
    Http01,
    /// The proof by a TLS handshake (RFC 8737).
    TlsAlpn01,
    /// The proof by a record in the name's zone, which a command puts there (RFC 8555 8.4).
    Dns01(ChallengeCommand),
}

/// A command that changes the zone of a name.
#[derive(Clone, Debug, PartialEq)]
pub struct ChallengeCommand {
    /// The program that is run.
    pub program: FileAt,
    /// The longest time of each run.
    pub timeout: Duration,
}

/// A certificate that an authority issues.
#[derive(Clone, Debug, PartialEq)]
pub struct IssuedCertificate {
    /// The names in lower case, each once, in the order of the file; at least one.
    pub names: Vec<String>,
    /// The file that has the key and the chain, in PEM, once the certificate is issued. The span is
    /// that of the names.
    pub file: FileAt,
}

impl IssuedCertificate {
    /// Creates a certificate for these names, with its file in the storage. The file is another one
    /// for other names, or for another authority.
    pub fn new(acme: &Acme, names: Vec<String>, span: super::Span) -> Self {
        let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let parts = std::iter::once(acme.directory_url.as_str()).chain(sorted);
        let hash = hash(parts);
        let first = names[0].replace('*', "_");
        // 255 bytes are the most that a file's name may have.
        let first = &first[..first.len().min(200)];
        let name = format!("{first}-{hash:016x}.pem");
        Self {
            names,
            file: FileAt {
                path: acme.certificates().join(name),
                span,
            },
        }
    }
}

/// The constants of FNV-1a for 64 bits: the hash is the same in every build, as file names have to
/// be.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

fn hash<'a>(parts: impl Iterator<Item = &'a str>) -> u64 {
    let bytes = parts.flat_map(|part| part.bytes().chain([0]));
    bytes.fold(FNV_OFFSET, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME)
    })
}

impl Acme {
    /// Returns the path in the storage of the account with this authority.
    pub fn account(&self) -> PathBuf {
        let hash = hash([self.directory_url.as_str()].into_iter());
        self.storage.path.join(format!("accounts/{hash:016x}.json"))
    }

    /// Returns the directory in the storage that has the certificates.
    pub fn certificates(&self) -> PathBuf {
        self.storage.path.join("certificates")
    }
}

#[cfg(test)]
mod tests {
    use crate::resolved::Span;

    use super::*;

    #[test]
    fn files_in_the_storage_keep_their_names() {
        let acme = Acme {
            directory_url: "https://ca.example/directory".to_owned(),
            email: None,
            storage: FileAt {
                path: "/var/acme".into(),
                span: Span(0..0),
            },
            challenge: Challenge::Http01,
            ca_file: None,
        };
        let account = "/var/acme/accounts/8af851fce1c2f9c2.json";
        assert_eq!(acme.account(), PathBuf::from(account));
        let file = |names: [&str; 2]| {
            let names = names.map(str::to_owned).to_vec();
            IssuedCertificate::new(&acme, names, Span(0..0)).file.path
        };
        let certificate = "/var/acme/certificates/_.example.org-ecabd4a8326cbc4e.pem";
        let wild = file(["*.example.org", "example.org"]);
        assert_eq!(wild, PathBuf::from(certificate));
        // The names are the same: only the first one shows.
        let apex = file(["example.org", "*.example.org"]);
        let certificate = "/var/acme/certificates/example.org-ecabd4a8326cbc4e.pem";
        assert_eq!(apex, PathBuf::from(certificate));
    }
}
