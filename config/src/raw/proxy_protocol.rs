//! The PROXY protocol as it is written.

use super::Timeout;
use crate::addresses::Cidr;
use crate::containers::List;
use crate::record::{choices, record};
use crate::resolved::ProxyVersion;
use crate::scalars::Bytes;

record! {
    /// The PROXY protocol, versions 1 and 2, before anything else on a
    /// connection: whom a load balancer has accepted it from.
    closed struct ProxyProtocol {
        /// The load balancers, whose connections all begin with a header.
        required trusted: List<Cidr, 1>,
        /// What becomes of connections from elsewhere.
        default("refuse") others: Others,
        /// From the connection's start to the end of the header.
        default("5s") timeout: Timeout,
        /// Bytes of a header, with what it has beside addresses.
        default("1KB") max_size: Bytes<256, 65_536>,
    }
}

/// The treatment of connections that may have no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Refuse,
    Direct,
}

choices! {
    Others as "Others": "what becomes of them" {
        /// Connections without a header are closed.
        "refuse" => Self::Refuse,
        /// They are served as the clients that they come from, without a
        /// header.
        "direct" => Self::Direct,
    }

    ProxyVersion as "ProxyVersion": "a version" {
        /// A line of text.
        "v1" => Self::V1,
        /// Version 2, which is binary.
        "v2" => Self::V2,
    }
}
