//! Pages that are large with a large configuration. Each is made once for all clients that
//! ask at a time, on a thread of its own, and few are held.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use super::seats::{Answering, Seats};
use crate::observe::metrics::Exposition;

/// The most renderings that are held for their readers.
const MAX_HELD: usize = 4;

/// The age that a rendering may have while there is no room for another.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// A page that is made anew for clients that ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdminPage {
    Metrics(Exposition),
    Stats,
    Flows,
    Endpoints,
    Catalogue,
    Config,
    Effective,
    Gain,
}

/// A page's text, as it was at a time.
pub(super) struct Rendering {
    number: u64,
    page: AdminPage,
    begun: Instant,
    text: String,
}

/// A rendering on its way to a client.
pub(super) struct Reading {
    rendering: Arc<Rendering>,
    _answering: Answering,
}

impl AsRef<[u8]> for Reading {
    fn as_ref(&self) -> &[u8] {
        self.rendering.text.as_bytes()
    }
}

#[derive(Default)]
struct HeldRendering {
    next_number: u64,
    /// The renderings that are being read, the oldest first.
    all: Vec<Weak<Rendering>>,
}

/// The renderings that are being read.
#[derive(Default)]
pub(super) struct Renderings {
    /// The renderings, locked while one is made: the next is for all clients that ask meanwhile.
    held: Arc<Mutex<HeldRendering>>,
}

impl HeldRendering {
    /// Returns a rendering that will do for a client that asked at this time.
    fn usable(&self, page: AdminPage, asked: Instant) -> Option<Arc<Rendering>> {
        let mut all = self.all.iter().rev().filter_map(Weak::upgrade);
        let newest = all.find(|own| own.page == page)?;
        let is_full = self.all.len() >= MAX_HELD;
        let is_fresh = newest.begun >= asked || (is_full && newest.begun.elapsed() < FRESH_FOR);
        is_fresh.then_some(newest)
    }

    /// Makes room for another rendering; the readers of the oldest are cut for it.
    fn make_room(&mut self, seats: &Seats) {
        while self.all.len() >= MAX_HELD {
            if let Some(oldest) = self.all.remove(0).upgrade() {
                seats.close_readers(oldest.number);
            }
        }
    }
}

impl Renderings {
    /// Returns a page as it is now, or has become since the client asked; none if it
    /// could not be made.
    pub(super) async fn read(
        &self,
        page: AdminPage,
        seats: &Seats,
        answering: Answering,
        render: impl FnOnce() -> String + Send + 'static,
    ) -> Option<Reading> {
        let asked = Instant::now();
        let mut held = Arc::clone(&self.held).lock_owned().await;
        held.all.retain(|own| own.strong_count() > 0);
        let rendering = match held.usable(page, asked) {
            Some(rendering) => rendering,
            None => {
                held.make_room(seats);
                // A client that leaves does not let another begin meanwhile.
                let made = spawn_blocking(move || {
                    let number = held.next_number;
                    held.next_number += 1;
                    let begun = Instant::now();
                    let mut text = render();
                    text.shrink_to_fit();
                    let rendering = Arc::new(Rendering {
                        number,
                        page,
                        begun,
                        text,
                    });
                    held.all.push(Arc::downgrade(&rendering));
                    rendering
                });
                made.await.ok()?
            }
        };
        answering.reads(rendering.number);
        Some(Reading {
            rendering,
            _answering: answering,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    const PAGE: AdminPage = AdminPage::Metrics(Exposition::Text);

    struct Desk {
        renderings: Renderings,
        seats: Arc<Seats>,
        made: Arc<AtomicUsize>,
    }

    impl Desk {
        fn new() -> Self {
            Self {
                renderings: Renderings::default(),
                seats: Arc::default(),
                made: Arc::default(),
            }
        }

        async fn read(&self, page: AdminPage) -> Reading {
            let answering = self.seats.take(Instant::now()).answer(Instant::now());
            let made = Arc::clone(&self.made);
            let render = move || made.fetch_add(1, SeqCst).to_string();
            let read = (self.renderings).read(page, &self.seats, answering, render);
            read.await.unwrap()
        }
    }

    #[tokio::test]
    async fn all_that_ask_at_a_time_share_a_rendering() {
        let desk = Arc::new(Desk::new());
        let asked: Vec<_> = (0..64)
            .map(|_| {
                let desk = Arc::clone(&desk);
                tokio::spawn(async move { desk.read(PAGE).await })
            })
            .collect();
        let mut read = Vec::new();
        for one in asked {
            read.push(one.await.unwrap());
        }
        let made = desk.made.load(SeqCst);
        assert!(made <= 2, "{made}");
        // Who asks later hears of what has changed.
        for (number, page) in [(made, PAGE), (made + 1, AdminPage::Config)] {
            let read = desk.read(page).await;
            assert_eq!(read.as_ref(), number.to_string().as_bytes());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn few_renderings_are_held_however_slowly_they_are_read() {
        let desk = Desk::new();
        let mut unread = Vec::new();
        for _ in 0..MAX_HELD {
            unread.push(desk.read(PAGE).await);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        // The newest is fresh, and there is no room for another.
        unread.push(desk.read(PAGE).await);
        assert_eq!(desk.made.load(SeqCst), MAX_HELD);
        let first = Arc::downgrade(&unread[0].rendering);
        tokio::time::advance(FRESH_FOR).await;
        assert_eq!(desk.read(PAGE).await.as_ref(), b"4");
        let held = desk.renderings.held.lock().await;
        assert!(held.all.len() <= MAX_HELD);
        assert!(!held.all.iter().any(|own| own.ptr_eq(&first)));
    }
}
