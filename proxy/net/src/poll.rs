//! Futures that are polled once.

use std::future::Future;

/// Returns the future's output if it is ready at once.
pub async fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        output = future => Some(output),
        () = std::future::ready(()) => None,
    }
}
