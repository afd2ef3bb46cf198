//! The advice that a refused client gets beside the reason.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response};

/// The names of the fields for rate limits (draft-ietf-httpapi-ratelimit-headers, sections 3 and
/// 4).
const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The state of a rate limit, for a client that asks too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateStatus {
    /// The bucket that the client is under, as the value of `RateLimit-Policy`.
    pub policy: HeaderValue,
    /// The state of that bucket, as the value of `RateLimit`.
    pub state: HeaderValue,
}

impl RateStatus {
    /// Adds the two fields to an answer.
    fn add(self, headers: &mut HeaderMap) {
        headers.insert(RATELIMIT_POLICY, self.policy);
        headers.insert(RATELIMIT, self.state);
    }
}

/// The advice that a refused client is given beside the reason.
#[derive(Clone, Debug)]
pub struct Advice {
    /// The time after which the client may ask again, in seconds.
    pub retry_after_s: Option<u64>,
    /// The target to ask for instead, as the value of `Location`.
    pub location: Option<HeaderValue>,
    /// The request for credentials, as the value of `WWW-Authenticate`.
    pub challenge: Option<HeaderValue>,
    /// A page in HTML for a browser, which replaces the answer's body.
    pub page: Option<Bytes>,
    /// The rate limit that the client has met.
    pub rate: Option<RateStatus>,
}

impl Advice {
    /// Returns advice that says only when to ask again, in seconds.
    pub fn later(retry_after_s: u64) -> Self {
        Self {
            retry_after_s: Some(retry_after_s),
            location: None,
            challenge: None,
            page: None,
            rate: None,
        }
    }

    /// Returns advice that names only the target to ask for instead.
    pub fn elsewhere(location: HeaderValue) -> Self {
        Self {
            retry_after_s: None,
            location: Some(location),
            challenge: None,
            page: None,
            rate: None,
        }
    }

    /// Returns advice that names only the credentials to send.
    pub fn challenge(challenge: HeaderValue) -> Self {
        Self {
            retry_after_s: None,
            location: None,
            challenge: Some(challenge),
            page: None,
            rate: None,
        }
    }

    /// Adds the advice to an answer: fields, and the page if there is one.
    pub fn add(self, response: &mut Response<Bytes>) {
        let headers = response.headers_mut();
        if let Some(retry_after_s) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_s));
        }
        if let Some(location) = self.location {
            headers.insert(LOCATION, location);
        }
        if let Some(challenge) = self.challenge {
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        if let Some(rate) = self.rate {
            rate.add(headers);
        }
        if let Some(page) = self.page {
            let html = HeaderValue::from_static("text/html; charset=utf-8");
            headers.insert(CONTENT_TYPE, html);
            headers.insert(CONTENT_LENGTH, HeaderValue::from(page.len()));
            *response.body_mut() = page;
        }
    }
}
