//! Values of keys as the resolved configuration has them: numbers, times, files and lists.

use std::time::Duration;

use crate::containers::List;
use crate::decode::Field;
use crate::names::FilePath;
use crate::raw::Timeout;
use crate::resolved::{FileAt, Span};
use crate::scalars::{Bytes, Count, Time};

/// Resolves each item of a list; none if one of them is wrong.
pub(super) fn each<T, U, const MIN: usize>(
    list: &Field<List<T, MIN>>,
    resolve: impl Fn(&T) -> Option<U>,
) -> Option<Vec<U>> {
    let items = list.get()?.0.iter();
    items.map(|item| item.get().and_then(&resolve)).collect()
}

/// Resolves each item of a list; an absent list has no items.
pub(super) fn each_given<T, U, const MIN: usize>(
    list: &Field<List<T, MIN>>,
    resolve: impl Fn(&T) -> Option<U>,
) -> Option<Vec<U>> {
    match list.optional()? {
        Some(_) => each(list, resolve),
        None => Some(Vec::new()),
    }
}

/// Resolves a value that may be absent or off; `Some(None)` if it is.
pub(super) fn maybe<T, U>(
    raw: Option<&T>,
    resolve: impl FnOnce(&T) -> Option<U>,
) -> Option<Option<U>> {
    match raw {
        Some(raw) => resolve(raw).map(Some),
        None => Some(None),
    }
}

/// Returns the file that a key names, with the key's place.
pub(super) fn file(field: &Field<FilePath>) -> Option<FileAt> {
    field.get().map(|FilePath(path)| FileAt {
        path: path.clone(),
        span: Span(field.span.clone()),
    })
}

/// Returns the file that a key names; `Some(None)` if it is absent.
pub(super) fn optional_file(field: &Field<FilePath>) -> Option<Option<FileAt>> {
    maybe(field.optional()?, |_| file(field))
}

/// Returns the time that a key gives.
pub(super) fn time(field: &Field<Timeout>) -> Option<Duration> {
    field.copied().map(|Time(time)| time)
}

/// Returns the number that a key gives, as it is counted in memory.
pub(super) fn count<const MIN: u64, const MAX: u64>(
    field: &Field<Count<MIN, MAX>>,
) -> Option<usize> {
    field.copied().map(|Count(count)| size(count))
}

/// Returns the number of bytes that a key gives, as it is counted in memory.
pub(super) fn bytes<const MIN: u64, const MAX: u64>(
    field: &Field<Bytes<MIN, MAX>>,
) -> Option<usize> {
    field.copied().map(|Bytes(bytes)| size(bytes))
}

/// Returns a number as it is counted in memory, cut to the most that fits.
pub(super) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Narrows a number whose bound is below 2^32 to 32 bits.
pub(super) fn small(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
