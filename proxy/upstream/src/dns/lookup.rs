//! Lookups of a name's addresses: the hosts file, then servers.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, Record, RecordType};
use hickory_resolver::{Hosts, TokioResolver, system_conf};
use sprat_config::resolved::{Dns, LookupFamily};
use sprat_net::stamp::Stamp;
use sprat_scheduler::resolution::Answer;
use tokio::time::timeout;

use super::known::Asked;

/// The files in which the system says how names are resolved.
const FILES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// The part of the time for an answer that a server gets: one in so many.
const SERVER_SHARE: u32 = 4;

/// The servers to ask, and the time for an answer.
pub(super) struct Asker {
    servers: Option<Vec<SocketAddr>>,
    timeout: Duration,
    built: Mutex<Option<Arc<Built>>>,
}

/// The resolvers and hosts made from the system's files, or for the servers given.
struct Built {
    stamps: [Option<Stamp>; 2],
    hosts: Hosts,
    /// The resolvers, one for each server, in their order. A single one for all would leave all
    /// of its time to the first server, and never come to the next.
    resolvers: Vec<TokioResolver>,
    /// The time that each server has for an answer.
    bound: Duration,
}

/// Addresses, and the time for which they are good.
#[derive(Default)]
struct Found {
    addresses: Vec<IpAddr>,
    ttl: Option<Duration>,
}

/// The reason why there are no addresses.
enum Miss {
    /// The name has no addresses.
    Nothing,
    /// All servers have failed to answer, for this reason.
    Failed(String),
}

impl Asker {
    pub(super) fn new(dns: &Dns) -> Self {
        Self {
            servers: dns.resolvers.clone(),
            timeout: dns.timeout,
            built: Mutex::default(),
        }
    }

    /// Returns whether this asks as `dns` is configured.
    pub(super) fn is_for(&self, dns: &Dns) -> bool {
        self.servers == dns.resolvers && self.timeout == dns.timeout
    }

    /// Asks for a name's addresses; if both kinds are wanted, for each kind apart.
    pub(super) async fn ask(&self, host: &str, family: LookupFamily) -> Asked {
        if family != LookupFamily::All {
            return self.ask_once(host, family).await;
        }
        let v4 = self.ask_once(host, LookupFamily::V4Only);
        let v6 = self.ask_once(host, LookupFamily::V6Only);
        let (v4, v6) = tokio::join!(v4, v6);
        Asked::both(v4, v6)
    }

    async fn ask_once(&self, host: &str, family: LookupFamily) -> Asked {
        let asked = timeout(self.timeout, self.look_up(host, family)).await;
        let asked = asked.unwrap_or_else(|_| Err(Miss::Failed("no answer in time".to_owned())));
        let (answer, error) = match asked {
            Ok(Found { addresses, ttl }) => (Answer::Addresses { addresses, ttl }, None),
            Err(Miss::Nothing) => (Answer::Nothing, Some("it has no address".to_owned())),
            Err(Miss::Failed(why)) => (Answer::Failed, Some(why)),
        };
        Asked {
            answers: vec![answer],
            error,
        }
    }

    async fn look_up(&self, host: &str, family: LookupFamily) -> Result<Found, Miss> {
        let name = Name::from_str_relaxed(host).map_err(|error| Miss::Failed(error.to_string()))?;
        let built = self.built()?;
        match family {
            LookupFamily::V4Only => built.of_kind(&name, RecordType::A).await,
            LookupFamily::V6Only => built.of_kind(&name, RecordType::AAAA).await,
            LookupFamily::V4Preferred => built.either(&name, RecordType::A, RecordType::AAAA).await,
            // All are asked for by kind.
            LookupFamily::Auto | LookupFamily::All => {
                built.either(&name, RecordType::AAAA, RecordType::A).await
            }
        }
    }

