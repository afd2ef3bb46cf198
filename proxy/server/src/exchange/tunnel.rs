//! The tunnel after a `101 Switching Protocols` (RFC 9110 7.8): bytes in both directions,
//! of which nothing is known but how many.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use sprat_net::counters::Counter;
use sprat_net::error::Reason;
use sprat_net::permit::Permit;
use sprat_uplink::{Bursts, WireMarks};
use sprat_upstream::ConnectionPlace;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, split};
use tokio::time::{Instant, sleep_until};

use crate::client::connection::{ClientIo, Connection, Switched};
use crate::exchange::record::Record;
use sprat_net::poll::now_or_never;

/// A tunnel that is about to begin: the upstream's side, which has switched protocols.
pub(crate) struct Tunnel {
    pub(crate) upstream: TokioIo<Upgraded>,
    pub(crate) record: Box<Record>,
    /// The longest time without a byte in either direction.
    pub(crate) idle_timeout: Duration,
    /// The bytes of the buffer in each direction.
    pub(crate) buffer_bytes: usize,
    /// The place of the tunnel among those of its listener.
    pub(crate) place: Permit,
    /// The place of the tunnel among the endpoint's connections.
    pub(crate) endpoint_place: ConnectionPlace,
}

impl Switched for Tunnel {
    fn run(
        self: Box<Self>,
        connection: Rc<Connection>,
        client: ClientIo,
        early: Bytes,
    ) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move { run(&connection, client, early, *self).await })
    }
}

/// The bytes that pass in a tunnel, and when.
struct Progress<'a> {
    /// The time when the last bytes passed.
    at: Cell<Instant>,
    /// The bytes sent to the client.
    sent: Cell<u64>,
    down: &'a Counter,
    up: &'a Counter,
}

impl Progress<'_> {
    fn sent(&self, bytes: usize) {
        self.at.set(Instant::now());
        self.sent.set(self.sent.get() + bytes as u64);
        self.down.add(bytes as u64);
    }

    fn received(&self, bytes: usize) {
        self.at.set(Instant::now());
        self.up.add(bytes as u64);
    }

    /// Waits until nothing has passed for the time `bound`.
    async fn idle(&self, bound: Duration) {
        loop {
            let until = self.at.get() + bound;
            if Instant::now() >= until {
                return;
            }
            sleep_until(until).await;
        }
    }
}

/// Passes on what both ends send until both have ended, or one has failed;
/// `early` has been read from the client already.
async fn run(connection: &Rc<Connection>, client: ClientIo, early: Bytes, tunnel: Tunnel) {
    let Tunnel {
        upstream,
        mut record,
        idle_timeout,
        buffer_bytes,
        place: _place,
        endpoint_place: _endpoint_place,
    } = tunnel;
    let stats = &connection.serving.stats;
    stats.tunnels.increment();
    stats.open_tunnels.increment();
    let progress = Progress {
        at: Cell::new(Instant::now()),
        sent: Cell::new(0),
        down: &stats.tunnel_bytes_down,
        up: &stats.tunnel_bytes_up,
    };
    let marks = record.generation().marking.map(|marking| {
        let wire = connection.wire.begin_mark();
        WireMarks::new(wire, marking, connection.wire.gauge().is_some(), 0)
    });
    let mut bursts = Bursts::new(
        connection.wire.outlet(),
        record.routing().class(),
        record.routing().client(),
    )
    .of_origin(record.generation().origin(record.routing().cluster()))
    .marked(marks);
    let (from_client, to_client) = split(client);
    let (from_upstream, to_upstream) = split(upstream);
    let both = async {
        let up = up(from_client, to_upstream, early, buffer_bytes, &progress);
        let down = down(
            from_upstream,
            to_client,
            &mut bursts,
            buffer_bytes,
            &progress,
        );
        tokio::try_join!(up, down).map(drop)
    };
    let ended = connection.unless_cut(async {
        tokio::select! {
            biased;
            ended = both => ended,
            () = progress.idle(idle_timeout) => Err(Reason::TunnelIdle),
        }
    });
    let ended = ended.await.and_then(|ended| ended);
    record.sent.end_tunnel(progress.sent.get(), bursts.waited());
    stats.open_tunnels.decrement();
    match ended {
        Ok(()) => record.complete(),
        // Counted when it is dropped, as what did not come to its end.
        Err(reason) => record.fail(reason),
    }
}

/// Passes bytes from the client to the upstream.
async fn up(
    mut client: impl AsyncRead + Unpin,
    mut upstream: impl AsyncWrite + Unpin,
    early: Bytes,
    buffer_bytes: usize,
    progress: &Progress<'_>,
) -> Result<(), Reason> {
    let broken = |_| Reason::ResponseIncomplete;
    let received = |bytes| progress.received(bytes);
    pass(&mut upstream, &early, received)
        .await
        .map_err(broken)?;
    let mut buffer = vec![0; buffer_bytes];
    loop {
        let read = client.read(&mut buffer).await;
        let count = read.map_err(|_| Reason::ClientClosed)?;
        if count == 0 {
            break;
        }
        let bytes = &buffer[..count];
        pass(&mut upstream, bytes, received).await.map_err(broken)?;
        upstream.flush().await.map_err(broken)?;
    }
    // An error: it has ended already, which the other direction tells.
    let _ = upstream.shutdown().await;
    Ok(())
}

/// Writes all the bytes, and reports each part as the peer takes it: a peer that takes
/// little at a time is not idle.
async fn pass(
    to: &mut (impl AsyncWrite + Unpin),
    mut bytes: &[u8],
    taken: impl Fn(usize),
) -> io::Result<()> {
    while !bytes.is_empty() {
        let count = to.write(bytes).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        taken(count);
        bytes = &bytes[count..];
    }
    Ok(())
}

/// Passes bytes from the upstream to the client, in the scheduler's order.
async fn down(
    mut upstream: impl AsyncRead + Unpin,
    mut client: impl AsyncWrite + Unpin,
    bursts: &mut Bursts<'_>,
    buffer_bytes: usize,
    progress: &Progress<'_>,
) -> Result<(), Reason> {
    let gone = |_| Reason::ClientClosed;
    let mut buffer = vec![0; buffer_bytes];
    loop {
        let read = match now_or_never(upstream.read(&mut buffer)).await {
            Some(read) => read,
            None => {
                bursts.pause();
                upstream.read(&mut buffer).await
            }
        };
        let count = read.map_err(|_| Reason::ResponseIncomplete)?;
        if count == 0 {
            break;
        }
        let mut left = &buffer[..count];
        while !left.is_empty() {
            let (now, later) = left.split_at(bursts.turn(left.len()).await);
            let sent = |bytes| progress.sent(bytes);
            pass(&mut client, now, sent).await.map_err(gone)?;
            client.flush().await.map_err(gone)?;
            left = later;
        }
    }
    bursts.pause();
    // As above.
    let _ = client.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn whoever_takes_little_at_a_time_is_told_of_each_time() {
        let (mut ours, mut theirs) = duplex(10);
        let taken = RefCell::new(Vec::new());
        let sends = async {
            let tell = |bytes| taken.borrow_mut().push(bytes);
            pass(&mut ours, &[7; 25], tell).await
        };
        let reads = async {
            let mut part = [0; 10];
            for bytes in [10, 10, 5] {
                theirs.read_exact(&mut part[..bytes]).await?;
            }
            io::Result::Ok(())
        };
        tokio::try_join!(sends, reads).unwrap();
        assert_eq!(*taken.borrow(), [10, 10, 5]);
    }
}
