//! The single values of the file: what each accepts, and its schema.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::decode::{Class, Context, Decode, Found, Text, Word, shortened, similar};
use crate::resolved::{EndpointAddress, HostPattern, Network};
use crate::tree::Node;
use crate::units::{self, UnitError, UnitProblem};

/// A value that holds a variable: its text is known only later.
pub(crate) const VARIABLE: &str = r"\$\{";
/// What an operator may name things.
pub(crate) const NAME_PATTERN: &str = "^[A-Za-z0-9._-]{1,64}$";

/// Why a name will not do.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if (1..=64).contains(&name.len()) && name.bytes().all(valid) {
        Ok(())
    } else {
        Err("use 1 to 64 letters, digits, dots, hyphens and underscores".to_owned())
    }
}

/// What is wrong with a scalar beyond not being what was expected.
pub(crate) struct Fault {
    part: Option<Range<usize>>,
    message: Option<String>,
    help: Option<String>,
}

impl Fault {
    /// Not what was expected, and no more to say.
    const PLAIN: Self = Self {
        part: None,
        message: None,
        help: None,
    };

    fn help(help: impl Into<String>) -> Self {
        Self {
            help: Some(help.into()),
            ..Self::PLAIN
        }
    }

    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self {
            part: None,
            message: Some(message.into()),
            help: Some(help.into()),
        }
    }
}

/// A type that is read from a single scalar.
pub(crate) trait Leaf: Sized + 'static {
    fn expected() -> Cow<'static, str>;

    /// The parts of the schema that say what is accepted; variables are added.
    fn accepts() -> Value;

    /// Whether a plain number will do, and plain text.
    const NUMBER: bool = false;
    const TEXT: bool = true;

    fn parse(text: &str, class: Class) -> Result<Self, Fault>;
}

impl<T: Leaf> Decode for T {
    fn expected() -> Cow<'static, str> {
        <T as Leaf>::expected()
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        let schema = json!({"anyOf": [T::accepts(), {"type": "string", "pattern": VARIABLE}]});
        schema.try_into().expect("an object is a schema")
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        let expected = <T as Leaf>::expected();
        let text = cx.scalar(node, &expected)?;
        let class_fits = match text.class {
            Class::Any => true,
            Class::String => T::TEXT,
            Class::Integer | Class::Float => T::NUMBER,
            Class::Bool | Class::Null => false,
        };
        if !class_fits {
            // `8080` where text is needed reads well once quoted; `12` where
            // a size with a unit is needed does not.
            let quoting_helps = T::parse(&text.text, Class::String).is_ok()
                && matches!(text.class, Class::Integer | Class::Float | Class::Bool);
            if quoting_helps && T::TEXT {
                cx.mismatch(&text.span, &expected, &Found::NumberForText);
                return None;
            }
        }
        let fault = match T::parse(&text.text, text.class) {
            Ok(value) if class_fits => return Some(value),
            Ok(_) => Fault::PLAIN,
            Err(fault) => fault,
        };
        report(&text, &expected, fault, cx);
        None
    }
}

fn report(text: &Text, expected: &str, fault: Fault, cx: &mut Context<'_, '_>) {
    let span = fault.part.map_or(text.span.clone(), |part| text.part(part));
    match (fault.message, fault.help) {
        (Some(message), help) => cx.reporter.error(&span, message, help),
        (None, Some(help)) => {
            let message = format!("expected {expected}, found `{}`", shortened(&text.text));
            cx.reporter.error(&span, message, Some(help));
        }
        (None, None) => cx.mismatch(&span, expected, &Found::Text(&text.text)),
    }
}

