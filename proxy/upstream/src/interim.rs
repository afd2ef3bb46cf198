//! Interim responses (1xx) over an endpoint's connection of HTTP/2, and the requests that they
//! are for.
//!
//! The screen sees an interim response with the number of its stream, but hyper does not tell
//! the stream of a request. The library numbers streams in the order in which it is given
//! requests, and drops a request's extensions as it does so. If hyper drops a request before
//! that, its answer is no longer waited for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use http::Request;
use sprat_net::screen::{Interim, Peer};

/// The first stream that a client opens (RFC 9113 5.1.1).
const FIRST_STREAM: u32 = 1;

/// A function that takes the interim responses to a request, which carries it as an extension.
#[derive(Clone)]
pub struct Hear(Arc<dyn Fn(Interim) + Send + Sync>);

impl Hear {
    /// Wraps a function that takes interim responses.
    pub fn new(hear: impl Fn(Interim) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

/// The requests of one connection that wait for their answers, by the number of the stream.
#[derive(Default)]
pub(super) struct Hears(Mutex<OpenStreams>);

struct OpenStreams {
    /// The number of the next stream.
    next: u32,
    waiting: BTreeMap<u32, Weak<AwaitedAnswer>>,
}

impl Default for OpenStreams {
    fn default() -> Self {
        Self {
            next: FIRST_STREAM,
            waiting: BTreeMap::new(),
        }
    }
}

/// A request whose answer is waited for.
struct AwaitedAnswer {
    hear: Option<Hear>,
    /// The number of the request's stream; zero before it has one.
    stream: AtomicU32,
}

/// A request's hold on its interim responses, which are heard while this lives.
pub(super) struct Hearing {
    hears: Arc<Hears>,
    waiting: Arc<AwaitedAnswer>,
}

/// An extension that the library drops when it gives a request its stream.
struct Turn(Option<(Arc<Hears>, Weak<AwaitedAnswer>)>);

/// A clone is empty: the first alone is the request's.
impl Clone for Turn {
    fn clone(&self) -> Self {
        Self(None)
    }
}

impl Hears {
    fn with<T>(&self, work: impl FnOnce(&mut OpenStreams) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hears the interim responses to a request that is about to be given to hyper, and
    /// hands them to its [`Hear`].
    pub(super) fn begin<B>(self: &Arc<Self>, request: &mut Request<B>) -> Hearing {
        let extensions = request.extensions_mut();
        let waiting = Arc::new(AwaitedAnswer {
            hear: extensions.remove(),
            stream: AtomicU32::new(0),
        });
        let turn = (Arc::clone(self), Arc::downgrade(&waiting));
        extensions.insert(Turn(Some(turn)));
        Hearing {
            hears: Arc::clone(self),
            waiting,
        }
    }
}

impl Peer for Hears {
    fn interim(&self, stream: u32, interim: Interim) {
        let waiting = self.with(|known| known.waiting.get(&stream).and_then(Weak::upgrade));
        if let Some(hear) = waiting.as_ref().and_then(|waiting| waiting.hear.as_ref()) {
            (hear.0)(interim);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some((hears, waiting)) = self.0.take() else {
            return;
        };
        // Given up, or refused with its connection: it has no stream.
        let Some(own) = waiting.upgrade() else { return };
        hears.with(|known| {
            let stream = known.next;
            known.next = stream.saturating_add(2);
            own.stream.store(stream, Relaxed);
            if own.hear.is_some() {
                known.waiting.insert(stream, waiting);
            }
        });
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        let stream = self.waiting.stream.load(Relaxed);
        if stream > 0 && self.waiting.hear.is_some() {
            self.hears.with(|known| known.waiting.remove(&stream));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, StatusCode};
    use std::sync::atomic::AtomicUsize;

    fn interim() -> Interim {
        Interim {
            status: StatusCode::EARLY_HINTS,
            headers: HeaderMap::new(),
        }
    }

    #[test]
    fn streams_are_numbered_as_the_library_takes_requests() {
        let hears = Arc::new(Hears::default());
        let heard: [Arc<AtomicUsize>; 4] = std::array::from_fn(|_| Arc::default());
        let mut begun = heard.each_ref().map(|count| {
            let count = Arc::clone(count);
            let mut request = Request::new(());
            let hear = Hear::new(move |_| {
                count.fetch_add(1, Relaxed);
            });
            request.extensions_mut().insert(hear);
            let hearing = hears.begin(&mut request);
            Some((request, hearing))
        });
        // The second is given up before it is taken.
        let (request, hearing) = begun[1].take().unwrap();
        drop(hearing);
        // A copy takes no number.
        drop(request.clone());
        drop(request);
        let mut hearings = begun.map(|begun| begun.map(|(_, hearing)| hearing));
        for stream in [1, 3, 5, 3, 7] {
            hears.interim(stream, interim());
        }
        assert_eq!(
            heard.each_ref().map(|count| count.load(Relaxed)),
            [1, 0, 2, 1]
        );
        // Answered.
        hearings[2] = None;
        hears.interim(3, interim());
        assert_eq!(heard[2].load(Relaxed), 2);
        drop(hearings);
        assert!(hears.with(|known| known.waiting.is_empty()));
    }
}
