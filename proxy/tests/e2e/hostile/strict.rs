//! An origin that accepts one reading of a message and no other.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A message that came to the origin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reached {
    Request {
        target: String,
    },
    /// Bytes that could be read in another way.
    Violation(String),
}

pub(crate) struct StrictOrigin {
    pub(crate) address: SocketAddr,
    reached: Arc<Mutex<Vec<Reached>>>,
}

impl StrictOrigin {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let reached = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&reached);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { address, reached }
    }

    pub(crate) fn forget(&self) {
        self.reached.lock().unwrap().clear();
    }

    pub(crate) fn reached(&self) -> Vec<Reached> {
        self.reached.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, reached: &Mutex<Vec<Reached>>) {
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        match parse(&bytes) {
            Ok(Some((head_only, target, used))) => {
                bytes.drain(..used);
                reached.lock().unwrap().push(Reached::Request { target });
                let body = if head_only { "" } else { "ok" };
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}");
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
                continue;
            }
            Ok(None) => {}
            Err(why) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let violation = Reached::Violation(format!("{why} in {text:?}"));
                return reached.lock().unwrap().push(violation);
            }
        }
        match stream.read(&mut part) {
            Ok(read @ 1..) => bytes.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
}

type Parsed = Option<(bool, String, usize)>;

/// Parses one request at the start of `bytes`. Returns whether it is a HEAD, its target and its
/// length; none if it is not whole.
fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    let Some(end) = find(bytes, b"\r\n\r\n") else {
        return match bytes.contains(&0) {
            true => Err("a NUL".to_owned()),
            false => Ok(None),
        };
    };
    let head = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    let head = match head.is_empty() {
        // Values may have high bytes.
        true => bytes[..end].iter().map(|&byte| char::from(byte)).collect(),
        false => head.to_owned(),
    };
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let (method, target) = request_line(line)?;
    let (mut hosts, mut length, mut chunked) = (0, None, false);
    for line in lines {
        let (name, value) = field(line)?;
        match name.to_ascii_lowercase().as_str() {
            "host" => hosts += 1,
            "content-length" => {
                let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
                if length.is_some() || !digits {
                    return Err(format!("a wrong Content-Length {value:?}"));
                }
                length = value.parse::<usize>().ok();
            }
            "transfer-encoding" => {
                if chunked || value != "chunked" {
                    return Err(format!("a wrong Transfer-Encoding {value:?}"));
                }
                chunked = true;
            }
            _ => {}
        }
    }
    if hosts != 1 {
        return Err(format!("{hosts} Host fields"));
    }
    if chunked && length.is_some() {
        return Err("both lengths".to_owned());
    }
    let body = &bytes[end + 4..];
    let used = match chunked {
        true => chunks(body)?,
        false => Some(length.unwrap_or(0)).filter(|&length| length <= body.len()),
    };
    Ok(used.map(|used| (method == "HEAD", target, end + 4 + used)))
}

fn request_line(line: &str) -> Result<(String, String), String> {
    let parts: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = parts[..] else {
        return Err(format!("the line {line:?}"));
    };
    let token = !method.is_empty() && method.bytes().all(is_token);
    let visible = target.bytes().all(|byte| (0x21..0x7f).contains(&byte));
    if !token || !visible || !(target.starts_with('/') || target == "*") {
        return Err(format!("the line {line:?}"));
    }
    Ok((method.to_owned(), target.to_owned()))
}

fn field(line: &str) -> Result<(&str, &str), String> {
    let wrong = || format!("the field {line:?}");
    let (name, value) = line.split_once(':').ok_or_else(wrong)?;
    let value = value.trim_matches([' ', '\t']);
    let plain = |c: char| c == '\t' || !(c < ' ' || c == '\x7f');
    if name.is_empty() || !name.bytes().all(is_token) || !value.chars().all(plain) {
        return Err(wrong());
    }
    Ok((name, value))
}

/// Returns the length of a chunked body; none if it is not whole. Extensions are refused, for Sprat
/// passes none on.
fn chunks(body: &[u8]) -> Result<Option<usize>, String> {
    let mut at = 0;
    loop {
        let Some(end) = find(&body[at..], b"\r\n") else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&body[at..at + end]);
        let hex = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let size = usize::from_str_radix(&text, 16).ok().filter(|_| hex);
        let size = size.ok_or_else(|| format!("a chunk's size {text:?}"))?;
        at += end + 2;
        if size == 0 {
            return trailers(body, at);
        }
        let Some(line_end) = body.get(at + size..at + size + 2) else {
            return Ok(None);
        };
        if line_end != b"\r\n" {
            return Err("a chunk that is longer than it says".to_owned());
        }
        at += size + 2;
    }
}

fn trailers(body: &[u8], mut at: usize) -> Result<Option<usize>, String> {
    loop {
        let Some(end) = find(&body[at..], b"\r\n") else {
            return Ok(None);
        };
        if end == 0 {
            return Ok(Some(at + 2));
        }
        let line = String::from_utf8_lossy(&body[at..at + end]).into_owned();
        let (name, _) = field(&line)?;
        let framing = ["content-length", "transfer-encoding", "host"];
        if framing.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("the trailer {line:?}"));
        }
        at += end + 2;
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Returns whether a byte may be in a token (RFC 9110 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
