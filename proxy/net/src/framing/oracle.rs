//! A check of the watch against hyper's own parser.

use crate::framing::{RequestWatch, Slips};

/// The number of heads that are compared.
const HEADS: usize = 16;

/// The most fields that the parser makes room for.
const FIELDS: usize = 100;

fn watched(parts: impl Iterator<Item = impl AsRef<[u8]>>) -> [Slips; HEADS] {
    let mut watch = RequestWatch::default();
    parts.for_each(|part| watch.read(&mut part.as_ref().to_vec()));
    std::array::from_fn(|_| watch.next_head())
}

/// Checks the watch on an input. The first byte is the length of the parts in which the others
/// come.
pub(crate) fn run(data: &[u8]) {
    let Some((&size, bytes)) = data.split_first() else {
        return;
    };
    let whole = watched(std::iter::once(bytes));
    let parts = watched(bytes.chunks(usize::from(size).max(1)));
    assert_eq!(whole, parts, "the parts in which bytes come change nothing");

    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let Ok(httparse::Status::Complete(_)) = request.parse(bytes) else {
        return;
    };
    let has = |name: &str| {
        let mut fields = request.headers.iter();
        fields.any(|field| field.name.eq_ignore_ascii_case(name))
    };
    let both = has("transfer-encoding") && has("content-length");
    assert_eq!(whole[0].both_lengths, both);
    let fragment = request.path.is_some_and(|path| path.contains('#'));
    assert!(!fragment || whole[0].fragment, "a fragment was missed");
}
