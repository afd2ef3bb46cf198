//! A server's channel to its clients: the core's egress at a fixed rate.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};
use sprat_scheduler::{
    ClassSpec, Discipline, Egress, EgressPolicy, FlowId, FlowSpec, Grant, Pacer, Size, Time,
    WireCost,
};

/// The wire cost of replies, which is their bytes alone: the bandwidth of SDIS02's table 1 is that
/// for payload.
const COST: WireCost = WireCost {
    mss: 1448,
    segment_overhead: 0,
    connection_overhead: 0,
    record_overhead: 0,
};

/// The channel of a server, which sends replies in turns by bytes, strictly by level.
pub(super) struct Channel {
    egress: Egress,
    /// The task that the server works on, and whose reply comes here.
    expected: Option<usize>,
    /// The replies, by task.
    replies: BTreeMap<usize, OpenReply>,
    /// The task of each flow, by the flow's index.
    tasks: Vec<usize>,
    /// The task whose reply is on its way, and the bytes that are.
    sending: Option<(usize, u64)>,
}

struct OpenReply {
    flow: FlowId,
    left_bytes: u64,
}

impl Channel {
    pub(super) fn new(bits_per_s: u64, replies_max: usize, classes: Vec<ClassSpec>) -> Self {
        Self {
            egress: Egress::new(
                Pacer::exact(bits_per_s),
                EgressPolicy {
                    max_flows: replies_max,
                    guard_factor: 3.0,
                    classes,
                    ..EgressPolicy::new(Discipline::Fair)
                },
            ),
            expected: None,
            replies: BTreeMap::new(),
            tasks: Vec::new(),
            sending: None,
        }
    }

    /// Notes that the server has begun with a task.
    pub(super) fn expect(&mut self, task: usize) {
        self.expected = Some(task);
    }

    pub(super) fn is_expected(&self, task: usize) -> bool {
        self.expected == Some(task)
    }

    /// Takes a reply to send; returns whether the channel was idle.
    pub(super) fn send(
        &mut self,
        now: Time,
        task: usize,
        class: usize,
        bytes: u64,
    ) -> anyhow::Result<bool> {
        let spec = FlowSpec::new(class, Size::Exact(bytes), COST);
        let flow = self.egress.open(now, spec)?;
        self.egress.offer(now, flow, bytes);
        if self.tasks.len() <= flow.index() {
            self.tasks.resize(flow.index() + 1, task);
        }
        self.tasks[flow.index()] = task;
        let reply = OpenReply {
            flow,
            left_bytes: bytes,
        };
        self.replies.insert(task, reply);
        self.expected = None;
        Ok(self.sending.is_none())
    }

    /// Notes that the bytes on their way have arrived; returns the task if they were its last.
    pub(super) fn take_done(&mut self, now: Time) -> Option<usize> {
        let (task, bytes) = self.sending.take()?;
        // It may have been cancelled since.
        let reply = self.replies.get_mut(&task)?;
        reply.left_bytes -= bytes;
        self.egress.written(now, reply.flow, bytes);
        if reply.left_bytes > 0 {
            self.egress.offer(now, reply.flow, reply.left_bytes);
            return None;
        }
        self.egress.close(now, reply.flow);
        self.replies.remove(&task);
        Some(task)
    }

    /// Sends a part of the reply whose turn it is. Returns when the channel will be free again;
    /// `None` if no reply waits.
    pub(super) fn next(&mut self, now: Time) -> anyhow::Result<Option<Time>> {
        match self.egress.grant(now) {
            Grant::Idle => Ok(None),
            Grant::Wait { until } => bail!(
                "the channel is free at {} ns, but no reply may be sent before {} ns",
                now.as_nanos(),
                until.as_nanos()
            ),
            Grant::Send { flow, bytes } => {
                let task = self.tasks[flow.index()];
                let Some(reply) = self.replies.get(&task) else {
                    bail!("{bytes} bytes granted to a reply that is over");
                };
                ensure!(
                    reply.flow == flow && bytes <= reply.left_bytes,
                    "task {task}: {bytes} bytes granted of {} left",
                    reply.left_bytes
                );
                self.sending = Some((task, bytes));
                Ok(Some(self.egress.pacer().next_grant_at()))
            }
        }
    }

    /// Cancels a reply, of which no more is to be sent.
    pub(super) fn cancel(&mut self, now: Time, task: usize) {
        if let Some(reply) = self.replies.remove(&task) {
            // What has been granted leaves, all the same.
            self.egress.offer(now, reply.flow, 0);
            self.egress.close(now, reply.flow);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replies.is_empty() && self.egress.open_flows() == 0
    }
}
