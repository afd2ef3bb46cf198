//! Lines on their way to a thread that writes them: a thread that has a line to write never waits.
//!
//! The lines that the server writes to standard error go this way.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sprat_net::permit::{Count, Permit, Permits};

/// The time after which, at the end, a writer that takes nothing is given up.
const STALLED_AFTER: Duration = Duration::from_secs(2);

/// The longest time that the last lines may take at the end.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Makes a queue with room for `most`, in the unit that its lines are sent with.
pub(crate) fn queue<T>(most: usize) -> (Sender<T>, Receiver<T>) {
    // The room bounds the channel.
    let (lines, receiver) = mpsc::channel();
    let room = Permits::default();
    (Sender { lines, room, most }, receiver)
}

/// The writer's end of a queue.
pub(crate) type Receiver<T> = mpsc::Receiver<Queued<T>>;

/// The end of a queue where lines come in.
#[derive(Debug)]
pub(crate) struct Sender<T> {
    lines: mpsc::Sender<Queued<T>>,
    room: Permits,
    most: usize,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            lines: self.lines.clone(),
            room: self.room.clone(),
            most: self.most,
        }
    }
}

impl<T> Sender<T> {
    /// Queues a line that takes `size` of the room. Returns false if there is no room for
    /// it, or no writer any more.
    pub(crate) fn send(&self, line: T, size: usize) -> bool {
        let place = self.room.take(size, self.most);
        let queued = place.map(|place| Queued { line, place });
        queued.is_some_and(|queued| self.lines.send(queued).is_ok())
    }

    /// Returns the count of the room in use, which goes on changing.
    pub(crate) fn waiting(&self) -> Arc<Count> {
        self.room.count()
    }
}

/// A line that waits for the writer, and takes room until it is dropped.
#[derive(Debug)]
pub(crate) struct Queued<T> {
    line: T,
    /// The line's place in the room, until the line is dropped.
    #[expect(dead_code, reason = "to be dropped")]
    place: Permit,
}

impl<T> Deref for Queued<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.line
    }
}

/// A writer's thread, which ends once there is nothing more to write.
#[derive(Debug)]
pub(crate) struct Writing {
    thread: JoinHandle<()>,
    waiting: Arc<Count>,
}

/// The reason why a writer has not written all.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// The reader takes no more lines: this much of the room was still in use.
    Stalled(usize),
    /// The writing thread panicked.
    Panicked,
}

impl Writing {
    /// Starts a thread with this name that writes what is `waiting`, and counts it down.
    ///
    /// # Errors
    ///
    /// Fails if no thread can be had.
    pub(crate) fn start(
        name: &str,
        waiting: Arc<Count>,
        write: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        Ok(Self {
            thread: thread.spawn(write)?,
            waiting,
        })
    }

    /// Returns whether all is written.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits until all is written, as long as some of it is taken: a reader that has
    /// stalled keeps no process from its end.
    ///
    /// # Errors
    ///
    /// Fails if not all is written.
    pub(crate) fn join(self) -> Result<(), Unwritten> {
        let waiting = || self.waiting.used();
        let begun = Instant::now();
        let (mut before, mut moved) = (waiting(), begun);
        while !self.thread.is_finished() {
            let (now, present) = (Instant::now(), waiting());
            if present != before {
                (before, moved) = (present, now);
            }
            if now - moved > STALLED_AFTER || now - begun > END_WITHIN {
                return Err(Unwritten::Stalled(present));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.thread.join().map_err(|_| Unwritten::Panicked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_takes_what_there_is_room_for() {
        let (sender, lines) = queue(10);
        assert!(sender.send('a', 6));
        assert!(!sender.send('b', 5));
        assert!(sender.send('c', 4));
        assert!(sender.send('d', 0));
        // A line has its place until it is written.
        let first = lines.recv().unwrap();
        assert_eq!(*first, 'a');
        assert!(!sender.send('e', 1));
        drop(first);
        assert!(sender.send('f', 6));
        let rest: Vec<_> = lines.try_iter().map(|queued| *queued).collect();
        assert_eq!(rest, ['c', 'd', 'f']);
        assert!(sender.send('g', 10));
        drop(lines);
        assert!(!sender.send('h', 1), "no one is left to write it");
        assert_eq!(sender.room.used(), 0);
    }

    #[test]
    fn a_writer_that_ends_has_written_all() {
        let (sender, lines) = queue::<u8>(10);
        let writing = Writing::start("test", sender.waiting(), move || for _ in lines {});
        let writing = writing.unwrap();
        assert!(sender.send(1, 1));
        assert!(!writing.is_over());
        drop(sender);
        assert_eq!(writing.join(), Ok(()));
        let (sender, _) = queue::<u8>(10);
        let writing =
            Writing::start("test", sender.waiting(), || panic!("as the test wants")).unwrap();
        assert_eq!(writing.join(), Err(Unwritten::Panicked));
    }
}
