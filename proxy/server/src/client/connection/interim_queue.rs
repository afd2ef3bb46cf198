//! Interim responses that a connection of HTTP/2 has not written yet.

use std::collections::VecDeque;
use std::rc::Rc;

use super::http2_stream::Http2Stream;

/// Interim responses that wait for a connection of HTTP/2, at most one of each stream's
/// attempts.
#[derive(Default)]
pub(super) struct InterimQueue {
    /// Header blocks of streams whose numbers are known.
    blocks: VecDeque<(Rc<Http2Stream>, Vec<u8>)>,
    /// The stream whose response is being written.
    writing: Option<Rc<Http2Stream>>,
}

impl InterimQueue {
    /// Adds the header block of a response that a stream is to have.
    pub(super) fn push(&mut self, stream: &Rc<Http2Stream>, block: Vec<u8>) {
        stream.interims.set(stream.interims.get() + 1);
        self.blocks.push_back((Rc::clone(stream), block));
    }

    /// Takes the next response to be written, and the number of its stream.
    pub(super) fn next(&mut self) -> Option<(u32, Vec<u8>)> {
        let (stream, block) = self.blocks.pop_front()?;
        let number = stream.number?;
        self.writing = Some(stream);
        Some((number, block))
    }

    /// Notes that the socket has the last response that was taken.
    pub(super) fn written(&mut self) {
        let Some(stream) = self.writing.take() else {
            return;
        };
        stream.interims.set(stream.interims.get() - 1);
        if let Some(waker) = &*stream.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Forgets the responses of a stream that has ended.
    pub(super) fn forget(&mut self, stream: &Rc<Http2Stream>) {
        self.blocks.retain(|(own, _)| !Rc::ptr_eq(own, stream));
    }
}
