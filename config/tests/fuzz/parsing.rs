//! What holds for any text given as a configuration.

use sprat_config::parse;

/// Reads the bytes as a configuration.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let env = |name: &str| (name == "SET").then(|| "value".to_owned());
    match parse(text, "fuzz.yaml", &env) {
        Ok(loaded) => {
            let again = parse(text, "fuzz.yaml", &env).map(|again| again.config);
            assert!(again.is_ok_and(|again| again == loaded.config));
        }
        Err(errors) => {
            assert!(
                !errors.diagnostics().is_empty(),
                "an error that says nothing"
            );
            let told = errors.to_string();
            assert!(told.contains("fuzz.yaml"), "{told}");
        }
    }
}
