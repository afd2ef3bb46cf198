//! Request bodies that are taken from the client before a place at an endpoint is.

use std::cell::Cell;
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderValue, Request};
use sprat_net::error::Reason;
use sprat_net::upload::RequestBody;
use tokio::time::Instant;

use super::in_place::{InPlace, RELAYED};
use super::interim;
use super::outcome::Expiry;
use super::upstream_request::Exchange;
use crate::exchange::record::Record;

impl Exchange<'_> {
    /// Takes the request's body from the client, all of it or as much as there is room for,
    /// within the bounds on the client. A body that is here has a known length, which the
    /// head then tells.
    pub(super) async fn keep_body(
        &self,
        record: &Record,
        request: &mut Request<RequestBody>,
    ) -> Result<(), Reason> {
        let rules = self.plan.route.buffer.request.as_ref();
        let (Some(rules), Some(upload)) = (rules, &self.upload) else {
            return Ok(());
        };
        let keeping = pin!(upload.keep(rules, &self.plan.generation.buffers));
        let mut keeping = InPlace::new(keeping);
        let began = Instant::now();
        let deadline = self.plan.deadline(record);
        let is_there = Cell::new(false);
        let relayed = interim::relay(self.interims.as_ref(), &self.plan, &mut keeping, &is_there);
        let mut relayed = Box::pin(relayed);
        poll_fn(|cx| {
            if relayed.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if is_there.get() {
                // The client is to take what asked it for the body, within its connection's bounds.
                self.plan.stream.wait();
                return Poll::Pending;
            }
            let owed = self.owed(began);
            let now = Instant::now();
            let Expiry { at, reason } = match deadline {
                Some(at) if at < owed.at => Expiry {
                    at,
                    reason: match upload.progress().is_file_late(now) {
                        true => Reason::BufferLost,
                        false => Reason::BodyTimeout,
                    },
                },
                _ => owed,
            };
            if now >= at {
                return Poll::Ready(Err(reason));
            }
            self.plan.stream.wait_until(at);
            Poll::Pending
        })
        .await?;
        drop(relayed);
        keeping.take().expect(RELAYED)?;
        if let Some(length) = upload.kept_length() {
            let headers = request.headers_mut();
            headers.remove(TRANSFER_ENCODING);
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        Ok(())
    }
}
