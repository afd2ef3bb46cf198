//! The server that a replay asks.

use std::net::{SocketAddr, ToSocketAddrs};

use anyhow::{Context, bail, ensure};

use crate::tls::Tls;

/// A server that requests are sent to.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address of the server.
    pub address: SocketAddr,
    /// The value of the Host header.
    pub authority: String,
    /// The client's side of TLS; `None` over plain text.
    pub(crate) tls: Option<Tls>,
}

impl Target {
    /// Makes a target that is asked in plain text.
    pub fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            authority: address.to_string(),
            tls: None,
        }
    }
}

/// Parses `http://host:port`, or https, and resolves the host.
pub fn target(text: &str) -> Result<Target, String> {
    parse_target(text).map_err(|error| format!("{error:#}"))
}

fn parse_target(text: &str) -> anyhow::Result<Target> {
    let uri: http::Uri = text.parse().context("not a URL")?;
    let secure = uri.scheme_str() == Some("https");
    let scheme = secure || uri.scheme_str() == Some("http");
    if !scheme || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        bail!("a target is written http://host:port or https://host:port, without a path");
    }
    let authority = uri.authority().context("the host is missing")?;
    ensure!(
        !authority.as_str().contains('@'),
        "a target has no user name"
    );
    let host = authority.host().trim_matches(['[', ']']);
    let port = if secure { 443 } else { 80 };
    let address = (host, authority.port_u16().unwrap_or(port))
        .to_socket_addrs()
        .with_context(|| format!("cannot resolve `{host}`"))?
        .next()
        .with_context(|| format!("`{host}` has no address"))?;
    Ok(Target {
        address,
        authority: authority.to_string(),
        tls: secure.then(|| Tls::new(host, address, &[b"http/1.1"])),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_hosts_with_ports() {
        let found = target("http://127.0.0.1:8080").unwrap();
        assert_eq!(found.address, "127.0.0.1:8080".parse().unwrap());
        assert_eq!(found.authority, "127.0.0.1:8080");
        assert_eq!(
            target("http://[::1]/").unwrap().address,
            "[::1]:80".parse().unwrap()
        );
        let secure = target("https://127.0.0.1").unwrap();
        assert_eq!(secure.address, "127.0.0.1:443".parse().unwrap());
        assert!(secure.tls.is_some() && found.tls.is_none());
        for text in [
            "",
            "127.0.0.1:1",
            "ftp://127.0.0.1",
            "http://127.0.0.1/a",
            "http://a@127.0.0.1",
        ] {
            assert!(target(text).is_err(), "{text}");
        }
    }
}
