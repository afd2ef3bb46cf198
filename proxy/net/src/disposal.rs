//! Values that are freed on a thread of their own.
//!
//! A table of 10,000 routes is some hundred thousand allocations, and takes milliseconds to
//! free. The last to hold it is a worker, whose connections must not wait for that.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::Builder;

/// The most values that wait to be freed. A value beyond them is freed where it is dropped.
const WAITING: usize = 64;

/// The name of the thread that frees values.
const NAME: &str = "disposal";

type Refuse = Box<dyn Any + Send>;

/// A value that is freed on another thread once it is dropped.
pub struct FreedAside<T: Send + 'static>(Option<Box<T>>);

impl<T: Send + 'static> FreedAside<T> {
    /// Wraps a value, so that the other thread frees it.
    pub fn new(value: T) -> Self {
        Self(Some(Box::new(value)))
    }
}

impl<T: Send + 'static> Deref for FreedAside<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Send + fmt::Debug + 'static> fmt::Debug for FreedAside<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Send + 'static> Drop for FreedAside<T> {
    fn drop(&mut self) {
        if let (Some(value), Some(bin)) = (self.0.take(), bin()) {
            // Without a place it comes back, and is freed here.
            drop(bin.try_send(value));
        }
    }
}

/// Returns the queue of values to free. The first call starts its thread; `None` if that fails.
fn bin() -> Option<&'static SyncSender<Refuse>> {
    static BIN: OnceLock<Option<SyncSender<Refuse>>> = OnceLock::new();
    let start = || {
        let (bin, emptied) = sync_channel::<Refuse>(WAITING);
        let work = move || emptied.iter().for_each(drop);
        let thread = Builder::new().name(NAME.to_owned()).spawn(work);
        thread.ok().map(|_| bin)
    };
    BIN.get_or_init(start).as_ref()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use super::*;

    struct Told(Sender<Option<String>>);

    impl Drop for Told {
        fn drop(&mut self) {
            let name = thread::current().name().map(str::to_owned);
            self.0.send(name).expect("the test listens");
        }
    }

    #[test]
    fn a_value_is_freed_by_the_thread_for_that() {
        let (tell, told) = channel();
        let value = FreedAside::new(Told(tell));
        assert!(told.try_recv().is_err());
        drop(value);
        assert_eq!(told.recv(), Ok(Some(NAME.to_owned())));
    }
}
