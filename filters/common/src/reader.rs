//! The reading of a request's head, before anything is decided about the request.
//!
//! Reading changes nothing, so that workers that share a filter read without a lock.

use std::net::IpAddr;
use std::sync::Arc;

use sprat_config::classify::{self, Classifier, Later};
use sprat_config::fields::{Fields, host_without_port};
use sprat_config::resolved::{self, FilterCluster, HashKey};
use sprat_scheduler::dispatch::stable_hash;

use crate::answer::Form;
use crate::keys::{Asked, Keys};
use crate::stream::Method;

/// The head of a request.
pub struct RequestHead<'a> {
    /// The client's address, if it has one and [`Reader::wants_client`].
    pub client: Option<IpAddr>,
    /// The method of the request.
    pub method: &'a str,
    /// The host, and the port if there is one.
    pub authority: &'a str,
    /// The path and the query.
    pub target: &'a str,
    /// The fields of the request.
    pub fields: &'a dyn Fields,
    /// A number drawn at random for this request.
    pub random: u64,
}

/// A request's properties, as read from its head.
#[derive(Debug)]
pub struct Read {
    pub(crate) class: usize,
    pub(crate) later: Option<Later>,
    pub(crate) group: Option<usize>,
    pub(crate) hash: u64,
    pub(crate) random: u64,
    pub(crate) method: Method,
    pub(crate) form: Form,
    /// The keys of the resource that the request asks for, if sizes are looked up.
    pub(crate) asked: Option<Asked>,
    /// The response's size, if the manifest lists it.
    pub(crate) listed: Option<u64>,
    /// The groups whose header field the client itself has sent.
    pub(crate) forged: Vec<usize>,
}

impl Read {
    /// Returns the index of the request's class among the configuration's.
    pub fn class(&self) -> usize {
        self.class
    }
}

/// A reader of requests' heads, which classifies them and finds their groups.
#[derive(Debug)]
pub struct Reader {
    pub(crate) classifier: Classifier,
    pub(crate) groups: Vec<FilterCluster>,
    keys: Option<Arc<Keys>>,
    wants_client: bool,
}

impl Reader {
    pub(crate) fn new(config: &resolved::Filter, keys: Option<Arc<Keys>>) -> Self {
        let by_client = |group: &FilterCluster| {
            group.hash_key == HashKey::Client && group.dispatch.has_affinity()
        };
        let mut rules = config.classes.rules.iter();
        Self {
            wants_client: rules.any(|rule| !rule.matches.clients.is_empty())
                || config.clusters.iter().any(by_client),
            classifier: Classifier::new(&config.classes),
            groups: config.clusters.clone(),
            keys,
        }
    }

    /// Returns whether any decision depends on the client's address.
    pub fn wants_client(&self) -> bool {
        self.wants_client
    }

    /// Reads the head of a request.
    pub fn read(&self, head: &RequestHead<'_>) -> Read {
        let name = host_without_port(head.authority).unwrap_or_default();
        let path = head.target.split('?').next().unwrap_or(head.target);
        let asked = classify::Asked {
            client: head.client,
            dscp: None,
            certificate: None,
            user: None,
            host: name,
            path,
            method: head.method,
            fields: head.fields,
        };
        let classified = self.classifier.classify(&asked);
        let fits = |group: &FilterCluster| group.matches.matches(name, path);
        let group = self.groups.iter().position(fits);
        let method = Method::of(head.method);
        let keys = self
            .keys
            .as_ref()
            .filter(|_| matches!(method, Method::Get | Method::Head));
        let number = group.unwrap_or(self.groups.len());
        Read {
            class: classified.class,
            later: self.classifier.later(&asked, classified),
            group,
            hash: group.map_or(0, |group| {
                hash(&self.groups[group], head.client, name, head.target)
            }),
            random: head.random,
            method,
            form: Form::of(head.fields),
            asked: keys.map(|keys| keys.asked(number, name, head.target, head.fields)),
            listed: keys.and_then(|keys| keys.listed(name, head.target)),
            forged: self.forged(head.fields),
        }
    }

    /// Returns the groups whose header field the client itself has sent. The route would follow
    /// such a field wherever the client wants.
    fn forged(&self, fields: &dyn Fields) -> Vec<usize> {
        let groups = self.groups.iter().enumerate();
        let forged = groups.filter(|(_, group)| fields.contains(&group.header));
        forged.map(|(number, _)| number).collect()
    }
}

/// Returns the hash that affinity in a group depends on, for one request; 0 without affinity.
fn hash(group: &FilterCluster, client: Option<IpAddr>, host: &str, target: &str) -> u64 {
    if !group.dispatch.has_affinity() {
        return 0;
    }
    match (group.hash_key, client) {
        (HashKey::Client, Some(client)) => stable_hash(&[client.to_string().as_bytes()]),
        (HashKey::Client, None) => 0,
        (HashKey::Url, _) => stable_hash(&[host.as_bytes(), target.as_bytes()]),
    }
}
