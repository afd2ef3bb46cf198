use proptest::prelude::*;

use super::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    let header = Header {
        length: payload.len(),
        kind,
        flags,
        stream,
    };
    header.write(payload, &mut frames);
    frames
}

/// Returns a header block of these fields, all of which enter the table.
fn indexed(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0x40);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "a.example"),
    (":path", "/x"),
];

fn get(stream: u32, more: &[(&str, &str)]) -> Vec<u8> {
    let block = indexed(&[&GET, more].concat());
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)
}

/// Returns a request's frame as the library gets it: with the number of its stream.
fn numbered(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    let mut block = block.to_vec();
    let number = stream.to_string();
    hpack::encode_literal(STREAM_FIELD.as_bytes(), number.as_bytes(), &mut block);
    frame(HEADERS, END_HEADERS | flags, stream, &block)
}

fn client() -> Frames {
    Frames::new(Side::Client { last: 0 }, 0, 4096)
}

fn endpoint() -> Frames {
    Frames::new(Side::Endpoint, 0, 4096)
}

/// Returns what comes out of `frames` for bytes that come in parts of `part`, and how many
/// requests it told of as malformed.
fn through(frames: &mut Frames, bytes: &[u8], part: usize) -> (Vec<u8>, usize) {
    let (mut out, mut told) = (Vec::new(), 0);
    for bytes in bytes.chunks(part) {
        let passed = frames.read(bytes, &mut |event| {
            told += usize::from(matches!(event, Event::Malformed(_)));
        });
        out.extend_from_slice(&bytes[..passed]);
        let ready = frames.ready();
        out.extend_from_slice(ready);
        ready.clear();
    }
    (out, told)
}

fn refusal() -> Vec<u8> {
    let mut block = Vec::new();
    hpack::encode_literal(REFUSED.0, REFUSED.1, &mut block);
    block
}

#[test]
fn what_is_well_formed_passes_with_the_numbers_of_requests() {
    let long = "y".repeat(120);
    let block = indexed(&[&GET[..], &[("x-long", &long)]].concat());
    let mut padded = vec![2, 0, 0, 0, 1, 5];
    padded.extend_from_slice(&block);
    padded.extend_from_slice(&[0; 2]);
    let sent = [
        frame(4, 0, 0, &[]),
        get(1, &[]),
        frame(HEADERS, 0, 3, &block[..50]),
        frame(CONTINUATION, 0, 3, &[]),
        frame(CONTINUATION, END_HEADERS, 3, &block[50..]),
        frame(DATA, END_STREAM, 3, &[7; 3000]),
        frame(HEADERS, END_HEADERS | PADDED | PRIORITY, 5, &padded),
        frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            5,
            &indexed(&[("x", "y")]),
        ),
    ]
    .concat();
    let expected = [
        frame(4, 0, 0, &[]),
        numbered(END_STREAM, 1, &indexed(&GET)),
        numbered(0, 3, &block),
        frame(DATA, END_STREAM, 3, &[7; 3000]),
        numbered(0, 5, &block),
        frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            5,
            &indexed(&[("x", "y")]),
        ),
    ]
    .concat();
    for part in [1, 2, 7, 100, sent.len()] {
        let mut frames = client();
        assert_eq!(through(&mut frames, &sent, part), (expected.clone(), 0));
        assert!(!frames.has_diverged && !frames.is_over);
    }
}

#[test]
fn what_an_endpoint_says_passes_as_it_is() {
    let early = &indexed(&[(":status", "103"), ("link", "</a>")]);
    let sent = [
        frame(4, 0, 0, &[0, 1, 0, 0, 0, 0]),
        frame(HEADERS, END_HEADERS, 1, early),
        frame(HEADERS, END_HEADERS, 1, &indexed(&[(":status", "200")])),
        frame(DATA, END_STREAM, 1, &[7; 3000]),
        // By the table, which has what came first: `:status: 200` is the newest.
        frame(HEADERS, END_HEADERS, 3, &[0xc0, 0xbf]),
        frame(HEADERS, END_HEADERS, 3, &indexed(&[(":status", "101")])),
        frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            5,
            &indexed(&[(":status", "103")]),
        ),
    ]
    .concat();
    for part in [1, 2, 7, 100, sent.len()] {
        let (mut frames, mut out, mut told) = (endpoint(), Vec::new(), Vec::new());
        for bytes in sent.chunks(part) {
            let passed = frames.read(bytes, &mut |event| told.push(event));
            out.extend_from_slice(&bytes[..passed]);
            out.append(&mut frames.ready().to_vec());
            frames.ready().clear();
        }
        assert_eq!(out, sent);
        let told: Vec<_> = told
            .iter()
            .map(|event| match event {
                Event::Interim(stream, interim) => (
                    *stream,
                    interim.status.as_u16(),
                    interim.headers["link"].clone(),
                ),
                _ => panic!("{event:?}"),
            })
            .collect();
        let link = HeaderValue::from_static("</a>");
        assert_eq!(told, [(1, 103, link.clone()), (3, 103, link)]);
    }
    // All of it at once needs no copy.
    assert_eq!(endpoint().read(&sent, &mut |_| ()), sent.len());
}

