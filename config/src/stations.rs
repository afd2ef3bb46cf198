//! What the core's [`Station`](sprat_scheduler::station::Station) is told of
//! a configuration.

use std::time::Duration;

use sprat_scheduler::dispatch::EndpointSpec;
use sprat_scheduler::station::{Admission as StationAdmission, ClassSpec, StationConfig};

use crate::resolved::{Admission, Class, Dispatch, WaitOrder, WaitQueue};

/// A station of these endpoints, of which each serves `max_requests` at a
/// time.
pub fn station_config(
    (endpoints, max_requests): (Vec<EndpointSpec>, usize),
    dispatch: &Dispatch,
    queue: &WaitQueue,
    slow_start: Duration,
    classes: &[Class],
    admission: &Admission,
) -> StationConfig {
    let classes = classes.iter().map(|class| ClassSpec {
        timeout: class.queue_timeout.or(queue.timeout),
        ..class.spec.clone()
    });
    StationConfig {
        max_requests,
        order: queue.order,
        scope: queue.scope,
        slow_start,
        admission: StationAdmission {
            averaging: admission.averaging,
            channel: admission.channel.clone(),
            ..StationAdmission::default()
        },
        ..StationConfig::new(
            dispatch.clone(),
            endpoints,
            classes.collect(),
            queue.max_requests,
        )
    }
}

/// What a station uses a response's size for, before it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeUse {
    /// Where the request goes, or whether it is turned away.
    pub decides: bool,
    /// Whether the class orders those who wait.
    pub orders: bool,
}

impl SizeUse {
    /// Returns what a station of these parameters uses sizes for.
    pub fn of(
        dispatch: &Dispatch,
        max_requests: usize,
        queue: &WaitQueue,
        classes: &[Class],
        admission: &Admission,
    ) -> Self {
        let by_size = matches!(dispatch, Dispatch::Sita(_) | Dispatch::LeastWork);
        let limited = |class: &Class| class.spec.max_concurrency < usize::MAX;
        let waits = max_requests < usize::MAX || classes.iter().any(limited);
        Self {
            decides: by_size || admission.channel.is_some(),
            orders: waits && queue.order == WaitOrder::Size,
        }
    }

    /// Whether it uses it at all.
    pub fn ever(self) -> bool {
        self.decides || self.orders
    }
}
