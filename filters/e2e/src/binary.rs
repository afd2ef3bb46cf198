//! The paths of Envoy's binary and of the filters built for it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, bail};

/// Returns the checkout that this program was compiled in.
pub fn checkout() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

/// Finds Envoy's binary: the one that `ENVOY` names, or the one that `scripts/setup-envoy.sh` finds
/// or installs. The search is made once for the process.
///
/// # Errors
/// When there is none. A test without Envoy fails, and says so.
pub fn envoy_binary() -> anyhow::Result<PathBuf> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    // The script sees to ENVOY, and looks whether it can be run.
    FOUND
        .get_or_init(|| find_envoy().map_err(|error| format!("{error:#}")))
        .clone()
        .map_err(anyhow::Error::msg)
}

fn find_envoy() -> anyhow::Result<PathBuf> {
    let script = checkout().join("scripts/setup-envoy.sh");
    let output = Command::new(&script)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    let path = last_line(&output).context(
        "there is no Envoy to test with; set ENVOY to a binary of your own, or see why \
         scripts/setup-envoy.sh cannot install one",
    )?;
    Ok(path.into())
}

/// Returns the last line of a command's output, if the command has succeeded.
fn last_line(output: &Output) -> anyhow::Result<String> {
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().context("nothing was printed")?;
    Ok(line.to_owned())
}

/// Builds a package of the workspace that is a `cdylib`, and returns the path of its library. Cargo
/// does nothing if nothing has changed.
///
/// # Errors
/// When the package does not build, or is no `cdylib`.
pub fn cdylib(package: &str) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .current_dir(checkout())
        .args(["build", "--locked", "--message-format=json", "-p", package])
        .stdin(Stdio::null())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!(
            "{package} does not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["reason"] == "compiler-artifact")
        .filter(|message| {
            let kinds = message["target"]["kind"].as_array();
            let is_cdylib = kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "cdylib"));
            let manifest = message["manifest_path"].as_str().unwrap_or_default();
            is_cdylib && Path::new(manifest).starts_with(checkout())
        })
        .flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|file| file.as_str().map(PathBuf::from))
        .find(|file| {
            let extension = file.extension().and_then(|extension| extension.to_str());
            matches!(extension, Some("so" | "dylib"))
        })
        .with_context(|| format!("{package} has no cdylib"))
}

/// Returns the path of the dynamic module's library, which is built if need be.
/// `SPRAT_FILTER_MODULE` names another one.
///
/// # Errors
/// When the module does not build.
pub fn module_filter() -> anyhow::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    once(&BUILT, "SPRAT_FILTER_MODULE", || {
        cdylib("sprat-envoy-module")
    })
}

/// Returns the path of the proxy-wasm filter, which `scripts/filter.sh` builds if need be.
/// `SPRAT_FILTER_WASM` names another one.
///
/// # Errors
/// When the filter does not build.
pub fn wasm_filter() -> anyhow::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    once(&BUILT, "SPRAT_FILTER_WASM", || {
        let file = checkout().join("target/sprat-filter.wasm");
        let output = Command::new(checkout().join("scripts/filter.sh"))
            .arg(&file)
            .stdin(Stdio::null())
            .output()
            .context("cannot run scripts/filter.sh")?;
        last_line(&output).context("the proxy-wasm filter does not build")?;
        Ok(file)
    })
}

/// Returns the file that the environment variable names, or that `build` makes once for the
/// process.
fn once(
    built: &OnceLock<Result<PathBuf, String>>,
    variable: &str,
    build: impl FnOnce() -> anyhow::Result<PathBuf>,
) -> anyhow::Result<PathBuf> {
    built
        .get_or_init(|| match std::env::var_os(variable) {
            Some(file) => Ok(file.into()),
            None => build().map_err(|error| format!("{error:#}")),
        })
        .clone()
        .map_err(anyhow::Error::msg)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_path_and_a_failure_says_why() {
        let run = |script: &str| Command::new("sh").args(["-c", script]).output().unwrap();
        let path = last_line(&run("echo Installing; echo a/b")).unwrap();
        assert_eq!(path, "a/b");
        let error = last_line(&run("echo x; echo 'error: no pip' >&2; exit 1")).unwrap_err();
        assert_eq!(error.to_string(), "error: no pip");
        assert!(last_line(&run("true")).is_err());
    }

    /// Guards against an installation that takes away the binary that another test runs.
    #[test]
    fn what_is_installed_is_not_installed_again() {
        let first = find_envoy().unwrap();
        let made = std::fs::metadata(&first).unwrap().created().unwrap();
        let again = find_envoy().unwrap();
        assert_eq!(again, first);
        assert_eq!(std::fs::metadata(&again).unwrap().created().unwrap(), made);
    }

    #[test]
    fn what_does_not_build_is_told() {
        let error = cdylib("sprat-no-such-package").unwrap_err().to_string();
        assert!(error.contains("sprat-no-such-package"), "{error}");
    }
}
