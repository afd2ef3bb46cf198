//! The priority that a client, or the origin, asks for a response (RFC 9218).

use http::{HeaderMap, HeaderName};
use sprat_config::resolved::Priorities;
use sprat_scheduler::Precedence;

const PRIORITY: HeaderName = HeaderName::from_static("priority");

/// Returns the precedence that a client's `Priority` asks for, as far as it counts.
pub(crate) fn asked(headers: &HeaderMap, counts: Priorities) -> Precedence {
    let unsaid = Precedence::default();
    match counts {
        Priorities::All => told(headers, unsaid),
        Priorities::Urgency => Precedence {
            incremental: unsaid.incremental,
            ..told(headers, unsaid)
        },
        Priorities::None => unsaid,
    }
}

/// Returns the precedence that `Priority` gives; what it leaves out stays as it was
/// `before`. A malformed member is passed over (RFC 9218 4).
pub(crate) fn told(headers: &HeaderMap, mut before: Precedence) -> Precedence {
    let values = headers.get_all(PRIORITY).iter();
    let members = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    for member in members {
        // Without its parameters (RFC 9651 3.1.2).
        let member = member.split(';').next().unwrap_or("").trim();
        match member.split_once('=').unwrap_or((member, "?1")) {
            ("u", urgency) => {
                if let Ok(urgency @ ..=7) = urgency.parse() {
                    before.urgency = urgency;
                }
            }
            ("i", "?1") => before.incremental = true,
            ("i", "?0") => before.incremental = false,
            _ => {}
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn what_does_not_count_is_not_believed() {
        let mut headers = HeaderMap::new();
        headers.insert(PRIORITY, HeaderValue::from_static("u=1, i"));
        for (counts, urgency, incremental) in [
            (Priorities::All, 1, true),
            (Priorities::Urgency, 1, false),
            (Priorities::None, 3, false),
        ] {
            let asked = asked(&headers, counts);
            assert_eq!((asked.urgency, asked.incremental), (urgency, incremental));
        }
    }

    #[test]
    fn members_are_read_and_nonsense_is_passed_over() {
        for (values, urgency, incremental) in [
            (&[][..], 3, false),
            (&["u=1"], 1, false),
            (&["i"], 3, true),
            (&["u=0, i"], 0, true),
            (&["u=7,i=?1"], 7, true),
            (&["i, i=?0"], 3, false),
            (&["u=2;x=y, i;q"], 2, true),
            (&["u=1", "u=5"], 5, false),
            (&["u=8"], 3, false),
            (&["u=-1, i=1, u, x=u=2"], 3, false),
            (&["u = 1"], 3, false),
            (&["u=2.0"], 3, false),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(PRIORITY, HeaderValue::from_static(value));
            }
            let told = told(&headers, Precedence::default());
            assert_eq!(
                (told.urgency, told.incremental),
                (urgency, incremental),
                "{values:?}"
            );
        }
    }

    #[test]
    fn the_origin_has_the_last_word_where_it_says_something() {
        let mut headers = HeaderMap::new();
        let before = Precedence {
            urgency: 1,
            incremental: true,
        };
        assert_eq!(told(&headers, before), before);
        headers.insert(PRIORITY, HeaderValue::from_static("u=4"));
        assert_eq!(
            told(&headers, before),
            Precedence {
                urgency: 4,
                ..before
            }
        );
    }
}
