use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    let pairs = (0..hex.len() / 2).map(|n| &hex[2 * n..2 * n + 2]);
    pairs
        .map(|pair| u8::from_str_radix(pair, 16).unwrap())
        .collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, BrokenBlock> {
    let mut fields = Vec::new();
    decoder.decode(block, usize::MAX, |field| {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        fields.push((text(field.name), text(field.value)));
        true
    })?;
    Ok(fields)
}

fn check(decoder: &mut Decoder, hex: &str, table_bytes: usize, expected: &[(&str, &str)]) {
    let fields = decode(decoder, &bytes(hex)).unwrap();
    let fields: Vec<_> = fields
        .iter()
        .map(|(n, v)| (n.as_str(), v.as_str()))
        .collect();
    assert_eq!(fields, expected);
    assert_eq!(decoder.table.bytes, table_bytes);
    let counted: usize = decoder.table.entries.iter().map(Entry::bytes).sum();
    assert_eq!(counted, table_bytes);
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
];

/// Reads the requests of RFC 7541 C.3 and C.4, which are the same without and with Huffman's
/// code.
#[test]
fn the_requests_of_the_specification_are_read() {
    let plain = [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ];
    let short = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ];
    for blocks in [plain, short] {
        let mut decoder = Decoder::new();
        check(&mut decoder, blocks[0], 57, &GET);
        let mut second = GET.to_vec();
        second.push(("cache-control", "no-cache"));
        check(&mut decoder, blocks[1], 110, &second);
        let third = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ];
        check(&mut decoder, blocks[2], 164, &third);
    }
}

/// Reads the responses of RFC 7541 C.6, with a table of 256 octets that evicts.
#[test]
fn the_responses_of_the_specification_are_read() {
    let mut decoder = Decoder::new();
    decoder.table.max_bytes = 256;
    let date = ("date", "Mon, 21 Oct 2013 20:13:21 GMT");
    let rest = [
        ("cache-control", "private"),
        date,
        ("location", "https://www.example.com"),
    ];
    let first = [&[(":status", "302")], &rest[..]].concat();
    let block = "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad17\
                 1863c78f0b97c8e9ae82ae43d3";
    check(&mut decoder, block, 222, &first);
    let second = [&[(":status", "307")], &rest[..]].concat();
    check(&mut decoder, "4883640effc1c0bf", 222, &second);
}

#[test]
fn a_table_that_shrinks_forgets() {
    let mut decoder = Decoder::new();
    check(&mut decoder, "400161017a", 34, &[("a", "z")]);
    check(&mut decoder, "be", 34, &[("a", "z")]);
    check(&mut decoder, "203fe11f", 0, &[]);
    assert_eq!(decode(&mut decoder, &[0xbe]), Err(BrokenBlock));
}

#[test]
fn what_is_no_hpack_is_broken() {
    for hex in [
        // Index 0; one that is not there; one without an end.
        "80",
        "be",
        "ff",
        "ffffffffffffff01",
        // Strings that are longer than the block.
        "0001",
        "00016102",
        "00017f",
        // No Huffman code.
        "0081ff00",
        // A table larger than allowed, or changed in the middle.
        "3fe21f",
        "823fe11f",
    ] {
        let read = decode(&mut Decoder::new(), &bytes(hex));
        assert_eq!(read, Err(BrokenBlock), "{hex}");
    }
}

#[test]
fn what_is_unsound_in_the_table_stays_unsound() {
    let mut decoder = Decoder::new();
    let block = bytes("400141017a400161017a");
    decoder
        .decode(&block, usize::MAX, |field| field.name == b"a")
        .unwrap();
    let mut sound = Vec::new();
    decoder
        .decode(&bytes("bebf82"), usize::MAX, |field| {
            sound.push(field.is_known_sound);
            true
        })
        .unwrap();
    assert_eq!(sound, [true, false, true]);
}

#[test]
fn a_list_is_read_no_further_than_its_bound() {
    // A name that fills the table, which two octets each repeat, and enter again.
    let mut block = vec![0x40];
    encode_string(&[b'n'; TABLE_BYTES - FIELD_OVERHEAD], &mut block);
    encode_string(b"", &mut block);
    let first = block.len();
    block.extend([0x7e_u8, 0].repeat(1000));
    let read = |block: &[u8], list_max: usize| {
        let mut seen = 0;
        let decoded = Decoder::new().decode(block, list_max, |field| {
            assert_eq!(field.bytes(), TABLE_BYTES);
            seen += 1;
            true
        });
        (decoded, seen)
    };
    assert_eq!(read(&block, 4 * TABLE_BYTES), (Err(BrokenBlock), 4));
    assert_eq!(read(&block, 4 * TABLE_BYTES - 1), (Err(BrokenBlock), 3));
    // Three more fields, which fill the bound.
    assert_eq!(read(&block[..first + 6], 4 * TABLE_BYTES), (Ok(()), 4));
}

proptest! {
    #[test]
    fn what_is_encoded_is_read_and_enters_no_table(
        fields in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..300), prop::collection::vec(any::<u8>(), 0..20_000)), 0..4)
    ) {
        let mut block = Vec::new();
        for (name, value) in &fields {
            encode_literal(name, value, &mut block);
        }
        let mut decoder = Decoder::new();
        let mut read = Vec::new();
        decoder.decode(&block, usize::MAX, |field| {
            read.push((field.name.to_vec(), field.value.to_vec()));
            true
        }).unwrap();
        prop_assert_eq!(read, fields);
        prop_assert_eq!(decoder.table.bytes, 0);
    }

    #[test]
    fn any_bytes_are_read_within_the_table(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8)
    ) {
        let mut decoder = Decoder::new();
        for block in &blocks {
            let _ = decoder.decode(block, usize::MAX, |_| true);
            let counted: usize = decoder.table.entries.iter().map(Entry::bytes).sum();
            prop_assert_eq!(counted, decoder.table.bytes);
            prop_assert!(counted <= TABLE_BYTES);
        }
    }
}
