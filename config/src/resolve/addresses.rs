//! The addresses of listeners, of which no two may overlap.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::addresses::{FileMode, ListenAt, UnixAccount};
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;
use crate::resolved;

/// The addresses that listeners have taken, each with the first byte of its place in the file.
pub(super) struct Addresses {
    admin: Option<AdminPlace>,
    listeners: HashMap<resolved::ListenAddress, usize>,
}

struct AdminPlace {
    address: resolved::ListenAddress,
    start: usize,
    given: bool,
}

impl Addresses {
    /// Returns the table of taken addresses with that of the admin listener alone.
    pub(super) fn of(admin: Option<&raw::Admin>) -> Self {
        let admin = admin.and_then(|admin| {
            Some(AdminPlace {
                address: admin.address.get()?.0.clone(),
                start: admin.address.span.start,
                given: admin.address.given,
            })
        });
        Self {
            admin,
            listeners: HashMap::new(),
        }
    }

    /// Takes a listener's address, and reports one that another listener has. Of two listeners one
    /// may have all of a machine's addresses and the other a single one of these: their sockets are
    /// all shared (`SO_REUSEPORT`), and the kernel prefers the single one's. The admin listener's
    /// is not.
    pub(super) fn add(&mut self, field: &Field<ListenAt>, reporter: &mut Reporter<'_>) {
        let address = field.get().map(|address| canonical(&address.0));
        // Port 0 is a port of the kernel's choosing.
        let Some(address) = address.filter(|address| !address.is_any_port()) else {
            return;
        };
        let other = |reporter: &Reporter<'_>, start| {
            let line = reporter.line_of(start);
            format!("the other is on line {line}: change one of them")
        };
        let start = field.span.start;
        if let Some(admin) = &self.admin
            && overlap(&admin.address, &address)
        {
            let message = match canonical(&admin.address) == address {
                true => "the admin listener has the same address".to_owned(),
                false => {
                    let admin = &admin.address;
                    format!("the admin listener has one of the same addresses: {admin}")
                }
            };
            let help = match admin.given {
                true => other(reporter, admin.start),
                false => "move one of them, or set `admin: off`".to_owned(),
            };
            reporter.error(&field.span, message, Some(help));
        }
        if let Some(first) = self.listeners.insert(address, start) {
            let message = "another listener has the same address".to_owned();
            let help = other(reporter, first);
            reporter.error(&field.span, message, Some(help));
        }
    }
}

/// Resolves the permissions of a socket's file, which default to `default`. They are for a Unix
/// socket alone.
pub(super) fn mode(
    address: &Field<ListenAt>,
    raw: &Field<FileMode>,
    default: u32,
    reporter: &mut Reporter<'_>,
) -> Option<u32> {
    let given = raw.optional()?.map(|mode| mode.0);
    fits("mode", address, raw, reporter)?;
    Some(given.unwrap_or(default))
}

/// Resolves the owner of a socket's file, which is for a Unix socket alone.
pub(super) fn owner(
    address: &Field<ListenAt>,
    user: &Field<UnixAccount>,
    group: &Field<UnixAccount>,
    reporter: &mut Reporter<'_>,
) -> Option<resolved::SocketOwner> {
    let user_fits = fits("owner", address, user, reporter);
    fits("group", address, group, reporter).and(user_fits)?;
    let at = |raw: &Field<UnixAccount>| {
        let given = raw.optional()?;
        Some(given.map(|own| resolved::AccountAt {
            account: own.0.clone(),
            span: resolved::Span(raw.span.clone()),
        }))
    };
    Some(resolved::SocketOwner {
        user: at(user)?,
        group: at(group)?,
    })
}

/// Reports the key `key` about a socket's file if the address is no Unix socket.
fn fits<T>(
    key: &str,
    address: &Field<ListenAt>,
    raw: &Field<T>,
    reporter: &mut Reporter<'_>,
) -> Option<()> {
    let is_unix = address.get()?.0.path().is_some();
    if raw.given && !is_unix {
        let message = format!("`{key}` is for a Unix socket, and this is an IP address");
        let help = format!("leave `{key}` out, or write `address: unix:/run/sprat.sock`");
        reporter.error(&raw.span, message, Some(help));
        return None;
    }
    Some(())
}

/// Returns the form of an address that packets have.
fn canonical(address: &resolved::ListenAddress) -> resolved::ListenAddress {
    match address {
        resolved::ListenAddress::Ip(address) => canonical_ip(*address).into(),
        unix => unix.clone(),
    }
}

fn canonical_ip(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

fn overlap(a: &resolved::ListenAddress, b: &resolved::ListenAddress) -> bool {
    match (a.ip(), b.ip()) {
        (Some(a), Some(b)) => overlap_ip(a, b),
        _ => a == b,
    }
}

/// Returns whether the kernel lets only shared sockets (`SO_REUSEPORT`) listen on both addresses.
/// The address `[::]` covers all addresses of IPv4, too.
fn overlap_ip(a: SocketAddr, b: SocketAddr) -> bool {
    let (one, other) = (canonical_ip(a).ip(), canonical_ip(b).ip());
    let covers =
        |all: IpAddr, single: IpAddr| all.is_unspecified() && (all.is_ipv6() || single.is_ipv4());
    a.port() == b.port() && (one == other || covers(one, other) || covers(other, one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_as_the_kernel_has_it() {
        let all = [
            "0.0.0.0:80",
            "127.0.0.1:80",
            "127.0.0.2:80",
            "[::ffff:127.0.0.1]:80",
            "[::]:80",
            "[::1]:80",
        ];
        let apart = [(0, 5), (1, 2), (1, 5), (2, 3), (2, 5), (3, 5)];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                let expected = !apart.contains(&(i.min(j), i.max(j)));
                let (a, b): (SocketAddr, SocketAddr) = (a.parse().unwrap(), b.parse().unwrap());
                assert_eq!(overlap_ip(a, b), expected, "{a} {b}");
                assert!(!overlap_ip(a, SocketAddr::new(b.ip(), 81)));
            }
        }
    }
}
