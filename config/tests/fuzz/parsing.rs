//! Properties that hold for any text given as a configuration.

use std::fmt::Debug;

use sprat_config::{Env, Errors, Loaded, parse, parse_filter};

/// Reads bytes as the configuration's file.
pub(crate) fn file(data: &[u8]) {
    check(data, parse);
}

/// Reads bytes as an Envoy filter's configuration.
pub(crate) fn filter(data: &[u8]) {
    check(data, parse_filter);
}

fn check<T: Debug + PartialEq>(
    data: &[u8],
    parse: impl Fn(&str, &str, Env<'_>) -> Result<Loaded<T>, Errors>,
) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let env = |name: &str| (name == "SET").then(|| "value".to_owned());
    let told = match parse(text, "fuzz.yaml", &env) {
        Ok(loaded) => {
            let again = parse(text, "fuzz.yaml", &env).map(|again| again.config);
            assert_eq!(again.as_ref(), Ok(&loaded.config));
            loaded.warnings
        }
        Err(errors) => {
            assert!(errors.has_errors(), "it was refused without an error");
            errors
        }
    };
    for diagnostic in told.diagnostics() {
        let place = diagnostic.place.as_ref().expect("it is about a text");
        let lines = text.lines().count() + 1;
        assert!((1..=lines).contains(&place.line), "{diagnostic:?}");
        assert!(text.get(place.span.clone()).is_some(), "{diagnostic:?}");
    }
    assert_eq!(told.is_empty(), told.to_string().is_empty());
}
