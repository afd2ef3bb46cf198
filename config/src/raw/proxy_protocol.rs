//! The PROXY protocol as it is written.

use super::Timeout;
use crate::addresses::Cidr;
use crate::containers::List;
use crate::record::{choices, record};
use crate::resolved::ProxyVersion;
use crate::scalars::Bytes;

record! {
    /// The PROXY protocol, versions 1 and 2: a header before anything else on a connection, in
    /// which a load balancer names the client whose connection it passes on.
    closed struct ProxyProtocol {
        /// Addresses of the load balancers. Every connection from them must begin with a
        /// header.
        required trusted: List<Cidr, 1>,
        /// What to do with connections from other addresses.
        default("refuse") others: Others,
        /// Longest time from the connection's start to the end of the header. Then the
        /// connection is closed.
        default("5s") timeout: Timeout,
        /// Bytes of a header of version 2, including what it has beside addresses. A connection
        /// with a longer header is closed. A header of version 1 has at most 107 bytes.
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
        /// Close connections from other addresses.
        "refuse" => Self::Refuse,
        /// Serve these connections without a header, as connections of the client that they
        /// come from.
        "direct" => Self::Direct,
    }

    ProxyVersion as "ProxyVersion": "a version" {
        /// Version 1, which is a line of text.
        "v1" => Self::V1,
        /// Version 2, which is binary.
        "v2" => Self::V2,
    }
}
