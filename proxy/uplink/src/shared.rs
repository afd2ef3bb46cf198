//! The uplink that all workers share, and its change when its configuration changes.

use std::io;
use std::sync::Arc;

use sprat_config::resolved::{self as config, Engine, Rate};
use sprat_scheduler::rate_control::gate::GateConfig;
use sprat_scheduler::{Discipline, EgressPolicy, Pacer};

use super::auto::{AutoRate, PreparedSearch};
use super::division::{Division, PreparedDivision};
use super::gain::Gain;
use super::kernel::KernelLink;
use super::link::PacedLink;

/// The uplink that all workers share.
#[derive(Clone)]
pub enum SharedUplink {
    /// Everything is sent at once.
    Unlimited,
    /// Responses go in the scheduler's order, at the link's pace.
    Paced(Arc<PacedLink>),
    /// Responses go in the order of the kernel's queueing discipline.
    Kernel(Arc<KernelLink>),
}

impl SharedUplink {
    /// Creates the uplink as configured.
    ///
    /// # Errors
    ///
    /// A thread cannot be started, or the address of a store makes no sense.
    pub fn new(uplink: &config::Uplink, classes: &config::Classes) -> io::Result<Self> {
        if let (Engine::Kernel(engine), Discipline::Bands(cutoffs)) =
            (&uplink.engine, &uplink.policy)
        {
            let rate_bits_per_s = match uplink.rate {
                Rate::Fixed(bits_per_s) => Some(bits_per_s),
                Rate::Auto | Rate::Unlimited => None,
            };
            let link = KernelLink::new(engine.qdisc, cutoffs, rate_bits_per_s);
            return Ok(Self::Kernel(link));
        }
        let rate_bits_per_s = match uplink.rate {
            Rate::Unlimited => return Ok(Self::Unlimited),
            Rate::Fixed(bits_per_s) => bits_per_s,
            Rate::Auto => AutoRate::initial_rate_bits_per_s(&GateConfig::default()),
        };
        let link = PacedLink::new(Pacer::new(rate_bits_per_s), policy(uplink, classes));
        let own = Self::Paced(link);
        let prepared = own.prepare(uplink, classes)?;
        own.commit(prepared);
        Ok(own)
    }

    /// Prepares the uplink of a configuration that replaces `own`: this one, if
    /// [`SharedUplink::commit`] can change it, or a new one. Nothing changes yet: the change of the
    /// uplink that is returned is prepared by [`SharedUplink::prepare`].
    ///
    /// # Errors
    ///
    /// A thread cannot be started, or the address of a store makes no sense.
    pub fn prepare_successor(
        &self,
        own: &config::Uplink,
        wanted: &config::Uplink,
        classes: &config::Classes,
    ) -> io::Result<Self> {
        // Each response asks how it is marked.
        let marked_alike = config::Uplink {
            marking: own.marking,
            ..wanted.clone()
        };
        if *own == marked_alike || (is_paced(own) && is_paced(wanted)) {
            return Ok(self.clone());
        }
        Self::new(wanted, classes)
    }

    /// Returns the gain of the order over `fair`; `None` if there is nothing to compare.
    pub fn gain(&self) -> Option<Gain> {
        match self {
            Self::Paced(link) => link.gain(),
            Self::Unlimited | Self::Kernel(_) => None,
        }
    }

    /// Returns the reason, for people, why there is no gain to tell; `None` if there is one.
    pub fn nothing_to_compare(&self) -> Option<&'static str> {
        match self {
            Self::Paced(link) => link.nothing_to_compare(),
            Self::Unlimited => Some("the rate is unlimited: nothing is held back, or ordered"),
            Self::Kernel(_) => Some("the kernel orders, with engine kernel"),
        }
    }

    /// Prepares the change of the uplink to a configuration; nothing changes yet.
    ///
    /// # Errors
    ///
    /// A thread cannot be started, or the address of a store makes no sense.
    pub fn prepare(
        &self,
        uplink: &config::Uplink,
        classes: &config::Classes,
    ) -> io::Result<PreparedUplink> {
        let Self::Paced(link) = self else {
            return Ok(PreparedUplink(None));
        };
        let search = match searched(uplink) {
            Some(config) => AutoRate::prepare(link, config)?,
            None => None,
        };
        Ok(PreparedUplink(Some(Change {
            policy: policy(uplink, classes),
            division: Division::prepare(link, divided(uplink))?,
            search,
            uplink: uplink.clone(),
        })))
    }

    /// Changes the uplink as it was prepared.
    pub fn commit(&self, prepared: PreparedUplink) {
        let (Self::Paced(link), PreparedUplink(Some(change))) = (self, prepared) else {
            return;
        };
        let uplink = &change.uplink;
        link.change(change.policy);
        let is_given = searched(uplink).is_none();
        if is_given {
            // First: what a search still finds is not to replace the share or the rate.
            link.auto().stop();
        }
        Division::commit(link, change.division);
        link.compare(uplink);
        if let Some(search) = change.search {
            AutoRate::commit(link, search);
        } else if let Rate::Fixed(bits_per_s) = uplink.rate
            && is_given
            && uplink.shared.is_none()
        {
            link.set_rate(bits_per_s);
        }
    }
}

/// The change of an uplink to a configuration, prepared and not yet made.
pub struct PreparedUplink(Option<Change>);

struct Change {
    uplink: config::Uplink,
    policy: EgressPolicy,
    division: PreparedDivision,
    /// The search that is to begin, if it is not the present one.
    search: Option<PreparedSearch>,
}

/// Returns the rate that is divided, and the store that it is divided by, if other instances
/// send on the link.
fn divided(uplink: &config::Uplink) -> Option<(u64, &config::SharedUplink)> {
    match (uplink.rate, &uplink.shared) {
        (Rate::Fixed(bits_per_s), Some(shared)) => Some((bits_per_s, shared)),
        _ => None,
    }
}

/// Returns the configuration of the search for the rate, if there is to be one. An instance
/// that has a share of the link cannot tell what all of it carries.
fn searched(uplink: &config::Uplink) -> Option<GateConfig> {
    match uplink.rate {
        _ if uplink.shared.is_some() => None,
        Rate::Auto => Some(GateConfig::default()),
        Rate::Fixed(bits_per_s) => uplink.adapt.then_some(GateConfig {
            named_bits_per_s: Some(bits_per_s),
        }),
        Rate::Unlimited => None,
    }
}

fn is_paced(uplink: &config::Uplink) -> bool {
    let kernel = matches!(
        (&uplink.engine, &uplink.policy),
        (Engine::Kernel(_), Discipline::Bands(_))
    );
    !kernel && uplink.rate != Rate::Unlimited
}

/// Returns the core's policy as the configuration has it.
fn policy(uplink: &config::Uplink, classes: &config::Classes) -> EgressPolicy {
    EgressPolicy {
        max_flows: uplink.max_flows,
        guard_factor: uplink.guard_factor,
        classes: classes.list.iter().map(|c| c.spec.clone()).collect(),
        floor_percent: uplink.floor_percent,
        share_between_clients: uplink.share.is_some(),
        marking: uplink.marking.map(|marking| marking.rule),
        ..EgressPolicy::new(uplink.policy.clone())
    }
}
