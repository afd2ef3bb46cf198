//! Interim responses that a connection of HTTP/2 has not written yet.

use std::collections::VecDeque;
use std::rc::Rc;

/// A stream that waits until its interim responses are written.
pub(super) trait AwaitsInterims {
    /// Returns the stream's number, if that is known.
    fn number(&self) -> Option<u32>;

    /// Notes that another interim response of the stream is in the queue.
    fn interim_queued(&self);

    /// Notes that the socket has one of the stream's queued interim responses.
    fn interim_written(&self);
}

/// Interim responses that wait for a connection of HTTP/2, at most one of each stream's
/// attempts.
#[derive(Default)]
pub(super) struct InterimQueue {
    /// Header blocks of streams whose numbers are known.
    blocks: VecDeque<(Rc<dyn AwaitsInterims>, Vec<u8>)>,
    /// The stream whose response is being written.
    writing: Option<Rc<dyn AwaitsInterims>>,
}

impl InterimQueue {
    /// Adds the header block of an interim response that a stream is to have.
    pub(super) fn push(&mut self, stream: Rc<dyn AwaitsInterims>, block: Vec<u8>) {
        stream.interim_queued();
        self.blocks.push_back((stream, block));
    }

    /// Takes the next interim response to be written, and the number of its stream.
    pub(super) fn next(&mut self) -> Option<(u32, Vec<u8>)> {
        let (stream, block) = self.blocks.pop_front()?;
        let number = stream.number()?;
        self.writing = Some(stream);
        Some((number, block))
    }

    /// Notes that the socket has the interim response that was taken last.
    pub(super) fn written(&mut self) {
        if let Some(stream) = self.writing.take() {
            stream.interim_written();
        }
    }

    /// Forgets the interim responses of a stream that has ended.
    pub(super) fn forget<S: AwaitsInterims>(&mut self, stream: &Rc<S>) {
        let is_own =
            |own: &Rc<dyn AwaitsInterims>| std::ptr::addr_eq(Rc::as_ptr(own), Rc::as_ptr(stream));
        self.blocks.retain(|(own, _)| !is_own(own));
        // A stream holds its connection, which holds this.
        self.writing.take_if(|own| is_own(own));
    }
}
