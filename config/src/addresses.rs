//! Addresses, hosts and paths: what each accepts, and its schema.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::decode::{TextClass, shortened};
use crate::fields::{is_port, without_root};
use crate::resolved::{self, EndpointAddress, HostPattern, Network};
use crate::scalars::{Fault, Leaf};

/// The most bytes of a Unix socket's path: Linux has room for 108, with the zero at the end
/// (unix(7)).
const MAX_PATH_BYTES: usize = 107;

/// A Unix socket's address, as a part of a schema's pattern.
const UNIX_PATTERN: &str = "unix:/[ -~]{1,106}";

/// Reads the path of a Unix socket; none if the text is something else.
fn unix_path(text: &str) -> Option<Result<PathBuf, Fault>> {
    let instead = |path: &str| {
        let path = shortened(path.trim_start_matches('/'));
        Some(Err(Fault::help(format!("write unix:/{path}"))))
    };
    let Some(path) = text.strip_prefix(resolved::UNIX) else {
        // HAProxy's, Caddy's, and a path alone.
        return match ["unix@/", "unix//", "unix/", "/"].map(|own| text.strip_prefix(own)) {
            [Some(path), ..] | [_, Some(path), ..] | [.., Some(path), _] | [.., Some(path)] => {
                instead(path)
            }
            _ if text.starts_with("abns@") || text.starts_with('@') => Some(Err(abstract_socket())),
            _ => None,
        };
    };
    if path.starts_with("//") {
        return instead(path);
    }
    if path.starts_with('@') {
        return Some(Err(abstract_socket()));
    }
    if !path.starts_with('/') {
        let message = "the path of a Unix socket does not begin with `/`";
        let help = format!(
            "write all of it, such as unix:/run/{}",
            shortened(path.trim_start_matches("./"))
        );
        return Some(Err(Fault::new(message, help)));
    }
    if path.len() > MAX_PATH_BYTES {
        let message = format!(
            "the path of this Unix socket has {} bytes, and {MAX_PATH_BYTES} are the most",
            path.len()
        );
        let help = "the kernel takes no longer one: use a directory such as /run";
        return Some(Err(Fault::new(message, help)));
    }
    let is_file = !path.ends_with('/') && path.bytes().all(|b| (b' '..=b'~').contains(&b));
    Some(match is_file {
        true => Ok(path.into()),
        false => Err(Fault::help(
            "write the path of a file, such as unix:/run/app.sock",
        )),
    })
}

fn abstract_socket() -> Fault {
    Fault::new(
        "abstract Unix sockets are not used: every user of the machine may connect to one",
        "use one with a path, such as unix:/run/app.sock, whose permissions say who may",
    )
}

/// An address to listen on: an IP address with a port, or a Unix socket.
#[derive(Clone, Debug)]
pub(crate) struct ListenAt(pub(crate) resolved::ListenAddress);

impl Leaf for ListenAt {
    fn expected() -> Cow<'static, str> {
        "an IP address and a port, such as 0.0.0.0:8080 or [::]:8080, or unix:/run/sprat.sock"
            .into()
    }

    fn accepts() -> Value {
        let ip = r"([0-9.]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}";
        json!({"type": "string", "pattern": format!("^({ip}|{UNIX_PATTERN})$")})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        if let Some(path) = unix_path(text) {
            return path.map(resolved::ListenAddress::Unix).map(Self);
        }
        let ip = text.parse().map(resolved::ListenAddress::Ip).map(Self);
        ip.map_err(|_| {
            // Of `*:80` or `:80`; what begins with two colons is an address of IPv6.
            let port = text.strip_prefix('*').unwrap_or(text);
            let port = port.strip_prefix(':').unwrap_or(port);
            let is_number = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
            match wrong_port(text) {
                Some(fault) => return fault,
                None if is_port(port) => {
                    return Fault::help(format!("write 0.0.0.0:{port} for every address"));
                }
                None if is_number => return not_a_port(text, port),
                None => {}
            }
            match (text.strip_prefix("localhost:"), text.parse::<IpAddr>()) {
                (Some(port), _) if is_port(port) => Fault::help(format!("write 127.0.0.1:{port}")),
                (_, Ok(IpAddr::V4(ip))) => Fault::help(format!("add a port: {ip}:8080")),
                (_, Ok(IpAddr::V6(ip))) => Fault::help(format!("add a port: [{ip}]:8080")),
                (_, Err(_)) if is_host_name(text.trim_end_matches(':')) => {
                    Fault::help("write an address and a port, such as 127.0.0.1:8080")
                }
                (_, Err(_)) => Fault::PLAIN,
            }
        })
    }
}

