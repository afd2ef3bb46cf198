//! The Huffman code of HPACK (RFC 7541 appendix B).

/// The length of each octet's code, in bits. The code is canonical: shorter codes come first,
/// and among codes of one length that of the smaller octet, so that the lengths define it.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
];

/// The length of the longest code, in bits. The last such code is the end of a string, which no
/// string may contain.
const LONGEST: usize = 30;

const CODE: Code = Code::new();

/// The tables by which the code is read.
struct Code {
    /// The octets, ordered by the length of their codes, then by value.
    octets: [u8; 256],
    /// The first code of each length.
    first: [u32; LONGEST + 1],
    /// The number of codes of each length.
    count: [u32; LONGEST + 1],
    /// The index in `octets` at which the codes of each length begin.
    begin: [usize; LONGEST + 1],
    /// The octet and the length of its code, for each value of the next eight bits. The length
    /// is 0 if the code is longer.
    short: [(u8, u8); 256],
}

impl Code {
    const fn new() -> Self {
        let mut own = Self {
            octets: [0; 256],
            first: [0; LONGEST + 1],
            count: [0; LONGEST + 1],
            begin: [0; LONGEST + 1],
            short: [(0, 0); 256],
        };
        let (mut length, mut code, mut known) = (1, 0, 0);
        while length <= LONGEST {
            own.first[length] = code;
            own.begin[length] = known;
            let mut octet = 0;
            while octet < LENGTHS.len() {
                if LENGTHS[octet] as usize == length {
                    own.octets[known] = octet as u8;
                    if length <= 8 {
                        own.fill(code, length, octet as u8);
                    }
                    known += 1;
                    code += 1;
                }
                octet += 1;
            }
            own.count[length] = code - own.first[length];
            code <<= 1;
            length += 1;
        }
        own
    }

    /// Enters a short code at every index that begins with it.
    const fn fill(&mut self, code: u32, length: usize, octet: u8) {
        let free = 8 - length;
        let mut rest = 0;
        while rest < 1 << free {
            self.short[((code as usize) << free) + rest] = (octet, length as u8);
            rest += 1;
        }
    }

    /// Returns the octet whose code these 32 bits begin with, and the code's length; `None` for
    /// the end of a string.
    fn read(&self, bits: u32) -> Option<(u8, usize)> {
        let (octet, length) = self.short[(bits >> 24) as usize];
        if length > 0 {
            return Some((octet, usize::from(length)));
        }
        (9..=LONGEST).find_map(|length| {
            let place = (bits >> (32 - length)).wrapping_sub(self.first[length]);
            let known = place < self.count[length];
            known.then(|| (self.octets[self.begin[length] + place as usize], length))
        })
    }
}

/// Appends the decoded octets to `text`; returns false if `coded` is no string in this code.
pub(super) fn decode(coded: &[u8], text: &mut Vec<u8>) -> bool {
    // The bits to be read, from the highest down; `held` of them.
    let (mut window, mut held) = (0_u64, 0_usize);
    let mut rest = coded.iter();
    loop {
        while held <= 56 {
            let Some(&byte) = rest.next() else { break };
            window |= u64::from(byte) << (56 - held);
            held += 8;
        }
        if held == 0 {
            return true;
        }
        // What is not there reads as the padding does.
        let padded = window | u64::MAX.checked_shr(held as u32).unwrap_or(0);
        match CODE.read((padded >> 32) as u32) {
            Some((octet, length)) if length <= held => {
                text.push(octet);
                window <<= length;
                held -= length;
            }
            // RFC 7541 5.2: less than an octet, of ones.
            _ => return held < 8 && padded == u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(hex: &str) -> Option<String> {
        let coded: Vec<u8> = (0..hex.len() / 2)
            .map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap())
            .collect();
        let mut text = Vec::new();
        decode(&coded, &mut text).then(|| String::from_utf8(text).unwrap())
    }

    /// Decodes the strings of RFC 7541 C.4 and C.6.
    #[test]
    fn the_examples_of_the_specification_are_read() {
        for (hex, text) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("25a849e95ba97d7f", "custom-key"),
            ("25a849e95bb8e8b4bf", "custom-value"),
            ("6402", "302"),
            (
                "d07abe941054d444a8200595040b8166e082a62d1bff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (
                "94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
                "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            ),
        ] {
            assert_eq!(decoded(hex).as_deref(), Some(text));
        }
    }

    #[test]
    fn padding_is_short_and_all_ones() {
        assert_eq!(decoded("").as_deref(), Some(""));
        // `0` is five zeros.
        assert_eq!(decoded("07").as_deref(), Some("0"));
        assert_eq!(decoded("06"), None);
        assert_eq!(decoded("07ff"), None);
        // The end of a string.
        assert_eq!(decoded("ffffffff"), None);
        assert_eq!(decoded("fffffffc"), None);
    }

    #[test]
    fn every_octet_has_a_code_of_its_own() {
        for octet in 0..=u8::MAX {
            let length = usize::from(LENGTHS[usize::from(octet)]);
            let place = CODE.octets[CODE.begin[length]..]
                .iter()
                .position(|own| *own == octet)
                .unwrap();
            let code = u64::from(CODE.first[length]) + place as u64;
            let bits = (code << (64 - length)) | (u64::MAX >> length);
            let bytes = length.div_ceil(8);
            let mut text = Vec::new();
            assert!(decode(&bits.to_be_bytes()[..bytes], &mut text), "{octet}");
            assert_eq!(text, [octet]);
        }
    }
}