#[test]
fn a_clients_settings_are_told_of_as_a_whole() {
    let size = [0, 1, 0, 0, 1, 0];
    let sent = [
        frame(SETTINGS, 0, 0, &[]),
        frame(SETTINGS, ACK, 0, &[]),
        frame(
            SETTINGS,
            0,
            0,
            &[[0, 3, 0, 0, 0, 9], size, [0, 1, 0, 0, 2, 0]].concat(),
        ),
        // The library ends the connection for the one that is no list of settings.
        frame(SETTINGS, 0, 0, &size[..5]),
    ]
    .concat();
    for part in [1, 10, sent.len()] {
        let (mut frames, mut told) = (client(), Vec::new());
        for bytes in sent.chunks(part) {
            frames.read(bytes, &mut |event| match event {
                Event::Settings(bytes) => told.push(bytes),
                _ => panic!("{event:?}"),
            });
        }
        assert_eq!(told, [None, Some(512), None]);
        assert!(frames.held.is_empty());
    }
}

#[test]
fn a_list_without_room_for_it_has_no_number() {
    let long = "y".repeat(100);
    let sent = get(1, &[("x-long", &long)]);
    let bytes: usize = GET
        .iter()
        .chain(&[("x-long", &*long)])
        .map(|(name, value)| name.len() + value.len() + FIELD_OVERHEAD)
        .sum();
    for (room, is_numbered) in [(STREAM_FIELD_BYTES, true), (STREAM_FIELD_BYTES - 1, false)] {
        let mut frames = Frames::new(Side::Client { last: 0 }, 0, bytes + room);
        let (out, _) = through(&mut frames, &sent, sent.len());
        assert_eq!(out != sent, is_numbered);
    }
}

#[test]
fn a_clients_own_number_is_not_taken_for_the_screens() {
    let sent = get(1, &[(STREAM_FIELD, "7")]);
    let bytes: usize = GET
        .iter()
        .chain(&[(STREAM_FIELD, "7")])
        .map(|(name, value)| name.len() + value.len() + FIELD_OVERHEAD)
        .sum();
    let refused = frame(HEADERS, END_HEADERS | END_STREAM, 1, &refusal());
    let own = indexed(&[&GET[..], &[(STREAM_FIELD, "7")]].concat());
    for (list_max, expected) in [
        (
            bytes + STREAM_FIELD_BYTES,
            (numbered(END_STREAM, 1, &own), 0),
        ),
        (bytes + STREAM_FIELD_BYTES - 1, (refused.clone(), 1)),
        (bytes + 1, (refused, 1)),
        // Too large in any case: the library answers that.
        (bytes, (sent.clone(), 0)),
    ] {
        let mut frames = Frames::new(Side::Client { last: 0 }, 0, list_max);
        assert_eq!(through(&mut frames, &sent, sent.len()), expected);
    }
}

#[test]
fn a_malformed_block_is_replaced_and_those_after_it_need_no_table() {
    let sent = [
        get(1, &[("x-a", "b")]),
        get(3, &[("X-Upper", "c")]),
        frame(DATA, 0, 1, b"data"),
        // The first request again, by the table.
        frame(HEADERS, END_HEADERS, 5, &[0xc7, 0xc6, 0xc5, 0xc4, 0xc3]),
    ]
    .concat();
    let mut block = Vec::new();
    for (name, value) in [GET[0], GET[1], GET[2], GET[3], ("x-a", "b")] {
        hpack::encode_literal(name.as_bytes(), value.as_bytes(), &mut block);
    }
    let first = indexed(&[&GET[..], &[("x-a", "b")]].concat());
    let expected = [
        numbered(END_STREAM, 1, &first),
        frame(HEADERS, END_HEADERS | END_STREAM, 3, &refusal()),
        frame(DATA, 0, 1, b"data"),
        numbered(0, 5, &block),
    ]
    .concat();
    for part in [1, 3, 50, sent.len()] {
        assert_eq!(through(&mut client(), &sent, part), (expected.clone(), 1));
    }
}

