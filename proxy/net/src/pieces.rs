//! Small pieces of a body that waits, put together. A piece by itself costs more memory than the
//! bytes that are counted for it.

use bytes::{Bytes, BytesMut};

/// The most bytes of pieces that are put together.
const JOINED_BYTES: usize = 4096;

/// Appends a piece to the one before it, if both together are small; returns the piece
/// otherwise.
pub(crate) fn join(before: &mut Bytes, data: Bytes) -> Option<Bytes> {
    if before.len() + data.len() > JOINED_BYTES {
        return Some(data);
    }
    let own = std::mem::take(before).try_into_mut();
    let mut joined = own.unwrap_or_else(|shared| {
        let mut copy = BytesMut::with_capacity(JOINED_BYTES);
        copy.extend_from_slice(&shared);
        copy
    });
    joined.extend_from_slice(&data);
    *before = joined.freeze();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_few_and_in_order_and_large_ones_stay_as_they_are() {
        let all: Vec<u8> = (0..10_000u32).map(|n| (n % 251) as u8).collect();
        // Of one buffer, as they are read.
        let read = Bytes::from(all.clone());
        let mut pieces = vec![read.slice(..1)];
        for at in 1..read.len() {
            let last = pieces.last_mut().unwrap();
            let rest = join(last, read.slice(at..=at));
            pieces.extend(rest);
        }
        assert_eq!(pieces.concat(), all);
        assert_eq!(pieces.len(), 3);
        let mut small = Bytes::from_static(b"a");
        let large = Bytes::from(vec![0; JOINED_BYTES]);
        assert_eq!(join(&mut small, large.clone()), Some(large));
        assert_eq!(small, "a");
    }
}
