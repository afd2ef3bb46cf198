//! The gain of the uplink's order over `fair`: the core's counterfactual, as JSON and in the
//! table of metrics.

use std::cmp::Reverse;

use serde::Serialize;
use sprat_config::resolved as config;
use sprat_net::client::network_name;
use sprat_net::counters::{SIZE_CLASS_NAMES, SIZE_CLASSES};
use sprat_net::metrics::{Labels, Per, Row, Topic};
use sprat_scheduler::counterfactual::{LeftOut, Span, Tally, Times};
use sprat_scheduler::{Counterfactual, Time};

use super::link::PacedLink;
use super::metrics::LinkView;

/// The gain of the uplink's order: how much longer responses would have taken under `fair`.
#[derive(Clone, Debug, Serialize)]
pub struct Gain {
    /// The gain over all responses of the last ten minutes.
    ratio: Option<f64>,
    /// The policy that the uplink's is compared with.
    against: &'static str,
    last_minute: Compared,
    last_ten_minutes: Compared,
    since_start: Compared,
    left_out: NotCompared,
}

/// Mean response times in a span of time.
#[derive(Clone, Debug, Serialize)]
struct Compared {
    #[serde(flatten)]
    total: Means,
    /// The means by size of the response, the smallest first.
    sizes: Vec<SizeMeans>,
    /// The means by the clients' networks: the one with the most responses first, and all others
    /// at the end.
    networks: Vec<NetworkMeans>,
}

/// Means of the responses of one size class.
#[derive(Clone, Debug, Serialize)]
struct SizeMeans {
    size: &'static str,
    #[serde(flatten)]
    means: Means,
}

/// Means of the responses to one network of clients, or to all others.
#[derive(Clone, Debug, Serialize)]
struct NetworkMeans {
    network: String,
    #[serde(flatten)]
    means: Means,
}

/// Means of the responses in a span; null where there are none.
#[derive(Clone, Copy, Debug, Serialize)]
struct Means {
    /// The number of responses; in the last minutes, each counts for less the longer ago it
    /// ended.
    responses: f64,
    mean_ms: Option<f64>,
    /// The mean that `fair` would have had.
    fair_mean_ms: Option<f64>,
    gain: Option<f64>,
}

/// The number of responses that are in no mean, by the reason.
#[derive(Clone, Copy, Debug, Serialize)]
struct NotCompared {
    cut: u64,
    streams: u64,
    crowded: u64,
}

impl Means {
    fn of(times: Times) -> Self {
        let rounded = |value: f64| (value * 1e3).round() / 1e3;
        let ms = |seconds: f64| rounded(seconds * 1e3);
        Self {
            responses: rounded(times.responses),
            mean_ms: times.mean_s().map(ms),
            fair_mean_ms: times.fair_mean_s().map(ms),
            gain: times.gain().map(rounded),
        }
    }
}

impl From<LeftOut> for NotCompared {
    fn from(left_out: LeftOut) -> Self {
        let LeftOut {
            cut,
            streams,
            crowded,
        } = left_out;
        Self {
            cut,
            streams,
            crowded,
        }
    }
}

/// The comparison with `fair`, if there is one.
impl PacedLink {
    /// Begins the comparison of the order with `fair` if it is wanted and makes a difference,
    /// and ends it if not.
    pub(super) fn compare(&self, uplink: &config::Uplink) {
        let is_wanted = uplink.counterfactual;
        let now = self.now();
        let mut state = self.lock();
        let desk = &mut state.desk;
        let policy = desk.egress().policy();
        let is_wanted = is_wanted && Counterfactual::is_of_use(&policy.discipline);
        if is_wanted != desk.counterfactual().is_some() {
            let bounds = SIZE_CLASSES.map(|(_, bound)| bound);
            let egress = desk.egress();
            let begun = || Counterfactual::new(now, egress.pacer(), egress.policy(), &bounds);
            let counterfactual = is_wanted.then(begun);
            desk.set_counterfactual(counterfactual);
        }
        if let Some(own) = desk.counterfactual() {
            own.tell_networks(uplink.counterfactual_networks);
        }
    }

    /// Returns the gain of the order over `fair`; `None` if nothing is compared, or nothing is
    /// held back.
    pub fn gain(&self) -> Option<Gain> {
        self.effective_rate_bits_per_s()?;
        let now = self.now();
        let tally = self.tally()?;
        let compared = |span| {
            let times: Vec<Times> = tally.times(now, span).collect();
            let each = SIZE_CLASS_NAMES.into_iter().zip(&times);
            let sizes = each.map(|(size, &times)| SizeMeans {
                size,
                means: Means::of(times),
            });
            Compared {
                sizes: sizes.collect(),
                networks: by_rank(&tally, now, span),
                total: Means::of(times.iter().copied().sum()),
            }
        };
        let last_ten_minutes = compared(Span::TenMinutes);
        Some(Gain {
            ratio: last_ten_minutes.total.gain,
            against: "fair",
            last_minute: compared(Span::Minute),
            last_ten_minutes,
            since_start: compared(Span::Start),
            left_out: tally.left_out().into(),
        })
    }

