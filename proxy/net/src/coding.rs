//! Content codings of responses (RFC 9110 8.4.1): which one a client takes, and bodies that
//! are encoded on their way.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, HeaderMap};
use http_body::{Body, Frame, SizeHint};
use sprat_config::resolved::Algorithm;

pub use sprat_encoder::Encoder;

use crate::begun::with_held;
use crate::places::Place;

/// Returns the offered coding that a client prefers, the first among equals. Returns `None` if
/// the client takes none of them (RFC 9110 12.5.3).
pub fn negotiate(request: &HeaderMap, offered: &[Algorithm]) -> Option<Algorithm> {
    let mut best = None;
    for &algorithm in offered {
        let weight = weight(request, algorithm.name());
        if weight > best.map_or(0, |(weight, _)| weight) {
            best = Some((weight, algorithm));
        }
    }
    best.map(|(_, algorithm)| algorithm)
}

/// Returns a client's weight for a coding, in thousandths; 0 if the client does not take it.
fn weight(request: &HeaderMap, name: &str) -> u32 {
    let (mut own, mut any) = (None, None);
    let fields = request.get_all(ACCEPT_ENCODING).iter();
    for text in fields.filter_map(|field| field.to_str().ok()) {
        for item in text.split(',') {
            let mut parts = item.split(';').map(str::trim);
            let coding = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| {
                let (key, value) = part.split_once('=')?;
                key.trim().eq_ignore_ascii_case("q").then(|| value.trim())
            });
            let quality = quality.map_or(Some(1.0), |value| value.parse::<f32>().ok());
            let quality = quality
                .filter(|own| (0.0..=1.0).contains(own))
                .unwrap_or(0.0);
            let thousandths = (quality * 1000.0) as u32;
            // gzip has an old name (RFC 9110 8.4.1.3).
            let is_it = coding.eq_ignore_ascii_case(name)
                || (name == "gzip" && coding.eq_ignore_ascii_case("x-gzip"));
            match coding {
                "*" => any = Some(thousandths),
                _ if is_it => own = Some(thousandths),
                _ => {}
            }
        }
    }
    own.or(any).unwrap_or(0)
}

/// A response's body, passed on as it came or encoded on its way.
pub enum Coded<B> {
    /// The body as it comes.
    Plain(B),
    /// A body of which some was read already.
    Held(VecDeque<Bytes>, B),
    /// The whole of a body, already read, and its trailers.
    Whole(Option<Bytes>, Option<HeaderMap>),
    /// The body is encoded as it comes.
    Encoding(Box<Encoding<B>>),
}

/// A body that is encoded as it comes.
pub struct Encoding<B> {
    inner: B,
    /// Parts of the body that had been read before it was to be encoded, oldest first.
    held: VecDeque<Bytes>,
    /// The encoder; none once the body has ended or failed.
    encoder: Option<Encoder>,
    /// Whether bytes were encoded that have not been put out.
    is_dirty: bool,
    trailers: Option<HeaderMap>,
    /// The callback that hears of bytes taken in, and of encoded bytes put out.
    told: Box<dyn FnMut(usize, usize)>,
    _place: Place,
}

/// The least bytes that are put out at a time, unless the body pauses or ends.
const CHUNK_BYTES: usize = 16 << 10;

impl<B: Body<Data = Bytes> + Unpin> Coded<B> {
    /// Returns a body that passes as it comes, after its parts that are `held` already.
    pub fn held(inner: B, held: VecDeque<Bytes>) -> Self {
        Self::Held(held, inner)
    }

    /// Returns a body that is encoded as it comes, after its parts that are `held` already.
    /// `told` hears of the bytes before and after encoding.
    pub fn encoding(
        inner: B,
        held: VecDeque<Bytes>,
        encoder: Encoder,
        place: Place,
        told: impl FnMut(usize, usize) + 'static,
    ) -> Self {
        Self::Encoding(Box::new(Encoding {
            inner,
            held,
            encoder: Some(encoder),
            is_dirty: false,
            trailers: None,
            told: Box::new(told),
            _place: place,
        }))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Encoding<B> {
    fn encode(&mut self, data: &Bytes) {
        if let Some(encoder) = &mut self.encoder {
            encoder.write(data);
            (self.told)(data.len(), 0);
            self.is_dirty = true;
        }
    }

    /// Takes the encoded bytes, if there are at least `least`.
    fn take(&mut self, least: usize) -> Option<Bytes> {
        let out = self.encoder.as_mut()?.take(least)?;
        (self.told)(0, out.len());
        Some(out)
    }

    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        while self.encoder.is_some() {
            if let Some(out) = self.take(CHUNK_BYTES) {
                return Poll::Ready(Some(Ok(Frame::data(out))));
            }
            if let Some(data) = self.held.pop_front() {
                self.encode(&data);
                continue;
            }
            let frame = match Pin::new(&mut self.inner).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(error))) => {
                    self.encoder = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => return Poll::Ready(self.finish().map(Ok)),
                // What has come is not kept from the client while more is waited for.
                Poll::Pending if !self.is_dirty => return Poll::Pending,
                Poll::Pending => {
                    self.is_dirty = false;
                    self.encoder.iter_mut().for_each(Encoder::flush);
                    match self.take(1) {
                        Some(out) => return Poll::Ready(Some(Ok(Frame::data(out)))),
                        None => return Poll::Pending,
                    }
                }
            };
            match frame.into_data() {
                Ok(data) => self.encode(&data),
                Err(frame) => self.trailers = frame.into_trailers().ok(),
            }
        }
        let trailers = self.trailers.take();
        Poll::Ready(trailers.map(|own| Ok(Frame::trailers(own))))
    }

    /// Ends the encoding, and returns its last bytes, or the trailers if there are none.
    fn finish(&mut self) -> Option<Frame<Bytes>> {
        let out = self.encoder.take().map(Encoder::finish).unwrap_or_default();
        (self.told)(0, out.len());
        match out.is_empty() {
            false => Some(Frame::data(out)),
            true => self.trailers.take().map(Frame::trailers),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.encoder.is_none() && self.trailers.is_none()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Coded<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.get_mut() {
            Self::Plain(body) => Pin::new(body).poll_frame(cx),
            Self::Held(held, body) => match held.pop_front() {
                Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
                None => Pin::new(body).poll_frame(cx),
            },
            Self::Whole(data, trailers) => Poll::Ready(match data.take() {
                Some(data) => Some(Ok(Frame::data(data))),
                None => trailers.take().map(|own| Ok(Frame::trailers(own))),
            }),
            Self::Encoding(own) => Poll::Ready(ready!(own.poll_frame(cx))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Held(held, body) => held.is_empty() && body.is_end_stream(),
            Self::Whole(data, trailers) => data.is_none() && trailers.is_none(),
            Self::Encoding(own) => own.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Held(held, body) => {
                let bytes: usize = held.iter().map(Bytes::len).sum();
                with_held(body.size_hint(), bytes as u64)
            }
            Self::Whole(data, _) => {
                SizeHint::with_exact(data.as_ref().map_or(0, |own| own.len() as u64))
            }
            Self::Encoding(own) if own.is_end_stream() => SizeHint::with_exact(0),
            Self::Encoding(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests;
