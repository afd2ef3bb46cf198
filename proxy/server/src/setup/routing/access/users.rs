//! Users and the hashes of their passwords. A hash takes tens of milliseconds by design,
//! so passwords are hashed on threads beside the workers', a few at a time, and those that
//! were right are remembered for a while.

use std::collections::HashMap;
use std::fmt;
use std::hash::RandomState;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordVerifier as _};
use siphasher::sip128::{Hasher128 as _, SipHasher13};
use sprat_config::resolved::BasicAuth;
use sprat_net::permit::Permits;
use tokio::sync::Semaphore;

/// The most bytes of a file of users.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The most bytes of a password: bcrypt looks at 72.
const MAX_PASSWORD_LEN: usize = 1024;

/// The most passwords that are remembered.
const MAX_REMEMBERED: usize = 4096;

/// The users of a file.
pub(crate) struct Users {
    hashes: HashMap<String, Arc<str>>,
    /// The hash that passwords of unknown names are compared with, so that an answer takes
    /// as long.
    decoy: Arc<str>,
    permits: Arc<Semaphore>,
    /// The requests that wait for a hash.
    waiting: Permits,
    max_waiting: usize,
    remembered: Mutex<HashMap<u128, Instant>>,
    ttl: Option<Duration>,
    key: (u64, u64),
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Users").finish_non_exhaustive()
    }
}

/// The reason why a user is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The name or the password is wrong.
    Wrong,
    /// Too many passwords wait to be hashed.
    Busy,
}

impl Users {
    /// Reads a file of users.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is too large, names no user or one twice, or has a
    /// line that is not `name:hash`, or a hash of another kind.
    pub(super) fn read(path: &Path, basic: &BasicAuth) -> anyhow::Result<Self> {
        let text = || {
            let bytes = std::fs::metadata(path)?.len();
            anyhow::ensure!(
                bytes <= MAX_FILE_BYTES,
                "it has {bytes} bytes: 4 MB is the most"
            );
            Ok(std::fs::read_to_string(path)?)
        };
        let told = || format!("cannot read the users in {}", path.display());
        let hashes = parse(&text().with_context(told)?).with_context(told)?;
        let decoy = hashes.values().next().cloned();
        let state = RandomState::new();
        let random = |n: u64| std::hash::BuildHasher::hash_one(&state, n);
        Ok(Self {
            decoy: decoy.context("it has no user").with_context(told)?,
            hashes,
            permits: Arc::new(Semaphore::new(basic.max_concurrent_hashes)),
            waiting: Permits::default(),
            max_waiting: basic.max_waiting,
            remembered: Mutex::default(),
            ttl: basic.cache_ttl,
            key: (random(0), random(1)),
        })
    }

    /// Checks a user's password.
    ///
    /// # Errors
    ///
    /// Fails if the name or the password is wrong, or if too many passwords wait to be hashed.
    pub(crate) async fn check(&self, user: &str, password: &[u8]) -> Result<(), Denied> {
        if password.len() > MAX_PASSWORD_LEN || password.contains(&0) {
            return Err(Denied::Wrong);
        }
        let known = self.hashes.get(user);
        let seen = self.number(user, password, known.unwrap_or(&self.decoy));
        if known.is_some() && self.remembers(seen) {
            return Ok(());
        }
        let _waiting = self.waiting.take(1, self.max_waiting).ok_or(Denied::Busy)?;
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(|_| Denied::Busy)?;
        // Another request may have been first with the same password.
        if known.is_some() && self.remembers(seen) {
            return Ok(());
        }
        let (password, hash) = (password.to_vec(), Arc::clone(known.unwrap_or(&self.decoy)));
        let hashing = tokio::task::spawn_blocking(move || {
            // Kept to the end, also when the client has gone.
            let _permit = permit;
            is_right(&password, &hash)
        });
        let is_right = hashing.await.map_err(|_| Denied::Busy)?;
        match is_right && known.is_some() {
            true => {
                self.remember(seen);
                Ok(())
            }
            false => Err(Denied::Wrong),
        }
    }

