//! What the core's [`Station`](sprat_scheduler::station::Station) is told of
//! a configuration.

use std::time::Duration;

use sprat_scheduler::dispatch::EndpointSpec;
use sprat_scheduler::station::{Admission as StationAdmission, ClassSpec, StationConfig};

use crate::resolved::{Admission, Class, Dispatch, WaitQueue};

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
        dispatch: dispatch.clone(),
        endpoints,
        max_requests,
        classes: classes.collect(),
        order: queue.order,
        scope: queue.scope,
        max_waiting: queue.max_requests,
        slow_start,
        admission: StationAdmission {
            averaging: admission.averaging,
            channel: admission.channel.clone(),
            ..StationAdmission::default()
        },
    }
}
