//! Weights that the operator gives endpoints while they serve, in the place of those of the
//! configuration.

use std::sync::Arc;

use sprat_scheduler::dispatch::EndpointSpec;

use super::members::Member;

/// A weight that was given, and the configuration's that it replaces.
#[derive(Clone, Debug)]
struct Given {
    label: String,
    weight: u32,
    instead_of: u32,
}

/// The weights given to a cluster's endpoints, one at most for each of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Weights(Vec<Given>);

impl Weights {
    /// Gives the endpoint with this label a weight in place of the configuration's.
    pub(super) fn give(&mut self, label: &str, weight: u32, instead_of: u32) {
        self.0.retain(|given| given.label != label);
        if weight != instead_of {
            self.0.push(Given {
                label: label.to_owned(),
                weight,
                instead_of,
            });
        }
    }

    /// Returns the configuration's weight of the endpoint with this label, if it was given
    /// another.
    pub(super) fn configured(&self, label: &str) -> Option<u32> {
        let given = self.0.iter().find(|given| given.label == label);
        given.map(|given| given.instead_of)
    }

    /// Puts the weights that were given in the place of the configuration's. A weight is
    /// forgotten if its endpoint is gone, or has another weight in the configuration than it
    /// had.
    pub(super) fn apply(&mut self, members: &mut [(Arc<Member>, EndpointSpec)]) {
        self.0.retain(|given| {
            let mut all = members.iter();
            all.any(|(own, spec)| own.label == given.label && spec.weight == given.instead_of)
        });
        for (member, spec) in members {
            if let Some(given) = self.0.iter().find(|given| given.label == member.label) {
                spec.weight = given.weight;
            }
        }
    }
}
