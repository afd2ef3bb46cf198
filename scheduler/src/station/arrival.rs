//! A request that comes to a station.

use std::time::Duration;

use crate::Size;

/// A request as its driver describes it.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The index of the request's class.
    pub class: usize,
    /// The response's size, as far as it is known.
    pub size: Size,
    /// The hash of the resource, for dispatch by affinity.
    pub hash: u64,
    /// A random number drawn for the request.
    pub random: u64,
    /// The time for which what open responses have left would occupy the
    /// uplink, for the overload rule of the channel.
    pub channel_backlog: Duration,
    /// The part of that backlog that goes before the request's class, or with it.
    pub channel_ahead: Duration,
}

/// The time for which bytes that wait occupy an uplink, as an arrival has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelBacklog {
    /// The time for all of them.
    pub whole: Duration,
    /// The part of it for what goes before a class, or with it.
    pub ahead: Duration,
}
