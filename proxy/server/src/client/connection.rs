//! Connections of clients: HTTP/1.1 and HTTP/2 on them, their sockets and their deadlines.
//!
//! A connection has one timer, not one for each request. It is armed for the earliest
//! deadline that the connection has seen. When it fires, the deadline is computed anew from
//! the `Phase` (`phase.rs`) and the marks that reads, writes and body chunks leave behind.

mod account;
mod blocked;
mod conclusion;
mod deadlines;
mod drain;
mod drive;
mod end;
mod frames;
mod half_close;
mod handshake;
mod http1;
mod http2;
mod http2_progress;
mod http2_state;
mod http2_stream;
mod identity;
mod interim;
mod interim_queue;
mod io;
mod multiplexed;
mod parked;
mod phase;
mod preface;
mod progress;
mod serve;
mod service;
mod socket;
mod state;
mod stream;
mod wire;

pub(crate) use self::account::Account;
pub(crate) use self::deadlines::NEW_WHILE_DRAINING;
pub(crate) use self::progress::ResponseBounds;
pub(crate) use self::serve::serve;
pub(crate) use self::service::Service;
pub(crate) use self::state::{ClientIo, Connection, Switched};
pub(crate) use self::stream::Stream;
