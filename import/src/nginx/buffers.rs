//! nginx's buffers of bodies for slow clients.

use super::converter::Converter;
use super::parse::Directive;
use super::scope::Scope;
use crate::units::{size, size_value, whole};
use crate::yaml::{Map, Value, map, text, word};

/// The bytes of nginx's buffer for a request's body, by default.
const REQUEST_BYTES: u64 = 16 << 10;

/// The bytes of nginx's buffers for a response, if only the size of its files is given.
const RESPONSE_BYTES: u64 = 64 << 10;

/// The bytes of a file, if nginx is given only its directory.
const FILE_BYTES: u64 = 1 << 30;

impl<'a> Converter<'a, '_> {
    /// Returns the buffering of a route's bodies, if nginx is given more than its defaults.
    pub(super) fn buffer(&mut self, scope: &Scope<'a>) -> Option<Value> {
        let request = self.request_buffer(scope);
        let response = self.response_buffer(scope);
        let pairs = [("request", request), ("response", response)].into_iter();
        let pairs = pairs.filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let pairs: Map = pairs.collect();
        (!pairs.is_empty()).then_some(Value::Map(pairs))
    }

    fn request_buffer(&mut self, scope: &Scope<'a>) -> Option<Value> {
        let own = scope.one("proxy_request_buffering")?;
        if own.arg(0) == "off" {
            self.ledger.carried(own.id);
            return Some(word("off"));
        }
        let bytes = scope.one("client_body_buffer_size").and_then(|own| {
            self.ledger.carried(own.id);
            size(own.arg(0)).filter(|bytes| *bytes > 0)
        });
        let file = self.directory(scope, "client_body_temp_path");
        match file {
            Some(_) => self.ledger.carried(own.id),
            None => self.ledger.nearly(
                own.id,
                "what is larger than `memory` is sent on as it comes, unless `file` names a \
                 directory",
            ),
        }
        let file = file.map(|path| map([("path", text(path))]));
        Some(body(bytes.unwrap_or(REQUEST_BYTES), file))
    }

    fn response_buffer(&mut self, scope: &Scope<'a>) -> Option<Value> {
        let switch = scope.one("proxy_buffering");
        if let Some(own) = switch {
            self.ledger.carried(own.id);
            if own.arg(0) == "off" {
                return Some(word("off"));
            }
        }
        let buffers = scope.one("proxy_buffers");
        let first = scope.one("proxy_buffer_size");
        let most = scope.one("proxy_max_temp_file_size");
        let said = [switch, buffers, first, most].into_iter().flatten().count();
        if said == 0 {
            return None;
        }
        let bytes = buffers.and_then(|own| {
            self.ledger.carried(own.id);
            whole(own.arg(0))?.checked_mul(size(own.arg(1))?)
        });
        let more = first.and_then(|own| {
            self.ledger.carried(own.id);
            size(own.arg(0))
        });
        let bytes = bytes
            .unwrap_or(RESPONSE_BYTES)
            .checked_add(more.unwrap_or(0));
        let bytes = bytes.filter(|bytes| (1..1 << 40).contains(bytes));
        let file = self.response_file(scope, most);
        Some(body(bytes.unwrap_or(RESPONSE_BYTES), file))
    }

    /// Returns the file for responses; none if nginx writes none, or if its directory is not given.
    fn response_file(&mut self, scope: &Scope<'a>, most: Option<&Directive>) -> Option<Value> {
        let bytes = most.map_or(Some(FILE_BYTES), |own| size(own.arg(0)));
        let has_none = bytes == Some(0);
        let path = self.directory(scope, "proxy_temp_path");
        if let Some(own) = most {
            match (has_none, path) {
                (true, _) | (false, Some(_)) => self.ledger.carried(own.id),
                (false, None) => self.ledger.nearly(
                    own.id,
                    "no file is written, unless `file` names a directory that Sprat's user \
                     may write to",
                ),
            }
        }
        let path = path.filter(|_| !has_none)?;
        let bytes = bytes.filter(|bytes| *bytes < 1 << 40).unwrap_or(FILE_BYTES);
        Some(map([("path", text(path)), ("max_size", size_value(bytes))]))
    }

    fn directory(&mut self, scope: &Scope<'a>, name: &str) -> Option<&'a str> {
        let own = scope.one(name)?;
        self.ledger.carried(own.id);
        Some(own.arg(0)).filter(|path| path.starts_with('/') && !path.contains('$'))
    }
}

fn body(bytes: u64, file: Option<Value>) -> Value {
    let mut pairs: Map = vec![("memory".to_owned(), size_value(bytes))];
    pairs.extend(file.map(|own| ("file".to_owned(), own)));
    Value::Map(pairs)
}
