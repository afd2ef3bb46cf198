//! Sessions: the cookie that leads a client's requests to one endpoint.
//!
//! A cookie's value is two keyed hashes, each of 16 hexadecimal digits. The first is of the
//! endpoint, whose address cannot be found by it. The second is of the first, so that a value
//! which this key has not made counts as none.

use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::OnceLock;

use anyhow::Context as _;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128 as _, SipHasher24 as SipHasher24x128};
use sprat_config::resolved::{Cluster, StatefulSession};
use sprat_scheduler::dispatch::stable_hash;
use sprat_scheduler::station::Session;

/// The least bytes of a key; [`MOST_BYTES`] are the most.
const LEAST_BYTES: usize = 16;
const MOST_BYTES: usize = 1024;

/// The digits of each half of a cookie's value.
const DIGITS: usize = 16;

/// The outcome that a request has for its session, if it may have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOutcome {
    /// The request had no session, and begins one.
    New,
    /// The endpoint of the session has answered.
    Kept,
    /// Another endpoint has answered, and has the session from now on.
    Moved,
    /// The session is strict, and its endpoint is not available.
    Refused,
}

impl SessionOutcome {
    /// All outcomes, in the order of [`SessionOutcome::index`].
    pub const ALL: [Self; 4] = [Self::New, Self::Kept, Self::Moved, Self::Refused];

    /// Returns the outcome's place in [`SessionOutcome::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Returns the outcome's name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Kept => "kept",
            Self::Moved => "moved",
            Self::Refused => "refused",
        }
    }
}

/// A session as its cookie has it: a hash of its endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId(u64);

/// The rules and the key by which a cluster's sessions are told apart.
#[derive(Debug, PartialEq)]
pub struct Sessions {
    config: StatefulSession,
    /// The name of the cluster, which the hashes include: its sessions are none of another's.
    cluster: String,
    key: (u64, u64),
}

impl Sessions {
    /// Returns a cluster's sessions, if it keeps any.
    ///
    /// # Errors
    ///
    /// The key cannot be read.
    pub fn of(cluster: &Cluster) -> anyhow::Result<Option<Self>> {
        let Some(config) = &cluster.stateful_session else {
            return Ok(None);
        };
        let key = match &config.key_file {
            None => own_key(),
            Some(file) => read(&file.path).with_context(|| {
                let (name, path) = (&cluster.name, file.path.display());
                format!("cannot read {path}, the key_file of the cluster `{name}`")
            })?,
        };
        Ok(Some(Self {
            config: config.clone(),
            cluster: cluster.name.clone(),
            key,
        }))
    }

    /// Returns the name of the cookie.
    pub fn cookie(&self) -> &str {
        &self.config.cookie
    }

    /// Returns whether a session's request is refused if its endpoint is not available.
    pub fn is_strict(&self) -> bool {
        self.config.strict
    }

    /// Returns the session of the endpoint with this label, as a cookie has it.
    pub fn id(&self, label: &str) -> SessionId {
        SessionId(self.hash(&[b"endpoint", self.cluster.as_bytes(), label.as_bytes()]))
    }

    /// Returns the session of a request, if it has one: the first cookie of the name whose
    /// value this key has made.
    pub fn find(&self, headers: &HeaderMap) -> Option<SessionId> {
        let fields = headers.get_all(COOKIE).iter();
        let mut pairs = fields.flat_map(|field| field.as_bytes().split(|&byte| byte == b';'));
        pairs.find_map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?.trim();
            let (name, value) = pair.split_once('=')?;
            if name != self.config.cookie {
                return None;
            }
            self.read(value)
        })
    }

    fn read(&self, value: &str) -> Option<SessionId> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if value.len() != 2 * DIGITS || !value.bytes().all(is_digit) {
            return None;
        }
        let id = u64::from_str_radix(&value[..DIGITS], 16).ok()?;
        let proof = u64::from_str_radix(&value[DIGITS..], 16).ok()?;
        (proof == self.proof(id)).then_some(SessionId(id))
    }

    /// Returns the value of `Set-Cookie` for a session.
    pub(super) fn set_cookie(&self, id: SessionId) -> Option<HeaderValue> {
        let (name, attributes) = (&self.config.cookie, &self.config.attributes);
        let (id, proof) = (id.0, self.proof(id.0));
        HeaderValue::try_from(format!("{name}={id:016x}{proof:016x}{attributes}")).ok()
    }

    /// Returns a session as the station takes it; `label` is its endpoint's. If the endpoint is
    /// gone, the session has the identity of none.
    pub fn session(&self, id: SessionId, label: Option<&str>) -> Session {
        Session {
            identity: label.map_or(!id.0, |label| stable_hash(&[label.as_bytes()])),
            strict: self.config.strict,
        }
    }

    fn proof(&self, id: u64) -> u64 {
        self.hash(&[b"proof", self.cluster.as_bytes(), &id.to_be_bytes()])
    }

    fn hash(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.key.0, self.key.1);
        for part in parts {
            hasher.write_u64(part.len() as u64);
            hasher.write(part);
        }
        hasher.finish()
    }
}

