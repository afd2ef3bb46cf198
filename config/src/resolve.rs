//! Resolves raw types, and checks what depends on several keys.

mod access;
mod access_log;
mod acme;
mod actions;
mod addresses;
mod buffer;
mod catalogue;
mod classes;
mod cluster_names;
mod clusters;
mod compressor;
mod dns;
mod filter;
mod health;
mod limits;
mod marking;
mod paths;
mod policy;
mod reach;
mod routes;
mod sessions;
mod shared_uplink;
mod srq;
mod tls;
mod tracing;
mod values;

pub(crate) use clusters::{endpoints, fits_cluster};
pub(crate) use filter::filter;

use std::collections::HashMap;

use sprat_scheduler::{Cutoffs, Discipline};

use self::addresses::Addresses;
use self::policy::policy;
use self::values::{bytes, count, each, maybe, optional_file, size, small, time};
use crate::containers::Or;
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved::*;
use crate::scalars::Bytes;
use crate::shown::Shown;
use crate::words::NoShare;

/// Resolves the whole file; none if there is an error in it, which is reported. Every part is
/// checked, whatever is wrong with the others.
pub(crate) fn file(file: &raw::File, reporter: &mut Reporter<'_>) -> Option<Config> {
    if file.include.given {
        let message = "`include` stands in a file, and this is text by itself".to_owned();
        let help = "put what it includes in its place".to_owned();
        reporter.error(&file.include.span, message, Some(help));
    }
    let runtime = file.runtime.get().and_then(runtime);
    let admin = admin(&file.admin, reporter);
    let acme = acme::resolve(&file.acme);
    let listeners = listeners(file, acme.as_ref().map(Option::as_ref), reporter);
    let uplink = file.uplink.get().and_then(|raw| uplink(raw, reporter));
    let clusters = clusters::resolve(file, reporter);
    let routes = routes::resolve(file, clusters.as_deref(), reporter);
    let classes = classes::resolve(&file.classes, &file.class_rules, reporter);
    classes::warn_unasked(file, listeners.as_deref(), reporter);
    // Where one is wrong, it may be the one.
    let finds_user = |all: &Vec<Route>| all.iter().any(|own| own.access.finds_user());
    let rules = file.class_rules.get().map_or(&[][..], |rules| &rules.0);
    classes::warn_unknown_users(
        rules,
        routes.as_ref().is_none_or(finds_user),
        "give a route `basic_auth`, or `ext_authz` with a `user_header`",
        reporter,
    );
    if let Some(listeners) = &listeners {
        paths::warn_abnormal(file, listeners, reporter);
    }
    let admission = file.admission.get().and_then(classes::admission);
    if let Some(uplink) = &uplink {
        classes::warn_unpaced(file, uplink, reporter);
    }
    if let (Some(uplink), Some(classes), Some(raw)) = (&uplink, &classes, file.uplink.get()) {
        srq::warn_deadlines(&raw.policy, &uplink.policy, classes, reporter);
    }
    let access_log = access_log::resolve(&file.access_log, classes.as_ref(), reporter);
    let tracing = tracing::resolve(&file.tracing, reporter);
    let catalogue = file.catalogue.get();
    let catalogue = catalogue.and_then(|raw| catalogue::resolve(raw, file, reporter));
    let overload_manager = limits::overload_manager(&file.overload_manager, reporter);
    let buffer = file.buffer.get().and_then(buffer::totals);
    file.version.get()?;
    Some(Config {
        runtime: runtime?,
        admin: admin?,
        listeners: listeners?,
        uplink: uplink?,
        clusters: clusters?.into_iter().collect::<Option<_>>()?,
        routes: routes?,
        classes: classes?,
        admission: admission?,
        access_log: access_log?,
        tracing: tracing?,
        catalogue: catalogue?,
        acme: acme?,
        overload_manager: overload_manager?,
        buffer: buffer?,
        shown: Shown::default(),
    })
}

fn runtime(raw: &raw::Runtime) -> Option<Runtime> {
    let workers = match raw.workers.copied()? {
        Or::Word(_) => std::thread::available_parallelism().map_or(1, usize::from),
        Or::Value(workers) => size(workers.0),
    };
    Some(Runtime {
        workers,
        drain_timeout: raw.drain_timeout.copied()?.0,
        reload_interval: raw.reload_interval.get()?.value().map(|time| time.0),
    })
}

/// The permissions of a listener's Unix socket, if none are given: its user and its group may use
/// it.
const LISTENER_MODE: u32 = 0o660;

/// The permissions of the admin listener's Unix socket, if none are given: its user alone may use
/// it.
const ADMIN_MODE: u32 = 0o600;

fn admin<W>(
    raw: &Field<Or<W, raw::AdminAt>>,
    reporter: &mut Reporter<'_>,
) -> Option<Option<Admin>> {
    match raw.get()?.value() {
        None => Some(None),
        Some(raw::AdminAt(admin)) => Some(Some(Admin {
            address: admin.address.get()?.0.clone(),
            mode: addresses::mode(&admin.address, &admin.mode, ADMIN_MODE, reporter)?,
            owner: addresses::owner(&admin.address, &admin.owner, &admin.group, reporter)?,
            hosts: each(&admin.hosts, |host| Some(host.0.clone()))?,
            token_file: optional_file(&admin.token_file)?,
        })),
    }
}

