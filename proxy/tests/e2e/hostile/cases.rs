//! Messages that servers have disagreed about, or that no client should send.

mod chunks;
mod codings;
mod fields;
mod lengths;
mod request_line;
mod targets;

/// One hostile message, and Sprat's answers to it.
pub(crate) struct Case {
    pub(crate) group: &'static str,
    /// The message's unique name, which says what is wrong with it.
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    /// The status of each of Sprat's answers. If the message leaves the connection usable, the last
    /// is that of a harmless request that follows on it.
    pub(crate) answers: &'static [u16],
    /// The reason for Sprat's answers.
    pub(crate) why: &'static str,
}

/// The message is refused, and the connection is closed: what follows is not trusted.
const REFUSED: &[u16] = &[400];
/// The message is served, and so is the request that follows.
const SERVED: &[u16] = &[200, 200];
/// The message is served, and then the connection is closed.
const ONCE: &[u16] = &[200];
/// The connection is closed without an answer.
const CLOSED: &[u16] = &[];

const LENGTHS: &str =
    "RFC 9112 6.1, 6.3: both lengths, or two that differ, are how requests are smuggled";
const CODINGS: &str = "RFC 9112 6.1: a body in an unknown coding has no known end";
const NUMBER: &str = "RFC 9110 8.6: digits and nothing else";
const CHUNKS: &str = "RFC 9112 7.1: after a chunk that cannot be read nothing can";
const CHUNK_LINES: &str =
    "RFC 9112 7.1.1: behind a size there is nothing but extensions, which have a name";
const NAMES: &str = "RFC 9110 5.1: a name is a token, and the colon follows it";
const VALUES: &str = "RFC 9110 5.5: a value that could end a line elsewhere";
const LINES: &str = "RFC 9112 2.2, 3: a line that others would read in another way";
const FOLDS: &str = "RFC 9112 5.2: a folded line is a field of its own for some";
const HOSTS: &str = "RFC 9112 3.2: one valid Host, or who is asked depends on who reads";
const TARGETS: &str = "RFC 9112 3.2: no form of target";
const FINE: &str = "harmless: what is passed on is as it was understood";

struct Table(Vec<Case>);

impl Table {
    fn extend(
        &mut self,
        group: &'static str,
        answers: &'static [u16],
        why: &'static str,
        messages: impl Iterator<Item = (&'static str, Vec<u8>)>,
    ) {
        self.0.extend(messages.map(|(name, bytes)| Case {
            group,
            name,
            bytes,
            answers,
            why,
        }));
    }

    fn add(
        &mut self,
        group: &'static str,
        answers: &'static [u16],
        why: &'static str,
        messages: &[(&'static str, &[u8])],
    ) {
        let messages = messages.iter().map(|&(name, bytes)| (name, bytes.to_vec()));
        self.extend(group, answers, why, messages);
    }

    /// Adds messages that are a POST with these fields, each followed by these bytes.
    fn posts(
        &mut self,
        group: &'static str,
        answers: &'static [u16],
        why: &'static str,
        messages: &[(&'static str, &[u8], &[u8])],
    ) {
        let begin: &[u8] = b"POST /p HTTP/1.1\r\nHost: a\r\n";
        let message =
            |&(name, fields, rest): &_| (name, [begin, fields, b"\r\n\r\n", rest].concat());
        self.extend(group, answers, why, messages.iter().map(message));
    }

    /// Adds messages that are a GET with one of these fields.
    fn fields(
        &mut self,
        group: &'static str,
        answers: &'static [u16],
        why: &'static str,
        messages: &[(&'static str, &[u8])],
    ) {
        let begin: &[u8] = b"GET /p HTTP/1.1\r\nHost: a\r\n";
        let message = |&(name, field): &_| (name, [begin, field, b"\r\n\r\n"].concat());
        self.extend(group, answers, why, messages.iter().map(message));
    }
}

/// Returns all messages of the test.
pub(crate) fn all() -> Vec<Case> {
    let mut table = Table(Vec::new());
    lengths::both_lengths(&mut table);
    codings::codings(&mut table);
    lengths::content_lengths(&mut table);
    chunks::chunks(&mut table);
    fields::names_and_values(&mut table);
    request_line::lines(&mut table);
    targets::hosts(&mut table);
    targets::targets(&mut table);
    request_line::methods_and_versions(&mut table);
    fields::connections(&mut table);
    table.0
}

const SMUGGLED: &[u8] = b"0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
