//! A conversation on a connection that has switched protocols: the client sends
//! messages, the backend sends each back.

use crate::plan::{self, RequestPlan};
use crate::wire::{Over, Reader, Writer};

/// Messages sent before the first has come back.
pub(crate) const AHEAD: usize = 2;

/// A message: its length, and bytes that no other has.
pub(crate) fn message(request: &RequestPlan, index: usize) -> Vec<u8> {
    let length = request.messages[index];
    let number = (index as u64 + 1) * 1_000_000 + request.id;
    let mut bytes = (length as u32).to_be_bytes().to_vec();
    bytes.extend(plan::body(number, false, length));
    bytes
}

/// Bytes of the whole conversation in one direction.
pub(crate) fn total(request: &RequestPlan) -> u64 {
    let lengths = request.messages.iter().map(|length| 4 + *length as u64);
    lengths.sum()
}

/// Sends back what comes, but no more than so many bytes.
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

/// The next bytes, as many as were sent.
pub(crate) async fn hear(reader: &mut Reader<'_>, sent: &[u8]) -> Result<Vec<u8>, Over> {
    while reader.buffered().len() < sent.len() {
        reader.fill().await?;
    }
    let heard = reader.buffered()[..sent.len()].to_vec();
    reader.consume(sent.len());
    Ok(heard)
}
