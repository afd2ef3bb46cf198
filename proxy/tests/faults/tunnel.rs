//! Conversations on connections that have switched protocols: the client sends messages, and the
//! backend sends each back.

use crate::plan::{self, RequestPlan};
use crate::wire::{Over, Reader, Writer};

/// The number of messages that are sent before the first has come back.
pub(crate) const AHEAD: usize = 2;

/// Returns a message: its length, and bytes that no other message has.
pub(crate) fn message(request: &RequestPlan, index: usize) -> Vec<u8> {
    let length = request.messages[index];
    let number = (index as u64 + 1) * 1_000_000 + request.id;
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.extend(plan::body(number, false, length));
    bytes
}

/// Returns the bytes of the whole conversation in one direction.
pub(crate) fn total(request: &RequestPlan) -> u64 {
    let lengths = request.messages.iter().map(|length| 4 + *length as u64);
    lengths.sum()
}

/// Sends back the bytes that come, but no more than `left`.
pub(crate) async fn echo(
    reader: &mut Reader<'_>,
    writer: &mut Writer<'_>,
    mut left: u64,
) -> Result<(), Over> {
    while left > 0 {
        if reader.buffered().is_empty() {
            reader.fill().await?;
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let count = reader.buffered().len().min(most);
        let bytes = reader.buffered()[..count].to_vec();
        reader.consume(count);
        writer.send(&bytes).await?;
        left -= count as u64;
    }
    Ok(())
}

/// Reads as many bytes as were sent.
pub(crate) async fn hear(reader: &mut Reader<'_>, sent: &[u8]) -> Result<Vec<u8>, Over> {
    while reader.buffered().len() < sent.len() {
        reader.fill().await?;
    }
    let heard = reader.buffered()[..sent.len()].to_vec();
    reader.consume(sent.len());
    Ok(heard)
}
