//! The normal form of a request's path (RFC 3986 6.2.2): rules are matched with it, and endpoints
//! are asked for it.
//!
//! A path that two servers could read as two resources passes a rule under one name and reaches the
//! endpoint under another. So there is one name for each: characters that need no encoding are
//! decoded, the others encoded in capitals, dot segments resolved, slashes merged. Nothing is
//! decoded twice.

use std::borrow::Cow;

/// The rules by which a listener brings its requests' paths into normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRules {
    /// Whether characters that need no encoding are decoded, and dot segments are resolved.
    pub normalize: bool,
    /// Whether slashes that follow each other are merged into one.
    pub merge_slashes: bool,
    /// The treatment of encoded slashes and backslashes, `%2F` and `%5C`.
    pub escaped_slashes: EscapedSlashes,
}

impl Default for PathRules {
    fn default() -> Self {
        Self {
            normalize: true,
            merge_slashes: true,
            escaped_slashes: EscapedSlashes::KeepUnchanged,
        }
    }
}

/// The treatment of an encoded slash or backslash, which some servers take for a slash that
/// separates segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapedSlashes {
    /// The encoding stays in its segment, and rules hold for both readings of the path.
    KeepUnchanged,
    /// The request is refused.
    RejectRequest,
    /// The encoding is taken for a slash, and the client is sent to that path.
    UnescapeAndRedirect,
    /// The encoding is taken for a slash.
    UnescapeAndForward,
}

/// A path in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalPath<'a> {
    /// The path; borrowed if it was normal before.
    pub path: Cow<'a, str>,
    /// Whether the client is redirected to this path.
    pub redirects: bool,
    /// The path with its encoded slashes read as slashes, where some were kept. An endpoint may
    /// read it so, and must not be reached past a rule for that path.
    pub other_reading: Option<String>,
}

/// The reason why a path has no normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abnormal {
    /// The path's dot segments lead above the root.
    AboveRoot,
    /// The path has an encoded slash or backslash that may not be there.
    EscapedSlash,
    /// A `%` begins no encoding.
    Malformed,
}

