//! Looks at the files, directories and stores that the catalogue is told of.

use sprat_config::resolved::{Config, Route, SharedStore, Snapshot};
use sprat_net::problem::{Problem, Purpose};
use sprat_net::writable::replaceable;

use super::document_root;
use super::manifest;
use super::snapshot;
use super::store;

/// What is wrong with what the catalogue of `config` is told of.
pub fn inspect(config: &Config, purpose: Purpose) -> Vec<Problem> {
    let own = &config.catalogue;
    let mut problems = Vec::new();
    // A server reads them itself, by the same function, and its log says what is
    // wrong: a large one is not to be read twice.
    if purpose == Purpose::Check {
        problems.extend(own.manifests.iter().flat_map(manifest::inspect));
    }
    problems.extend(config.routes.iter().filter_map(root));
    problems.extend(own.snapshot.iter().flat_map(saved));
    problems.extend(own.shared.iter().filter_map(address));
    problems
}

/// A route's directory, where files are looked up.
fn root(route: &Route) -> Option<Problem> {
    let config = route.document_root.as_ref()?;
    let error = document_root::inspect(config).err()?;
    let message = format!("the document root {}: {error}", config.path.display());
    let help = "the backends' files are to be readable there; until then sizes are not found so";
    Some(Problem::missing(&config.span, message).help(help))
}

/// The snapshot is read at the start, if it is there, and written beside.
fn saved(config: &Snapshot) -> Vec<Problem> {
    let path = config.path.display();
    let written = replaceable(&config.path).err().map(|wrong| {
        let message = format!("cannot write the snapshot {path}: {wrong}");
        let help = "make the directory, and let the user that Sprat runs as write there";
        Problem::missing(&config.span, message).help(help)
    });
    let read = match written {
        None => snapshot::verify(&config.path).err(),
        Some(_) => None,
    };
    let read = read.map(|error| {
        let message = format!("cannot read the snapshot {path}: {error:#}");
        let help = "sizes are learnt anew, and it is overwritten";
        Problem::doubtful(&config.span, message).help(help)
    });
    written.into_iter().chain(read).collect()
}

/// The store need not be there, but its address has to make sense.
fn address(config: &SharedStore) -> Option<Problem> {
    let error = store::client(config).err()?;
    let help = "an address is such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock";
    Some(Problem::at(&config.span, format!("{error:#}")).help(help))
}
