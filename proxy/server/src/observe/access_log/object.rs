//! An object of JSON, written member by member: in the order in which it is told, as text
//! from the beginning.

use std::io;

use super::values;

/// A line that is one object.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    /// What stands before the next member.
    before: u8,
}

impl<'a> Object<'a> {
    /// Begins an object, which has no member yet.
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        Self { out, before: b'{' }
    }

    /// Ends the object, and with it the line.
    pub(super) fn end(self) {
        self.out.extend_from_slice(b"}\n");
    }

    /// Writes a member, whose name needs no escape; `null` where it has no value.
    // Inlined, as all that writes members, so that a name is no call but a store.
    #[inline(always)]
    pub(super) fn member<T>(
        &mut self,
        name: &'static str,
        value: Option<T>,
        write: impl FnOnce(T, &mut Vec<u8>),
    ) {
        let before = std::mem::replace(&mut self.before, b',');
        self.out.extend_from_slice(&[before, b'"']);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        match value {
            Some(value) => write(value, self.out),
            None => self.out.extend_from_slice(b"null"),
        }
    }

    /// Writes a text that may have anything in it.
    ///
    /// # Errors
    ///
    /// The text makes no JSON.
    #[inline(always)]
    pub(super) fn text(&mut self, name: &'static str, value: Option<&str>) -> io::Result<()> {
        let mut outcome = Ok(());
        self.member(name, value, |value, out| {
            outcome = values::string(value, out);
        });
        outcome
    }

    /// Writes a text of a few that are known.
    #[inline(always)]
    pub(super) fn word(&mut self, name: &'static str, value: Option<&'static str>) {
        self.member(name, value.map(str::as_bytes), values::word);
    }

    /// Writes a whole number.
    #[inline(always)]
    pub(super) fn number(&mut self, name: &'static str, value: Option<u64>) {
        self.member(name, value, values::number);
    }
}