macro_rules! words {
    ($($(#[doc = $doc:literal])* $name:ident = $word:literal,)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct $name;

        impl Word for $name {
            const WORD: &'static str = $word;
        }
    )*};
}

words! {
    /// Not at all.
    Off = "off",
    /// Found out by Sprat.
    Auto = "auto",
    /// Without bound.
    Unlimited = "unlimited",
    /// The paper's choice.
    Paper = "paper",
    /// TOCS03 3.4.
    TwoClass = "two-class",
}

fn unit_fault(error: &UnitError, units: &[&str]) -> Fault {
    let unit = &error.found[error.part.clone()];
    match error.problem {
        UnitProblem::Number => Fault {
            part: Some(error.part.clone()),
            ..Fault::PLAIN
        },
        UnitProblem::NoUnit => Fault {
            part: Some(error.part.clone()),
            message: Some(format!("`{}` has no unit", shortened(unit))),
            help: Some(format!("write {}", error.expected)),
        },
        UnitProblem::Unit => Fault {
            part: Some(error.part.clone()),
            message: Some(format!("`{}` is not a unit here", shortened(unit))),
            help: Some(match similar(unit, units.iter().copied()) {
                Some(unit) => format!("did you mean `{unit}`?"),
                None => format!(
                    "the units are {}",
                    crate::record::listed(units.iter().copied())
                ),
            }),
        },
        UnitProblem::TooLarge => {
            Fault::new("this is too large", format!("write {}", error.expected))
        }
    }
}

fn out_of_range(written: &str, lowest: &str, highest: &str) -> Fault {
    let written = shortened(written);
    Fault::new(
        format!("`{written}` is out of range"),
        format!("give at least {lowest} and at most {highest}"),
    )
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Count<const MIN: u64, const MAX: u64>(pub(crate) u64);

impl<const MIN: u64, const MAX: u64> Leaf for Count<MIN, MAX> {
    const NUMBER: bool = true;
    const TEXT: bool = false;

    fn expected() -> Cow<'static, str> {
        match MIN == MAX {
            true => format!("the number {MIN}").into(),
            false => format!("a whole number from {MIN} to {MAX}").into(),
        }
    }

    fn accepts() -> Value {
        json!({"type": "integer", "minimum": MIN, "maximum": MAX})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text.parse() {
            Ok(number) if (MIN..=MAX).contains(&number) => Ok(Self(number)),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// A number from 1 to 1000.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Factor(pub(crate) f64);

impl Leaf for Factor {
    const NUMBER: bool = true;
    const TEXT: bool = false;

    fn expected() -> Cow<'static, str> {
        "a number from 1 to 1000".into()
    }

    fn accepts() -> Value {
        json!({"type": "number", "minimum": 1, "maximum": 1000})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text.parse() {
            Ok(number) if (1.0..=1000.0).contains(&number) => Ok(Self(number)),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// A truth value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag(pub(crate) bool);

impl Decode for Flag {
    fn expected() -> Cow<'static, str> {
        "`true` or `false`".into()
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({
            "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": VARIABLE}],
        })
    }

    fn decode(node: &Node, cx: &mut Context<'_, '_>) -> Option<Self> {
        let text = cx.scalar(node, &Self::expected())?;
        match (text.class, text.text.to_ascii_lowercase().as_str()) {
            (Class::Bool | Class::Any, "true") => Some(Self(true)),
            (Class::Bool | Class::Any, "false") => Some(Self(false)),
            _ => {
                cx.mismatch(&text.span, &Self::expected(), &Found::Text(&text.text));
                None
            }
        }
    }
}

/// Bytes, from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<const MIN: u64, const MAX: u64>(pub(crate) u64);

/// As many bytes as can be written.
pub(crate) const MAX_SIZE: u64 = (1 << 63) - 1;

impl<const MIN: u64, const MAX: u64> Leaf for Bytes<MIN, MAX> {
    const NUMBER: bool = true;

    fn expected() -> Cow<'static, str> {
        match (MIN, MAX) {
            (0, MAX_SIZE) => units::BYTES_EXPECTED.into(),
            (_, MAX_SIZE) => {
                let lowest = units::format_bytes(MIN);
                format!("{}, at least {lowest}", units::BYTES_EXPECTED).into()
            }
            _ => {
                let (lowest, highest) = (units::format_bytes(MIN), units::format_bytes(MAX));
                format!("{}, from {lowest} to {highest}", units::BYTES_EXPECTED).into()
            }
        }
    }

    fn accepts() -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": MIN, "maximum": MAX},
            {
                "type": "string",
                "pattern": r"^\s*[0-9]+(\.[0-9]{1,9})?\s*([bB]|[kKmMgG]([iI]?[bB])?)\s*$|^\s*[0-9]+\s*$",
            },
        ]})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        const UNITS: &[&str] = &["B", "KB", "MB", "GB"];
        let bytes = units::parse_bytes(text).map_err(|error| unit_fault(&error, UNITS))?;
        if (MIN..=MAX).contains(&bytes) {
            Ok(Self(bytes))
        } else if MAX == MAX_SIZE {
            let lowest = units::format_bytes(MIN);
            Err(Fault::new(
                format!("`{}` is too small", shortened(text)),
                format!("give at least {lowest}"),
            ))
        } else {
            let (lowest, highest) = (units::format_bytes(MIN), units::format_bytes(MAX));
            Err(out_of_range(text, &lowest, &highest))
        }
    }
}

