//! The server's own queue: what TCP may put into it, and who waits for room.

use std::collections::VecDeque;

use super::super::connection::PacketContent;
use super::super::wire::MSS;
use super::World;

/// The most segments of a connection that wait in the server's own queue: Linux's TCP small queues.
/// In Linux it is also what TCP's pacing lets out in a 1024th of a second, if that is more.
const SMALL_QUEUE: u32 = 3;
const SMALL_QUEUES_PER_S: u64 = 1024;

/// The server's own queue: it tells a connection when a segment has left, and has a
/// sender wait where another host's queue would drop.
#[derive(Debug, Default)]
pub(super) struct Local {
    pub(super) packets: u64,
    pub(super) most: u64,
    /// Connections that found the queue full, in order.
    pub(super) waiting: VecDeque<u32>,
}

impl World<'_> {
    /// Notes that a packet has left the server's own queue: others may enter it.
    pub(super) fn left_server(&mut self, content: PacketContent) {
        let Some(local) = &mut self.local else { return };
        local.packets -= 1;
        let next = local.waiting.pop_front();
        let connection = &mut self.connections[content.connection as usize];
        if content.kind.is_data() {
            connection.queued -= 1;
            self.transmit(content.connection);
        }
        if let Some(c) = next {
            self.connections[c as usize].waits = false;
            self.transmit(c);
        }
    }

    /// Returns whether the server's own queue takes a segment of a connection.
    /// A connection that finds it full gets its turn once there is room.
    pub(super) fn has_room(&mut self, c: u32) -> bool {
        let Some(local) = &mut self.local else {
            return true;
        };
        let connection = &mut self.connections[c as usize];
        let full = local.packets >= local.most;
        if full && !std::mem::replace(&mut connection.waits, true) {
            local.waiting.push_back(c);
        }
        let most = if self.plan.tcp.is_small_queue_timed {
            let segments = connection.sender.pacing_bytes_per_s() / SMALL_QUEUES_PER_S / MSS;
            SMALL_QUEUE.max(u32::try_from(segments + 1).unwrap_or(u32::MAX))
        } else {
            SMALL_QUEUE
        };
        !full && connection.queued < most
    }
}
