//! The origin over HTTP/2 with prior knowledge: a fault concerns its stream,
//! and the connection goes on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full, combinators::UnsyncBoxBody};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::recipe::{Fault, Recipe};
use super::reply::{add, explain, made_to_order, recipe_of, serve_work};
use super::service;
use crate::content::{Content, SLICE_BYTES_MAX};

/// The first bytes of an HTTP/2 connection; no HTTP/1 method begins so.
const PREFACE: &[u8] = b"PRI ";

/// The time between two looks at a connection of which less than [`PREFACE`] has come.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The most streams of one connection at once.
const STREAMS_MAX: u32 = 1000;

/// The most bytes that a stream holds while its client does not read.
const SEND_BUFFER_BYTES: usize = 256 * 1024;

/// The bytes beyond the announced length, where the knob `at` does not say.
const EXCESS_BYTES_DEFAULT: u64 = 100;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Error>>;

/// Returns whether the client speaks HTTP/2, judged by its first bytes, which
/// stay in the socket.
pub(super) async fn is_spoken(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    loop {
        let come = stream.peek(&mut first).await?;
        if come == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first[..come] != PREFACE[..come] {
            return Ok(false);
        }
        if come == PREFACE.len() {
            return Ok(true);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Serves one connection over HTTP/2 until it ends.
pub(super) async fn serve(
    stream: TcpStream,
    headers: Arc<HeaderMap>,
    work: Option<Arc<service::WorkingServer>>,
) {
    let service = service_fn(|request| answer(request, headers.clone(), work.clone()));
    // The client may leave at any point: that is no error of the origin's.
    let _ = http2::Builder::new(LocalExecutor)
        .max_concurrent_streams(STREAMS_MAX)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// An executor that runs the streams' tasks on the thread of their connection.
#[derive(Clone, Copy)]
pub(crate) struct LocalExecutor;

impl<F: Future<Output = ()> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// Answers a request; an error resets its stream.
async fn answer(
    request: Request<Incoming>,
    headers: Arc<HeaderMap>,
    work: Option<Arc<service::WorkingServer>>,
) -> Result<Answer, Error> {
    let mut reply = match recipe_of(&request) {
        Ok(recipe) => {
            serve_work(&recipe, request.method(), work.as_deref()).await;
            match recipe.fault {
                None => {
                    // A stream ends by itself; the connection is everybody's.
                    let recipe = Recipe {
                        close: false,
                        ..recipe
                    };
                    let reply = made_to_order(&recipe, request.method());
                    // hyper leaves the body out over HTTP/1 only.
                    match *request.method() {
                        Method::HEAD => boxed(reply.map(|_| Empty::new())),
                        _ => boxed(reply),
                    }
                }
                Some(Fault::ResetHead) => return Err("reset_head".into()),
                Some(Fault::StallHead) => std::future::pending().await,
                Some(fault) => match FaultyBody::new(&recipe, fault) {
                    Some(body) => broken(&recipe, body),
                    None => not_here(),
                },
            }
        }
        Err(error) => boxed(explain(&error)),
    };
    add(&mut reply, &headers);
    Ok(reply)
}

fn boxed<B>(reply: Response<B>) -> Answer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Error>,
{
    reply.map(|body| body.map_err(Into::into).boxed_unsync())
}

fn broken(recipe: &Recipe, body: FaultyBody) -> Answer {
    let mut reply = boxed(Response::new(body));
    *reply.status_mut() = recipe.status;
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_LENGTH, recipe.content.bytes.into());
    let media_type = HeaderValue::from_static(recipe.content.media_type());
    headers.insert(header::CONTENT_TYPE, media_type);
    reply
}

fn not_here() -> Answer {
    let text = "this fault is for HTTP/1.1: a stream of HTTP/2 has no such bytes\n";
    let mut reply = boxed(Response::new(Full::from(text)));
    *reply.status_mut() = StatusCode::BAD_REQUEST;
    reply
}

/// A body that stops after `stop` bytes, and ends there as the fault demands.
struct FaultyBody {
    content: Content,
    offset: u64,
    stop: u64,
    end: StreamEnd,
}

enum StreamEnd {
    /// The stream ends as if the body were whole.
    Ended,
    Reset,
    Never,
}

impl FaultyBody {
    /// Makes the body of a fault; `None` if the fault does not concern the body.
    fn new(recipe: &Recipe, fault: Fault) -> Option<Self> {
        let bytes = recipe.content.bytes;
        let stop = recipe.at.unwrap_or(bytes / 2).min(bytes);
        let excess = recipe.at.unwrap_or(EXCESS_BYTES_DEFAULT);
        let (stop, end) = match fault {
            Fault::ResetBody => (stop, StreamEnd::Reset),
            Fault::StallBody => (stop, StreamEnd::Never),
            Fault::Short => (stop, StreamEnd::Ended),
            Fault::Long => (bytes.saturating_add(excess), StreamEnd::Ended),
            Fault::ResetHead | Fault::StallHead | Fault::Garbage | Fault::HeaderFlood => {
                return None;
            }
        };
        Some(Self {
            content: recipe.content,
            offset: 0,
            stop,
            end,
        })
    }
}

impl Body for FaultyBody {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let left = self.stop - self.offset;
        if left > 0 {
            let slice = self
                .content
                .stretch(self.offset, left.min(SLICE_BYTES_MAX as u64) as usize);
            self.offset += slice.len() as u64;
            return Poll::Ready(Some(Ok(Frame::data(slice))));
        }
        match self.end {
            StreamEnd::Ended => Poll::Ready(None),
            StreamEnd::Reset => Poll::Ready(Some(Err("reset_body".into()))),
            // The stream's end, by either side, drops this body.
            StreamEnd::Never => Poll::Pending,
        }
    }
}