fn listeners(
    file: &raw::File,
    acme: Option<Option<&Acme>>,
    reporter: &mut Reporter<'_>,
) -> Option<Vec<Listener>> {
    let mut names: HashMap<String, usize> = HashMap::new();
    let admin = file.admin.get().and_then(Or::value);
    let mut addresses = Addresses::of(admin.map(|raw::AdminAt(admin)| &**admin));
    let mut out = Some(Vec::new());
    for field in &file.listeners.get()?.0 {
        let resolved = field.get().and_then(|raw| listener(raw, acme, reporter));
        if let Some(raw) = field.get() {
            let name = raw.name.get().map(|name| name.0.clone());
            if let Some(first) = name.and_then(|name| names.insert(name, raw.name.span.start)) {
                let line = reporter.line_of(first);
                let message = "another listener has the same name".to_owned();
                let help = format!("the other is on line {line}: rename one of them");
                reporter.error(&raw.name.span, message, Some(help));
            }
            addresses.add(&raw.address, reporter);
        }
        match (resolved, &mut out) {
            (Some(listener), Some(list)) => list.push(listener),
            _ => out = None,
        }
    }
    out
}

fn listener(
    raw: &raw::Listener,
    acme: Option<Option<&Acme>>,
    reporter: &mut Reporter<'_>,
) -> Option<Listener> {
    let address = raw.address.get()?.0.clone();
    let mode = addresses::mode(&raw.address, &raw.mode, LISTENER_MODE, reporter)?;
    let owner = addresses::owner(&raw.address, &raw.owner, &raw.group, reporter)?;
    let forwarding = raw.forwarding.get()?;
    let name = raw.name.optional()?;
    let http2 = maybe(raw.http2.get()?.value(), http2)?;
    Some(Listener {
        name: name.map_or_else(|| address.to_string(), |name| name.0.clone()),
        address,
        mode,
        owner,
        max_connections: count(&raw.max_connections)?,
        max_request_headers: bytes(&raw.max_request_headers)?,
        max_headers_count: count(&raw.max_headers_count)?,
        max_request_body: raw.max_request_body.get()?.value().map(|bytes| bytes.0),
        request_headers_timeout: time(&raw.request_headers_timeout)?,
        idle_timeout: time(&raw.idle_timeout)?,
        stream_idle_timeout: time(&raw.stream_idle_timeout)?,
        abort_on_close: raw.abort_on_close.copied()?.0,
        max_tunnels: count(&raw.max_tunnels)?,
        max_unsent_bytes: raw
            .tcp_notsent_lowat
            .get()?
            .value()
            .map_or(u32::MAX, |bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX)),
        limits: limits::listener(raw)?,
        forwarding: Forwarding {
            x_forwarded: forwarding.x_forwarded.copied()?.0,
            forwarded: forwarding.forwarded.copied()?.0,
            trusted: each(&forwarding.trusted, |cidr| Some(cidr.0))?,
            via: forwarding.via.get()?.value().map(|name| name.0.clone()),
        },
        request_id: access_log::request_id(&raw.request_id)?,
        headers_with_underscores: raw.headers_with_underscores_action.copied()?,
        paths: PathRules {
            normalize: raw.normalize_path.copied()?.0,
            merge_slashes: raw.merge_slashes.copied()?.0,
            escaped_slashes: raw.path_with_escaped_slashes_action.copied()?,
        },
        tls: tls::listener(&raw.tls, http2.as_ref(), acme, reporter)?,
        http2,
        proxy_protocol: proxy_protocol(&raw.proxy_protocol)?,
    })
}

/// The largest flow-control window in bytes (RFC 9113 6.9.1).
const WINDOW_MAX: u32 = 0x7fff_ffff;

fn http2(raw: &raw::Http2) -> Option<Http2> {
    let max_streams = small(count(&raw.max_concurrent_streams)?);
    let stream_window_bytes = small(bytes(&raw.initial_stream_window_size)?);
    // Bodies of requests that wait take nothing from those of the others.
    let all = max_streams.saturating_mul(stream_window_bytes);
    let connection_window_bytes = match raw.initial_connection_window_size.copied()? {
        Or::Word(_) => all.min(WINDOW_MAX),
        Or::Value(Bytes(own)) => small(size(own)),
    };
    Some(Http2 {
        max_streams,
        stream_window_bytes,
        connection_window_bytes,
        priorities: raw.priorities.copied()?,
        required: raw.required.copied()?.0,
    })
}

/// Resolves the PROXY protocol of a listener; `Some(None)` if it is off.
fn proxy_protocol<W>(raw: &Field<Or<W, raw::ProxyProtocol>>) -> Option<Option<ProxyProtocol>> {
    let Some(raw) = raw.get()?.value() else {
        return Some(None);
    };
    Some(Some(ProxyProtocol {
        trusted: each(&raw.trusted, |cidr| Some(cidr.0))?,
        others_direct: raw.others.copied()? == raw::Others::Direct,
        timeout: time(&raw.timeout)?,
        max_bytes: bytes(&raw.max_size)?,
    }))
}