/// The address of a backend: `host:port`, or a Unix socket.
#[derive(Clone, Debug)]
pub(crate) struct Backend(pub(crate) EndpointAddress);

impl Leaf for Backend {
    fn expected() -> Cow<'static, str> {
        "a host and a port, such as 127.0.0.1:8000 or web1.example:8000, or unix:/run/app.sock"
            .into()
    }

    fn accepts() -> Value {
        let host = r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}";
        json!({"type": "string", "pattern": format!("^({host}|{UNIX_PATTERN})$")})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let scheme = text
            .strip_prefix("http://")
            .filter(|rest| rest.starts_with("unix:"));
        if let Some(path) = unix_path(scheme.unwrap_or(text)) {
            return match scheme {
                None => path.map(EndpointAddress::Unix).map(Self),
                Some(rest) => Err(Fault::help(format!(
                    "leave `http://` out: {}",
                    shortened(rest)
                ))),
            };
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            let rest = shortened(rest.trim_end_matches('/'));
            return Err(Fault::help(format!(
                "leave `{}://` out: {rest}",
                shortened(scheme)
            )));
        }
        let port_zero = || Fault::new("port 0 cannot be connected to", "give the backend's port");
        if let Ok(address) = text.parse::<SocketAddr>() {
            return match address.port() {
                0 => Err(port_zero()),
                _ => Ok(Self(EndpointAddress::Ip(address))),
            };
        }
        let Some((host, port)) = text.rsplit_once(':') else {
            return Err(Fault::help(format!("add a port: {}:8000", shortened(text))));
        };
        if let Some(fault) = wrong_port(text) {
            return Err(fault);
        }
        match port.parse() {
            Ok(0) => Err(port_zero()),
            Ok(port) if is_host_name(host) => Ok(Self(EndpointAddress::Name {
                host: host.to_ascii_lowercase(),
                port,
            })),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// The permissions of a file, in octal, which say which users may use it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileMode(pub(crate) u32);

impl Leaf for FileMode {
    fn expected() -> Cow<'static, str> {
        "a file's permissions in octal, such as \"0660\"".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^0?[0-7]{3}$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let is_octal = text.bytes().all(|b| (b'0'..=b'7').contains(&b));
        let digits = match text.len() {
            4 => text.strip_prefix('0'),
            3 => Some(text),
            _ => None,
        };
        let mode = digits.filter(|_| is_octal);
        let mode = mode.and_then(|digits| u32::from_str_radix(digits, 8).ok());
        mode.map(Self).ok_or(Fault::PLAIN)
    }
}

/// A user or a group of the machine, by its name or its number.
#[derive(Clone, Debug)]
pub(crate) struct UnixAccount(pub(crate) resolved::Account);

impl Leaf for UnixAccount {
    const NUMBER: bool = true;

    fn expected() -> Cow<'static, str> {
        "a name or a number, such as www-data or 33".into()
    }

    fn accepts() -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": 0, "maximum": MAX_ACCOUNT},
            {"type": "string", "pattern": "^([0-9]{1,9}|[A-Za-z_][A-Za-z0-9_.-]{0,254})$"},
        ]})
    }

    fn parse(text: &str, class: TextClass) -> Result<Self, Fault> {
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if is_number {
            let short = class == TextClass::Integer || text.len() <= 9;
            let number = text.parse().ok();
            let number = number.filter(|number| short && *number <= MAX_ACCOUNT);
            let account = number.map(resolved::Account::Number);
            return account.map(Self).ok_or(Fault::PLAIN);
        }
        let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let goes_on = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let is_name = begins && text.len() <= 255 && text.chars().all(goes_on);
        let account = is_name.then(|| resolved::Account::Name(text.to_owned()));
        account.map(Self).ok_or(Fault::PLAIN)
    }
}

/// The highest number of a user or a group: the number above it stands for no account.
const MAX_ACCOUNT: u32 = u32::MAX - 1;

/// A DNS server that Sprat asks: its address, and a port if it is not 53.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DnsServer(pub(crate) SocketAddr);

