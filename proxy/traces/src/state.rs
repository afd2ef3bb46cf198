//! The field `tracestate`, in which each system has a member about the trace; a valid list is
//! passed on as it came (W3C Trace Context 3.3).

/// The most members that a list may have.
const MAX_MEMBERS: usize = 32;

/// The most bytes of a list that is passed on; the standard asks for at least 512.
const MAX_BYTES: usize = 4096;

/// The most bytes of a key, and of a value.
const MAX_PART: usize = 256;

/// Joins the values of the field to one list; none if it is empty or malformed.
pub(crate) fn read<'a>(values: impl Iterator<Item = &'a [u8]>) -> Option<String> {
    let mut all = String::new();
    let mut keys: Vec<&str> = Vec::new();
    for value in values {
        let value = str::from_utf8(value).ok()?;
        // An empty member is allowed, and says nothing.
        let members = value.split(',').map(|own| own.trim_matches([' ', '\t']));
        for member in members.filter(|own| !own.is_empty()) {
            // Each is compared with all before it: of thousands, that would take its time.
            if keys.len() == MAX_MEMBERS {
                return None;
            }
            let (key, value) = member.split_once('=')?;
            if !is_key(key) || !is_value(value) || keys.contains(&key) {
                return None;
            }
            keys.push(key);
            if !all.is_empty() {
                all.push(',');
            }
            all.push_str(member);
            if all.len() > MAX_BYTES {
                return None;
            }
        }
    }
    (!keys.is_empty()).then_some(all)
}

/// Returns whether this is a valid key, of one system or of a tenant (`TENANT@SYSTEM`).
fn is_key(key: &str) -> bool {
    let fits = |part: &str, most: usize, first: fn(u8) -> bool| {
        let rest = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/".contains(&b);
        (1..=most).contains(&part.len())
            && part.bytes().next().is_some_and(first)
            && part.bytes().all(rest)
    };
    let letter = |b: u8| b.is_ascii_lowercase();
    let letter_or_digit = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    match key.split_once('@') {
        None => fits(key, MAX_PART, letter),
        Some((tenant, system)) => fits(tenant, 241, letter_or_digit) && fits(system, 14, letter),
    }
}

/// Returns whether this is a valid value: visible characters without `,` and `=`, and spaces except
/// at its end.
fn is_value(value: &str) -> bool {
    let is_plain = |b: u8| (b' '..=b'~').contains(&b) && b != b',' && b != b'=';
    (1..=MAX_PART).contains(&value.len()) && value.bytes().all(is_plain) && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Option<String> {
        read(values.iter().map(|own| own.as_bytes()))
    }

    #[test]
    fn lists_are_put_together() {
        assert_eq!(of(&["a=1"]).as_deref(), Some("a=1"));
        assert_eq!(
            of(&["a=1, b=x y ,", " c@d=2"]).as_deref(),
            Some("a=1,b=x y,c@d=2")
        );
        assert_eq!(of(&["0a@b-c/d_e*=~!"]).as_deref(), Some("0a@b-c/d_e*=~!"));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&["", " , "]), None);
    }

    #[test]
    fn what_is_no_list_is_none() {
        for bad in [
            "a",
            "=1",
            "a=",
            "A=1",
            "0=1",
            "a=1,a=2",
            "a=b=c",
            "a@=1",
            "@a=1",
            "a@0=1",
            "a b=1",
            "a=\u{e9}",
            "a=1;b=\u{7f}",
        ] {
            assert_eq!(of(&[bad]), None, "{bad}");
        }
        let long = format!("a={}", "x".repeat(257));
        assert_eq!(of(&[&long]), None);
        let many = |count: usize| {
            let members: Vec<_> = (0..count).map(|at| format!("a{at}=1")).collect();
            of(&[&members.join(",")]).is_some()
        };
        assert!(many(MAX_MEMBERS));
        assert!(!many(MAX_MEMBERS + 1));
        assert!(!many(10_000));
    }

    #[test]
    fn a_list_that_is_too_long_is_not_read_to_its_end() {
        let read_of = |member: &dyn Fn(usize) -> String| {
            let members: Vec<_> = (0..10_000).map(member).collect();
            let mut read_so_far = 0_usize;
            let values = members.iter().map(|own| {
                read_so_far += 1;
                own.as_bytes()
            });
            assert_eq!(read(values), None);
            read_so_far
        };
        assert_eq!(read_of(&|at| format!("a{at}=1")), MAX_MEMBERS + 1);
        // With the commas, more than there may be.
        let wide = |at: usize| format!("a{at:03}={}", "x".repeat(251));
        assert_eq!(read_of(&wide), MAX_BYTES / 256);
    }
}