#[test]
fn a_malformed_field_in_the_table_is_malformed_again() {
    let sent = [
        get(1, &[("X-Upper", "c")]),
        frame(HEADERS, END_HEADERS, 3, &[0xc2, 0xc1, 0xc0, 0xbf, 0xbe]),
    ]
    .concat();
    let (out, told) = through(&mut client(), &sent, sent.len());
    assert_eq!(told, 2);
    assert!(out.ends_with(&frame(HEADERS, END_HEADERS, 3, &refusal())));
}

#[test]
fn a_long_list_is_written_in_several_frames_and_within_its_bound() {
    let mut frames = Frames::new(Side::Client { last: 0 }, 0, 40_000);
    frames.has_diverged = true;
    let mut block = indexed(&GET);
    let long = "z".repeat(1000);
    for n in 0..30 {
        hpack::encode_literal(format!("x-{n}").as_bytes(), long.as_bytes(), &mut block);
    }
    let mut sent = frame(HEADERS, 0, 1, &block[..16_000]);
    sent.extend(frame(CONTINUATION, END_HEADERS, 1, &block[16_000..]));
    let (out, _) = through(&mut frames, &sent, 5000);
    let mut kinds = Vec::new();
    let mut at = 0;
    while let Some(header) = Header::read(&out[at..]) {
        kinds.push((header.kind, header.flags, header.stream));
        assert!(header.length <= FRAME_BYTES);
        at += HEADER_BYTES + header.length;
    }
    assert_eq!(kinds, [(HEADERS, 0, 1), (CONTINUATION, END_HEADERS, 1)]);
    assert_eq!(at, out.len());
    // A small block that stands for a large list.
    let bomb = [indexed(&[("x", &"z".repeat(100))]), vec![0xbe; 10_000]].concat();
    let sent = frame(HEADERS, END_HEADERS, 3, &bomb);
    let (out, _) = through(&mut frames, &sent, sent.len());
    assert_eq!(out, frame(HEADERS, END_HEADERS, 3, NO_BLOCK));
}

#[test]
fn what_is_no_header_block_is_left_to_the_library() {
    for sent in [
        frame(HEADERS, END_HEADERS, 0, &indexed(&GET)),
        frame(CONTINUATION, END_HEADERS, 1, &[]),
        frame(HEADERS, END_HEADERS | PADDED, 1, &[9, 0]),
        frame(HEADERS, END_HEADERS, 1, &[0x82; FRAME_BYTES + 1]),
        [frame(HEADERS, 0, 1, &[0x82]), frame(DATA, 0, 1, b"x")].concat(),
    ] {
        let mut frames = client();
        assert_eq!(through(&mut frames, &sent, 5), (sent, 0));
        assert!(frames.is_over);
    }
    // A head without an end: the library counts its frames.
    let mut frames = client();
    let endless = frame(CONTINUATION, 0, 1, &[0x82; 1000]);
    let sent = [frame(HEADERS, 0, 1, &[0x82]), endless.repeat(200)].concat();
    assert_eq!(through(&mut frames, &sent, 500), (sent, 0));
    // No HPACK at all.
    let broken = frame(
        HEADERS,
        END_HEADERS,
        1,
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    );
    let (out, told) = through(&mut client(), &broken, 100);
    assert_eq!((out, told), (frame(HEADERS, END_HEADERS, 1, NO_BLOCK), 0));
}

#[test]
fn what_was_held_back_is_given_when_nothing_more_comes() {
    let sent = get(1, &[]);
    let mut frames = client();
    assert_eq!(frames.read(&sent[..20], &mut |_| ()), 0);
    assert!(frames.ready().is_empty());
    frames.end();
    assert_eq!(frames.ready(), &sent[..20]);
}

#[test]
fn a_responses_trailers_are_told_from_its_head() {
    let head = |stream, status| {
        frame(
            HEADERS,
            END_HEADERS,
            stream,
            &indexed(&[(":status", status)]),
        )
    };
    let end = END_HEADERS | END_STREAM;
    let sound = [
        head(1, "103"),
        head(1, "200"),
        frame(DATA, 0, 1, b"x"),
        frame(HEADERS, end, 1, &indexed(&[("x-sum", "1")])),
        head(3, "200"),
        frame(DATA, END_STREAM, 3, b"x"),
    ]
    .concat();
    let mut frames = endpoint();
    assert_eq!(through(&mut frames, &sound, 10).0, sound);
    assert!(frames.begun.is_empty());
    // With a status, they are malformed.
    let late = frame(HEADERS, end, 5, &indexed(&[(":status", "500")]));
    let sent = [head(5, "200"), late].concat();
    let out = through(&mut endpoint(), &sent, 10).0;
    assert_eq!(
        out,
        [head(5, "200"), frame(HEADERS, end, 5, &refusal())].concat()
    );
}

