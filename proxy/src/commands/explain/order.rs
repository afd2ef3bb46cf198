//! The part of `sprat explain` that says by what the uplink orders a response, and in which queue a
//! request is at an endpoint.

use serde_json::{Value, json};
use sprat_config::resolved::{Cluster, Engine, Rate, Uplink, WaitOrder};
use sprat_scheduler::marking::Variant;
use sprat_scheduler::srq::{Config, Trigger};
use sprat_scheduler::{ClassSpec, Cutoffs, Discipline, Sfd, Size, SizeClasses};

/// Describes the place of a response in the uplink's order, among those that its class orders it
/// with.
pub(super) fn value(uplink: &Uplink, class: &ClassSpec, size: Size) -> Value {
    if uplink.rate == Rate::Unlimited && uplink.engine == Engine::Pace {
        return json!({
            "policy": null,
            "queues": null,
            "why": "none: `uplink.rate` is unlimited, and responses are sent as they come",
        });
    }
    let queues = match &uplink.policy {
        Discipline::Srq(srq) => Some(srq.quanta.len() + 1),
        _ => None,
    };
    let name = uplink.policy.name();
    // A pool keeps the policy's order.
    let among = match uplink.share.is_some() && class.max_concurrency == usize::MAX {
        true => ", among the responses of its client, which shares the link with others",
        false => "",
    };
    json!({
        "policy": name,
        "queues": queues,
        "why": format!("{name}{among}: {}", rule(&uplink.policy, class, size)),
    })
}

/// Describes what a discipline goes by.
fn rule(discipline: &Discipline, class: &ClassSpec, size: Size) -> String {
    match discipline {
        Discipline::Fcfs => "in the order in which responses come".to_owned(),
        Discipline::Fair => "an equal share of the link for each response that waits".to_owned(),
        Discipline::Srpt => by_rest(size),
        Discipline::SrptAged { ageing_bytes_per_s } => format!(
            "{}; each second that it waits counts as {ageing_bytes_per_s} bytes less",
            by_rest(size)
        ),
        Discipline::Bands(cutoffs) => band(cutoffs, size),
        Discipline::Edf => match deadline_ms(class) {
            Some(ms) => format!("by its deadline, {ms} ms after it has come, the earliest first"),
            None => NO_DEADLINE.to_owned(),
        },
        Discipline::Vrd => match deadline_ms(class) {
            Some(ms) => format!(
                "by its class's value ({}) over its deadline ({ms} ms), the greatest first",
                class.value
            ),
            None => NO_DEADLINE.to_owned(),
        },
        Discipline::Srq(srq) => queues(srq),
        Discipline::Las => "by the bytes that it has sent, the fewest first".to_owned(),
        Discipline::Sfd(sfd) => mark(sfd, size),
    }
}

const NO_DEADLINE: &str = "last, for its class has no deadline";

fn by_rest(size: Size) -> String {
    match size.bytes() {
        Some(bytes) => format!("by the bytes that it has left, the fewest first: {bytes} now"),
        None => "by the bytes that it has sent, the fewest first, until its size is known".into(),
    }
}

/// Describes the size class of a response. Bounds that Sprat learns begin with the paper's.
fn band(cutoffs: &Cutoffs, size: Size) -> String {
    let classes = SizeClasses::new(cutoffs);
    let bounds = classes.cutoffs();
    let what = match size.bytes() {
        Some(bytes) => format!("of {bytes} bytes left"),
        None => "of the bytes that it has sent, none so far".to_owned(),
    };
    let own = usize::from(classes.class(size.bytes().unwrap_or(0)));
    let within = match (bounds.get(own), bounds.last()) {
        (Some(bound), _) => format!(", up to {bound} bytes"),
        (None, Some(bound)) => format!(", above {bound} bytes"),
        (None, None) => String::new(),
    };
    let learnt = match cutoffs {
        Cutoffs::Learnt { .. } => "; the bounds change with the sizes that Sprat sees",
        Cutoffs::Fixed(_) => "",
    };
    format!(
        "in size class {} of {}{within}, because {what}; in turn with the others there{learnt}",
        own + 1,
        bounds.len() + 1,
    )
}

fn deadline_ms(class: &ClassSpec) -> Option<u128> {
    let deadline = class.soft_deadline.or(class.deadline);
    deadline.map(|deadline| deadline.as_millis())
}

/// Describes the queues of `srq`, as they are before they adapt.
fn queues(srq: &Config) -> String {
    let quanta: Vec<String> = srq.quanta.iter().map(ToString::to_string).collect();
    let begins = match srq.trigger {
        Trigger::Always => "from the beginning".to_owned(),
        Trigger::Backlog(bound) => format!(
            "while more than {} ms are left to send, else as `fair`",
            bound.as_millis()
        ),
        Trigger::Waiting(bound) => format!("while more than {bound} wait, else as `fair`"),
    };
    format!(
        "in the first of {} queues, and in the next ones once it has sent {} bytes; the first \
         that has something has {}% of the link; {begins}",
        quanta.len() + 1,
        quanta.join(", "),
        srq.first_share_percent,
    )
}

