//! Counters and expiries of the certificates that are issued.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sprat_net::counters::Counter;
use sprat_net::metrics::{Labels, Per, Row, Topic};

use crate::schedule::Cause;

/// The results of attempts, in the order of [`Stats::count`].
const RESULTS: [&str; 4] = ["issued", "unreachable", "refused", "failed"];

/// The counts and expiries that the thread that asks the authority writes.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    orders: [Counter; RESULTS.len()],
    /// The end of each certificate's validity, in seconds since 1970, by the certificate's first
    /// name; 0 if it is not yet issued.
    not_after_s: Mutex<BTreeMap<String, i64>>,
}

impl Stats {
    /// Counts an attempt by its result. The thread that asks the authority alone may call it.
    pub(crate) fn count(&self, failed: Option<Cause>) {
        let index = match failed {
            None => 0,
            Some(Cause::Unreachable) => 1,
            Some(Cause::Refused) => 2,
            Some(Cause::Local) => 3,
        };
        self.orders[index].increment();
    }

    /// Replaces the ends of the certificates' validity.
    pub(crate) fn tell(&self, not_after_s: BTreeMap<String, i64>) {
        *self.expiries() = not_after_s;
    }

    fn expiries(&self) -> MutexGuard<'_, BTreeMap<String, i64>> {
        self.not_after_s
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The view that metrics of issued certificates are read from.
#[derive(Clone, Debug)]
pub struct AcmeView(pub(crate) Arc<Stats>);

/// The metrics of ACME; no sample where no authority is configured.
#[rustfmt::skip]
pub static ACME: Topic<AcmeView> = Topic { title: "Certificates by ACME", rows: &[
    Row::counter("sprat_acme_orders_total", Labels::NONE.and("result", RESULTS.len()),
        "Attempts to have a certificate issued, by result",
        |view, out| for (result, count) in RESULTS.iter().zip(&view.0.orders) {
            out.put(&[result], count.get());
        }),
    Row::gauge("sprat_acme_certificate_not_after_timestamp_seconds", Labels::NONE.per("certificate", Per::Certificate),
        "When a certificate expires, by its first name, in seconds since 1970-01-01 UTC; 0 until it is issued",
        |view, out| for (name, not_after_s) in view.0.expiries().iter() {
            out.put(&[name], *not_after_s as f64);
        }),
] };
