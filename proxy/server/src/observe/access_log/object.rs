//! An object of JSON, written member by member: in the order in which it is told, as text
//! from the beginning.

use std::io;

use super::values;

/// The name of a member, with the text around it: what is known when Sprat is built is
/// written in one piece.
#[derive(Clone, Copy)]
pub(super) struct Name {
    /// The text before a value.
    pub(super) before: &'static [u8],
    /// The whole member where it has no value.
    pub(super) null: &'static [u8],
}

/// A macro that makes a [`Name`] of a literal that needs no escape.
macro_rules! name {
    ($name:literal) => {
        $crate::observe::access_log::object::Name {
            before: concat!(",\"", $name, "\":").as_bytes(),
            null: concat!(",\"", $name, "\":null").as_bytes(),
        }
    };
}
pub(super) use name;

/// A line of a log that is one object of JSON.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    /// The place in the text where the object begins.
    begun: usize,
}

impl<'a> Object<'a> {
    /// Begins an object, which gets one member at least.
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        let begun = out.len();
        Self { out, begun }
    }

    /// Ends the object, and with it the line.
    pub(super) fn end(self) {
        self.out.extend_from_slice(b"}\n");
        // In place of the first member's comma.
        self.out[self.begun] = b'{';
    }

    /// Writes a member; `null` where it has no value.
    // Inlined, as all that writes members, so that a name is no call but a store.
    #[inline(always)]
    pub(super) fn member<T>(
        &mut self,
        name: Name,
        value: Option<T>,
        write: impl FnOnce(T, &mut Vec<u8>),
    ) {
        match value {
            Some(value) => {
                self.out.extend_from_slice(name.before);
                write(value, self.out);
            }
            None => self.out.extend_from_slice(name.null),
        }
    }

    /// Writes a text that may have anything in it.
    ///
    /// # Errors
    ///
    /// Fails if the text makes no JSON.
    #[inline(always)]
    pub(super) fn text(&mut self, name: Name, value: Option<&str>) -> io::Result<()> {
        let mut outcome = Ok(());
        self.member(name, value, |value, out| {
            outcome = values::string(value, out);
        });
        outcome
    }

    /// Writes a text out of a known set, which needs no escape.
    #[inline(always)]
    pub(super) fn word(&mut self, name: Name, value: Option<&'static str>) {
        self.member(name, value.map(str::as_bytes), values::word);
    }

    /// Writes a whole number.
    #[inline(always)]
    pub(super) fn number(&mut self, name: Name, value: Option<u64>) {
        self.member(name, value, values::number);
    }
}
