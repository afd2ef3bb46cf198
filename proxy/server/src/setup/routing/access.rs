//! The rules on who may use a route, as a worker goes by them.

mod cors;
mod users;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use sprat_config::classify::{Asked, has_certificate};
use sprat_config::fields::Fields;
use sprat_config::resolved::{self, Config, FileAt, HeaderEdits, RbacRule, Template, Verdict};
use sprat_net::problem::Problem;

pub(crate) use self::cors::{Cors, Granted};
pub(crate) use self::users::{Denied, Users};
use super::edits::{EditNeeds, Edits};

/// A field of a request's head that Sprat vouches for: the client's `Connection` does not take it
/// away.
pub(crate) struct VouchedField {
    pub(crate) name: HeaderName,
    pub(crate) value: HeaderValue,
}

/// The rules on who may use what a route leads to.
#[derive(Debug)]
pub(crate) struct Access {
    /// The pages of other origins that may use it.
    pub(crate) cors: Option<Cors>,
    /// The users who may use it, by name and password.
    pub(crate) basic: Option<Basic>,
    /// The server that is asked whether a request is served.
    pub(crate) authz: Option<Authz>,
    rules: Vec<RbacRule>,
}

/// The basic authentication of a route's users, by name and password.
#[derive(Debug)]
pub(crate) struct Basic {
    /// The users' names, and the hashes of their passwords.
    pub(crate) users: Arc<Users>,
    /// The value of `WWW-Authenticate`.
    pub(crate) challenge: HeaderValue,
    /// The field that tells the endpoint the user's name; none if it is not told.
    pub(crate) username_header: Option<HeaderName>,
}

/// A server that is asked whether requests are served.
#[derive(Debug)]
pub(crate) struct Authz {
    /// The place of the server's cluster in the configuration.
    pub(crate) cluster: usize,
    /// The target of the request that asks the server.
    pub(crate) path: Uri,
    /// The longest time from the question to the answer's head.
    pub(crate) timeout: Duration,
    /// The fields of the client's request that the server is told.
    pub(crate) told: Vec<HeaderName>,
    /// Further fields that the server is told, and what their values need of the request;
    /// none if there are no more.
    pub(crate) added: Option<(Edits, EditNeeds)>,
    /// The fields of the server's answer that the endpoint gets.
    pub(crate) allowed_upstream_headers: Vec<HeaderName>,
    /// The field of the server's answer that names the user.
    pub(crate) user_header: Option<HeaderName>,
    /// Whether requests are served while the server cannot be asked.
    pub(crate) failure_mode_allow: bool,
}

impl Access {
    /// Makes the rules on who may use a route; none if all may. `places` are those of clusters.
    ///
    /// # Errors
    ///
    /// Fails if a file of users cannot be read, or if a cluster is not there.
    pub(super) fn of(
        access: &resolved::Access,
        places: &HashMap<&str, usize>,
    ) -> anyhow::Result<Option<Box<Self>>> {
        if access.is_open() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self {
            cors: access.cors.as_ref().map(Cors::of).transpose()?,
            basic: access.basic_auth.as_ref().map(Basic::of).transpose()?,
            authz: match &access.ext_authz {
                Some(own) => Some(Authz::of(own, places)?),
                None => None,
            },
            rules: access.rbac.clone(),
        })))
    }

    /// Returns whether there are rules (`rbac`).
    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// Returns whether the rules ask who the user is.
    pub(crate) fn asks_for_user(&self) -> bool {
        self.rules.iter().any(|rule| !rule.users.is_empty())
    }

    /// Returns the fields of a head that Sprat has put there to tell the endpoint of the user.
    pub(crate) fn vouched_for(&self, head: &HeaderMap) -> Vec<VouchedField> {
        let of_basic = self.basic.iter().flat_map(|own| &own.username_header);
        let of_authz = self
            .authz
            .iter()
            .flat_map(|own| &own.allowed_upstream_headers);
        let values = |name: &HeaderName| {
            let values = head.get_all(name).iter();
            let fields = values.map(|value| VouchedField {
                name: name.clone(),
                value: value.clone(),
            });
            fields.collect::<Vec<_>>()
        };
        of_basic.chain(of_authz).flat_map(values).collect()
    }

    /// Returns whether the rules let a request of its user pass.
    pub(crate) fn allows<F: Fields + ?Sized>(&self, asked: &Asked<'_, F>) -> bool {
        let fits = |rule: &&RbacRule| {
            let networks = &rule.clients;
            let is_in = |ip| networks.iter().any(|network| network.contains(ip));
            (networks.is_empty() || asked.client.is_some_and(is_in))
                && (rule.certificate.as_ref())
                    .is_none_or(|own| has_certificate(asked.certificate.as_ref(), own))
                && rule
                    .headers
                    .iter()
                    .all(|own| own.holds_for_field(asked.fields))
                && (rule.users.is_empty()
                    || asked
                        .user
                        .is_some_and(|user| rule.users.iter().any(|own| own.matches(user))))
        };
        match self.rules.iter().find(fits) {
            Some(rule) => rule.verdict == Verdict::Allow,
            None => self.rules.is_empty(),
        }
    }
}

impl Basic {
    fn of(basic: &resolved::BasicAuth) -> anyhow::Result<Self> {
        let challenge = format!("Basic realm=\"{}\", charset=\"UTF-8\"", basic.realm);
        Ok(Self {
            users: Arc::new(Users::read(&basic.users_file.path, basic)?),
            challenge: HeaderValue::try_from(challenge)?,
            username_header: name(basic.username_header.as_ref())?,
        })
    }
}

impl Authz {
    fn of(own: &resolved::ExtAuthz, places: &HashMap<&str, usize>) -> anyhow::Result<Self> {
        let unknown = || anyhow::anyhow!("`ext_authz` names an unknown cluster");
        let names = |list: &[String]| list.iter().map(|own| own.parse()).collect::<Result<_, _>>();
        Ok(Self {
            cluster: places
                .get(&*own.cluster.name)
                .copied()
                .ok_or_else(unknown)?,
            path: own.path.parse()?,
            timeout: own.timeout,
            told: names(&own.told)?,
            added: added(&own.added)?,
            allowed_upstream_headers: names(&own.allowed_upstream_headers)?,
            user_header: name(own.user_header.as_ref())?,
            failure_mode_allow: own.failure_mode_allow,
        })
    }
}

fn added(pairs: &[(String, Template)]) -> anyhow::Result<Option<(Edits, EditNeeds)>> {
    let edits = Edits::of(&HeaderEdits {
        set: pairs.to_vec(),
        ..HeaderEdits::default()
    })?;
    Ok(edits.map(|edits| {
        let needs = EditNeeds::of([Some(&edits), None]);
        (edits, needs)
    }))
}

fn name(name: Option<&String>) -> anyhow::Result<Option<HeaderName>> {
    Ok(name.map(|own| own.parse()).transpose()?)
}

/// Returns the problems with the files of users.
pub(super) fn inspect(config: &Config) -> impl Iterator<Item = Problem> {
    let files = config
        .routes
        .iter()
        .filter_map(|route| route.access.basic_auth.as_ref());
    files.filter_map(|basic| {
        let FileAt { path, span } = &basic.users_file;
        let error = Users::read(Path::new(path), basic).err()?;
        let help = "write the file with `htpasswd -B`, a user a line";
        Some(Problem::at(span, format!("{error:#}")).help(help))
    })
}
