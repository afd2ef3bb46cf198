//! The configuration of the core's [`Station`](sprat_scheduler::station::Station), made from that
//! of a cluster.

use std::time::Duration;

use sprat_scheduler::dispatch::EndpointSpec;
use sprat_scheduler::station::{Admission as StationAdmission, ClassSpec, StationConfig};

use crate::resolved::{Admission, Class, Dispatch, WaitOrder, WaitQueue};

/// Returns the configuration of a station of these endpoints, each with `max_requests` in service
/// at most.
pub fn station_config(
    endpoints: Vec<EndpointSpec>,
    max_requests: usize,
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
        order: queue.order.clone(),
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

/// The uses that a station has for a response's size before the response is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeUse {
    /// Whether sizes decide about a request that need not wait: which endpoint it goes to, whether
    /// it is refused, or which queue of SRQ it begins in.
    pub decides: bool,
    /// Whether waiting requests are ordered by size.
    pub orders: bool,
}

impl SizeUse {
    /// Returns the uses of sizes at a station with these parameters.
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
        let (orders, begins) = match &queue.order {
            WaitOrder::Size => (true, false),
            WaitOrder::Srq(srq) => (srq.large_bytes.is_some(), srq.large_bytes.is_some()),
            WaitOrder::Fcfs | WaitOrder::Edf | WaitOrder::Vrd | WaitOrder::Value => (false, false),
        };
        Self {
            decides: by_size || admission.channel.is_some() || (waits && begins),
            orders: waits && orders,
        }
    }

    /// Returns whether the station uses sizes at all.
    pub fn ever(self) -> bool {
        self.decides || self.orders
    }
}

#[cfg(test)]
mod tests {
    use sprat_scheduler::dispatch::Intervals;
    use sprat_scheduler::station::ChannelRule;

    use crate::resolved::{QueueTimeout, SrqOrder, WaitScope};

    use super::*;

    const CHANNEL: ChannelRule = ChannelRule {
        max_backlog: Duration::from_secs(9),
        large_bytes: 1000,
        level: 2,
    };

    fn queue(order: WaitOrder) -> WaitQueue {
        WaitQueue {
            order,
            scope: WaitScope::Endpoint,
            max_requests: 20,
            timeout: Some(Duration::from_secs(3)),
        }
    }

    #[test]
    fn a_station_is_as_its_cluster_says() {
        let class = |name: &str, level, queue_timeout| Class {
            queue_timeout,
            ..Class::of_level(name, level)
        };
        let own = Some(Duration::from_secs(5));
        let classes = [
            class("a", 1, QueueTimeout::Cluster),
            class("b", 2, QueueTimeout::Own(own)),
            class("c", 3, QueueTimeout::Own(None)),
        ];
        let spec = |level, timeout| ClassSpec {
            level,
            timeout,
            ..ClassSpec::default()
        };
        let endpoints = vec![EndpointSpec {
            weight: 7,
            reserved: true,
            size_range: None,
            identity: 8,
            priority: 0,
        }];
        let admission = Admission {
            averaging: Duration::from_millis(700),
            channel: Some(CHANNEL),
        };
        let told = station_config(
            endpoints.clone(),
            4,
            &Dispatch::P2c,
            &queue(WaitOrder::Fcfs),
            Duration::from_secs(6),
            &classes,
            &admission,
        );
        let cluster = Some(Duration::from_secs(3));
        let specs = vec![spec(1, cluster), spec(2, own), spec(3, None)];
        let expected = StationConfig {
            max_requests: 4,
            order: WaitOrder::Fcfs,
            scope: WaitScope::Endpoint,
            slow_start: Duration::from_secs(6),
            admission: StationAdmission {
                averaging: Duration::from_millis(700),
                displace: true,
                channel: Some(CHANNEL),
            },
            ..StationConfig::new(Dispatch::P2c, endpoints, specs, 20)
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn sizes_are_used_where_they_decide_and_where_requests_wait_in_their_order() {
        use Dispatch::{LeastWork, P2c, Sita};
        use WaitOrder::{Fcfs, Size, Srq};
        const MANY: usize = usize::MAX;
        let learnt = || Sita(Intervals::Learnt);
        let srq = |large_bytes| {
            Srq(Box::new(SrqOrder {
                large_bytes,
                ..SrqOrder::default()
            }))
        };
        for (dispatch, max_requests, order, of_class, channel, decides, orders) in [
            // Requests that never wait have no order.
            (P2c, MANY, Size, MANY, None, false, false),
            (P2c, 8, Size, MANY, None, false, true),
            (P2c, MANY, Size, 3, None, false, true),
            (P2c, 8, Fcfs, 3, None, false, false),
            (P2c, 8, srq(None), MANY, None, false, false),
            (P2c, 8, srq(Some(1000)), MANY, None, true, true),
            (P2c, MANY, srq(Some(1000)), MANY, None, false, false),
            (P2c, MANY, Fcfs, MANY, Some(CHANNEL), true, false),
            (LeastWork, MANY, Size, MANY, None, true, false),
            (learnt(), 8, Fcfs, MANY, None, true, false),
            (learnt(), 8, Size, MANY, Some(CHANNEL), true, true),
        ] {
            let mut limited = Class::of_level("b", 2);
            limited.spec.max_concurrency = of_class;
            let classes = [Class::of_level("a", 1), limited];
            let admission = Admission {
                channel,
                ..Admission::default()
            };
            let queue = queue(order.clone());
            let used = SizeUse::of(&dispatch, max_requests, &queue, &classes, &admission);
            let case = format!("{dispatch:?} {max_requests} {order:?} {of_class}");
            assert_eq!(used, SizeUse { decides, orders }, "{case}");
            assert_eq!(used.ever(), decides || orders, "{case}");
        }
    }
}