impl Leaf for DnsServer {
    fn expected() -> Cow<'static, str> {
        "an IP address, and a port if it is not 53, such as 10.0.0.53 or [fd00::53]:5353".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": r"^([0-9.]+(:[0-9]{1,5})?|[0-9A-Fa-f:.]+|\[[0-9A-Fa-f:.]+\]:[0-9]{1,5})$",
        })
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let port_53 = || Some(SocketAddr::new(text.parse().ok()?, 53));
        let address = text.parse().ok().or_else(port_53);
        match address {
            Some(address) if address.port() == 0 => Err(Fault::new(
                "port 0 cannot be asked",
                "leave it out for port 53",
            )),
            Some(address) => Ok(Self(address)),
            None if is_host_name(text) => Err(Fault::help(
                "give the server's address: its name would need a server itself",
            )),
            None => Err(wrong_port(text).unwrap_or(Fault::PLAIN)),
        }
    }
}

/// Returns the fault of a text whose host is valid and whose port is not; none for any other text.
/// The host may be a name, an IPv4 address, an IPv6 address in brackets, `*`, or empty.
fn wrong_port(text: &str) -> Option<Fault> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_host = match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok(),
        None => matches!(host, "" | "*") || host.parse::<Ipv4Addr>().is_ok() || is_host_name(host),
    };
    // A number may be read with its sign; a port has none.
    let word = port.strip_prefix(['+', '-']).unwrap_or(port);
    let is_word = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphanumeric());
    (is_host && is_word && !is_port(port)).then(|| not_a_port(text, port))
}

/// Returns the fault of a text that ends in `port`, which is not a port.
fn not_a_port(text: &str, port: &str) -> Fault {
    Fault {
        part: Some(text.len() - port.len()..text.len()),
        message: Some(format!("`{}` is not a port", shortened(port))),
        help: Some("give a number from 1 to 65535".to_owned()),
    }
}

/// Returns whether a text could be a host's name in DNS. A name whose last label has digits alone
/// is an address with a slip in it.
fn is_host_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    let name = without_root(host);
    let last = name.rsplit('.').next();
    host.len() <= 253
        && name.split('.').all(label)
        && last.is_some_and(|last| !last.bytes().all(|b| b.is_ascii_digit()))
}

/// A host's name, as TLS sends it and as certificates have it.
#[derive(Clone, Debug)]
pub(crate) struct ServerName(pub(crate) String);

impl Leaf for ServerName {
    fn expected() -> Cow<'static, str> {
        "the name of a host, such as backend.example".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "maxLength": 253,
            "pattern": r"^([A-Za-z0-9_-]{1,63}\.)*(?![0-9]+$)[A-Za-z0-9_-]{1,63}$",
        })
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        match is_host_name(text) {
            true => Ok(Self(text.to_ascii_lowercase())),
            false => Err(Fault::PLAIN),
        }
    }
}

/// A name that a certificate can be for: a host's with a domain, or `*.` and a domain.
#[derive(Clone, Debug)]
pub(crate) struct CertificateName(pub(crate) String);

impl Leaf for CertificateName {
    fn expected() -> Cow<'static, str> {
        "a host's name, such as www.example.org or *.example.org".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "maxLength": 253,
            "pattern": r"^(\*\.)?([A-Za-z0-9-]{1,63}\.)+(?![0-9]+$)[A-Za-z0-9-]{1,63}$",
        })
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let name = text.strip_prefix("*.").unwrap_or(text);
        if name.parse::<IpAddr>().is_ok() {
            return Err(Fault::help(
                "give the host's name: addresses get no certificate here",
            ));
        }
        if name.ends_with('.') && is_host_name(name) {
            let help = format!("leave the last dot out: {}", text.trim_end_matches('.'));
            return Err(Fault::help(help));
        }
        match is_host_name(name) && name.contains('.') && !name.contains('_') {
            true => Ok(Self(text.to_ascii_lowercase())),
            false => Err(Fault::PLAIN),
        }
    }
}

/// An `https` URL, such as that of an ACME directory.
#[derive(Clone, Debug)]
pub(crate) struct HttpsUrl(pub(crate) String);

