//! The client of a soak: its connections, and one request on them.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::plan::{Ask, Leave, Travel};
use super::tally::Came;
use crate::replay::{Connections, Received, Target};

/// The time that a client still waits before it leaves without the head.
const BEFORE_LEAVING: Duration = Duration::from_millis(2);

pub(super) struct SoakClient {
    target: Target,
    idle: RefCell<Vec<Http1Connection>>,
    http2: Connections,
    turn: Cell<usize>,
}

/// An HTTP/1.1 connection; its socket is closed when it is dropped.
struct Http1Connection {
    sender: http1::SendRequest<Empty<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Http1Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The state of a request once it was sent.
enum Begun {
    NoConnection,
    Broken,
    Left,
    /// The head, and the HTTP/1.1 connection that it came on.
    Head(http::Response<Incoming>, Option<Http1Connection>),
}

impl SoakClient {
    pub(super) fn new(target: Target, connections: u32) -> Self {
        Self {
            http2: Connections::new(target.clone(), connections),
            target,
            idle: RefCell::default(),
            turn: Cell::new(0),
        }
    }

    /// Makes a request, and leaves at the moment that it says.
    pub(super) async fn make(&self, ask: &Ask) -> Came {
        let mut received = Received::new(&ask.path, ask.bytes);
        match self.begin(ask).await {
            Begun::NoConnection => Came::NoConnection,
            Begun::Broken => Came::Broken(received),
            Begun::Left => Came::Left(received),
            Begun::Head(response, connection) => {
                received.status = response.status().as_u16();
                let came = read(ask, response.into_body(), received).await;
                if let (Came::Ended(..), Some(connection)) = (&came, connection)
                    && ask.travel == Travel::Keep
                {
                    // No more than there are clients.
                    self.idle.borrow_mut().push(connection);
                }
                came
            }
        }
    }

    async fn begin(&self, ask: &Ask) -> Begun {
        let Ok(request) = self.request(ask) else {
            return Begun::Broken;
        };
        if ask.travel == Travel::Stream {
            let turn = self.turn.replace(self.turn.get().wrapping_add(1));
            let Ok(mut sender) = self.http2.sender(turn).await else {
                return Begun::NoConnection;
            };
            let head = unless_left(ask, sender.send_request(request)).await;
            return match head {
                None => Begun::Left,
                Some(Ok(response)) => Begun::Head(response, None),
                Some(Err(_)) => Begun::Broken,
            };
        }
        // An idle connection may be closed just as it is used again: that is
        // no failure of the request, which goes on a new one.
        let idle = if ask.travel == Travel::Keep && ask.leave.is_none() {
            self.idle.borrow_mut().pop()
        } else {
            None
        };
        if let Some(mut connection) = idle
            && connection.sender.ready().await.is_ok()
        {
            match connection.sender.send_request(request.clone()).await {
                Ok(response) => return Begun::Head(response, Some(connection)),
                // It was never sent.
                Err(error) if error.is_canceled() => {}
                Err(_) => return Begun::Broken,
            }
        }
        let Ok(mut connection) = self.connect(ask).await else {
            return Begun::NoConnection;
        };
        match unless_left(ask, connection.sender.send_request(request)).await {
            None => Begun::Left,
            Some(Ok(response)) => Begun::Head(response, Some(connection)),
            Some(Err(_)) => Begun::Broken,
        }
    }

    fn request(&self, ask: &Ask) -> anyhow::Result<Request<Empty<Bytes>>> {
        let authority = &self.target.authority;
        let mut request = Request::new(Empty::new());
        if ask.head_only {
            *request.method_mut() = Method::HEAD;
        }
        if ask.travel == Travel::Stream {
            *request.uri_mut() = format!("http://{authority}{}", ask.path).parse()?;
        } else {
            *request.uri_mut() = ask.path.parse()?;
            let headers = request.headers_mut();
            headers.insert(header::HOST, HeaderValue::from_str(authority)?);
            if ask.travel == Travel::Close {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
        }
        if ask.trailers {
            let headers = request.headers_mut();
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
            if ask.travel == Travel::Keep {
                headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
            }
        }
        Ok(request)
    }

    async fn connect(&self, ask: &Ask) -> anyhow::Result<Http1Connection> {
        let stream = TcpStream::connect(self.target.address).await?;
        stream.set_nodelay(true)?;
        if ask.leave.is_some() && ask.reset {
            // Closing then sends a reset.
            SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::task::spawn_local(async move { drop(connection.await) });
        Ok(Http1Connection { sender, driver })
    }
}

/// Waits for the head, unless the client is to leave before.
async fn unless_left<T>(ask: &Ask, head: impl Future<Output = T>) -> Option<T> {
    if ask.leave == Some(Leave::BeforeHead) {
        // Dropping it takes the request back.
        let _ = tokio::time::timeout(BEFORE_LEAVING, head).await;
        return None;
    }
    Some(head.await)
}

async fn read(ask: &Ask, mut body: Incoming, mut received: Received) -> Came {
    let mut trailers = false;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else {
            return Came::Broken(received);
        };
        match frame.into_data() {
            Ok(data) => received.body(&data),
            Err(_) => trailers = true,
        }
        if let Some(Leave::InBody(bytes)) = ask.leave
            && received.bytes > bytes
        {
            return Came::Left(received);
        }
    }
    match ask.leave {
        // It was over before the client could leave.
        Some(_) => Came::Left(received),
        None => Came::Ended(received, trailers),
    }
}
