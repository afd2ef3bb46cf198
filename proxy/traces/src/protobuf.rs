//! The few forms of protobuf that spans need, written by hand: numbers, bytes, messages.

/// The wire types, which say how a field's value is encoded.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// Writes a number as a varint: seven bits a byte, the lowest first.
pub(crate) fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Returns the number of bytes that [`varint`] writes.
pub(crate) fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

fn tag(field: u64, form: u64, out: &mut Vec<u8>) {
    varint((field << 3) | form, out);
}

/// Writes a field that is a number, as a varint.
pub(crate) fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    tag(field, VARINT, out);
    varint(value, out);
}

/// Writes a field of eight bytes, little-endian.
pub(crate) fn fixed64(field: u64, value: u64, out: &mut Vec<u8>) {
    tag(field, FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a field of four bytes, little-endian.
pub(crate) fn fixed32(field: u64, value: u32, out: &mut Vec<u8>) {
    tag(field, FIXED32, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Writes a field of text or bytes.
pub(crate) fn bytes(field: u64, value: &[u8], out: &mut Vec<u8>) {
    tag(field, BYTES, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Writes the beginning of a field that is a message of `len` bytes; the caller appends these.
pub(crate) fn begin(field: u64, len: usize, out: &mut Vec<u8>) {
    tag(field, BYTES, out);
    varint(len as u64, out);
}

/// Returns the bytes of a whole field that is a message of `len` bytes.
pub(crate) fn message_len(field: u64, len: usize) -> usize {
    varint_len(field << 3) + varint_len(len as u64) + len
}

/// Writes a field that is a message, whose contents `write` appends.
pub(crate) fn message(field: u64, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mut own = Vec::with_capacity(64);
    write(&mut own);
    bytes(field, &own, out);
}

/// The value of a field that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Reads the number and value of a message's next field; none at its end, or if it is malformed.
pub(crate) fn next<'a>(text: &mut &'a [u8]) -> Option<(u64, Value<'a>)> {
    let tag = read_varint(text)?;
    let value = match tag & 7 {
        VARINT => Value::Number(read_varint(text)?),
        FIXED64 => Value::Number(u64::from_le_bytes(take(text, 8)?.try_into().ok()?)),
        FIXED32 => Value::Number(u32::from_le_bytes(take(text, 4)?.try_into().ok()?).into()),
        BYTES => {
            let len = usize::try_from(read_varint(text)?).ok()?;
            Value::Bytes(take(text, len)?)
        }
        _ => return None,
    };
    Some((tag >> 3, value))
}

fn take<'a>(text: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (own, rest) = text.split_at_checked(len)?;
    *text = rest;
    Some(own)
}

fn read_varint(text: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(text, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            varint(value, &mut out);
            prop_assert_eq!(out.len(), varint_len(value));
            let mut real = Vec::new();
            prost::encoding::encode_varint(value, &mut real);
            prop_assert_eq!(&out, &real);
            prop_assert_eq!(read_varint(&mut &out[..]), Some(value));
        }

        #[test]
        fn nothing_that_is_read_panics(text: Vec<u8>) {
            let mut rest = &text[..];
            while next(&mut rest).is_some() {}
        }
    }
}
