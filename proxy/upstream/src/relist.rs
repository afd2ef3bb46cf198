//! A cluster's file of endpoints, looked at again while the station serves.

use std::path::Path;
use std::sync::Arc;

use sprat_config::resolved::{Endpoint, EndpointsFile};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::listed::{look, refused};
use super::shared::SharedCluster;
use super::station::SharedStation;

/// Looks at a cluster's file at the configured interval, and gives the station the endpoints in
/// it.
pub(super) async fn follow(cluster: Arc<SharedCluster>, file: EndpointsFile) {
    loop {
        sleep(file.interval).await;
        look_again(&cluster, &file.at.path).await;
    }
}

/// Looks at a cluster's file; if it is not the one that the station has seen, gives the station
/// the endpoints in it.
async fn look_again(cluster: &SharedCluster, path: &Path) {
    let source = &cluster.station.source;
    let (seen, at) = (source.seen(), path.to_owned());
    let config = Arc::clone(&cluster.config);
    let looked = spawn_blocking(move || look(&at, seen, &config)).await;
    // An error: the event loop ends.
    let Ok(Some((seen, read))) = looked else {
        return;
    };
    let before = source.saw(seen);
    let is_news = cluster.listing.note(seen != before, read.is_ok());
    let applied = read.and_then(|found| {
        let applied = cluster.station.set_listed(found);
        applied.map_err(|error| format!("{error:#}"))
    });
    match applied {
        Ok(()) => {}
        Err(error) if is_news => refused(&cluster.config.name, path, &error),
        Err(_) => {}
    }
}

impl SharedStation {
    /// Replaces the station's endpoints of a file.
    fn set_listed(&self, listed: Vec<Endpoint>) -> anyhow::Result<()> {
        self.source.set_listed(listed)?;
        self.renew(self.lock());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::atomic::Ordering::Relaxed;

    use super::super::listed::Seen;
    use super::*;
    use crate::dns::Names;

    /// Makes a cluster whose endpoints stand in this file; with another `max_requests` it
    /// has another station.
    fn made(
        path: &Path,
        max_requests: u32,
        before: Option<&SharedCluster>,
    ) -> anyhow::Result<SharedCluster> {
        let path = path.display();
        let text = format!(
            "version: 1\nlisteners: [{{address: 127.0.0.1:0}}]\nroutes: [{{cluster: farm}}]\n\
             clusters:\n  farm:\n    endpoints_file: {path}\n    \
             max_requests: {max_requests}\n"
        );
        let loaded = sprat_config::parse(&text, "test.yaml", &|_| None);
        let config = loaded.unwrap().config;
        SharedCluster::after(&config.clusters[0], &config, &Names::default(), before)
    }

    fn cluster(path: &Path, max_requests: u32, before: Option<&SharedCluster>) -> SharedCluster {
        made(path, max_requests, before).unwrap()
    }

    fn listed(cluster: &SharedCluster) -> Vec<String> {
        let listed = cluster.station.source.listed();
        listed.iter().map(|own| own.address.to_string()).collect()
    }

    /// Replaces the file by another, whose size must differ, too.
    fn put(path: &Path, text: &str) {
        let fresh = path.with_extension("fresh");
        std::fs::write(&fresh, text).unwrap();
        std::fs::rename(fresh, path).unwrap();
    }

    #[tokio::test]
    async fn each_station_gets_every_change_whichever_saw_it_first() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("farm.endpoints");
        put(&path, "127.0.0.1:1");
        let old = cluster(&path, 1, None);
        assert_eq!(listed(&old), ["127.0.0.1:1"]);
        // A reload is prepared, and refused for something else.
        put(&path, "127.0.0.1:22");
        let refused = cluster(&path, 2, Some(&old));
        assert!(!Arc::ptr_eq(&old.station, &refused.station));
        assert_eq!(listed(&refused), ["127.0.0.1:22"]);
        drop(refused);
        look_again(&old, &path).await;
        assert_eq!(listed(&old), ["127.0.0.1:22"]);
        // One succeeds, and the old station sees a change before it ends.
        let new = cluster(&path, 3, Some(&old));
        put(&path, "127.0.0.1:333");
        look_again(&old, &path).await;
        look_again(&new, &path).await;
        assert_eq!(listed(&new), ["127.0.0.1:333"]);
        // The counts are the cluster's, whichever station has read.
        assert!(new.listing.is_good());
        assert_eq!(new.listing.reads[0].load(Relaxed), 6);
        assert_eq!(new.listing.reads[1].load(Relaxed), 0);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_opened_is_tried_again_although_it_is_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("farm.endpoints");
        put(&path, "127.0.0.1:1");
        let own = cluster(&path, 1, None);
        std::fs::remove_file(&path).unwrap();
        // Not even root can open it.
        let socket = UnixListener::bind(&path).unwrap();
        for _ in 0..2 {
            look_again(&own, &path).await;
            assert_eq!(own.station.source.seen(), Seen::Nothing);
        }
        assert_eq!(listed(&own), ["127.0.0.1:1"]);
        assert!(!own.listing.is_good());
        // The log has it once.
        assert_eq!(own.listing.reads[1].load(Relaxed), 1);
        drop(socket);
        put(&path, "127.0.0.1:22");
        look_again(&own, &path).await;
        assert_eq!(listed(&own), ["127.0.0.1:22"]);
        assert!(own.listing.is_good());
    }

    #[tokio::test]
    async fn another_file_that_is_refused_does_not_count_against_the_one_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("farm.endpoints");
        put(&path, "127.0.0.1:1");
        let own = cluster(&path, 1, None);
        let other = directory.path().join("other.endpoints");
        assert!(made(&other, 1, Some(&own)).is_err());
        assert!(own.listing.is_good());
        assert_eq!(own.listing.reads[1].load(Relaxed), 0);
    }
}
