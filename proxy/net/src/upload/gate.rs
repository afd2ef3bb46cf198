//! `Expect: 100-continue` on its way to the upstream.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep};

/// The time for which the body is held back for the upstream's `100 Continue`; an upstream that
/// says nothing gets it then (RFC 9110 10.1.1).
const CONTINUE_BOUND: Duration = Duration::from_secs(1);

/// Holds the body back until the upstream asks for it.
#[derive(Debug)]
pub(super) struct Gate {
    asked: oneshot::Receiver<()>,
    bound: Pin<Box<Sleep>>,
}

/// Opens the gate of a body that waits for a 100; hyper calls it from its callback for
/// 1xx responses.
#[derive(Clone, Debug)]
pub struct GateOpener(Arc<Mutex<Option<oneshot::Sender<()>>>>);

impl Gate {
    /// One that opens when the opener is used, or the bound passes.
    pub(super) fn new() -> (Self, GateOpener) {
        let (sender, asked) = oneshot::channel();
        let gate = Self {
            asked,
            bound: Box::pin(sleep(CONTINUE_BOUND)),
        };
        (gate, GateOpener(Arc::new(Mutex::new(Some(sender)))))
    }

    /// Ready when it is open: false if the final answer came instead, and the body is not
    /// wanted. Its connection ends with the exchange.
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
