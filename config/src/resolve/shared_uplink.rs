//! Resolves an uplink that several instances share.

use std::time::Duration;

use super::values::count;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::{Engine, Rate, SharedUplink};

/// The longest lease: an instance that is gone keeps its part of the link from the others so long.
const LEASE_MAX: Duration = Duration::from_secs(60);

/// Resolves `uplink.shared`; `Some(None)` if the link is this instance's alone.
pub(super) fn shared(
    raw: &raw::Uplink,
    rate: Option<Rate>,
    engine: Option<&Engine>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<SharedUplink>> {
    let Some(own) = raw.shared.get()?.value() else {
        return Some(None);
    };
    let mut good = true;
    let mut refuse = |message: &str, help: &str| {
        let span = &raw.shared.span;
        reporter.error(span, message.to_owned(), Some(help.to_owned()));
        good = false;
    };
    if matches!(rate, Some(Rate::Auto | Rate::Unlimited)) {
        refuse(
            "a link that is shared needs its rate",
            "give `rate` what the link carries for all instances together, such as 100mbit",
        );
    }
    if matches!(engine, Some(Engine::Kernel(_))) {
        refuse(
            "a link is shared under `engine: pace` alone: the kernel's rate stays as it is set up",
            "use `engine: pace`, or remove `shared`",
        );
    }
    let lease = own.lease.copied()?.0;
    if lease > LEASE_MAX {
        let message = "a lease is 1 minute at most".to_owned();
        reporter.error(
            &own.lease.span,
            message,
            Some("give it some seconds".to_owned()),
        );
        good = false;
    }
    let shared = SharedUplink {
        url: own.url.get()?.0.clone(),
        key: own.key.get()?.0.clone(),
        lease,
        instances: count(&own.instances)?,
    };
    good.then_some(Some(shared))
}