/// Bits per second; not zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BitRate(pub(crate) u64);

impl Leaf for BitRate {
    fn expected() -> Cow<'static, str> {
        units::BIT_RATE_EXPECTED.into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": r"^\s*(?=[0-9.]*[1-9])[0-9]+(\.[0-9]{1,9})?\s*[kKmMgG]?[bB][iI][tT]\s*$",
        })
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        const UNITS: &[&str] = &["bit", "kbit", "mbit", "gbit"];
        match units::parse_bit_rate(text).map_err(|error| unit_fault(&error, UNITS))? {
            0 => Err(Fault::new(
                "a rate of zero sends nothing",
                "give the link's rate, such as 10mbit, or `auto`, or `unlimited`",
            )),
            rate => Ok(Self(rate)),
        }
    }
}

/// A span of time, from `MIN_MS` milliseconds to a year.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time<const MIN_MS: u64>(pub(crate) Duration);

const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl<const MIN_MS: u64> Leaf for Time<MIN_MS> {
    fn expected() -> Cow<'static, str> {
        units::DURATION_EXPECTED.into()
    }

    fn accepts() -> Value {
        let nonzero = if MIN_MS > 0 { "(?=[0-9.]*[1-9])" } else { "" };
        let unit = "([hHsS]|[mM][iI][nN]|[mMuUnN]?[sS]|[mM])";
        json!({
            "type": "string",
            "pattern": format!(r"^\s*{nonzero}[0-9]+(\.[0-9]{{1,9}})?\s*{unit}\s*$"),
        })
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        const UNITS: &[&str] = &["ms", "s", "m", "h"];
        let time = units::parse_duration(text).map_err(|error| unit_fault(&error, UNITS))?;
        let lowest = Duration::from_millis(MIN_MS);
        if (lowest..=YEAR).contains(&time) {
            Ok(Self(time))
        } else {
            Err(out_of_range(text, &units::format_duration(lowest), "8760h"))
        }
    }
}

/// A name of the operator's choosing.
#[derive(Clone, Debug)]
pub(crate) struct Name(pub(crate) String);

impl Leaf for Name {
    fn expected() -> Cow<'static, str> {
        "a name".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": NAME_PATTERN})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        check_name(text)
            .map(|()| Self(text.to_owned()))
            .map_err(|help| Fault::new(format!("`{}` cannot be a name", shortened(text)), help))
    }
}

/// An address to listen on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListenAddress(pub(crate) SocketAddr);

impl Leaf for ListenAddress {
    fn expected() -> Cow<'static, str> {
        "an IP address and a port, such as 0.0.0.0:8080 or [::]:8080".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r"^([0-9.]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}$"})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        text.parse().map(Self).map_err(|_| {
            let port = text.trim_start_matches([':', '*']);
            if port.parse::<u16>().is_ok() {
                return Fault::help(format!("write 0.0.0.0:{port} for every address"));
            }
            match (text.strip_prefix("localhost:"), text.parse::<IpAddr>()) {
                (Some(port), _) => Fault::help(format!("write 127.0.0.1:{port}")),
                (None, Ok(IpAddr::V4(ip))) => Fault::help(format!("add a port: {ip}:8080")),
                (None, Ok(IpAddr::V6(ip))) => Fault::help(format!("add a port: [{ip}]:8080")),
                (None, Err(_)) => Fault::PLAIN,
            }
        })
    }
}

/// `host:port` of a backend.
#[derive(Clone, Debug)]
pub(crate) struct Backend(pub(crate) EndpointAddress);

impl Leaf for Backend {
    fn expected() -> Cow<'static, str> {
        "a host and a port, such as 127.0.0.1:8000 or web1.example:8000".into()
    }

    fn accepts() -> Value {
        json!({
            "type": "string",
            "pattern": r"^([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}$",
        })
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
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

/// A name that DNS could know: not an address with a slip in it.
fn is_host_name(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    };
    let last = host.trim_end_matches('.').rsplit('.').next();
    host.len() <= 253
        && host.trim_end_matches('.').split('.').all(label)
        && last.is_some_and(|last| !last.bytes().all(|b| b.is_ascii_digit()))
}

