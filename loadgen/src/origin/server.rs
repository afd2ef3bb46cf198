//! The origin's threads, which accept connections and answer on them.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::LocalSet;

use super::recipe::Recipe;
use super::reply::{Reply, add, explain, made_to_order, recipe_of, serve_work};
use super::{Origin, fault, http2, service};

/// The most connections that the kernel holds until they are accepted.
const BACKLOG: i32 = 4096;

/// The time from a failed accept (no descriptors left) to the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// An origin that serves until the process ends.
#[derive(Debug)]
pub struct Running {
    /// The addresses served, in the order asked for.
    pub addresses: Vec<SocketAddr>,
}

/// Starts an origin: binds its addresses and starts its threads.
///
/// # Errors
/// When an address cannot be bound, or a thread not be started.
pub fn start(origin: &Origin) -> anyhow::Result<Running> {
    let shared = origin.threads > 1;
    let mut addresses = Vec::new();
    let mut by_thread: Vec<Vec<Server>> = (0..origin.threads).map(|_| Vec::new()).collect();
    for asked in &origin.listen {
        let work = origin.service.clone();
        let work = work.map(|service| Arc::new(service::WorkingServer::new(service)));
        let mut address = *asked;
        for servers in &mut by_thread {
            let listener = bind(address, shared)
                .with_context(|| format!("cannot serve {address}; is the port taken?"))?;
            // Port 0 became a number: the other threads share it.
            address = listener.local_addr()?;
            servers.push(Server {
                listener,
                work: work.clone(),
                max_unsent_bytes: origin.max_unsent_bytes,
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

/// The part of one thread in serving one address.
struct Server {
    listener: StdListener,
    work: Option<Arc<service::WorkingServer>>,
    max_unsent_bytes: u32,
}

/// Binds a listener; if `shared`, other threads can bind the same address. An origin of one thread
/// does not share it: two origins on one port by mistake must not split it.
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
                let work = server.work.clone();
                tokio::task::spawn_local(async move {
                    connection(stream, headers, work, server.max_unsent_bytes).await;
                    drop(permit);
                });
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves one connection until it ends or a fault takes it over.
async fn connection(
    stream: TcpStream,
    headers: Arc<HeaderMap>,
    work: Option<Arc<service::WorkingServer>>,
    max_unsent_bytes: u32,
) {
    if stream.set_nodelay(true).is_err()
        || (SockRef::from(&stream).set_tcp_notsent_lowat(max_unsent_bytes)).is_err()
    {
        return; // Gone already.
    }
    match http2::is_spoken(&stream).await {
        Ok(true) => http2::serve(stream, headers, work).await,
        Ok(false) => http1(stream, headers, work).await,
        Err(_) => {} // Gone before it said anything.
    }
}

async fn http1(
    stream: TcpStream,
    headers: Arc<HeaderMap>,
    work: Option<Arc<service::WorkingServer>>,
) {
    let broken: Rc<Cell<Option<Recipe>>> = Rc::default();
    let service =
        service_fn(|request| answer(request, headers.clone(), work.clone(), broken.clone()));
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

/// Answers a request. A request for a fault is put into `broken` and never answered: the task that
/// drives the connection takes the socket from there.
async fn answer(
    mut request: Request<Incoming>,
    headers: Arc<HeaderMap>,
    work: Option<Arc<service::WorkingServer>>,
    broken: Rc<Cell<Option<Recipe>>>,
) -> Result<Reply, Infallible> {
    let mut reply = match recipe_of(&request) {
        Ok(recipe) => {
            let method = request.method().clone();
            tokio::select! {
                biased;
                () = serve_work(&recipe, &method, work.as_deref()) => {}
                // The client does not read what is answered now, but that ends the connection.
                () = client_left(request.body_mut()) => {}
            }
            if recipe.fault.is_some() {
                broken.set(Some(recipe));
                return std::future::pending().await;
            }
            made_to_order(&recipe, request.method())
        }
        Err(error) => explain(&error),
    };
    add(&mut reply, &headers);
    Ok(reply)
}

/// Discards a request's body, and returns once the client has left before the body's end. hyper
/// does not notice that for a body that is not read: the connection would keep its descriptor until
/// the response is due.
async fn client_left(body: &mut Incoming) {
    while let Some(frame) = body.frame().await {
        if frame.is_err() {
            return;
        }
    }
    std::future::pending::<()>().await;
}