    /// Returns the resolvers, made anew when the system's files have changed.
    fn built(&self) -> Result<Arc<Built>, Miss> {
        let stamps = match self.servers {
            None => FILES.map(|path| Stamp::of(Path::new(path)).ok()),
            Some(_) => [None, None],
        };
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(built) = built.as_ref().filter(|built| built.stamps == stamps) {
            return Ok(Arc::clone(built));
        }
        let fresh = Arc::new(self.build(stamps).map_err(failed)?);
        *built = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn build(&self, stamps: [Option<Stamp>; 2]) -> Result<Built, NetError> {
        let (config, mut options, hosts) = match &self.servers {
            Some(servers) => {
                let servers = servers.iter().map(|server| name_server(*server));
                let config = ResolverConfig::from_name_servers(servers.collect());
                (config, ResolverOpts::default(), Hosts::default())
            }
            None => {
                let (config, options) = system_conf::read_system_conf().unwrap_or_else(|error| {
                    // As resolv.conf(5) has it.
                    tracing::warn!(%error, "no name server in {}: 127.0.0.1 is asked", FILES[0]);
                    let local = name_server(SocketAddr::from(([127, 0, 0, 1], 53)));
                    let config = ResolverConfig::from_name_servers(vec![local]);
                    (config, ResolverOpts::default())
                });
                (config, options, Hosts::from_system().unwrap_or_default())
            }
        };
        let bound = self.timeout / SERVER_SHARE;
        options.timeout = options.timeout.min(bound);
        // Questions that are lost are repeated within the time, too.
        options.attempts = 0;
        options.use_hosts_file = ResolveHosts::Never;
        // Answers are kept by the caller.
        options.cache_size = 0;
        let (domain, search, servers) = config.into_parts();
        let resolvers = servers.into_iter().map(|server| {
            let (domain, search) = (domain.clone(), search.clone());
            let config = ResolverConfig::from_parts(domain, search, vec![server]);
            let provider = TokioRuntimeProvider::default();
            let mut builder = TokioResolver::builder_with_config(config, provider);
            *builder.options_mut() = options.clone();
            builder.build()
        });
        Ok(Built {
            stamps,
            hosts,
            resolvers: resolvers.collect::<Result<_, _>>()?,
            bound,
        })
    }
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let on_port = |mut connection: ConnectionConfig| {
        connection.port = address.port();
        connection
    };
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    NameServerConfig::new(address.ip(), true, connections.map(on_port).into())
}

impl Built {
    /// Finds the addresses of the first kind, or of the second if the name has none of the
    /// first.
    async fn either(
        &self,
        name: &Name,
        first: RecordType,
        second: RecordType,
    ) -> Result<Found, Miss> {
        match self.of_kind(name, first).await {
            Err(Miss::Nothing) => self.of_kind(name, second).await,
            found => found,
        }
    }

    /// Finds the addresses of one kind. If the hosts file knows the name, no server is asked.
    async fn of_kind(&self, name: &Name, kind: RecordType) -> Result<Found, Miss> {
        let in_hosts = |kind| {
            let query = Query::query(name.clone(), kind);
            self.hosts.lookup_static_host(&query)
        };
        let here = in_hosts(kind);
        let other = match kind {
            RecordType::A => RecordType::AAAA,
            _ => RecordType::A,
        };
        let found = match here {
            Some(lookup) => Found {
                addresses: addresses(lookup.answers()),
                ttl: None,
            },
            None if in_hosts(other).is_some() => Found::default(),
            None => self.ask_servers(name, kind).await?,
        };
        match found.addresses.is_empty() {
            true => Err(Miss::Nothing),
            false => Ok(found),
        }
    }
}

impl Built {
    /// Asks one server after the other, until one has an answer about the name.
    async fn ask_servers(&self, name: &Name, kind: RecordType) -> Result<Found, Miss> {
        let mut why = Miss::Failed("there is no name server".to_owned());
        for resolver in &self.resolvers {
            resolver.clear_cache();
            let asked = timeout(self.bound, resolver.lookup(name.clone(), kind)).await;
            match asked.unwrap_or(Err(NetError::Timeout)).map_err(failed) {
                Ok(lookup) => {
                    let ttl = lookup.answers().iter().map(|record| record.ttl).min();
                    return Ok(Found {
                        addresses: addresses(lookup.answers()),
                        ttl: ttl.map(|seconds| Duration::from_secs(seconds.into())),
                    });
                }
                Err(Miss::Nothing) => return Err(Miss::Nothing),
                Err(failed) => why = failed,
            }
        }
        Err(why)
    }
}

fn addresses(records: &[Record]) -> Vec<IpAddr> {
    let addresses = records.iter().filter_map(|record| record.data.ip_addr());
    addresses.collect()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(error: NetError) -> Miss {
    match error.is_no_records_found() {
        true => Miss::Nothing,
        false => Miss::Failed(error.to_string()),
    }
}
