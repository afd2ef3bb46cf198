//! The bytes of tunnels, which are no responses, and of which nothing is known.
//!
//! Bytes that come without a pause are a flow of unknown size, which is ranked by what it has
//! had. So a message goes ahead of a download, whatever went through the tunnel before.

use std::future::poll_fn;
use std::time::Duration;

use sprat_scheduler::{FlowSpec, Size};

use super::flow::Flow;
use super::{Outlet, WireMarks};

/// A tunnel's place on the uplink.
pub struct Bursts<'a> {
    outlet: &'a Outlet,
    class: usize,
    /// The client whose tunnel it is, if clients share the uplink.
    client: Option<u64>,
    /// The number by which a survey tells where the bytes come from.
    origin: u32,
    /// The flow of the present burst, if the uplink is paced and has room.
    flow: Option<Flow>,
    /// The bytes of the present burst that have had their turn.
    attained: u64,
    waited: Duration,
    /// The marks of the tunnel's packets, if they bear code points.
    marks: Option<WireMarks>,
}

impl<'a> Bursts<'a> {
    /// Returns the bursts of a tunnel in this class, of this client.
    pub fn new(outlet: &'a Outlet, class: usize, client: Option<u64>) -> Self {
        Self {
            outlet,
            class,
            client,
            origin: 0,
            flow: None,
            attained: 0,
            waited: Duration::ZERO,
            marks: None,
        }
    }

    /// Sets the number by which a survey tells where the bytes come from.
    #[must_use]
    pub fn of_origin(self, origin: u32) -> Self {
        Self { origin, ..self }
    }

    /// Sets the marks of the tunnel's packets, if they bear code points.
    #[must_use]
    pub fn marked(self, marks: Option<WireMarks>) -> Self {
        Self { marks, ..self }
    }

    /// Waits until it is the burst's turn; returns how many of `available` bytes may be written
    /// then, one at least. All that was written before must be in the socket.
    pub async fn turn(&mut self, available: usize) -> usize {
        let bytes = match self.outlet {
            Outlet::Plain => available,
            Outlet::Marked(mark) => mark.next_class(self.attained).min(available),
            Outlet::Gauged(gauge) => {
                if self.flow.is_none() {
                    let spec = FlowSpec::new(self.class, Size::Unknown, gauge.cost())
                        .of_client(self.client)
                        .of_origin(self.origin);
                    self.flow = Flow::opened(gauge.worker(), spec).ok();
                }
                match &mut self.flow {
                    Some(flow) => {
                        let granted = poll_fn(|cx| flow.poll_grant(cx, available as u64)).await;
                        gauge.promise(granted);
                        usize::try_from(granted).unwrap_or(available)
                    }
                    // As many flows as may be: it goes at once, and is debited
                    // when the socket has it.
                    None => available,
                }
            }
        };
        let granted = self.flow.as_ref().and_then(Flow::mark);
        let bytes = match &mut self.marks {
            Some(marks) => marks.turn(granted, bytes),
            None => bytes,
        };
        self.attained += bytes as u64;
        bytes
    }

    /// Ends the burst, since the tunnel has nothing more for now.
    pub fn pause(&mut self) {
        if let Some(flow) = self.flow.take() {
            self.waited += flow.waited();
        }
        if let Outlet::Marked(mark) = self.outlet {
            mark.unmark();
        }
        self.attained = 0;
    }

    /// Returns how long bytes have waited for the uplink, in the bursts that are over.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}