pub(crate) fn uplink(raw: &raw::Uplink, reporter: &mut Reporter<'_>) -> Option<Uplink> {
    let rate = raw.rate.get().map(|rate| match rate {
        Or::Word(_) => Rate::Auto,
        Or::Value(Or::Word(_)) => Rate::Unlimited,
        Or::Value(Or::Value(rate)) => Rate::Fixed(rate.0),
    });
    let policy = raw.policy.get().and_then(|raw| policy(raw, reporter));
    let engine = raw.engine.get().and_then(engine);
    let fits = kernel_fits(raw, rate, policy.as_ref(), engine.as_ref(), reporter);
    let share = raw.clients.get().and_then(|clients| share(&clients.share));
    let share_fits = share_fits(
        raw,
        share.as_ref(),
        policy.as_ref(),
        engine.as_ref(),
        reporter,
    );
    let marking = marking::marking(raw, policy.as_ref(), reporter);
    let shared = shared_uplink::shared(raw, rate, engine.as_ref(), reporter);
    let (rate, policy, engine) = (rate?, policy?, engine?);
    (fits && share_fits).then_some(())?;
    let policy = match (&engine, policy) {
        (Engine::Kernel(_), Discipline::Srpt) => Discipline::Bands(Cutoffs::paper()),
        (_, policy) => policy,
    };
    Some(Uplink {
        rate,
        adapt: raw.adapt.copied()?.0,
        policy,
        engine,
        max_flows: count(&raw.max_flows)?,
        guard_factor: raw.guard_factor.copied()?.0,
        floor_percent: raw.floor.copied()?.0,
        counterfactual: raw.counterfactual.copied()?.0,
        counterfactual_networks: count(&raw.counterfactual_networks)?,
        share: share?,
        marking: marking?,
        shared: shared?,
    })
}

/// Resolves the key by which clients share the link; `Some(None)` if Sprat does not tell clients
/// apart.
fn share(raw: &Field<Or<NoShare, raw::ClientBy>>) -> Option<Option<ClientBy>> {
    match raw.get()?.value() {
        None => Some(None),
        Some(by) => limits::client_by(by).map(Some),
    }
}

/// Returns whether the engine and the policy can share the link between clients, if `share` is
/// given. Reports why they cannot.
fn share_fits(
    raw: &raw::Uplink,
    share: Option<&Option<ClientBy>>,
    policy: Option<&Discipline>,
    engine: Option<&Engine>,
    reporter: &mut Reporter<'_>,
) -> bool {
    let (Some(Some(_)), Some(raw)) = (share, raw.clients.get()) else {
        return true;
    };
    let (message, help) = match (engine, policy) {
        (Some(Engine::Kernel(_)), _) => (
            "`share` needs `engine: pace`: the kernel's classes know no clients".to_owned(),
            "use `engine: pace`, or `share: none`",
        ),
        (_, Some(policy)) if !policy.knows_clients() => (
            format!(
                "`share` does not go with the policy `{}`, under which responses take turns, not \
                 clients",
                policy.name()
            ),
            "use a policy that ranks responses, such as `srpt`, or `share: none`",
        ),
        _ => return true,
    };
    reporter.error(&raw.share.span, message, Some(help.to_owned()));
    false
}

/// Returns whether the kernel engine can do what the uplink asks of it, and reports what it cannot.
fn kernel_fits(
    raw: &raw::Uplink,
    rate: Option<Rate>,
    policy: Option<&Discipline>,
    engine: Option<&Engine>,
    reporter: &mut Reporter<'_>,
) -> bool {
    let Some(Engine::Kernel(kernel)) = engine else {
        return true;
    };
    let mut fits = true;
    if kernel.qdisc == Qdisc::Htb && matches!(rate, Some(Rate::Auto | Rate::Unlimited)) {
        let message = "the `htb` queueing discipline needs the uplink's rate".to_owned();
        let help =
            "give `rate` the link's rate, such as 10mbit, or use `{name: kernel, qdisc: prio}`";
        let span = if raw.rate.given {
            &raw.rate.span
        } else {
            &raw.engine.span
        };
        reporter.error(span, message, Some(help.to_owned()));
        fits = false;
    }
    let by_size = |policy: &Discipline| matches!(policy, Discipline::Srpt | Discipline::Bands(_));
    if policy.is_some_and(|policy| !by_size(policy)) {
        let message = "the `kernel` engine orders by size class alone".to_owned();
        let help = "use the policy `bands` (or `srpt`, for the paper's classes), or `engine: pace`";
        reporter.error(&raw.policy.span, message, Some(help.to_owned()));
        fits = false;
    }
    fits
}

fn engine(raw: &raw::Engine) -> Option<Engine> {
    Some(match raw {
        raw::Engine::Pace(_) => Engine::Pace,
        raw::Engine::Kernel(kernel) => Engine::Kernel(KernelEngine {
            qdisc: kernel.qdisc.copied()?,
            device: kernel.device.optional()?.map(|device| device.0.clone()),
        }),
    })
}