impl Leaf for HttpsUrl {
    fn expected() -> Cow<'static, str> {
        "a URL, such as https://acme-v02.api.letsencrypt.org/directory".into()
    }

    fn accepts() -> Value {
        let host = r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])";
        json!({"type": "string", "pattern": format!(r"^https://{host}(:[0-9]{{1,5}})?(/[!-~]*)?$")})
    }

    fn parse(text: &str, class: TextClass) -> Result<Self, Fault> {
        let Some(rest) = text.strip_prefix("https://") else {
            return Err(match text.strip_prefix("http://") {
                Some(rest) => Fault::help(format!("write https://{}", shortened(rest))),
                None => Fault::PLAIN,
            });
        };
        let authority = rest.split('/').next().unwrap_or_default();
        let before = text.len() - rest.len();
        HostHeader::parse(authority, class).map_err(|fault| fault.after(before))?;
        match text.bytes().all(|b| b.is_ascii_graphic()) && !authority.contains('@') {
            true => Ok(Self(text.to_owned())),
            false => Err(Fault::PLAIN),
        }
    }
}

/// The URL of a collector of traces, in its parts.
#[derive(Clone, Debug)]
pub(crate) struct CollectorUrl {
    pub(crate) is_secure: bool,
    /// The host, without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl Leaf for CollectorUrl {
    fn expected() -> Cow<'static, str> {
        "a URL, such as http://collector.example:4318/v1/traces".into()
    }

    fn accepts() -> Value {
        let host = r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])";
        json!({"type": "string", "pattern": format!(r"^https?://{host}(:[0-9]{{1,5}})?(/[!-~]*)?$")})
    }

    fn parse(text: &str, class: TextClass) -> Result<Self, Fault> {
        let (is_secure, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            None if HostHeader::parse(text, class).is_ok() => {
                return Err(Fault::help(format!("write http://{}", shortened(text))));
            }
            _ => return Err(Fault::PLAIN),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let before = text.len() - rest.len();
        HostHeader::parse(authority, class).map_err(|fault| fault.after(before))?;
        if !text.bytes().all(|b| b.is_ascii_graphic() && b != b'#') {
            return Err(Fault::PLAIN);
        }
        // What follows the last colon of an IPv6 address alone ends in a bracket.
        let port = authority.rsplit_once(':');
        let port = port.and_then(|(_, port)| port.parse().ok());
        let name_end = authority.rfind(']').or_else(|| authority.find(':'));
        let name = &authority[..name_end.unwrap_or(authority.len())];
        Ok(Self {
            is_secure,
            host: name.trim_start_matches('[').to_owned(),
            port: port.unwrap_or(if is_secure { 443 } else { 80 }),
            authority: authority.to_owned(),
            // What a collector serves if nothing else is said (OTLP 1.3, endpoint).
            path: if path == "/" { "/v1/traces" } else { path }.to_owned(),
        })
    }
}

/// A block of IP addresses, written as its first address and the length of its prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cidr(pub(crate) Network);

impl Leaf for Cidr {
    fn expected() -> Cow<'static, str> {
        "a block of addresses, such as 10.0.0.0/8, fd00::/8 or 192.0.2.7".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| Fault::PLAIN)?;
        let bits: u8 = if address.is_ipv4() { 32 } else { 128 };
        let prefix_len = match length {
            None => bits,
            Some(length) => length
                .parse()
                .ok()
                .filter(|length| *length <= bits)
                .ok_or_else(|| Fault::help(format!("the part after `/` is from 0 to {bits}")))?,
        };
        let first = first_address(address, prefix_len);
        if first != address {
            return Err(Fault::new(
                format!("`{text}` is not the first address of its block"),
                format!("write {first}/{prefix_len} for the block, or {address} for the address"),
            ));
        }
        Ok(Self(Network {
            address,
            prefix_len,
        }))
    }
}

fn first_address(address: IpAddr, prefix_len: u8) -> IpAddr {
    let length = u32::from(prefix_len);
    match address {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            IpAddr::from((ip.to_bits() & mask).to_be_bytes())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            IpAddr::from((ip.to_bits() & mask).to_be_bytes())
        }
    }
}

/// A pattern of hosts: a name or an address, or `*.` and a domain.
#[derive(Clone, Debug)]
pub(crate) struct Host(pub(crate) HostPattern);

