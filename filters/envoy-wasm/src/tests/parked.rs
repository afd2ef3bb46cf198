//! The property that a client gets all of its response, once and in order, whatever is held and
//! whatever else happens.

use proptest::prelude::*;

use super::envoy::{Envoy, Sent};
use super::*;

const PACED: &str = "{catalogue: off, uplink: {rate: 10mbit, hold: bodies}}";

/// The response of a backend.
#[derive(Clone, Debug)]
struct Response {
    parts: Vec<u64>,
    has_length: bool,
    has_trailers: bool,
    /// The number of events after which the client goes, if it does.
    leaves_after: Option<usize>,
}

impl Response {
    fn bytes(&self) -> u64 {
        self.parts.iter().sum()
    }

    /// Returns the number of events: the head, the parts, and an end or trailers.
    fn events(&self) -> usize {
        self.parts.len() + 2
    }

    /// Makes the event of this number happen, or the client leave.
    fn happens(&self, envoy: &mut Envoy, id: u32, event: usize) {
        if self.leaves_after.is_some_and(|after| event >= after) {
            envoy.leave(id);
        } else if event == 0 {
            envoy.request(id);
            envoy.head(id, self.has_length.then(|| self.bytes()));
        } else if let Some(bytes) = self.parts.get(event - 1) {
            envoy.body(id, *bytes, false);
        } else if self.has_trailers {
            envoy.trailers(id);
        } else {
            envoy.body(id, 0, true);
        }
    }
}

/// Runs all events in this order, each given by the number of its response. A number that belongs
/// to no response is a turn of the event loop. Then it runs the remaining events, and checks what
/// each client has.
fn run(responses: &[Response], order: &[usize]) {
    let mut envoy = Envoy::new(PACED);
    let mut happened = vec![0; responses.len()];
    let id = |number: usize| number as u32 + 2;
    let rest = (0..responses.len()).flat_map(|number| vec![number; responses[number].events()]);
    for number in order.iter().copied().chain(rest) {
        match responses.get(number) {
            Some(response) if happened[number] < response.events() => {
                response.happens(&mut envoy, id(number), happened[number]);
                happened[number] += 1;
            }
            Some(_) => {}
            None => envoy.turn(500_000),
        }
    }
    for _ in 0..2_000 {
        envoy.turn(1_000_000);
    }
    for (number, response) in responses.iter().enumerate() {
        if response.leaves_after.is_none() {
            let whole = Sent {
                head: true,
                body: response.bytes(),
                trailers: response.has_trailers,
                end: true,
            };
            assert_eq!(envoy.sent(id(number)), whole, "{number}: {response:?}");
        }
    }
    assert_eq!(host(|host| host.metric("sprat.held_responses")), 0);
    assert_eq!(host(|host| host.tick_ms), 0, "nobody waits");
}

#[test]
fn a_body_that_is_held_as_its_head_goes_is_not_lost_to_its_trailers() {
    // Two heads are let go together. The first brings its body up, which is
    // held while the link is busy. It is due when the second one's comes up,
    // and before its own trailers do.
    let response = |parts, has_trailers| Response {
        parts,
        has_length: false,
        has_trailers,
        leaves_after: None,
    };
    for bytes in [1, 100, 1000] {
        let small = response(vec![bytes], true);
        let large = response(vec![10_000], false);
        let (head_and_part, turn) = ([0, 0], [usize::MAX; 2]);
        let order = [head_and_part, turn].concat();
        run(&[large, small.clone(), small], &order);
    }
}

fn responses() -> impl Strategy<Value = Vec<Response>> {
    let bytes = prop_oneof![0..4_u64, 100..3_000_u64];
    let leaves = proptest::option::weighted(0.1, 1..5_usize);
    let response = (
        prop::collection::vec(bytes, 0..4),
        any::<(bool, bool)>(),
        leaves,
    )
        .prop_map(
            |(parts, (has_length, has_trailers), leaves_after)| Response {
                parts,
                has_length,
                has_trailers,
                leaves_after,
            },
        );
    prop::collection::vec(response, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_crowd_gets_all_in_any_order(
        responses in responses(),
        order in prop::collection::vec(0..50_usize, 0..300),
    ) {
        run(&responses, &order);
    }
}