fn cut(stream: u32, code: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

#[test]
fn a_reset_without_an_error_cuts_a_message_off_only_before_its_end() {
    let head = END_HEADERS;
    let ok = &indexed(&[(":status", "200")]);
    let early = &indexed(&[(":status", "103")]);
    let begun = [
        frame(HEADERS, head, 1, ok),
        frame(DATA, 0, 1, b"part"),
        // Whole: what is reset is the request's rest.
        frame(HEADERS, head, 3, ok),
        frame(DATA, END_STREAM, 3, b"all"),
        frame(HEADERS, head | END_STREAM, 5, ok),
        frame(HEADERS, head, 7, ok),
        frame(HEADERS, head | END_STREAM, 7, &indexed(&[("x-sum", "1")])),
        // Not answered yet: there is nothing that looks whole.
        frame(HEADERS, head, 9, early),
        frame(HEADERS, head, 11, ok),
    ]
    .concat();
    let resets = |first, last| {
        let resets = [(1, first), (3, 0), (5, 0), (7, 0), (9, 0), (11, last)];
        resets.map(|(stream, code)| cut(stream, code)).concat()
    };
    let sent = [begun.clone(), resets(0, 2)].concat();
    let expected = [begun, resets(8, 2)].concat();
    for part in [1, 4, 9, 12, sent.len()] {
        let mut frames = endpoint();
        assert_eq!(through(&mut frames, &sent, part).0, expected);
        assert!(frames.begun.is_empty() && frames.held.is_empty());
    }
    // A client's uploads alike.
    let block = &indexed(&GET);
    let begun = [numbered(0, 1, block), numbered(END_STREAM, 3, block)].concat();
    let sent = [
        frame(HEADERS, head, 1, block),
        frame(HEADERS, head | END_STREAM, 3, block),
        [cut(1, 0), cut(3, 0)].concat(),
    ]
    .concat();
    let expected = [begun, cut(1, 8), cut(3, 0)].concat();
    for part in [1, 10, sent.len()] {
        assert_eq!(through(&mut client(), &sent, part).0, expected);
    }
}

#[test]
fn a_farewell_without_an_error_resets_the_responses_that_it_cuts_off() {
    let ok = &indexed(&[(":status", "200")]);
    let begun = [1, 3, 5].map(|stream| frame(HEADERS, END_HEADERS, stream, ok));
    let begun = begun.concat();
    let farewell = |last: u32, code: u32, more: &[u8]| {
        let said = [last.to_be_bytes(), code.to_be_bytes()].concat();
        frame(GOAWAY, 0, 0, &[&said[..], more].concat())
    };
    for (said, cuts) in [
        (farewell(1, 0, b"more"), vec![3, 5]),
        (farewell(0, 0, b""), vec![1, 3, 5]),
        (farewell(0x7fff_ffff, 0, b""), vec![]),
        (farewell(5, 0, b""), vec![]),
        (farewell(1, 2, b"more"), vec![]),
    ] {
        let end = frame(DATA, END_STREAM, 1, b"x");
        let sent = [&begun[..], &said, &end].concat();
        let resets: Vec<_> = cuts.iter().map(|stream| cut(*stream, 8)).collect();
        let expected = [&begun[..], &resets.concat(), &said, &end].concat();
        for part in [1, 8, 12, sent.len()] {
            assert_eq!(through(&mut endpoint(), &sent, part).0, expected);
        }
    }
}

proptest! {
    /// Compares bytes that come in parts with bytes that come as one, whatever blocks they hold.
    #[test]
    fn the_parts_in_which_bytes_come_make_no_difference(
        blocks in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..60), any::<bool>()), 1..6),
        part in 1_usize..40,
    ) {
        let mut sent = Vec::new();
        for (n, (block, is_sound)) in blocks.iter().enumerate() {
            let stream = 2 * n as u32 + 1;
            match is_sound {
                true => sent.extend(get(stream, &[])),
                false => sent.extend(frame(HEADERS, END_HEADERS, stream, block)),
            }
        }
        let whole = through(&mut client(), &sent, sent.len());
        prop_assert_eq!(through(&mut client(), &sent, part), whole);
    }
}
