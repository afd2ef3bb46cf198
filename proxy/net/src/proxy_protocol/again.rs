//! A property that holds for any bytes given as a PROXY header.

use sprat_config::resolved::ProxyVersion;

use super::header::{Ends, header, told};

/// Checks that a header that is read, written and read again tells of the same ends.
pub(super) fn run(data: &[u8]) {
    let Ok(Some(ends)) = told(data) else {
        return;
    };
    let other = Ends {
        local: ([192, 0, 2, 1], 443).into(),
        ..ends
    };
    for ends in [ends, other] {
        for version in [ProxyVersion::V1, ProxyVersion::V2] {
            let written = header(version, Some(ends));
            let again = told(&written).expect("what is written is a header");
            let again = again.expect("it tells of the client");
            for (again, once) in [(again.client, ends.client), (again.local, ends.local)] {
                assert_eq!(again.ip().to_canonical(), once.ip().to_canonical());
                assert_eq!(again.port(), once.port());
            }
        }
    }
}
