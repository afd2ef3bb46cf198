//! Patterns of file names, as glob(7) has them.

/// Returns whether a text is a pattern, and not the name of one file.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Returns whether a file's name fits a pattern. Only a dot in the pattern matches a leading dot.
pub fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    if name.first() == Some(&b'.') && pattern.first() != Some(&b'.') {
        return false;
    }
    fits_rest(pattern, name)
}

fn fits_rest(pattern: &[u8], name: &[u8]) -> bool {
    // The last star, and where the name went on: what follows a star is tried again from
    // there, and earlier stars need not be.
    let (mut at, mut own) = (0, 0);
    let mut star = None;
    while own < name.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, own));
            at += 1;
            continue;
        }
        if let Some(step) = pattern.get(at..).and_then(|rest| one(rest, name[own])) {
            at += step;
            own += 1;
            continue;
        }
        // The star takes one byte more, and is looked at again.
        let Some((star_at, from)) = star else {
            return false;
        };
        (at, own) = (star_at, from + 1);
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Returns the length of the pattern's first element if it matches a byte, otherwise none.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern.first()? {
        b'?' => Some(1),
        b'[' => {
            let end = pattern.iter().skip(2).position(|own| *own == b']')? + 2;
            let (inverted, set) = match &pattern[1..end] {
                [b'!' | b'^', set @ ..] => (true, set),
                set => (false, set),
            };
            let mut has = false;
            let mut at = 0;
            while at < set.len() {
                let (from, to, step) = match set.get(at + 1..at + 3) {
                    Some([b'-', to]) => (set[at], *to, 3),
                    _ => (set[at], set[at], 1),
                };
                has |= (from..=to).contains(&byte);
                at += step;
            }
            (has != inverted).then_some(end + 1)
        }
        own => (*own == byte).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_glob() {
        for (pattern, name, expected) in [
            ("*.conf", "a.conf", true),
            ("*.conf", "a.conf.bak", false),
            ("*.conf", ".a.conf", false),
            ("a?[0-9].c*f", "ab1.conf", true),
            ("a?[!0-9]", "ab1", false),
            ("*a*b", "xaxxb", true),
            ("*a*b", "xbxxa", false),
            ("*", "", true),
            ("**b*", "aab", true),
            ("*.conf", ".conf", false),
            ("[a]", "a", true),
            ("[abcd]e", "ce", true),
            ("[abcd]e", "ee", false),
            ("[]a]", "]", true),
            ("[", "x", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }
}
