//! Lines on their way to the thread that writes a log. They are text from the beginning, so
//! that nothing that a worker has allocated is given back by another thread.
//!
//! A worker that has a line never waits for the disk. The writer is woken for the first
//! line, and then gathers: to be woken for each would cost more than to write it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sprat_net::permit::{Count, Permit, Permits};

/// The most bytes of text that wait for the writer; as many again it may be writing.
const QUEUE_BYTES: usize = 16 << 20;

/// The time for which the writer gathers lines, once the first has come.
const GATHERS_FOR: Duration = Duration::from_millis(10);

/// The most bytes of room that an empty buffer keeps.
const KEPT_BYTES: usize = 256 << 10;

/// Makes a queue, which is empty.
pub(super) fn queue() -> (LineSender, LineReceiver) {
    let unwritten = Permits::default();
    let pending = Pending {
        text: Vec::new(),
        unwritten: unwritten.none(usize::MAX),
        is_closed: false,
        is_called: false,
    };
    let shared = Arc::new(Shared {
        pending: Mutex::new(pending),
        changed: Condvar::new(),
        unwritten,
    });
    (LineSender(Arc::clone(&shared)), LineReceiver(shared))
}

struct Shared {
    pending: Mutex<Pending>,
    /// The signal of a first line, of a call, or of the end.
    changed: Condvar,
    /// The count of bytes that are not written yet.
    unwritten: Permits,
}

struct Pending {
    text: Vec<u8>,
    /// The bytes of the text, as they count among those that are not written.
    unwritten: Permit,
    /// Whether one of the two ends has gone.
    is_closed: bool,
    /// Whether the writer is called, though there may be no line for it.
    is_called: bool,
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Nothing that is done under the lock leaves text half written.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.pending().is_closed = true;
        self.changed.notify_one();
    }
}

/// The end of a queue where lines come in. The writer ends once it is dropped.
pub(super) struct LineSender(Arc<Shared>);

impl LineSender {
    /// Queues a line; returns false if there is no room for it, or no writer any more.
    pub(super) fn send(&self, line: &[u8]) -> bool {
        let mut pending = self.0.pending();
        if pending.is_closed || pending.text.len() + line.len() > QUEUE_BYTES {
            return false;
        }
        let is_first = pending.text.is_empty();
        pending.text.extend_from_slice(line);
        pending.unwritten.grow(line.len());
        drop(pending);
        if is_first {
            self.0.changed.notify_one();
        }
        true
    }

    /// Returns the count of bytes that are not written yet, which goes on changing.
    pub(super) fn unwritten(&self) -> Arc<Count> {
        self.0.unwritten.count()
    }

    /// Returns a bell that calls the writer.
    pub(super) fn bell(&self) -> Bell {
        Bell(Arc::clone(&self.0))
    }
}

impl Drop for LineSender {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A bell that calls the writer where it waits for lines.
pub(super) struct Bell(Arc<Shared>);

impl Bell {
    /// Calls the writer, which need not wait for a line.
    pub(super) fn ring(&self) {
        self.0.pending().is_called = true;
        self.0.changed.notify_one();
    }
}

/// The end of a queue where the writer takes lines out.
pub(super) struct LineReceiver(Arc<Shared>);

impl LineReceiver {
    /// Waits for lines or a call, and puts the lines that there are into `text`, in place of
    /// what is there. Returns their bytes, which count as unwritten until that is dropped; none
    /// once the lines have ended.
    pub(super) fn receive(&self, text: &mut Vec<u8>) -> Option<Permit> {
        text.clear();
        text.shrink_to(KEPT_BYTES);
        let changed = &self.0.changed;
        let is_idle = |own: &mut Pending| own.text.is_empty() && !own.is_closed && !own.is_called;
        let pending = changed.wait_while(self.0.pending(), is_idle);
        let pending = pending.unwrap_or_else(PoisonError::into_inner);
        let goes_on = |own: &mut Pending| {
            !own.is_closed && !own.is_called && own.text.len() < QUEUE_BYTES / 2
        };
        let gathered = changed.wait_timeout_while(pending, GATHERS_FOR, goes_on);
        let (mut pending, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut pending.text, text);
        let is_called = std::mem::take(&mut pending.is_called);
        (is_called || !text.is_empty()).then(|| pending.unwritten.split(text.len()))
    }
}

impl Drop for LineReceiver {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_as_they_went_in() {
        let (sender, receiver) = queue();
        assert!(sender.send(b"a\n") && sender.send(b"b\n"));
        let mut text = b"left over".to_vec();
        let mut unwritten = receiver.receive(&mut text).expect("lines have come");
        assert_eq!(text, b"a\nb\n");
        assert_eq!(sender.unwritten().used(), 4);
        unwritten.shrink(2);
        assert_eq!(sender.unwritten().used(), 2);
        assert!(sender.send(b"c\n"));
        assert_eq!(sender.unwritten().used(), 4);
        drop(unwritten);
        assert_eq!(sender.unwritten().used(), 2);
        drop(sender);
        assert!(
            receiver.receive(&mut text).is_some(),
            "what came before the end"
        );
        assert_eq!(text, b"c\n");
        assert!(receiver.receive(&mut text).is_none());
    }

    #[test]
    fn a_queue_takes_what_there_is_room_for() {
        let (sender, receiver) = queue();
        let half = vec![b'x'; QUEUE_BYTES / 2];
        assert!(sender.send(&half) && sender.send(&half));
        assert!(!sender.send(b"\n"));
        let mut text = Vec::new();
        assert!(receiver.receive(&mut text).is_some());
        assert_eq!(text.len(), QUEUE_BYTES);
        assert!(sender.send(b"\n"));
        assert!(receiver.receive(&mut text).is_some());
        assert!(
            text.capacity() <= QUEUE_BYTES / 2,
            "a burst's memory is given back"
        );
        drop(receiver);
        assert!(!sender.send(b"\n"), "no one is left to write it");
    }

    #[test]
    fn a_call_needs_no_line() {
        let (sender, receiver) = queue();
        let bell = sender.bell();
        let mut text = b"left over".to_vec();
        bell.ring();
        assert!(receiver.receive(&mut text).is_some());
        assert!(text.is_empty());
        // The last call is heard, too.
        bell.ring();
        drop(sender);
        assert!(receiver.receive(&mut text).is_some());
        assert!(receiver.receive(&mut text).is_none());
    }

    #[test]
    fn a_line_wakes_the_writer() {
        let (sender, receiver) = queue();
        let writer = std::thread::spawn(move || {
            let (mut text, mut all) = (Vec::new(), 0);
            while receiver.receive(&mut text).is_some() {
                all += text.len();
            }
            all
        });
        for _ in 0..5 {
            std::thread::sleep(GATHERS_FOR * 2);
            assert!(sender.send(b"line\n"));
        }
        drop(sender);
        assert_eq!(writer.join().unwrap(), 25);
    }
}
