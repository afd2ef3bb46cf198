//! The servers of other proxies, as the endpoints of one cluster.

use crate::ledger::{Id, Ledger};
use crate::yaml::{Map, Value, text, word};

/// The servers of an upstream or a backend.
#[derive(Default)]
pub(crate) struct Endpoints(Vec<Endpoint>);

/// A server of an upstream or a backend, as its line names it.
pub(crate) struct Endpoint {
    pub(crate) id: Id,
    pub(crate) address: String,
    pub(crate) weight: u64,
    /// Whether the server gets requests only while the others are away.
    pub(crate) is_backup: bool,
}

const SOONER: &str = "it gets a part of the requests once fewer than five of seven others are well";

impl Endpoints {
    pub(crate) fn add(&mut self, endpoint: Endpoint) {
        self.0.push(endpoint);
    }

    /// Returns the value of a cluster's `endpoints`; none if there is no server. Backups stand by
    /// only if there is another server.
    pub(crate) fn written(&self, ledger: &mut Ledger) -> Option<Value> {
        let others = self.0.iter().filter(|own| !own.is_backup).count();
        let mut list = Vec::new();
        for own in &self.0 {
            let mut more = Map::new();
            if own.weight != 1 {
                more.push(("weight".to_owned(), word(own.weight)));
            }
            if own.is_backup && others > 0 {
                more.push(("priority".to_owned(), word(1)));
                if others > 1 {
                    ledger.nearly(own.id, SOONER);
                }
            }
            let address = text(&*own.address);
            list.push(match more.is_empty() {
                true => address,
                false => {
                    more.insert(0, ("address".to_owned(), address));
                    Value::Map(more)
                }
            });
        }
        (!list.is_empty()).then_some(Value::List(list))
    }
}
