//! HAProxy's log formats, as Sprat's templates and as URLs.

/// Returns a format as a template of Sprat's.
///
/// # Errors
///
/// The part that Sprat has no variable for.
pub(super) fn template(format: &str) -> Result<String, String> {
    let mut out = String::new();
    each(format, &mut |piece| {
        match piece {
            FormatPiece::Text(text) => out.push_str(&text.replace('%', "%%")),
            FormatPiece::Variable(name) => {
                out.push_str(&word_for(name).ok_or_else(|| name.to_owned())?);
            }
        }
        Ok(())
    })?;
    Ok(out)
}

/// Returns a format as a URL with nginx's variables, from which redirects are read.
///
/// # Errors
///
/// The part that redirects have no variable for.
pub(super) fn url(format: &str) -> Result<String, String> {
    let mut out = String::new();
    each(format, &mut |piece| {
        out.push_str(match piece {
            FormatPiece::Text(text) => text,
            FormatPiece::Variable(name) => match sample(name) {
                ("hdr" | "req.hdr", "host") => "$host",
                ("capture.req.uri" | "pathq" | "url" | "HU", _) => "$request_uri",
                ("path", "") => "$uri",
                _ => return Err(name.to_owned()),
            },
        });
        Ok(())
    })?;
    match out.contains("$host$host") {
        true => Err(format.to_owned()),
        false => Ok(out),
    }
}

enum FormatPiece<'t> {
    Text(&'t str),
    Variable(&'t str),
}

/// Splits a format, and calls `see` with each piece: text, `%[sample]`, `%ci`, `%%`.
fn each<'t>(
    format: &'t str,
    see: &mut dyn FnMut(FormatPiece<'t>) -> Result<(), String>,
) -> Result<(), String> {
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('%') {
        if !before.is_empty() {
            see(FormatPiece::Text(before))?;
        }
        if let Some(next) = after.strip_prefix('%') {
            see(FormatPiece::Text("%"))?;
            rest = next;
            continue;
        }
        let (name, next) = match after.strip_prefix('[') {
            Some(sample) => sample.split_once(']').ok_or_else(|| format.to_owned())?,
            None => {
                let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
                after.split_at(letters)
            }
        };
        see(FormatPiece::Variable(name))?;
        rest = next;
    }
    if !rest.is_empty() {
        see(FormatPiece::Text(rest))?;
    }
    Ok(())
}

/// Splits a sample into its name and its argument; the argument `host` is in lower case.
fn sample(text: &str) -> (&str, &str) {
    let (name, argument) = match text.split_once('(') {
        Some((name, rest)) => (name, rest.strip_suffix(')').unwrap_or(rest)),
        None => (text, ""),
    };
    match argument.eq_ignore_ascii_case("host") {
        true => (name, "host"),
        false => (name, argument),
    }
}

fn word_for(name: &str) -> Option<String> {
    let fixed = match sample(name) {
        ("src" | "ci", "") => "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
        ("src_port" | "cp", "") => "%DOWNSTREAM_REMOTE_PORT%",
        ("dst_port" | "fp", "") => "%DOWNSTREAM_LOCAL_PORT%",
        ("method" | "HM", "") => "%REQ(:METHOD)%",
        ("pathq" | "url" | "capture.req.uri" | "HU", "") => "%REQ(:PATH)%",
        ("ssl_fc,iif", "https,http") => "%REQ(:SCHEME)%",
        ("hdr" | "req.hdr" | "req.fhdr", "host") => "%REQ(:AUTHORITY)%",
        ("status" | "ST", "") => "%RESPONSE_CODE%",
        ("ssl_c_s_dn", "cn" | "CN") => "%DOWNSTREAM_PEER_COMMON_NAME%",
        ("be_name" | "b", "") => "%UPSTREAM_CLUSTER%",
        (kind, argument) => {
            let is_token = !argument.is_empty()
                && argument
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
            let kind = match kind {
                "hdr" | "req.hdr" | "req.fhdr" => "REQ",
                "res.hdr" => "RESP",
                _ => return None,
            };
            return is_token.then(|| format!("%{kind}({argument})%"));
        }
    };
    Some(fixed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_become_templates_and_urls() {
        assert_eq!(
            template("%[src]:%cp 5%%").unwrap(),
            "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%:%DOWNSTREAM_REMOTE_PORT% 5%%"
        );
        assert_eq!(template("%[req.hdr(X-A)]").unwrap(), "%REQ(X-A)%");
        assert_eq!(template("%[rand]"), Err("rand".to_owned()));
        assert_eq!(
            url("https://%[hdr(host)]%[capture.req.uri]").unwrap(),
            "https://$host$request_uri"
        );
        assert!(url("https://%[rand]").is_err());
    }
}
