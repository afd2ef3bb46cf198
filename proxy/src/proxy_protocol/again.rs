//! What holds of any bytes given as a PROXY header.

use sprat_config::resolved::ProxyVersion;

use super::header::{Ends, header, told};

/// A client that is told of is the same in what would be written for it.
pub(super) fn run(data: &[u8]) {
    let Ok(Some(client)) = told(data) else {
        return;
    };
    for local in [client, ([192, 0, 2, 1], 443).into()] {
        for version in [ProxyVersion::V1, ProxyVersion::V2] {
            let written = header(version, Some(Ends { client, local }));
            let again = told(&written).expect("what is written is a header");
            let again = again.expect("it tells of the client");
            assert_eq!(again.ip().to_canonical(), client.ip().to_canonical());
            assert_eq!(again.port(), client.port());
        }
    }
}
