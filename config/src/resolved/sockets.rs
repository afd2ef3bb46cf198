//! Addresses of sockets: IP addresses with ports, and the paths of Unix sockets.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::Span;

/// The prefix of a Unix socket's path.
pub const UNIX: &str = "unix:";

/// The `Host` of requests to a Unix socket whose clients gave none.
const LOCAL_AUTHORITY: &str = "localhost";

/// An address that a listener accepts connections on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// An IP address with its port; port 0 is a port of the kernel's choosing.
    Ip(SocketAddr),
    /// `unix:/run/sprat.sock`: the path of a Unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Returns the IP address and the port; none for a Unix socket.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// Returns the path of a Unix socket; none for an IP address.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Ip(_) => None,
            Self::Unix(path) => Some(path),
        }
    }

    /// Returns whether the kernel chooses the port.
    pub fn is_any_port(&self) -> bool {
        self.ip().is_some_and(|address| address.port() == 0)
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl FromStr for ListenAddress {
    type Err = std::net::AddrParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.strip_prefix(UNIX) {
            Some(path) => Ok(Self::Unix(path.into())),
            None => text.parse().map(Self::Ip),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// The user and the group that own the file of a Unix socket.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SocketOwner {
    /// The user; none for the user that Sprat runs as.
    pub user: Option<AccountAt>,
    /// The group; none for the group that the kernel gives the file.
    pub group: Option<AccountAt>,
}

/// A user or a group that the configuration names.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountAt {
    /// The name or the number that the configuration gives.
    pub account: Account,
    /// The place of the user or group in the configuration.
    pub span: Span,
}

/// A user or a group of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// The number by which the kernel knows the account.
    Number(u32),
    /// A name, for which the machine has a number.
    Name(String),
}

/// The address that an endpoint listens at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EndpointAddress {
    /// An IP address with its port, such as `127.0.0.1:8000`.
    Ip(SocketAddr),
    /// `web1.example:8000`: a name, resolved as the cluster's [`Dns`](super::Dns) says.
    Name {
        /// The host's name, which DNS resolves.
        host: String,
        /// The port at the host's addresses.
        port: u16,
    },
    /// `unix:/run/app.sock`: the path of a Unix socket.
    Unix(PathBuf),
}

impl EndpointAddress {
    /// Returns the `Host` for a request whose client gave none.
    pub fn authority(&self) -> String {
        match self {
            Self::Ip(_) | Self::Name { .. } => self.to_string(),
            Self::Unix(_) => LOCAL_AUTHORITY.to_owned(),
        }
    }
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_0_is_any_port() {
        for (text, is_any) in [
            ("127.0.0.1:0", true),
            ("[::]:0", true),
            ("127.0.0.1:80", false),
            ("unix:/run/sprat.sock", false),
        ] {
            let address: ListenAddress = text.parse().unwrap();
            assert_eq!(address.is_any_port(), is_any, "{text}");
        }
    }

    #[test]
    fn a_unix_socket_is_asked_as_localhost() {
        let ip = EndpointAddress::Ip(SocketAddr::from(([127, 0, 0, 1], 8000)));
        assert_eq!(ip.authority(), "127.0.0.1:8000");
        let name = EndpointAddress::Name {
            host: "web1.example".to_owned(),
            port: 8000,
        };
        assert_eq!(name.authority(), "web1.example:8000");
        let unix = EndpointAddress::Unix("/run/app.sock".into());
        assert_eq!(unix.authority(), "localhost");
    }
}