    /// Returns a number that stands for a user with a password: without the key nothing
    /// can be learnt from it.
    fn number(&self, user: &str, password: &[u8], hash: &str) -> u128 {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        for part in [user.as_bytes(), password, hash.as_bytes()] {
            std::hash::Hasher::write_usize(&mut hasher, part.len());
            std::hash::Hasher::write(&mut hasher, part);
        }
        hasher.finish128().as_u128()
    }

    fn remembers(&self, number: u128) -> bool {
        let Some(ttl) = self.ttl else { return false };
        let mut remembered = self
            .remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match remembered.get(&number) {
            Some(since) if since.elapsed() < ttl => true,
            Some(_) => {
                remembered.remove(&number);
                false
            }
            None => false,
        }
    }

    fn remember(&self, number: u128) {
        let Some(ttl) = self.ttl else { return };
        let mut remembered = self
            .remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= MAX_REMEMBERED {
            remembered.retain(|_, since| since.elapsed() < ttl);
        }
        if remembered.len() >= MAX_REMEMBERED {
            remembered.clear();
        }
        remembered.insert(number, Instant::now());
    }
}

/// Returns whether a password has this hash.
fn is_right(password: &[u8], hash: &str) -> bool {
    match hash.starts_with("$argon2") {
        true => PasswordHash::new(hash)
            .is_ok_and(|hash| Argon2::default().verify_password(password, &hash).is_ok()),
        false => bcrypt::verify(password, hash).unwrap_or(false),
    }
}

/// Reads the lines of a file, `name:hash`, into hashes by name.
fn parse(text: &str) -> anyhow::Result<HashMap<String, Arc<str>>> {
    let mut users = HashMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = at + 1;
        let pair = line.split_once(':').filter(|(name, _)| !name.is_empty());
        let (name, hash) = pair.with_context(|| format!("line {number} is not `name:hash`"))?;
        // Further columns are comments, as nginx has them.
        let hash = hash.split(':').next().unwrap_or(hash);
        let is_known = match hash {
            _ if hash.starts_with("$2") => hash.parse::<bcrypt::HashParts>().is_ok(),
            _ if hash.starts_with("$argon2") => PasswordHash::new(hash).is_ok(),
            _ => false,
        };
        anyhow::ensure!(
            is_known,
            "line {number}: the password of `{name}` is hashed by neither bcrypt nor argon2"
        );
        anyhow::ensure!(
            users.insert(name.to_owned(), hash.into()).is_none(),
            "line {number}: the user `{name}` is there twice"
        );
    }
    Ok(users)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGON: &str = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$";

    #[test]
    fn lines_are_read_and_what_is_wrong_is_told() {
        let hash = bcrypt::hash("secret", 4).unwrap();
        let text = format!("# staff\n\nanna:{hash}\nben:{hash}:a comment\n");
        let users = parse(&text).unwrap();
        assert_eq!(users.len(), 2);
        assert_eq!(&*users["ben"], hash);
        let told = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(told("anna"), "line 1 is not `name:hash`");
        assert_eq!(told(":x"), "line 1 is not `name:hash`");
        let weak = "line 1: the password of `anna` is hashed by neither bcrypt nor argon2";
        assert_eq!(told("anna:$apr1$a$b"), weak);
        assert_eq!(told("anna:{SHA}abc="), weak);
        assert_eq!(told("anna:$2y$short"), weak);
        let twice = format!("anna:{hash}\nanna:{hash}");
        assert_eq!(told(&twice), "line 2: the user `anna` is there twice");
    }

    #[test]
    fn both_kinds_of_hashes_are_known() {
        use argon2::{Algorithm, Params, Version};
        let bcrypt = bcrypt::hash("secret", 4).unwrap();
        assert!(is_right(b"secret", &bcrypt));
        assert!(!is_right(b"Secret", &bcrypt));
        let params = Params::new(8, 1, 1, Some(32)).unwrap();
        let argon = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
        let mut out = [0; 32];
        argon
            .hash_password_into(b"secret", b"somesalt", &mut out)
            .unwrap();
        let engine = base64::engine::general_purpose::STANDARD_NO_PAD;
        let hash = format!("{ARGON}{}", base64::Engine::encode(&engine, out));
        assert!(is_right(b"secret", &hash));
        assert!(!is_right(b"other", &hash));
    }
}
