//! Header blocks of HTTP/2 as their sender means them (HPACK, RFC 7541): a decoder
//! that makes no difference between fields that are valid and those that are not,
//! and an encoder that leaves the table of its reader alone.

// The paths are for the fuzz target, which takes this file by its own.
#[path = "hpack/fixed.rs"]
mod fixed;
#[path = "hpack/huffman.rs"]
mod huffman;

use std::collections::VecDeque;

use http::StatusCode;

use self::fixed::FIELDS;

/// Octets of the table, where no setting says otherwise (RFC 9113 6.5.2).
pub(crate) const TABLE_BYTES: usize = 4096;

/// The octets that a field counts beside its name and its value (RFC 7541 4.1).
pub const FIELD_OVERHEAD: usize = 32;

/// Octets that follow the first of an integer, at most: no length or index needs more.
const INTEGER_MORE: u32 = 4;

/// A header block is no HPACK, or was not read to its end: what its sender has in its table
/// is unknown from here on, and the connection must end (RFC 9113 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BrokenBlock;

/// A field of a block, valid or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Whether it is in the table, found sound when it was entered.
    pub(crate) is_known_sound: bool,
}

impl Field<'_> {
    /// Returns the octets that the field counts of a list's size.
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + FIELD_OVERHEAD
    }
}

/// A field in the dynamic table.
#[derive(Debug)]
struct Entry {
    /// The name, then the value.
    text: Box<[u8]>,
    name_bytes: usize,
    is_sound: bool,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.text.len() + FIELD_OVERHEAD
    }

    fn field(&self) -> Field<'_> {
        let (name, value) = self.text.split_at(self.name_bytes);
        Field {
            name,
            value,
            is_known_sound: self.is_sound,
        }
    }
}

/// Fields that were sent before, the newest first.
#[derive(Debug)]
struct Table {
    entries: VecDeque<Entry>,
    bytes: usize,
    max_bytes: usize,
}

impl Table {
    fn get(&self, index: usize) -> Result<Field<'_>, BrokenBlock> {
        let place = index.checked_sub(1).ok_or(BrokenBlock)?;
        match FIELDS.get(place) {
            Some((name, value)) => Ok(Field {
                name: name.as_bytes(),
                value: value.as_bytes(),
                is_known_sound: true,
            }),
            None => {
                let entry = self.entries.get(place - FIELDS.len());
                entry.map(Entry::field).ok_or(BrokenBlock)
            }
        }
    }

    fn insert(&mut self, entry: Entry) {
        let bytes = entry.bytes();
        self.shrink(self.max_bytes.saturating_sub(bytes));
        // One that is too large empties the table (RFC 7541 4.4).
        if bytes <= self.max_bytes {
            self.bytes += bytes;
            self.entries.push_front(entry);
        }
    }

    fn shrink(&mut self, max_bytes: usize) {
        while self.bytes > max_bytes
            && let Some(oldest) = self.entries.pop_back()
        {
            self.bytes -= oldest.bytes();
        }
    }
}

