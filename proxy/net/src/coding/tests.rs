use std::convert::Infallible;
use std::io::{Read as _, Write as _};

use http::HeaderValue;
use http_body_util::{BodyExt as _, Full};

use super::*;
use crate::places::Places;

const ALL: [Algorithm; 3] = [Algorithm::Zstd, Algorithm::Brotli, Algorithm::Gzip];

#[test]
fn a_client_gets_what_it_likes_best() {
    for (accepted, expected) in [
        ("gzip", Some(Algorithm::Gzip)),
        ("X-GZIP", Some(Algorithm::Gzip)),
        ("gzip, deflate, br, zstd", Some(Algorithm::Zstd)),
        ("gzip;q=1.0, br;q=0.5", Some(Algorithm::Gzip)),
        ("br ; Q = 0.2 , zstd;q=0", Some(Algorithm::Brotli)),
        ("*", Some(Algorithm::Zstd)),
        ("*;q=0.1, gzip", Some(Algorithm::Gzip)),
        ("*, zstd;q=0", Some(Algorithm::Brotli)),
        ("gzip;q=0", None),
        ("gzip;q=2", None),
        ("gzip;q=x", None),
        ("identity", None),
        ("", None),
    ] {
        let mut request = HeaderMap::new();
        request.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepted));
        assert_eq!(negotiate(&request, &ALL), expected, "{accepted}");
    }
    assert_eq!(negotiate(&HeaderMap::new(), &ALL), None);
}

fn decoded(algorithm: Algorithm, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let read = match algorithm {
        Algorithm::Gzip => flate2::read::GzDecoder::new(data).read_to_end(&mut out),
        Algorithm::Brotli => brotli::Decompressor::new(data, 4096).read_to_end(&mut out),
        Algorithm::Zstd => zstd::Decoder::new(data).unwrap().read_to_end(&mut out),
    };
    assert_eq!(read.unwrap(), out.len());
    out
}

#[test]
fn what_is_encoded_is_what_came() {
    let text: Vec<u8> = (0..200_000)
        .map(|n: u32| b"to be or not"[(n.wrapping_mul(n) % 11) as usize])
        .collect();
    for algorithm in ALL {
        let held = VecDeque::from([Bytes::copy_from_slice(&text[..10])]);
        let rest = Full::new(Bytes::copy_from_slice(&text[10..]));
        let place = Places::default().take(1).unwrap();
        let encoder = Encoder::new(algorithm).unwrap();
        let body = Coded::encoding(rest, held, encoder, place, |_, _| {});
        assert_eq!(body.size_hint().exact(), None);
        let collecting = body.collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let all = runtime.block_on(collecting).unwrap().to_bytes();
        assert!(all.len() < text.len() / 3, "{algorithm:?} {}", all.len());
        assert_eq!(decoded(algorithm, &all), text, "{algorithm:?}");
    }
}

/// A body that gives a piece, pauses, and goes on when it is asked again.
struct Pausing(Vec<Option<&'static str>>);

impl Body for Pausing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.0.pop() {
            None => Poll::Ready(None),
            Some(None) => Poll::Pending,
            Some(Some(text)) => {
                Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
            }
        }
    }
}

#[test]
fn a_body_that_pauses_is_put_out_so_far() {
    for algorithm in ALL {
        let inner = Pausing(vec![Some("second"), None, None, Some("first")]);
        let place = Places::default().take(1).unwrap();
        let encoder = Encoder::new(algorithm).unwrap();
        let mut body = Coded::encoding(inner, VecDeque::new(), encoder, place, |_, _| {});
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut next = || Pin::new(&mut body).poll_frame(&mut cx);
        let Poll::Ready(Some(Ok(first))) = next() else {
            panic!("{algorithm:?}: nothing comes");
        };
        let mut all = first.into_data().unwrap().to_vec();
        // A client can read it before the end: a decoder of what has come finds it.
        let mut so_far = Vec::new();
        match algorithm {
            Algorithm::Gzip => {
                let mut decoder = flate2::write::GzDecoder::new(&mut so_far);
                decoder.write_all(&all).unwrap();
                decoder.flush().unwrap();
                drop(decoder);
            }
            Algorithm::Brotli => {
                let mut decoder = brotli::DecompressorWriter::new(&mut so_far, 4096);
                decoder.write_all(&all).unwrap();
                decoder.flush().unwrap();
                drop(decoder);
            }
            Algorithm::Zstd => {
                let mut decoder = zstd::stream::write::Decoder::new(&mut so_far).unwrap();
                decoder.write_all(&all).unwrap();
                decoder.flush().unwrap();
            }
        }
        assert_eq!(so_far, b"first", "{algorithm:?}");
        assert!(next().is_pending());
        while let Poll::Ready(Some(Ok(frame))) = next() {
            all.extend_from_slice(frame.data_ref().unwrap());
        }
        assert_eq!(decoded(algorithm, &all), b"firstsecond", "{algorithm:?}");
    }
}
