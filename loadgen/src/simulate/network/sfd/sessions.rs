//! Web sessions as the paper's simulator has them: a user reads a page before the next.
//!
//! In ns-2's web traffic the time between pages runs from the end of one page to the
//! beginning of the next (its default since November 2001), sizes are whole packets of
//! 1,000 bytes, and numbers are rounded up. That users wait is what keeps the heavy load at
//! the paper's 10% of loss: with pages that come whether the last one is there or not, a
//! third of the packets is lost.

use super::traffic::{CLIENTS, OBJECT_GAP_S, OBJECTS, PAGE_GAP_S, PAGES, SHAPE};
use crate::workload::Dice;

/// The mean size of an object, in packets: the paper's KB are packets of the simulator.
const MEAN_PACKETS: f64 = 12.0;

/// An object of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Object {
    pub(super) packets: u32,
    /// Seconds until the next object of its page is asked for.
    pub(super) gap_s: f64,
}

/// A page as a user asks for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Page {
    pub(super) server: usize,
    pub(super) objects: Vec<Object>,
}

/// A user's session. Its requests depend on its number alone, so that all queues are given the
/// same.
#[derive(Clone, Debug)]
pub(super) struct Session {
    dice: Dice,
    pub(super) client: usize,
    pages: u32,
}

impl Session {
    /// Returns session `number` of a run with this seed.
    pub(super) fn new(seed: u64, number: u32, clients: usize) -> Self {
        let mut dice = Dice::new(seed << 32 ^ u64::from(number));
        let client = dice.below(clients);
        let pages = (dice.exponential() * PAGES).max(1.0) as u32;
        Self {
            dice,
            client,
            pages,
        }
    }

    /// Draws the next page; `None` if the session is over.
    pub(super) fn page(&mut self) -> Option<Page> {
        self.pages = self.pages.checked_sub(1)?;
        let server = self.dice.below(CLIENTS as usize);
        let count = (self.dice.exponential() * OBJECTS).ceil().max(1.0) as u32;
        let objects = (0..count).map(|_| Object {
            packets: packets(&mut self.dice),
            gap_s: self.dice.exponential() * OBJECT_GAP_S,
        });
        Some(Page {
            server,
            objects: objects.collect(),
        })
    }

    /// Draws the seconds from the end of a page to the start of the next.
    pub(super) fn pause_s(&mut self) -> f64 {
        self.dice.exponential() * PAGE_GAP_S
    }
}

/// Draws the size of an object, in packets.
fn packets(dice: &mut Dice) -> u32 {
    let scale = MEAN_PACKETS * (SHAPE - 1.0);
    let size = scale * ((1.0 - dice.uniform()).powf(-1.0 / SHAPE) - 1.0);
    (size.ceil() as u32).max(1)
}

/// Returns the packets a second that sessions `gap_s` seconds apart ask for, on average over more
/// sessions than any run has. Numbers are rounded up, which adds a half to each.
pub(super) fn offered_packets_per_s(gap_s: f64) -> f64 {
    PAGES * (OBJECTS + 0.5) * (MEAN_PACKETS + 0.5) / gap_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_the_same_whatever_becomes_of_it() {
        let mut one = Session::new(7, 3, 5);
        let mut other = one.clone();
        assert_eq!(one.page(), other.page());
        assert_ne!(Session::new(7, 4, 5).page(), Session::new(7, 3, 5).page());
        assert_ne!(Session::new(8, 3, 5).page(), Session::new(7, 3, 5).page());
    }

    #[test]
    fn pages_and_objects_are_as_many_as_the_paper_says() {
        let (mut pages, mut objects, mut short) = (0, 0, 0);
        for number in 0..300 {
            let mut session = Session::new(7, number, 5);
            while let Some(page) = session.page() {
                pages += 1;
                objects += page.objects.len();
                short += page.objects.iter().filter(|own| own.packets <= 15).count();
            }
        }
        // Means of 100 and 3, rounded up; 90% are short.
        assert!((85..115).contains(&(pages / 300)), "{pages}");
        let objects_a_page = objects as f64 / f64::from(pages);
        assert!((3.4..3.7).contains(&objects_a_page), "{objects_a_page}");
        let share = short as f64 / objects as f64;
        assert!((0.89..0.92).contains(&share), "{share}");
    }
}
