//! The paths of Envoy's binary and of the filters built for it.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
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

/// Returns the path of the dynamic module's library, which Cargo has built beside the test that
/// asks, as a package that it depends on. `SPRAT_FILTER_MODULE` names another one.
///
/// # Errors
/// When the program that asks is no test of this package.
pub fn module_filter() -> anyhow::Result<PathBuf> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    once(&BUILT, "SPRAT_FILTER_MODULE", || {
        let file = format!("{DLL_PREFIX}sprat_envoy{DLL_SUFFIX}");
        let beside = std::env::current_exe()?.with_file_name(file);
        if !beside.exists() {
            bail!(
                "{} is missing: run `cargo test -p sprat-filter-e2e`",
                beside.display()
            );
        }
        Ok(beside)
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
    fn the_module_is_beside_its_tests() {
        assert!(module_filter().unwrap().is_file());
    }
}
