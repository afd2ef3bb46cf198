//! Identifiers of requests: taken over from clients, or made.

use http::header::InvalidHeaderName;
use http::{HeaderMap, HeaderName, HeaderValue};
use sprat_config::resolved::RequestId;

/// The most bytes of an identifier that is taken over.
const MAX_BYTES: usize = 128;

/// The giver of identifiers to the requests of a listener.
#[derive(Debug)]
pub(crate) struct RequestIds {
    header: HeaderName,
    preserve_external: bool,
    in_response: bool,
}

impl RequestIds {
    /// Makes the giver of identifiers that a configuration asks for; none if it asks for none.
    ///
    /// # Errors
    ///
    /// Fails if no field has the name.
    pub(crate) fn of(config: Option<&RequestId>) -> Result<Option<Self>, InvalidHeaderName> {
        let Some(config) = config else {
            return Ok(None);
        };
        Ok(Some(Self {
            header: HeaderName::from_bytes(config.header.as_bytes())?,
            preserve_external: config.preserve_external,
            in_response: config.in_response,
        }))
    }

    /// Puts the identifier into a request's head, and returns it: the client's own if
    /// that may be one, else one that is made.
    pub(crate) fn give(&self, headers: &mut HeaderMap) -> HeaderValue {
        let mut values = headers.get_all(&self.header).iter();
        if let (true, Some(own), None) = (self.preserve_external, values.next(), values.next())
            && is_identifier(own.as_bytes())
        {
            return own.clone();
        }
        let made = made(fastrand::u128(..));
        headers.insert(&self.header, made.clone());
        made
    }

    /// Puts an identifier back that `Connection` has taken away as the connection's own.
    pub(crate) fn keep(&self, headers: &mut HeaderMap, id: &HeaderValue) {
        if !headers.contains_key(&self.header) {
            headers.insert(&self.header, id.clone());
        }
    }

    /// Adds the identifier to a response's head, if the client is to be told.
    pub(crate) fn tell(&self, headers: &mut HeaderMap, id: &HeaderValue) {
        if self.in_response {
            headers.insert(&self.header, id.clone());
        }
    }
}

fn is_identifier(text: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=:@".contains(byte);
    (1..=MAX_BYTES).contains(&text.len()) && text.iter().all(fits)
}

/// Returns a UUID of version 4 (RFC 9562 5.4) with these random bits.
fn made(random: u128) -> HeaderValue {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let bits = (random & !(0xf000 << 64) & !(0xc000 << 48)) | (0x4000 << 64) | (0x8000 << 48);
    let mut text = [b'-'; 36];
    for (byte, at) in bits.to_be_bytes().into_iter().zip(PLACES) {
        text[at] = HEX[usize::from(byte >> 4)];
        text[at + 1] = HEX[usize::from(byte & 0xf)];
    }
    HeaderValue::from_bytes(&text).expect("hexadecimal digits and hyphens")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(ids: &RequestIds, values: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("x-request-id", value.parse().unwrap());
        }
        let id = ids.give(&mut headers);
        let there: Vec<_> = headers.get_all("x-request-id").iter().collect();
        assert_eq!(there, [&id]);
        id.to_str().unwrap().to_owned()
    }

    #[test]
    fn identifiers_are_taken_over_if_they_may_be_ones() {
        let mut ids = RequestIds::of(Some(&RequestId::default()))
            .unwrap()
            .unwrap();
        let longest = "a".repeat(128);
        for good in ["a", "1-2_3.4~5+6/7=8:9@0", &longest] {
            assert_eq!(given(&ids, &[good]), good);
        }
        let long = "a".repeat(129);
        for bad in [&["a b"][..], &[""], &["a\"b"], &[&long], &["a", "a"], &[]] {
            assert_eq!(given(&ids, bad).len(), 36, "{bad:?}");
        }
        ids.preserve_external = false;
        assert_eq!(given(&ids, &["a"]).len(), 36);
    }

    #[test]
    fn made_ones_are_uuids_of_version_4() {
        assert_eq!(made(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(made(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let some = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
        assert_eq!(made(some), "01234567-89ab-4def-8123-456789abcdef");
    }
}