/// A block of addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cidr(pub(crate) Network);

impl Leaf for Cidr {
    fn expected() -> Cow<'static, str> {
        "a block of addresses, such as 10.0.0.0/8, fd00::/8 or 192.0.2.7".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
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

/// A pseudonym for `Via`: a token (RFC 9110 5.6.2).
#[derive(Clone, Debug)]
pub(crate) struct Pseudonym(pub(crate) String);

impl Leaf for Pseudonym {
    fn expected() -> Cow<'static, str> {
        "a word without spaces, such as sprat".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$"})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&b);
        if (1..=64).contains(&text.len()) && text.bytes().all(valid) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Fault::PLAIN)
        }
    }
}

/// A host, or `*.` and a domain.
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

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        let host = text.to_ascii_lowercase();
        let is_ip = |host: &str| {
            let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
            bare.map_or(host.parse::<std::net::Ipv4Addr>().is_ok(), |bare| {
                bare.parse::<std::net::Ipv6Addr>().is_ok()
            })
        };
        if text == "*" {
            return Err(Fault::help("leave `hosts` out to match every host"));
        }
        if let Some(domain) = host.strip_prefix("*.") {
            return match is_host_name(domain) {
                true => Ok(Self(HostPattern::Suffix(format!(".{domain}")))),
                false => Err(Fault::PLAIN),
            };
        }
        if is_host_name(&host) || is_ip(&host) {
            return Ok(Self(HostPattern::Exact(host)));
        }
        match host.rsplit_once(':') {
            Some((name, port)) if is_host_name(name) && port.parse::<u16>().is_ok() => Err(
                Fault::help(format!("leave the port out: {}", shortened(name))),
            ),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// A path that begins with `/`.
#[derive(Clone, Debug)]
pub(crate) struct UrlPath(pub(crate) String);

impl Leaf for UrlPath {
    fn expected() -> Cow<'static, str> {
        "a path, such as /images".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r"^/[!-~]*$", "not": {"pattern": "[?#]"}})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        let wrong = text
            .char_indices()
            .find(|(_, c)| !c.is_ascii_graphic() || "?#".contains(*c));
        if let Some((at, c)) = wrong {
            let help = match c {
                '?' | '#' => "routes look at the path alone: leave the query out",
                _ => "percent-encode it, as it stands in the request (a space is %20)",
            };
            return Err(Fault {
                part: Some(at..at + c.len_utf8()),
                message: Some(format!("{c:?} cannot be part of a path")),
                help: Some(help.to_owned()),
            });
        }
        match text.starts_with('/') {
            true => Ok(Self(text.to_owned())),
            false => Err(Fault::new(
                format!("the path `{}` does not begin with `/`", shortened(text)),
                format!("write `/{}`", shortened(text)),
            )),
        }
    }
}

/// What a `Host` header may say: a host, and a port if need be.
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

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        let host = match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') && port.parse::<u16>().is_ok() => host,
            _ => text,
        };
        match Host::parse(host, Class::String) {
            Ok(Host(HostPattern::Exact(_))) => Ok(Self(text.to_owned())),
            _ => Err(Fault::PLAIN),
        }
    }
}

/// A file.
#[derive(Clone, Debug)]
pub(crate) struct FilePath(pub(crate) PathBuf);

impl Leaf for FilePath {
    fn expected() -> Cow<'static, str> {
        "a file, such as /var/log/sprat/access.log".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": r"^[^\u0000-\u001f]+$"})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        match text.is_empty() || text.chars().any(|c| c < ' ') {
            true => Err(Fault::PLAIN),
            false => Ok(Self(PathBuf::from(text))),
        }
    }
}

/// A network device.
#[derive(Clone, Debug)]
pub(crate) struct Device(pub(crate) String);

impl Leaf for Device {
    fn expected() -> Cow<'static, str> {
        "the name of a network device, such as eth0".into()
    }

    fn accepts() -> Value {
        json!({"type": "string", "pattern": "^[A-Za-z0-9_.@-]{1,15}$"})
    }

    fn parse(text: &str, _: Class) -> Result<Self, Fault> {
        // The kernel's IFNAMSIZ is 16 with the terminator.
        let valid = |b: u8| b.is_ascii_alphanumeric() || b"_.@-".contains(&b);
        if (1..=15).contains(&text.len()) && text.bytes().all(valid) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Fault::PLAIN)
        }
    }
}