/// Describes the queue that a request begins in at an endpoint, as queues are before they adapt;
/// null unless `order: srq` has any.
pub(super) fn queues_before(cluster: &Cluster, size: Size) -> Value {
    let WaitOrder::Srq(order) = &cluster.wait_queue.order else {
        return Value::Null;
    };
    let quanta = order.queues.quanta.iter();
    let quanta: Vec<String> = quanta.map(|own| (own / 1_000_000).to_string()).collect();
    let bytes = size.bytes().zip(order.large_bytes);
    let is_large = bytes.is_some_and(|(bytes, large_bytes)| bytes >= large_bytes);
    let first = if is_large { "second" } else { "first" };
    let while_busy = match order.queues.trigger {
        Trigger::Waiting(bound) => format!("; while no more than {bound} wait, as `fcfs`"),
        Trigger::Always | Trigger::Backlog(_) => String::new(),
    };
    json!(format!(
        "under srq it begins in the {first} of {} queues, whose times in service are {} ms; beyond \
         the first, others may start beside it{while_busy}",
        quanta.len() + 1,
        quanta.join(", "),
    ))
}

/// Describes how `sfd` marks a response in its own order.
fn mark(sfd: &Sfd, size: Size) -> String {
    let threshold_bytes = sfd.marking.threshold_bytes;
    let out = format!(
        "OUT, which has {}% of the link while IN waits",
        (sfd.out_share * 100.0).round()
    );
    let promoted = match sfd.marking.variant {
        Variant::Sfd => String::new(),
        Variant::PSfd => ", but for turns that are IN by chance".to_owned(),
        Variant::SSfd => format!(", but for one turn of every {}, which is IN", sfd.marking.k),
    };
    match size.bytes().filter(|_| sfd.use_size) {
        Some(bytes) if bytes > threshold_bytes => {
            format!(
                "{out}{promoted}, from the beginning: it is larger than {threshold_bytes} bytes"
            )
        }
        _ => format!("IN until it has sent {threshold_bytes} bytes, then {out}{promoted}"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns the reason that is told of a response of unknown size, in a class.
    fn why(uplink: &str, class: &ClassSpec) -> String {
        let uplink = sprat_config::parse_uplink(uplink, "test", &|_| None).unwrap();
        let told = value(&uplink.config, class, Size::Unknown);
        told["why"].as_str().unwrap().to_owned()
    }

    #[test]
    fn clients_that_share_the_link_are_named_but_in_a_pool() {
        let shared = "{rate: 10mbit, policy: las, clients: {share: client}}";
        assert_eq!(
            why(shared, &ClassSpec::default()),
            "las, among the responses of its client, which shares the link with others: by the \
             bytes that it has sent, the fewest first"
        );
        let pool = ClassSpec {
            max_concurrency: 5,
            ..ClassSpec::default()
        };
        let alone = "las: by the bytes that it has sent, the fewest first";
        assert_eq!(why(shared, &pool), alone);
        let unshared = "{rate: 10mbit, policy: las}";
        assert_eq!(why(unshared, &ClassSpec::default()), alone);
    }

    #[test]
    fn the_kernel_orders_at_any_rate() {
        let kernel = "{rate: unlimited, engine: {name: kernel, qdisc: prio}}";
        let told = why(kernel, &ClassSpec::default());
        assert!(told.starts_with("bands: in size class 1 of 6"), "{told}");
        let told = why("{rate: unlimited}", &ClassSpec::default());
        assert!(told.starts_with("none: "), "{told}");
    }

    #[test]
    fn what_is_promoted_under_sfd_is_said() {
        let of = |variant| {
            let mut sfd = Sfd::PAPER;
            sfd.marking.variant = variant;
            mark(&sfd, Size::Unknown)
        };
        let plain = of(Variant::Sfd);
        assert!(plain.ends_with("while IN waits"), "{plain}");
        let chance = format!("{plain}, but for turns that are IN by chance");
        assert_eq!(of(Variant::PSfd), chance);
    }

    /// Returns the description under a discipline, of a class with a deadline of 300 ms.
    fn told(discipline: &Discipline, size: Size) -> String {
        let class = ClassSpec {
            soft_deadline: Some(Duration::from_millis(300)),
            deadline: Some(Duration::from_secs(2)),
            value: 3,
            ..ClassSpec::default()
        };
        rule(discipline, &class, size)
    }

    #[test]
    fn each_discipline_says_what_it_goes_by() {
        let exact = Size::Exact(20_480);
        let aged = Discipline::SrptAged {
            ageing_bytes_per_s: 10,
        };
        let sized = Sfd {
            use_size: true,
            ..Sfd::PAPER
        };
        let learnt = Cutoffs::Learnt { classes: 6 };
        for (discipline, size, expected) in [
            (
                Discipline::Fcfs,
                exact,
                "in the order in which responses come",
            ),
            (
                Discipline::Fair,
                exact,
                "an equal share of the link for each response that waits",
            ),
            (
                Discipline::Srpt,
                exact,
                "by the bytes that it has left, the fewest first: 20480 now",
            ),
            (
                Discipline::Srpt,
                Size::Unknown,
                "by the bytes that it has sent, the fewest first, until its size is known",
            ),
            (
                aged,
                exact,
                "by the bytes that it has left, the fewest first: 20480 now; each second that it \
                 waits counts as 10 bytes less",
            ),
            (
                Discipline::Bands(Cutoffs::paper()),
                exact,
                "in size class 4 of 6, up to 20480 bytes, because of 20480 bytes left; in turn \
                 with the others there",
            ),
            (
                Discipline::Bands(learnt),
                Size::Exact(60_000),
                "in size class 6 of 6, above 51200 bytes, because of 60000 bytes left; in turn \
                 with the others there; the bounds change with the sizes that Sprat sees",
            ),
            (
                Discipline::Edf,
                exact,
                "by its deadline, 300 ms after it has come, the earliest first",
            ),
            (
                Discipline::Vrd,
                exact,
                "by its class's value (3) over its deadline (300 ms), the greatest first",
            ),
            (
                Discipline::Las,
                exact,
                "by the bytes that it has sent, the fewest first",
            ),
            (
                Discipline::Sfd(Sfd::PAPER),
                exact,
                "IN until it has sent 15360 bytes, then OUT, which has 30% of the link while IN \
                 waits, but for one turn of every 4, which is IN",
            ),
            (
                Discipline::Sfd(sized),
                exact,
                "OUT, which has 30% of the link while IN waits, but for one turn of every 4, \
                 which is IN, from the beginning: it is larger than 15360 bytes",
            ),
        ] {
            assert_eq!(told(&discipline, size), expected);
        }
    }

    #[test]
    fn a_class_without_a_deadline_comes_last() {
        for discipline in [Discipline::Edf, Discipline::Vrd] {
            let told = rule(&discipline, &ClassSpec::default(), Size::Unknown);
            assert_eq!(told, "last, for its class has no deadline");
        }
    }

    #[test]
    fn srq_names_its_queues_and_its_trigger() {
        let mut srq = Config::bytes();
        let told = |srq: &Config| told(&Discipline::Srq(Box::new(srq.clone())), Size::Unknown);
        let queues = "in the first of 3 queues, and in the next ones once it has sent 10240, 102400 \
                      bytes; the first that has something has 90% of the link; ";
        assert_eq!(told(&srq), format!("{queues}from the beginning"));
        srq.trigger = Trigger::Backlog(Duration::from_millis(200));
        let busy = "while more than 200 ms are left to send, else as `fair`";
        assert_eq!(told(&srq), format!("{queues}{busy}"));
        srq.trigger = Trigger::Waiting(5);
        assert_eq!(
            told(&srq),
            format!("{queues}while more than 5 wait, else as `fair`")
        );
    }

    #[test]
    fn srq_before_endpoints_names_the_queue_that_a_request_begins_in() {
        let told = |order: &str, size| {
            let text = format!(
                "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nroutes: [{{cluster: farm}}]\n\
                 clusters: {{farm: {{endpoints: ['127.0.0.1:1'], max_requests: 8, wait_queue: \
                 {{order: {order}}}}}}}\n"
            );
            let loaded = sprat_config::parse(&text, "test.yaml", &|_| None).unwrap();
            queues_before(&loaded.config.clusters[0], size)
        };
        assert_eq!(told("size", Size::Exact(1)), Value::Null);
        let queues = "of 3 queues, whose times in service are 50, 500 ms; beyond the first, others \
                      may start beside it";
        let first = format!("under srq it begins in the first {queues}");
        assert_eq!(told("srq", Size::Exact(2048)), Value::from(first));
        let large = "{name: srq, use_estimates: 2KB, trigger: {max_requests: 9}}";
        let rest = format!("{queues}; while no more than 9 wait, as `fcfs`");
        for (bytes, queue) in [(2047, "first"), (2048, "second")] {
            let expected = format!("under srq it begins in the {queue} {rest}");
            assert_eq!(told(large, Size::Exact(bytes)), Value::from(expected));
        }
    }
}
