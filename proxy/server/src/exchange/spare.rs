//! A request's head, kept in case that it has to be sent again.
//!
//! It is kept with each request that goes over a connection used before, and
//! hardly ever sent: in one piece it costs half of what a clone of each value does.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use sprat_net::upload::RequestBody;

/// The bytes that the fields of most requests need.
const USUAL_BYTES: usize = 512;

/// A request without its body, packed so that it costs little to keep.
#[derive(Debug)]
pub(super) struct Spare {
    method: Method,
    target: Uri,
    /// Names and values in turn, each behind its length.
    fields: Vec<u8>,
}

impl Spare {
    pub(super) fn of(request: &Request<RequestBody>) -> Self {
        let mut fields = Vec::with_capacity(USUAL_BYTES);
        for (name, value) in request.headers() {
            put(&mut fields, name.as_str().as_bytes());
            put(&mut fields, value.as_bytes());
        }
        Self {
            method: request.method().clone(),
            target: request.uri().clone(),
            fields,
        }
    }

    /// Returns the request as it was, without its body.
    pub(super) fn request(self) -> Box<Request<RequestBody>> {
        let mut request = Box::new(Request::new(RequestBody::Empty));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.target;
        *request.headers_mut() = fields(&self.fields).expect("what was a field is one");
        request
    }
}

fn put(fields: &mut Vec<u8>, part: &[u8]) {
    fields.extend_from_slice(&part.len().to_ne_bytes());
    fields.extend_from_slice(part);
}

fn take<'a>(fields: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = fields.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::from_ne_bytes(*length))?;
    *fields = rest;
    Some(part)
}

fn fields(mut packed: &[u8]) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    while !packed.is_empty() {
        let name = HeaderName::from_bytes(take(&mut packed)?).ok()?;
        headers.append(name, HeaderValue::from_bytes(take(&mut packed)?).ok()?);
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_it_was() {
        let mut request = Request::new(RequestBody::Empty);
        *request.method_mut() = Method::from_bytes(b"FROB").unwrap();
        *request.uri_mut() = "/a?b".parse().unwrap();
        let long = "x".repeat(3 * USUAL_BYTES);
        for (name, value) in [
            ("host", &b"a.example"[..]),
            ("x-empty", b""),
            ("cookie", b"a=1"),
            ("cookie", b"b=\xff\t2"),
            ("x-long", long.as_bytes()),
        ] {
            let value = HeaderValue::from_bytes(value).unwrap();
            request.headers_mut().append(name, value);
        }
        let again = Spare::of(&request).request();
        assert_eq!(again.method(), request.method());
        assert_eq!(again.uri(), request.uri());
        assert_eq!(again.headers(), request.headers());
        let bare = Spare::of(&Request::new(RequestBody::Empty)).request();
        assert!(bare.headers().is_empty());
    }
}
