//! The size of a response's body, as it becomes known. The catalogue tells one when the
//! request has come, then the response's head does, then the body's end, from which the
//! catalogue learns. Each of these moments has a function of the belief (`at_...`).

use std::sync::Arc;

use http::{Response, StatusCode};
use http_body::Body;
use sprat_scheduler::Size;
use sprat_sizes::{Asked, Catalogue, Found, Layer, LayerStats, Lesson, Patience};

use super::check::content_length;
use crate::client::connection::Stream;
use crate::setup::generation::Generation;

/// The size that a response's body is believed to have, and what the catalogue said of it. How
/// well it is known is the size's own ([`Size`]).
pub(crate) struct SizeBelief {
    size: Size,
    /// The size that the catalogue gave before the response did, and the layer that had it.
    said: Option<Found>,
    /// The lesson that the body's length will be for the catalogue, if the head does not tell it.
    lesson: Option<Box<Lesson>>,
}

/// The catalogue that is asked for sizes, and learns them, on behalf of a stream.
#[derive(Clone, Copy)]
pub(super) struct Sizes<'a> {
    catalogue: &'a Arc<Catalogue>,
    stats: &'a LayerStats,
    stream: &'a Stream,
}

impl<'a> Sizes<'a> {
    pub(super) fn of(generation: &'a Generation, stream: &'a Stream) -> Self {
        Self {
            catalogue: &generation.catalogue,
            stats: &stream.connection().serving.stats.catalogue,
            stream,
        }
    }
}

impl SizeBelief {
    /// Returns the belief before the catalogue was asked: the size is unknown.
    pub(crate) fn none() -> Self {
        Self {
            size: Size::Unknown,
            said: None,
            lesson: None,
        }
    }

    /// Returns the size, as well as it is known by now.
    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Returns the layer of the catalogue that knew a size before the response told it, if any. It
    /// stays the same when the size becomes exact.
    pub(crate) fn layer(&self) -> Option<Layer> {
        self.said.map(|said| said.layer)
    }

    /// Takes the size of the answer to a request for a head alone: it has no body.
    pub(super) fn at_request_for_head(&mut self) {
        self.is_exactly(0);
    }

    /// Takes the size that the catalogue has for a request.
    pub(super) async fn at_request(
        &mut self,
        asked: &Asked,
        patience: Patience<'_>,
        sizes: Sizes<'_>,
    ) {
        sizes.stream.wait();
        let looking = sizes
            .catalogue
            .lookup_with_source(asked, patience, sizes.stats);
        self.found(looking.await);
    }

    /// Takes the size that the head of a response tells, or else the one that the catalogue
    /// has once it has seen that head. A length that the head tells is learnt, if the
    /// response is whole.
    pub(super) async fn at_head<B: Body>(
        &mut self,
        response: &Response<B>,
        is_answer_to_head: bool,
        asked: Option<&Asked>,
        sizes: Sizes<'_>,
    ) {
        let lesson = asked.map(|asked| sizes.catalogue.lesson(asked, response.headers()));
        let teaches = response.status() == StatusCode::OK;
        let length = match is_answer_to_head {
            true => content_length(response.headers()),
            false => response.body().size_hint().exact(),
        };
        if let (true, Some(lesson), Some(length)) = (teaches, &lesson, length) {
            if !is_answer_to_head {
                self.compare(lesson, length, sizes);
            }
            sizes.catalogue.learn(lesson, length);
        }
        let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED];
        if is_answer_to_head || bodiless.contains(&response.status()) {
            return self.is_exactly(0);
        }
        if let Some(length) = length {
            return self.is_exactly(length);
        }
        let Some(lesson) = lesson else {
            return self.size = Size::Unknown;
        };
        if self.size == Size::Unknown {
            sizes.stream.wait();
            let looking = sizes.catalogue.lookup_of_response(&lesson, sizes.stats);
            self.found(looking.await);
        }
        self.lesson = teaches.then(|| Box::new(lesson));
    }

    /// Takes the length of a body that has come as a whole before its client gets any of it,
    /// unless the size is certain already.
    pub(super) fn at_whole(&mut self, bytes: u64) {
        if !matches!(self.size, Size::Exact(_)) {
            self.is_exactly(bytes);
        }
    }

    /// Teaches the catalogue the length of a body that has ended, if its head did not tell.
    pub(super) fn at_end(&mut self, bytes: u64, sizes: Sizes<'_>) {
        if let Some(lesson) = self.lesson.take() {
            self.compare(&lesson, bytes, sizes);
            sizes.catalogue.learn(&lesson, bytes);
        }
    }

    /// Takes the length of an answer of Sprat's own: it teaches nothing of the resource.
    pub(super) fn at_own_answer(&mut self, bytes: u64) {
        self.lesson = None;
        self.is_exactly(bytes);
    }

    /// Takes a length that is certain.
    fn is_exactly(&mut self, bytes: u64) {
        self.size = Size::Exact(bytes);
    }

    fn found(&mut self, found: Option<Found>) {
        self.said = found;
        self.size = found.map_or(Size::Unknown, |found| found.size);
    }

    /// Compares what the catalogue said with the `bytes` that the body has.
    fn compare(&self, lesson: &Lesson, bytes: u64, sizes: Sizes<'_>) {
        let Some(said) = self.said else { return };
        let Some(expected) = said.size.bytes() else {
            return;
        };
        sizes.stats.compare(said.layer, expected, bytes);
        if said.layer == Layer::HeadProbe {
            sizes.catalogue.compare_probe(lesson, expected == bytes);
        }
    }
}
