//! HPACK (RFC 7541), the coding of HTTP/2's header blocks: a decoder that yields valid and
//! invalid fields alike, and an encoder that leaves the reader's table alone.

// The paths are for the fuzz target, which takes this file by its own.
#[path = "hpack/fixed.rs"]
mod fixed;
#[path = "hpack/huffman.rs"]
mod huffman;

use std::collections::VecDeque;

use http::StatusCode;

use self::fixed::FIELDS;

/// The octets of the dynamic table, if no setting says otherwise (RFC 9113 6.5.2).
pub(crate) const TABLE_BYTES: usize = 4096;

/// The octets that a field counts for beside its name and its value (RFC 7541 4.1).
pub const FIELD_OVERHEAD: usize = 32;

/// The most octets that follow the first of an integer: no length or index needs more.
const INTEGER_MORE: u32 = 4;

/// The error of a header block that is no HPACK, or was not read to its end. The sender's table
/// is unknown from here on, and the connection must end (RFC 9113 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BrokenBlock;

/// A field of a block, valid or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Whether the field is in a table, and was found sound when it was entered.
    pub(crate) is_known_sound: bool,
}

impl Field<'_> {
    /// Returns the octets that the field counts for in a list's size.
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

/// The dynamic table: fields that were sent before, the newest first.
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

/// A decoder of the header blocks of one direction of a connection, in their order.
#[derive(Debug)]
pub(crate) struct Decoder {
    table: Table,
    /// The room in which a literal's name is put together, and then its value.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// Creates the decoder of a connection from which nothing has been read.
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

    /// Gives every field of a block to `each`, which returns whether the field is sound by
    /// itself. No more than `list_max` octets of fields are read: a few octets of a block can
    /// stand for all of the table, again and again.
    ///
    /// # Errors
    ///
    /// The block is broken, or its list is longer than `list_max`; some of its fields may have
    /// been given.
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

/// Takes an integer that begins in the last `bits` bits of the first octet (RFC 7541 5.1).
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

/// Takes a string; if it is compressed, it is decoded into `room`.
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

/// Appends a field as a literal, which the reader enters into no table (RFC 7541 6.2.2).
pub fn encode_literal(name: &[u8], value: &[u8], block: &mut Vec<u8>) {
    block.push(0);
    encode_string(name, block);
    encode_string(value, block);
}

/// Appends a response's status, which the reader enters into no table.
pub fn encode_status(status: StatusCode, block: &mut Vec<u8>) {
    block.push(STATUS_INDEX);
    encode_string(status.as_str().as_bytes(), block);
}

/// Appends the size that the reader is to give its table; it must stand before any field (RFC
/// 7541 6.3).
pub(crate) fn encode_table_size(bytes: usize, block: &mut Vec<u8>) {
    encode_integer(bytes, 0x20, 5, block);
}

fn encode_string(text: &[u8], block: &mut Vec<u8>) {
    encode_integer(text.len(), 0, 7, block);
    block.extend_from_slice(text);
}

/// Appends an integer that begins in the last `bits` bits of an octet, whose other bits are
/// those of `first` (RFC 7541 5.1).
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