impl PathRules {
    /// Returns the normal form of a path that begins with a slash, without its query.
    ///
    /// # Errors
    ///
    /// The reason, if the path has no normal form or the rules refuse it.
    pub fn normal<'a>(&self, path: &'a str) -> Result<NormalPath<'a>, Abnormal> {
        if self.is_normal(path.as_bytes()) {
            let path = Cow::Borrowed(path);
            return Ok(NormalPath {
                path,
                redirects: false,
                other_reading: None,
            });
        }
        let (mut decoded, unescaped) = self.decode(path)?;
        if self.merge_slashes {
            let mut before = None;
            decoded.retain(|next| before.replace(next) != Some('/') || next != '/');
        }
        if self.normalize {
            decoded = without_dots(&decoded)?;
        }
        Ok(NormalPath {
            path: Cow::Owned(decoded),
            redirects: unescaped && self.escaped_slashes == EscapedSlashes::UnescapeAndRedirect,
            other_reading: self.other_reading(path)?,
        })
    }

    /// Returns the path with its encoded slashes read as slashes; none unless the rules keep some
    /// in it.
    fn other_reading(&self, path: &str) -> Result<Option<String>, Abnormal> {
        let keeps = self.normalize && self.escaped_slashes == EscapedSlashes::KeepUnchanged;
        let has_some = |code: &str| path.contains(code);
        if !keeps || !["%2f", "%2F", "%5c", "%5C"].into_iter().any(has_some) {
            return Ok(None);
        }
        let reader = Self {
            escaped_slashes: EscapedSlashes::UnescapeAndForward,
            ..*self
        };
        let read = reader.normal(path).map_err(|_| Abnormal::EscapedSlash)?;
        Ok(Some(read.path.into_owned()))
    }

    /// Returns whether a path needs no change, by a quick check that may be false for a normal
    /// path.
    fn is_normal(&self, path: &[u8]) -> bool {
        let mut before = 0;
        for (at, &byte) in path.iter().enumerate() {
            let changes = match byte {
                b'/' => self.merge_slashes && before == b'/',
                b'.' => self.normalize && before == b'/' && is_dots(&path[at..]),
                b'%' => self.changes(&path[at..]),
                _ => false,
            };
            if changes {
                return false;
            }
            before = byte;
        }
        true
    }

    /// Returns whether the encoding at the beginning of a text may have to be changed.
    fn changes(&self, text: &[u8]) -> bool {
        let own = encoded(text);
        match own {
            Some(b'/' | b'\\') => true,
            Some(byte) if self.normalize => {
                is_unreserved(byte) || text[1..3].iter().any(u8::is_ascii_lowercase)
            }
            Some(_) => false,
            None => self.normalize,
        }
    }

    /// Decodes a path once, as the rules have it. The flag says whether an encoded slash was
    /// decoded.
    fn decode(&self, path: &str) -> Result<(String, bool), Abnormal> {
        let (mut out, mut unescaped) = (String::with_capacity(path.len()), false);
        let mut rest = path;
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let Some(byte) = encoded(rest.as_bytes()) else {
                if self.normalize {
                    return Err(Abnormal::Malformed);
                }
                out.push('%');
                rest = &rest[1..];
                continue;
            };
            let is_slash = matches!(byte, b'/' | b'\\');
            match self.escaped_slashes {
                EscapedSlashes::RejectRequest if is_slash => return Err(Abnormal::EscapedSlash),
                EscapedSlashes::UnescapeAndRedirect | EscapedSlashes::UnescapeAndForward
                    if is_slash =>
                {
                    out.push('/');
                    unescaped = true;
                }
                _ if self.normalize && is_unreserved(byte) => out.push(char::from(byte)),
                _ if self.normalize => out.push_str(&rest[..3].to_ascii_uppercase()),
                _ => out.push_str(&rest[..3]),
            }
            rest = &rest[3..];
        }
        out.push_str(rest);
        Ok((out, unescaped))
    }
}

/// Returns the byte whose encoding a text begins with.
fn encoded(text: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*text.get(at)?).to_digit(16);
    let (high, low) = (digit(1)?, digit(2)?);
    u8::try_from(high * 16 + low).ok()
}

/// Returns whether a byte is unreserved (RFC 3986 2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Returns whether a text begins with a dot segment.
fn is_dots(text: &[u8]) -> bool {
    let segment = text.split(|&byte| byte == b'/').next();
    matches!(segment, Some(b"." | b".."))
}

/// Resolves the dot segments of a path (RFC 3986 5.2.4). A dot segment between encoded slashes is
/// refused, for an endpoint may decode them.
fn without_dots(path: &str) -> Result<String, Abnormal> {
    let mut segments: Vec<&str> = Vec::new();
    let mut ends_in_dots = false;
    for segment in path.strip_prefix('/').unwrap_or(path).split('/') {
        ends_in_dots = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." if segments.pop().is_none() => return Err(Abnormal::AboveRoot),
            ".." => {}
            hides if hides_dots(hides) => return Err(Abnormal::EscapedSlash),
            plain => segments.push(plain),
        }
    }
    if ends_in_dots {
        segments.push("");
    }
    let mut out = String::with_capacity(path.len());
    for segment in segments {
        out.push('/');
        out.push_str(segment);
    }
    Ok(out)
}

/// Returns whether a path has dot segments, or may have some once an encoded slash is decoded.
pub fn has_dots(path: &str) -> bool {
    let is_dots = |segment: &str| matches!(segment, "." | "..") || hides_dots(segment);
    path.split('/').any(is_dots)
}

/// Returns whether a segment has a dot segment between its encoded slashes.
fn hides_dots(segment: &str) -> bool {
    let mut parts = segment.split("%2F").flat_map(|part| part.split("%5C"));
    segment.contains('%') && parts.any(|part| matches!(part, "." | ".."))
}

#[cfg(test)]
mod tests;
