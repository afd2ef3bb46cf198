//! Properties of the manifest's reader that hold for any bytes; the fuzzer runs them too.

use super::lines::{Lines, ManifestLine};
use super::wrong::Wrong;

fn read(csv: bool, text: &[u8]) -> Result<Vec<ManifestLine>, Vec<Wrong>> {
    let mut lines = Lines::default();
    match csv {
        true => lines.read_csv(text),
        false => lines.read_json(text),
    }
    lines.finish()
}

/// Checks the reader on any bytes: the first byte chooses CSV or JSON, the rest are the manifest.
pub(super) fn run(data: &[u8]) {
    let Some((&format, text)) = data.split_first() else {
        return;
    };
    match read(format % 2 == 0, text) {
        Err(errors) => {
            let told = |wrong: &Wrong| {
                let text = wrong.to_string();
                text.starts_with("line ") || text.ends_with(" more errors")
            };
            assert!(errors.iter().all(told), "{errors:?}");
        }
        Ok(lines) => {
            assert!(lines.iter().all(|line| line.path.starts_with('/')));
            let json = |ManifestLine { path, bytes, host }: &ManifestLine| {
                serde_json::json!({"path": path, "bytes": bytes, "host": host}).to_string()
            };
            let written: Vec<String> = lines.iter().map(json).collect();
            assert_eq!(read(false, written.join("\n").as_bytes()), Ok(lines));
        }
    }
}