impl Leaf for Host {
    fn expected() -> Cow<'static, str> {
        "a host name, such as www.example.org or *.example.org".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": r"^((\*\.)?[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])$",
        })
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let host = text.to_ascii_lowercase();
        let is_ip = |host: &str| {
            let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
            bare.map_or(host.parse::<Ipv4Addr>().is_ok(), |bare| {
                bare.parse::<Ipv6Addr>().is_ok()
            })
        };
        if text == "*" {
            return Err(Fault::help("leave `hosts` out to match every host"));
        }
        if let Some(domain) = host.strip_prefix("*.") {
            return match is_host_name(domain) {
                true => Ok(Self(HostPattern::Suffix(format!(
                    ".{}",
                    without_root(domain)
                )))),
                false => Err(Fault::PLAIN),
            };
        }
        if is_host_name(&host) || is_ip(&host) {
            return Ok(Self(HostPattern::Exact(without_root(&host).to_owned())));
        }
        match host.rsplit_once(':') {
            Some((name, port)) if is_host_name(name) && port.parse::<u16>().is_ok() => Err(
                Fault::help(format!("leave the port out: {}", shortened(name))),
            ),
            _ => Err(Fault::PLAIN),
        }
    }
}

impl HostPattern {
    /// Reads a pattern as it is written in `hosts`; none if a configuration with it is refused.
    pub fn read(text: &str) -> Option<Self> {
        let host = Host::parse(text, TextClass::String).ok()?;
        Some(host.0)
    }
}

/// A path of a request: it begins with `/` and has no query.
#[derive(Clone, Debug)]
pub(crate) struct UrlPath(pub(crate) String);

impl Leaf for UrlPath {
    fn expected() -> Cow<'static, str> {
        "a path, such as /images".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r"^/[!-~]*$", "not": {"pattern": "[?#]"}})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let wrong = |c: char| match c {
            '?' | '#' => Some("routes look at the path alone: leave the query out"),
            c if !c.is_ascii_graphic() => Some(ENCODE),
            _ => None,
        };
        from_slash(text, "a path", wrong).map(Self)
    }
}

/// The help for a character that has no place in a request's target.
pub(crate) const ENCODE: &str = "percent-encode it, as it stands in the request (a space is %20)";

/// Reads a text that has to begin with a slash. `what` names it in errors; `wrong` returns the help
/// for a character that has no place in it.
pub(crate) fn from_slash(
    text: &str,
    what: &str,
    wrong: impl Fn(char) -> Option<&'static str>,
) -> Result<String, Fault> {
    let mut characters = text.char_indices();
    let found = characters.find_map(|(at, c)| Some((at, c, wrong(c)?)));
    if let Some((at, c, help)) = found {
        return Err(Fault {
            part: Some(at..at + c.len_utf8()),
            message: Some(format!("{c:?} cannot be part of {what}")),
            help: Some(help.to_owned()),
        });
    }
    match text.starts_with('/') {
        true => Ok(text.to_owned()),
        false => Err(Fault::new(
            format!("the path `{}` does not begin with `/`", shortened(text)),
            format!("write `/{}`", shortened(text)),
        )),
    }
}

/// The value of a `Host` header: a host, and a port if need be.
#[derive(Clone, Debug)]
pub(crate) struct HostHeader(pub(crate) String);

impl Leaf for HostHeader {
    fn expected() -> Cow<'static, str> {
        "a host name, and a port if need be, such as internal.example:8080".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": r"^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$",
        })
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        if let Some(fault) = wrong_port(text) {
            return Err(fault);
        }
        let host = match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') && port.parse::<u16>().is_ok() => host,
            _ => text,
        };
        match Host::parse(host, TextClass::String) {
            Ok(Host(HostPattern::Exact(_))) => Ok(Self(text.to_owned())),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// The URL of a server that speaks the Redis protocol.
#[derive(Clone, Debug)]
pub(crate) struct RedisUrl(pub(crate) String);

impl Leaf for RedisUrl {
    fn expected() -> Cow<'static, str> {
        "a server, such as redis://127.0.0.1:6379/0 or unix:///run/redis.sock".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r"^(redis|unix)://[!-~]+$"})
    }

    fn parse(text: &str, _: TextClass) -> Result<Self, Fault> {
        let rest = ["redis://", "unix://"]
            .iter()
            .find_map(|scheme| text.strip_prefix(scheme));
        match rest {
            Some(rest) if !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic()) => {
                Ok(Self(text.to_owned()))
            }
            // Without the text: it may have a password.
            _ => Err(Fault::new(
                "this is no address of a store",
                match text.starts_with("rediss://") {
                    true => "TLS is not spoken here: put the store on a private network",
                    false => "write it as redis://127.0.0.1:6379/0 or unix:///run/redis.sock",
                },
            )),
        }
    }
}

#[cfg(test)]
mod tests;