    /// Returns the reason why there is no gain; `None` if there is one.
    pub fn nothing_to_compare(&self) -> Option<&'static str> {
        if self.effective_rate_bits_per_s().is_none() {
            return Some("no link is known to be full: nothing is held back, or ordered");
        }
        let is_compared = self.lock().desk.counterfactual().is_some();
        (!is_compared).then_some("the policy is fair or fcfs, or counterfactual is off")
    }

    /// Returns a copy of the comparison's sums up to now, to be read outside the lock.
    pub(super) fn tally(&self) -> Option<Tally> {
        let now = self.now();
        let mut state = self.lock();
        let counterfactual = state.desk.counterfactual()?;
        Some(counterfactual.tally(now).clone())
    }
}

/// Returns the means of each network, the one with the most responses first, and those of all
/// others at the end.
fn by_rank(tally: &Tally, now: Time, span: Span) -> Vec<NetworkMeans> {
    let networks = tally.networks();
    let mut each: Vec<_> = networks.each(now, span).collect();
    let rank = |responses: f64| Reverse((responses * 1e3) as u64);
    each.sort_by_key(|(network, times)| (rank(times.responses), *network));
    let named = each
        .into_iter()
        .map(|(own, times)| (network_name(own), times));
    let other = networks.other(now, span);
    let all = named.chain(other.map(|times| (OTHER.to_owned(), times)));
    all.map(|(network, times)| NetworkMeans {
        network,
        means: Means::of(times),
    })
    .collect()
}

/// The name for all networks that are not told of apart.
const OTHER: &str = "other";

const SIZE: Labels = Labels::NONE.and("size", SIZE_CLASS_NAMES.len());
const NETWORK: Labels = Labels::NONE.per("network", Per::Network);

/// The metrics of the policy compared with `fair`; they have no samples if there is nothing to
/// compare.
#[rustfmt::skip]
pub(super) static COMPARED: Topic<LinkView> = Topic { title: "What the uplink's policy gains", rows: &[
    Row::counter("sprat_uplink_compared_responses_total", SIZE,
        "Responses in the comparison of the policy with fair, by size (head included)",
        |view, out| by_size(view, |size, times| out.put(&[size], times.responses as u64))),
    Row::counter("sprat_uplink_compared_response_seconds_total", SIZE.and("policy", 2),
        "Response times of the compared responses, from when a response could be sent until the link had carried it: measured (actual), and calculated for policy fair (fair)",
        |view, out| by_size(view, |size, times| {
            out.put(&[size, "actual"], times.actual_s);
            out.put(&[size, "fair"], times.fair_s);
        })),
    Row::counter("sprat_uplink_compared_network_responses_total", NETWORK.plus(1),
        "The compared responses by the client's network: the networks that asked for the most, and all others as other; when a network loses its place, its sample ends and its count moves to other",
        |view, out| by_network(view, |network, times| out.put(&[network], times.responses as u64))),
    Row::counter("sprat_uplink_compared_network_response_seconds_total", NETWORK.and("policy", 2).plus(2),
        "Response times of the compared responses by the client's network: measured (actual), and calculated for policy fair (fair)",
        |view, out| by_network(view, |network, times| {
            out.put(&[network, "actual"], times.actual_s);
            out.put(&[network, "fair"], times.fair_s);
        })),
    Row::counter("sprat_uplink_uncompared_responses_total", Labels::NONE.and("reason", 3),
        "Responses left out of the comparison, by reason: cut short, streams that paused, or crowded out",
        |view, out| if let Some(left_out) = view.tally.as_ref().map(Tally::left_out) {
            let reasons = [("cut", left_out.cut), ("stream", left_out.streams), ("crowded", left_out.crowded)];
            reasons.into_iter().for_each(|(reason, responses)| out.put(&[reason], responses));
        }),
] };

fn by_size(view: &LinkView, mut tell: impl FnMut(&'static str, Times)) {
    let times = (view.tally.iter()).flat_map(|tally| tally.times(Time::ZERO, Span::Start));
    SIZE_CLASS_NAMES
        .into_iter()
        .zip(times)
        .for_each(|(size, times)| tell(size, times));
}

fn by_network(view: &LinkView, mut tell: impl FnMut(&str, Times)) {
    let Some(networks) = view.tally.as_ref().map(Tally::networks) else {
        return;
    };
    for (network, times) in networks.each(Time::ZERO, Span::Start) {
        tell(&network_name(network), times);
    }
    if let Some(times) = networks.other(Time::ZERO, Span::Start) {
        tell(OTHER, times);
    }
}
