//! Threads that accept connections and answer on them.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::body::{ContentBody, TRAILER};
use super::recipe::{Recipe, RecipeError};
use super::{Origin, fault};

type Reply = Response<Either<ContentBody, Full<Bytes>>>;

/// Connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// After a failed accept (no descriptors left), before the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// An origin that serves until the process ends.
#[derive(Debug)]
pub struct Running {
    /// The addresses served, in the order asked for.
    pub addresses: Vec<SocketAddr>,
}

/// Binds the addresses and starts the threads.
///
/// # Errors
/// When an address cannot be bound, or a thread not be started.
pub fn start(origin: &Origin) -> anyhow::Result<Running> {
    let shared = origin.threads > 1;
    let mut addresses = Vec::new();
    let mut by_thread: Vec<Vec<Server>> = (0..origin.threads).map(|_| Vec::new()).collect();
    for asked in &origin.listen {
        let queue = origin
            .one_at_a_time_bits_per_s
            .map(|rate| Arc::new(ServiceQueue::new(rate)));
        let mut address = *asked;
        for servers in &mut by_thread {
            let listener = bind(address, shared)
                .with_context(|| format!("cannot serve {address}; is the port taken?"))?;
            // Port 0 became a number: the other threads share it.
            address = listener.local_addr()?;
            servers.push(Server {
                listener,
                queue: queue.clone(),
            });
        }
        addresses.push(address);
    }
    let connections_each = (origin.connections_max / u32::from(origin.threads)).max(1);
    for (index, servers) in by_thread.into_iter().enumerate() {
        let headers = Arc::new(origin.headers.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name(format!("origin-{index}"))
            .spawn(move || serve(&runtime, servers, &headers, connections_each))?;
    }
    Ok(Running { addresses })
}

/// One address as one thread serves it.
struct Server {
    listener: StdListener,
    queue: Option<Arc<ServiceQueue>>,
}

/// Binds, so that other threads can bind the same address if `shared`. Not
/// shared by default: two origins on one port by mistake must not split it.
fn bind(address: SocketAddr, shared: bool) -> io::Result<StdListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn serve(
    runtime: &tokio::runtime::Runtime,
    servers: Vec<Server>,
    headers: &Arc<HeaderMap>,
    connections_max: u32,
) {
    let local = LocalSet::new();
    local.block_on(runtime, async {
        let room = Arc::new(Semaphore::new(connections_max as usize));
        let accepting: Vec<_> = servers
            .into_iter()
            .map(|server| tokio::task::spawn_local(accept(server, headers.clone(), room.clone())))
            .collect();
        for task in accepting {
            // A panic in one has been printed; the others go on.
            let _ = task.await;
        }
    });
}

async fn accept(server: Server, headers: Arc<HeaderMap>, room: Arc<Semaphore>) {
    let listener = TcpListener::from_std(server.listener).expect("a listener made non-blocking");
    loop {
        let permit = room.clone().acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((stream, _)) => {
                let headers = headers.clone();
                let queue = server.queue.clone();
                tokio::task::spawn_local(async move {
                    connection(stream, headers, queue).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves one connection until it ends or a fault takes it over.
async fn connection(stream: TcpStream, headers: Arc<HeaderMap>, queue: Option<Arc<ServiceQueue>>) {
    if stream.set_nodelay(true).is_err() {
        return; // Gone already.
    }
    let broken: Rc<Cell<Option<Recipe>>> = Rc::default();
    let service =
        service_fn(|request| answer(request, headers.clone(), queue.clone(), broken.clone()));
    let mut connection = http1::Builder::new()
        .half_close(false)
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service);
    let recipe = poll_fn(|cx| {
        let ended = Pin::new(&mut connection).poll(cx).is_ready();
        match broken.take() {
            Some(recipe) => Poll::Ready(Some(recipe)),
            None if ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    });
    if let Some(recipe) = recipe.await
        && let Some(kind) = recipe.fault
    {
        let stream = connection.into_parts().io.into_inner();
        fault::perform(stream, kind, &recipe).await;
    }
}

/// Answers a request. One that asks for a fault is put into `broken` and never
/// answered: whoever drives the connection takes the socket from there.
async fn answer(
    request: Request<Incoming>,
    headers: Arc<HeaderMap>,
    queue: Option<Arc<ServiceQueue>>,
    broken: Rc<Cell<Option<Recipe>>>,
) -> Result<Reply, Infallible> {
    let mut reply = match Recipe::of_uri(request.uri()) {
        Ok(recipe) => {
            match &queue {
                Some(queue) => tokio::time::sleep_until(queue.join(&recipe)).await,
                None if recipe.delay.is_zero() => {}
                None => tokio::time::sleep(recipe.delay).await,
            }
            if recipe.fault.is_some() {
                broken.set(Some(recipe));
                return std::future::pending().await;
            }
            made_to_order(&recipe, request.method())
        }
        Err(error) => explain(&error),
    };
    for (name, value) in headers.iter() {
        reply.headers_mut().append(name, value.clone());
    }
    Ok(reply)
}

fn made_to_order(recipe: &Recipe, method: &Method) -> Reply {
    let bodiless = matches!(
        recipe.status,
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    );
    let mut reply = if bodiless {
        Response::new(Either::Right(Full::default()))
    } else {
        Response::new(Either::Left(ContentBody::new(recipe)))
    };
    *reply.status_mut() = recipe.status;
    let headers = reply.headers_mut();
    if !bodiless {
        let octets = HeaderValue::from_static("application/octet-stream");
        headers.insert(header::CONTENT_TYPE, octets);
    }
    if recipe.close {
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if recipe.trailers {
        headers.insert(header::TRAILER, HeaderValue::from_static(TRAILER));
    }
    // Without it, hyper leaves out the length of an empty body for HEAD.
    if method == Method::HEAD && !bodiless && !recipe.chunked && !recipe.trailers {
        headers.insert(header::CONTENT_LENGTH, recipe.content.bytes.into());
    }
    reply
}

fn explain(error: &RecipeError) -> Reply {
    let mut reply = Response::new(Either::Right(Full::from(format!("{error}\n"))));
    *reply.status_mut() = match error {
        RecipeError::Path(_) => StatusCode::NOT_FOUND,
        RecipeError::Knob { .. } | RecipeError::Value { .. } => StatusCode::BAD_REQUEST,
    };
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    reply.headers_mut().insert(header::CONTENT_TYPE, text);
    reply
}

/// A server that serves one request at a time, first come, first served. Only
/// the time when it will be free is kept: a request that has joined is served
/// even if its client leaves.
struct ServiceQueue {
    bits_per_s: u64,
    free_at: Mutex<Instant>,
}

impl ServiceQueue {
    fn new(bits_per_s: u64) -> Self {
        Self {
            bits_per_s,
            free_at: Mutex::new(Instant::now()),
        }
    }

    /// When a request that joins now is done: its delay and its body's size
    /// over the rate, after all those before it.
    fn join(&self, recipe: &Recipe) -> Instant {
        let body_s = recipe.content.bytes as f64 * 8.0 / self.bits_per_s as f64;
        let service = Duration::try_from_secs_f64(body_s)
            .unwrap_or(Duration::MAX)
            .saturating_add(recipe.delay);
        let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*free_at).max(Instant::now());
        if let Some(done) = start.checked_add(service) {
            *free_at = done;
        }
        *free_at
    }
}
