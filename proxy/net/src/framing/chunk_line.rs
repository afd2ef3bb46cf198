//! The line before a chunk: its size, and extensions that mean nothing here
//! (RFC 9112 7.1.1). hyper passes over all that is between a semicolon and the line's
//! end, and over white space behind the size; others end the line at a NUL, or take
//! what is no extension for one.

/// The part of a chunk's line that was read last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChunkLine {
    /// Digits of the size.
    #[default]
    Size,
    /// White space that a semicolon must follow.
    Blank,
    /// A semicolon, and white space.
    Semicolon,
    /// The name of an extension.
    Name,
    /// White space after a name.
    NameBlank,
    /// An equals sign, and white space.
    Equals,
    /// A value that is a token.
    Token,
    /// A value in quotes.
    Quoted,
    /// A backslash in quotes.
    Escape,
    /// The quote that ends a value.
    Unquoted,
    /// The CR that ends the line.
    End,
}

impl ChunkLine {
    /// Returns the part that a byte belongs to; `None` if it cannot stand there.
    pub(super) fn read(self, byte: u8) -> Option<Self> {
        let token = is_token_byte(byte);
        Some(match (self, byte) {
            (Self::Size, _) if byte.is_ascii_hexdigit() => Self::Size,
            (Self::Semicolon | Self::Name, _) if token => Self::Name,
            (Self::Equals | Self::Token, _) if token => Self::Token,
            (Self::Equals, b'"') => Self::Quoted,
            (Self::Quoted, b'"') => Self::Unquoted,
            (Self::Quoted, b'\\') => Self::Escape,
            (Self::Quoted | Self::Escape, b'\t' | b' '..=0x7e | 0x80..) => Self::Quoted,
            (Self::Name | Self::NameBlank, b'=') => Self::Equals,
            (Self::Name | Self::NameBlank, b' ' | b'\t') => Self::NameBlank,
            (Self::Semicolon | Self::Equals, b' ' | b'\t') => self,
            (Self::Size | Self::Blank | Self::Token | Self::Unquoted, b' ' | b'\t') => Self::Blank,
            (_, b';') if self.may_be_followed() => Self::Semicolon,
            (_, b'\r') if self.may_end() => Self::End,
            _ => return None,
        })
    }

    /// Returns whether a semicolon can come next, and with it another extension.
    fn may_be_followed(self) -> bool {
        self.may_end() || matches!(self, Self::Blank | Self::NameBlank)
    }

    /// Returns whether the line can end here.
    fn may_end(self) -> bool {
        matches!(self, Self::Size | Self::Name | Self::Token | Self::Unquoted)
    }
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_line(text: &str) -> bool {
        let mut bytes = text.bytes();
        let end = bytes.try_fold(ChunkLine::Size, ChunkLine::read);
        end == Some(ChunkLine::End)
    }

    #[test]
    fn lines_are_those_of_the_grammar() {
        for line in [
            "5",
            "0aF",
            "5;a",
            "5 ;a",
            "5\t; a",
            "5;a=b",
            "5;a = b ; c=\"d\"",
            "5;a;b",
            "5;a=\"\"",
            "5;a=\"; \\\" \u{e4}\t\"",
        ] {
            assert!(is_line(&format!("{line}\r")), "{line:?}");
        }
        for line in [
            "5 ",
            "5\t",
            "5;",
            "5; ",
            "5 ;",
            "5;a ",
            "5;a=",
            "5;a= ",
            "5;a=b ",
            "5;=b",
            "5;;a",
            "5;a b",
            "5;a=b c",
            "5;a=\"b",
            "5;a=\"b\" ",
            "5;a=\"b\"c",
            "5;\0a",
            "5;a\0",
            "5;a=\"\0\"",
            "5;a=\"\\\0\"",
            "5;\x01",
            "5;a\x7f",
            "5;\u{e4}",
            "5,a",
            "5 5",
            "-5",
        ] {
            assert!(!is_line(&format!("{line}\r")), "{line:?}");
        }
    }
}