/// Reads the header blocks of one direction of a connection, in their order.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    /// A literal's name and value, where they have to be put together.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// Makes the decoder of a connection that nothing has been read from.
    pub(crate) fn new() -> Self {
        Self {
            table: Table {
                entries: VecDeque::new(),
                bytes: 0,
                max_bytes: TABLE_BYTES,
            },
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Gives every field of a block to `each`, which says whether it is sound by
    /// itself. Nothing is read beyond `list_max` octets of fields: a few octets of a block
    /// can stand for all of the table, again and again.
    ///
    /// # Errors
    ///
    /// The block is broken, or its list is longer than that; some of its fields may have been
    /// given.
    pub(crate) fn decode(
        &mut self,
        block: &[u8],
        list_max: usize,
        mut each: impl FnMut(Field<'_>) -> bool,
    ) -> Result<(), BrokenBlock> {
        let mut room = list_max;
        let mut each = |field: Field<'_>| -> Result<bool, BrokenBlock> {
            room = room.checked_sub(field.bytes()).ok_or(BrokenBlock)?;
            Ok(each(field))
        };
        let mut rest = block;
        let mut begun = false;
        while let Some(&first) = rest.first() {
            if first & 0xe0 == 0x20 {
                // Only before the first field (RFC 7541 4.2).
                let bytes = integer(&mut rest, 5)?;
                if begun || bytes > TABLE_BYTES {
                    return Err(BrokenBlock);
                }
                self.table.max_bytes = bytes;
                self.table.shrink(bytes);
                continue;
            }
            begun = true;
            if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                each(self.table.get(index)?)?;
            } else {
                self.literal(first & 0x40 != 0, &mut rest, &mut each)?;
            }
        }
        Ok(())
    }

    fn literal(
        &mut self,
        is_indexed: bool,
        rest: &mut &[u8],
        each: &mut impl FnMut(Field<'_>) -> Result<bool, BrokenBlock>,
    ) -> Result<(), BrokenBlock> {
        let index = integer(rest, if is_indexed { 6 } else { 4 })?;
        let name = match index {
            0 => string(rest, &mut self.name)?,
            known => self.table.get(known)?.name,
        };
        let value = string(rest, &mut self.value)?;
        let is_sound = each(Field {
            name,
            value,
            is_known_sound: false,
        })?;
        if is_indexed {
            let entry = Entry {
                text: [name, value].concat().into_boxed_slice(),
                name_bytes: name.len(),
                is_sound,
            };
            self.table.insert(entry);
        }
        Ok(())
    }
}

/// Takes an integer whose first octet has so many bits of it (RFC 7541 5.1).
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, BrokenBlock> {
    let mask = (1 << bits) - 1;
    let mut number = usize::from(octet(rest)?) & mask;
    if number < mask {
        return Ok(number);
    }
    for more in 0..INTEGER_MORE {
        let next = usize::from(octet(rest)?);
        number += (next & 0x7f) << (7 * more);
        if next & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(BrokenBlock)
}

fn octet(rest: &mut &[u8]) -> Result<u8, BrokenBlock> {
    let (first, more) = rest.split_first().ok_or(BrokenBlock)?;
    *rest = more;
    Ok(*first)
}

/// Takes a string, which is put together in `room` if it is compressed.
fn string<'a, 'b: 'a>(rest: &mut &'b [u8], room: &'a mut Vec<u8>) -> Result<&'a [u8], BrokenBlock> {
    let is_compressed = rest.first().is_some_and(|first| first & 0x80 != 0);
    let bytes = integer(rest, 7)?;
    let (text, more) = rest.split_at_checked(bytes).ok_or(BrokenBlock)?;
    *rest = more;
    if !is_compressed {
        return Ok(text);
    }
    room.clear();
    match huffman::decode(text, room) {
        true => Ok(room),
        false => Err(BrokenBlock),
    }
}

/// The index of `:status` in the static table.
const STATUS_INDEX: u8 = 8;

/// Appends a field that its reader enters into no table (RFC 7541 6.2.2).
pub fn encode_literal(name: &[u8], value: &[u8], block: &mut Vec<u8>) {
    block.push(0);
    encode_string(name, block);
    encode_string(value, block);
}

/// Appends a response's status, which enters no table either.
pub fn encode_status(status: StatusCode, block: &mut Vec<u8>) {
    block.push(STATUS_INDEX);
    encode_string(status.as_str().as_bytes(), block);
}

/// Appends the size that its reader is to make its table, which is said before any
/// field (RFC 7541 6.3).
pub(crate) fn encode_table_size(bytes: usize, block: &mut Vec<u8>) {
    encode_integer(bytes, 0x20, 5, block);
}

fn encode_string(text: &[u8], block: &mut Vec<u8>) {
    encode_integer(text.len(), 0, 7, block);
    block.extend_from_slice(text);
}

/// Appends an integer behind what the first octet has beside so many bits of it (RFC
/// 7541 5.1).
fn encode_integer(number: usize, first: u8, bits: u32, block: &mut Vec<u8>) {
    let mask = (1 << bits) - 1;
    if number < mask {
        return block.push(first | number as u8);
    }
    block.push(first | mask as u8);
    let mut rest = number - mask;
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

#[cfg(test)]
#[path = "hpack/tests.rs"]
mod tests;
