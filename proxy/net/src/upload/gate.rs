//! `Expect: 100-continue` on its way to the upstream.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

/// The time for which a body is held back for the upstream's `100 Continue`. An upstream that
/// says nothing gets the body then (RFC 9110 10.1.1).
const CONTINUE_BOUND: Duration = Duration::from_secs(1);

/// A gate that holds a body back until the upstream asks for it.
#[derive(Debug)]
pub(super) struct Gate {
    asked: oneshot::Receiver<()>,
    bound: Pin<Box<Sleep>>,
}

/// The opener of a gate. hyper uses it in its callback for 1xx responses.
#[derive(Clone, Debug)]
pub struct GateOpener(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl Gate {
    /// Returns a gate that opens when its opener is used, or the bound passes.
    pub(super) fn new() -> (Self, GateOpener) {
        let (sender, asked) = oneshot::channel();
        let gate = Self {
            asked,
            bound: Box::pin(sleep(CONTINUE_BOUND)),
        };
        (gate, GateOpener(Arc::new(Mutex::new(Some(sender)))))
    }

    /// Waits until the gate opens, or yields false: the final answer has come instead, so that
    /// the body is not wanted, and its connection ends with the exchange.
    pub(super) fn poll_wanted(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if let Poll::Ready(asked) = Pin::new(&mut self.asked).poll(cx) {
            return Poll::Ready(asked.is_ok());
        }
        ready!(self.bound.as_mut().poll(cx));
        Poll::Ready(true)
    }
}

impl GateOpener {
    /// Opens the gate, for the upstream has said `100 Continue`.
    pub fn open(&self) {
        let sender = self.0.lock().ok().and_then(|mut sender| sender.take());
        if let Some(sender) = sender {
            // No receiver: the gate has opened by itself.
            let _ = sender.send(());
        }
    }
}
