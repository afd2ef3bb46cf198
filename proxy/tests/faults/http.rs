//! The part of HTTP/1.1 that the simulated peers speak; they are no more lenient than that.

use crate::plan::Framing;
use crate::wire::{Over, Reader};

/// The head of a message.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) start: String,
    /// The fields, with names in lower case.
    fields: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn new(start: String, fields: Vec<(String, String)>) -> Self {
        Self { start, fields }
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(own, _)| own == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "more than one {name}: {self:?}");
        value
    }

    /// Returns the status of a response.
    pub(crate) fn status(&self) -> u16 {
        self.start.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Returns whether the connection ends with this message.
    pub(crate) fn is_last(&self) -> bool {
        self.field("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }

    /// Returns the way in which the end of the body is told, and its length if that is the way.
    pub(crate) fn framing(&self) -> (Framing, usize) {
        let length = self.field("content-length");
        match self.field("transfer-encoding") {
            Some(coding) => {
                assert_eq!((coding, length), ("chunked", None), "{self:?}");
                (Framing::Chunked, 0)
            }
            None => match length {
                Some(length) => (Framing::Length, length.parse().unwrap()),
                None => (Framing::Close, 0),
            },
        }
    }
}

/// Reads the head of the next message; none if the connection ends before its first byte.
pub(crate) async fn head(reader: &mut Reader<'_>) -> Result<Option<Head>, Over> {
    loop {
        let bytes = reader.buffered();
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let text = String::from_utf8(bytes[..end].to_vec()).unwrap();
            reader.consume(end + 4);
            let mut lines = text.split("\r\n");
            let start = lines.next().unwrap().to_owned();
            let fields = lines.map(|line| {
                let (name, value) = line.split_once(": ").expect("a field");
                (name.to_ascii_lowercase(), value.to_owned())
            });
            return Ok(Some(Head {
                start,
                fields: fields.collect(),
            }));
        }
        match reader.fill().await {
            Ok(()) => {}
            Err(Over::Closed) if reader.buffered().is_empty() => return Ok(None),
            Err(over) => return Err(over),
        }
    }
}

/// Reads a body into `body`. If the body is cut short, that keeps the part that came.
pub(crate) async fn body(
    reader: &mut Reader<'_>,
    (framing, mut length): (Framing, usize),
    body: &mut Vec<u8>,
) -> Result<(), Over> {
    match framing {
        Framing::Length => part(reader, &mut length, body).await,
        Framing::Chunked => loop {
            let size = line(reader).await?;
            let mut size = usize::from_str_radix(&size, 16).expect("a chunk's size");
            let last = size == 0;
            part(reader, &mut size, body).await?;
            assert_eq!(line(reader).await?, "", "the end of a chunk");
            if last {
                return Ok(());
            }
        },
        Framing::Close => loop {
            let bytes = reader.buffered().len();
            part(reader, &mut { bytes }, body).await?;
            match reader.fill().await {
                Ok(()) => {}
                Err(Over::Closed) => return Ok(()),
                Err(over) => return Err(over),
            }
        },
    }
}

async fn part(reader: &mut Reader<'_>, left: &mut usize, body: &mut Vec<u8>) -> Result<(), Over> {
    loop {
        let bytes = reader.buffered().len().min(*left);
        body.extend_from_slice(&reader.buffered()[..bytes]);
        reader.consume(bytes);
        *left -= bytes;
        if *left == 0 {
            return Ok(());
        }
        reader.fill().await?;
    }
}

async fn line(reader: &mut Reader<'_>) -> Result<String, Over> {
    loop {
        let bytes = reader.buffered();
        if let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
            let line = String::from_utf8(bytes[..end].to_vec()).unwrap();
            reader.consume(end + 2);
            return Ok(line);
        }
        reader.fill().await?;
    }
}

/// Returns a body in the form in which it is sent.
pub(crate) fn framed(body: &[u8], framing: Framing) -> Vec<u8> {
    if framing != Framing::Chunked {
        return body.to_vec();
    }
    let mut framed = Vec::new();
    for chunk in body.chunks(3_000) {
        framed.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
        framed.extend_from_slice(chunk);
        framed.extend_from_slice(b"\r\n");
    }
    framed.extend_from_slice(b"0\r\n\r\n");
    framed
}

/// Returns the field that tells the end of a body, if one does.
pub(crate) fn framing_field(framing: Framing, length: usize) -> String {
    match framing {
        Framing::Length => format!("Content-Length: {length}\r\n"),
        Framing::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
        Framing::Close => String::new(),
    }
}
