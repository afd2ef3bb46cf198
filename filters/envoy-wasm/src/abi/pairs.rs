//! Header fields as bytes.

use std::borrow::Cow;

/// Header fields as the ABI passes them: how many, the lengths of each name and
/// value, then those, each with a zero after it; numbers of 32 bits, the least
/// significant byte first.
pub(super) fn serialize(fields: &[(&str, &str)]) -> Vec<u8> {
    let number = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = number(fields.len()).to_vec();
    for (name, value) in fields {
        bytes.extend(number(name.len()));
        bytes.extend(number(value.len()));
    }
    for part in fields.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend(part.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// The inverse of [`serialize`]; what is cut short ends it, and a value that is
/// no text is left out.
pub(super) fn pairs(bytes: &[u8]) -> Vec<(String, String)> {
    let number = |at: usize| -> Option<usize> {
        let bytes = bytes.get(at..)?.first_chunk()?;
        usize::try_from(u32::from_le_bytes(*bytes)).ok()
    };
    let count = number(0).unwrap_or(0);
    let mut at = count.saturating_mul(8).saturating_add(4);
    let mut part = |length: usize| -> Option<&[u8]> {
        let part = bytes.get(at..at.checked_add(length)?)?;
        at += length + 1;
        Some(part)
    };
    let next = |index: usize| {
        let (name, value) = (number(4 + index * 8)?, number(8 + index * 8)?);
        Some((part(name)?, part(value)?))
    };
    let texts = (0..count).map_while(next);
    let texts = texts.filter_map(|(name, value)| match String::from_utf8_lossy(value) {
        Cow::Borrowed(value) => Some((String::from_utf8_lossy(name).into_owned(), value.into())),
        Cow::Owned(_) => None,
    });
    texts.collect()
}
