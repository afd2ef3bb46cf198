use proptest::prelude::*;

use super::*;

const KEEP: PathRules = rules(EscapedSlashes::KeepUnchanged);
const FORWARD: PathRules = rules(EscapedSlashes::UnescapeAndForward);

const fn rules(escaped_slashes: EscapedSlashes) -> PathRules {
    PathRules {
        normalize: true,
        merge_slashes: true,
        escaped_slashes,
    }
}

fn normal(rules: PathRules, path: &str) -> Result<String, Abnormal> {
    rules.normal(path).map(|normal| normal.path.into_owned())
}

#[test]
fn a_path_has_one_spelling() {
    for (sent, matched) in [
        ("/", "/"),
        ("/a/b.txt", "/a/b.txt"),
        ("/%61dmin/", "/admin/"),
        ("//admin/", "/admin/"),
        ("/x/../admin/", "/admin/"),
        ("/./login", "/login"),
        ("/%6cogin", "/login"),
        ("/%6Cogin", "/login"),
        ("/api/%2e%2e/secret/key", "/secret/key"),
        ("/api/.%2E/secret/key", "/secret/key"),
        ("/api/../secret/key", "/secret/key"),
        ("/api//../secret", "/secret"),
        ("/a/.", "/a/"),
        ("/a/b/..", "/a/"),
        ("/a/..", "/"),
        ("/.", "/"),
        ("/...", "/..."),
        ("/.well-known/x", "/.well-known/x"),
        ("/a..b/..c/d..", "/a..b/..c/d.."),
        ("/%7euser/%2Bx%c3%a9", "/~user/%2Bx%C3%A9"),
        ("/a%20b", "/a%20b"),
        // Decoded once: what is encoded twice is another resource.
        ("/%2561dmin", "/%2561dmin"),
        ("/%252e%252e/x", "/%252e%252e/x"),
        ("/a;x=1/../b", "/b"),
        ("/a/..;/b", "/a/..;/b"),
    ] {
        assert_eq!(
            normal(PathRules::default(), sent).as_deref(),
            Ok(matched),
            "{sent}"
        );
    }
}

#[test]
fn what_is_normal_is_not_copied() {
    for path in ["/", "/a/b-c_d~e.f", "/a%20b/%C3%A9", "/.well-known/"] {
        let normal = PathRules::default().normal(path).unwrap();
        assert!(matches!(normal.path, Cow::Borrowed(_)), "{path}");
    }
    // A dot segment begins after a slash.
    for path in ["/a.", "/a../b", "/a./"] {
        let normal = PathRules::default().normal(path).unwrap();
        assert!(matches!(normal.path, Cow::Borrowed(_)), "{path}");
    }
    let unchanged = PathRules {
        normalize: false,
        ..PathRules::default()
    };
    for path in ["/./a/..", "/%61%c3%20", "/%zz"] {
        let normal = unchanged.normal(path).unwrap();
        assert!(matches!(normal.path, Cow::Borrowed(_)), "{path}");
    }
}

#[test]
fn above_the_root_is_nothing() {
    for path in [
        "/..",
        "/../",
        "/../etc/passwd",
        "/a/../../b",
        "/%2e%2e/x",
        "//../x",
    ] {
        let refused = normal(PathRules::default(), path);
        assert_eq!(refused, Err(Abnormal::AboveRoot), "{path}");
    }
}

#[test]
fn an_encoded_slash_is_refused_kept_or_decoded() {
    let redirect = rules(EscapedSlashes::UnescapeAndRedirect);
    for (path, kept, decoded) in [
        ("/a%2fb", Ok("/a%2Fb"), Ok("/a/b")),
        ("/a%5cb", Ok("/a%5Cb"), Ok("/a/b")),
        ("/a%2F%2fb", Ok("/a%2F%2Fb"), Ok("/a/b")),
        ("/api/..%2fkey", Err(Abnormal::EscapedSlash), Ok("/key")),
        (
            "/api/x%5c%2e%2e%5Ckey",
            Err(Abnormal::EscapedSlash),
            Ok("/api/key"),
        ),
        (
            "/%2e%2e%2fkey",
            Err(Abnormal::EscapedSlash),
            Err(Abnormal::AboveRoot),
        ),
    ] {
        let refused = normal(rules(EscapedSlashes::RejectRequest), path);
        assert_eq!(refused, Err(Abnormal::EscapedSlash), "{path}");
        // How an endpoint reads it that decodes them, where some were kept.
        if let Ok(own) = KEEP.normal(path) {
            assert_eq!(own.other_reading.as_deref(), decoded.as_deref().ok());
        }
        assert_eq!(normal(KEEP, path).as_deref(), kept.as_deref(), "{path}");
        assert_eq!(
            normal(FORWARD, path).as_deref(),
            decoded.as_deref(),
            "{path}"
        );
        let redirected = redirect.normal(path);
        assert_eq!(redirected.is_ok_and(|own| own.redirects), decoded.is_ok());
    }
    assert!(!redirect.normal("/a//%62").unwrap().redirects);
    let other = normal(rules(EscapedSlashes::RejectRequest), "/a%20%62//c");
    assert_eq!(other.as_deref(), Ok("/a%20b/c"));
    for path in ["/a//%62", "/a%25", "/a"] {
        assert_eq!(KEEP.normal(path).unwrap().other_reading, None, "{path}");
    }
}