/// Returns the key that this process has drawn at random.
fn own_key() -> (u64, u64) {
    static KEY: OnceLock<(u64, u64)> = OnceLock::new();
    *KEY.get_or_init(|| {
        // Its keys are the system's random numbers.
        let random = RandomState::new();
        (random.hash_one(0), random.hash_one(1))
    })
}

/// Reads a key from a file; all of its bytes count.
fn read(path: &Path) -> io::Result<(u64, u64)> {
    let mut text = String::new();
    let most = MOST_BYTES as u64 + 2;
    File::open(path)?.take(most).read_to_string(&mut text)?;
    let key = text.trim_end_matches(['\r', '\n']);
    let is_visible = key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_visible || !(LEAST_BYTES..=MOST_BYTES).contains(&key.len()) {
        let complaint = "a key is one line of 16 to 1024 visible ASCII characters";
        return Err(io::Error::new(io::ErrorKind::InvalidData, complaint));
    }
    let mut hasher = SipHasher24x128::new();
    hasher.write(key.as_bytes());
    let hash = hasher.finish128();
    Ok((hash.h1, hash.h2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sessions(cluster: &str, key: u64) -> Sessions {
        Sessions {
            config: StatefulSession {
                cookie: "at".to_owned(),
                attributes: "; Path=/; HttpOnly".to_owned(),
                strict: false,
                key_file: None,
            },
            cluster: cluster.to_owned(),
            key: (key, 1),
        }
    }

    fn found(sessions: &Sessions, cookies: &[&str]) -> Option<SessionId> {
        let mut headers = HeaderMap::new();
        for cookie in cookies {
            headers.append(COOKIE, HeaderValue::from_str(cookie).unwrap());
        }
        sessions.find(&headers)
    }

    /// Returns the cookie's value that is set for an endpoint.
    fn value(sessions: &Sessions, label: &str) -> String {
        let set = sessions.set_cookie(sessions.id(label)).unwrap();
        let text = set.to_str().unwrap().to_owned();
        let (pair, attributes) = text.split_once(';').unwrap();
        assert_eq!(attributes, " Path=/; HttpOnly");
        pair.strip_prefix("at=").unwrap().to_owned()
    }

    #[test]
    fn what_was_set_is_found_again_among_other_cookies() {
        let own = sessions("farm", 7);
        let value = value(&own, "127.0.0.1:1");
        let id = Some(own.id("127.0.0.1:1"));
        let pair = format!("at={value}");
        assert_eq!(found(&own, &[&pair]), id);
        let among = format!("a=b; at={value}; at=x");
        assert_eq!(found(&own, &["c=d", &among]), id);
        // What another has set by the same name does not hide it.
        assert_eq!(found(&own, &[&format!("at=1; {pair}")]), id);
        for other in [
            format!("xat={value}"),
            format!("At={value}"),
            "at".to_owned(),
        ] {
            assert_eq!(found(&own, &[&other]), None, "{other}");
        }
    }

    #[test]
    fn what_this_key_has_not_made_is_none() {
        let own = sessions("farm", 7);
        let value = value(&own, "127.0.0.1:1");
        let pair = format!("at={value}");
        assert_eq!(found(&sessions("farm", 8), &[&pair]), None);
        assert_eq!(found(&sessions("other", 7), &[&pair]), None);
        assert_eq!(found(&own, &[&format!("{pair}0")]), None);
        assert_eq!(found(&own, &[&pair.to_uppercase()]), None);
        for place in 0..value.len() {
            let mut digits = value.clone().into_bytes();
            digits[place] = if digits[place] == b'0' { b'1' } else { b'0' };
            let forged = String::from_utf8(digits).unwrap();
            assert_eq!(found(&own, &[&format!("at={forged}")]), None, "{forged}");
        }
    }

    #[test]
    fn no_two_endpoints_keys_or_clusters_share_a_value() {
        let mut values: Vec<_> = [("farm", 7), ("farm", 8), ("other", 7)]
            .into_iter()
            .flat_map(|(cluster, key)| {
                let own = sessions(cluster, key);
                ["127.0.0.1:1", "127.0.0.1:2"].map(|label| value(&own, label))
            })
            .collect();
        values.sort();
        values.dedup();
        assert_eq!(values.len(), 6);
    }

    #[test]
    fn a_key_is_one_line_all_of_whose_bytes_count() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        assert!(read(&path).is_err());
        let key = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path).ok()
        };
        let long = "x".repeat(MOST_BYTES);
        let good = ["0123456789abcdef", "0123456789abcdeg", &long];
        let mut keys = good.map(|text| key(text).unwrap()).to_vec();
        assert_eq!(key("0123456789abcdef\r\n"), Some(keys[0]));
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 3);
        for bad in [
            "",
            "0123456789abcde",
            "0123456789 abcdef",
            &format!("{long}x"),
        ] {
            assert_eq!(key(bad), None, "{bad}");
        }
    }
}
