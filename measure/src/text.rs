//! Figures and text, written for people to read.

/// Writes three significant digits, without an exponent; `-` for what is not finite.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "-".to_owned();
    }
    let decimals = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Writes a rate, such as `10 Mbit/s`.
pub fn rate_text(bits_per_s: u64) -> String {
    let rate = bits_per_s as f64;
    match bits_per_s {
        0..1_000_000 => format!("{} kbit/s", rate / 1e3),
        1_000_000..1_000_000_000 => format!("{} Mbit/s", rate / 1e6),
        _ => format!("{} Gbit/s", rate / 1e9),
    }
}

/// Escapes text for HTML, also between double quotes.
pub fn escape_html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}