#[test]
fn each_part_can_be_switched_off() {
    let off = PathRules {
        normalize: false,
        merge_slashes: false,
        escaped_slashes: EscapedSlashes::KeepUnchanged,
    };
    for path in ["/a//b/../%61%2f%zz", "/..", "/%"] {
        assert_eq!(normal(off, path).as_deref(), Ok(path));
    }
    let merging = PathRules {
        merge_slashes: true,
        ..off
    };
    assert_eq!(normal(merging, "//a///../%61").as_deref(), Ok("/a/../%61"));
    let unmerged = PathRules {
        merge_slashes: false,
        ..PathRules::default()
    };
    assert_eq!(normal(unmerged, "//a//./b").as_deref(), Ok("//a//b"));
    assert_eq!(normal(unmerged, "/a//../b").as_deref(), Ok("/a/b"));
    let rejecting = PathRules {
        escaped_slashes: EscapedSlashes::RejectRequest,
        ..off
    };
    assert_eq!(normal(rejecting, "/a%2Fb"), Err(Abnormal::EscapedSlash));
}

#[test]
fn an_encoding_that_is_none_is_refused() {
    for path in ["/%", "/%2", "/%zz", "/a%2%35", "/%2%66", "/%+1"] {
        let refused = normal(FORWARD, path);
        assert_eq!(refused, Err(Abnormal::Malformed), "{path}");
    }
}

fn any_rules() -> impl Strategy<Value = PathRules> {
    let slashes = prop_oneof![
        Just(EscapedSlashes::KeepUnchanged),
        Just(EscapedSlashes::RejectRequest),
        Just(EscapedSlashes::UnescapeAndRedirect),
        Just(EscapedSlashes::UnescapeAndForward),
    ];
    (any::<bool>(), any::<bool>(), slashes).prop_map(|(normalize, merge_slashes, slashes)| {
        PathRules {
            normalize,
            merge_slashes,
            escaped_slashes: slashes,
        }
    })
}

/// Returns paths full of parts that servers read differently.
fn any_path() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => Just("/"), 2 => Just("."), 2 => Just(".."), 2 => Just("%2e"), 1 => Just("%2E"),
        2 => Just("%2f"), 1 => Just("%5C"), 1 => Just("%25"), 1 => Just("2f"), 1 => Just("%61"),
        2 => Just("a"), 1 => Just("b"), 1 => Just("%c3"), 1 => Just("%"), 1 => Just(";"),
    ];
    prop::collection::vec(part, 0..16).prop_map(|parts| "/".to_owned() + &parts.concat())
}

/// Returns the file that a server opens for a path: it decodes the path once, slashes first, and
/// lets its file system resolve the rest. None above the root.
fn as_a_file_system(path: &str) -> Option<Vec<String>> {
    let mut decoded = Vec::new();
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match encoded(&bytes[at..]) {
            Some(byte) if bytes[at] == b'%' => {
                decoded.push(byte);
                at += 3;
            }
            _ => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    let mut out = Vec::new();
    for segment in String::from_utf8_lossy(&decoded).split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => {
                out.pop()?;
            }
            name => out.push(name.to_owned()),
        }
    }
    Some(out)
}

proptest! {
    #[test]
    fn the_normal_form_is_its_own(rules in any_rules(), path in any_path()) {
        if let Ok(once) = rules.normal(&path) {
            let twice = rules.normal(&once.path).unwrap();
            prop_assert_eq!(&twice.path, &once.path);
            prop_assert!(!twice.redirects);
        }
    }

    #[test]
    fn no_path_escapes_its_prefix(rules in any_rules(), path in any_path()) {
        let rules = PathRules { normalize: true, ..rules };
        if let Ok(normal) = rules.normal(&path) {
            // An endpoint finds nothing to resolve: below a prefix it stays there.
            let below = "/v1/public".to_owned() + &normal.path;
            let found = as_a_file_system(&below);
            prop_assert!(found.is_some_and(|found| found[..2] == ["v1", "public"]), "{}", below);
        }
    }

    #[test]
    fn spellings_of_a_path_are_one(path in any_path(), which in prop::collection::vec(any::<bool>(), 64)) {
        let rules = PathRules::default();
        let path = path.replace('%', "");
        let mut which = which.into_iter().cycle();
        let spelt: String = path.chars().map(|own| match own {
            'a' | 'b' | '.' if which.next() == Some(true) => format!("%{:02x}", u32::from(own)),
            '/' if which.next() == Some(true) => "//./".to_owned(),
            own => own.to_string(),
        }).collect();
        prop_assert_eq!(normal(rules, &spelt), normal(rules, &path));
    }
}

#[test]
fn dot_segments_are_found_behind_encoded_slashes_too() {
    for path in [
        "/.",
        "/a/..",
        "/a/../b",
        "..",
        "/a%2F..%2Fb",
        "/a%5C./b",
        "/%2E/..%2F",
    ] {
        assert!(has_dots(path), "{path}");
    }
    for path in [
        "/",
        "/a",
        "/a..",
        "/..a/b",
        "/.well-known",
        "/a%2Fb",
        "/%2E",
        "/a%2F..b",
    ] {
        assert!(!has_dots(path), "{path}");
    }
}
