//! Where listeners stand: not where others do.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::addresses::ListenAddress;
use crate::decode::Field;
use crate::diagnostic::Reporter;
use crate::raw;

/// The addresses that are taken, each with the place of its first byte.
pub(super) struct Addresses {
    admin: Option<Admin>,
    listeners: HashMap<SocketAddr, usize>,
}

struct Admin {
    address: SocketAddr,
    start: usize,
    given: bool,
}

impl Addresses {
    /// Those of the admin listener alone.
    pub(super) fn of(admin: Option<&raw::Admin>) -> Self {
        let admin = admin.and_then(|admin| {
            Some(Admin {
                address: admin.address.copied()?.0,
                start: admin.address.span.start,
                given: admin.address.given,
            })
        });
        Self {
            admin,
            listeners: HashMap::new(),
        }
    }

    /// A listener's address, which no other listener may have. Of two listeners one may
    /// have all of a machine's addresses and the other a single one of these: their sockets
    /// are all shared (`SO_REUSEPORT`), and the kernel prefers the single one's. The admin
    /// listener's is not.
    pub(super) fn add(&mut self, field: &Field<ListenAddress>, reporter: &mut Reporter<'_>) {
        let address = field.copied().map(|address| address.0);
        // Port 0 is a port of the kernel's choosing.
        let Some(address) = address.filter(|address| address.port() != 0) else {
            return;
        };
        let other = |reporter: &Reporter<'_>, start| {
            let line = reporter.line_of(start);
            format!("the other is on line {line}: change one of them")
        };
        let start = field.span.start;
        if let Some(admin) = &self.admin
            && overlap(admin.address, address)
        {
            let message = match canonical(admin.address) == canonical(address) {
                true => "the admin listener has the same address".to_owned(),
                false => {
                    let admin = admin.address;
                    format!("the admin listener has one of the same addresses: {admin}")
                }
            };
            let help = match admin.given {
                true => other(reporter, admin.start),
                false => "move one of them, or set `admin: off`".to_owned(),
            };
            reporter.error(&field.span, message, Some(help));
        }
        if let Some(first) = self.listeners.insert(canonical(address), start) {
            let message = "another listener has the same address".to_owned();
            let help = other(reporter, first);
            reporter.error(&field.span, message, Some(help));
        }
    }
}

/// The address that packets have.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Whether the kernel lets only sockets that share both listen on both. All
/// addresses of IPv6, `[::]`, are those of IPv4, too.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let (one, other) = (canonical(a).ip(), canonical(b).ip());
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
                assert_eq!(overlap(a, b), expected, "{a} {b}");
                assert!(!overlap(a, SocketAddr::new(b.ip(), 81)));
            }
        }
    }
}
