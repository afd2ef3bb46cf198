//! A process of Envoy, started and observed by a test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::binary::envoy_binary;
use crate::{Bootstrap, Client, PATIENCE, Protocol};

/// The time between two looks at a state that is to change.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The bytes of the log's end that an error shows.
const LOG_SHOWN_BYTES: usize = 8192;

/// A running Envoy, which is killed when this is dropped.
#[derive(Debug)]
pub struct Envoy {
    child: Child,
    admin: SocketAddr,
    directory: TempDir,
    log: PathBuf,
}

impl Envoy {
    /// Starts Envoy, and waits until it serves.
    ///
    /// # Errors
    /// When there is no Envoy, or it does not come up. The error has the end of its log, which says
    /// what it refused.
    pub async fn start(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        let lds = directory.path().join("lds.json");
        let whole = if bootstrap.listener_by_file {
            fs::write(&lds, bootstrap.render_lds().to_string())?;
            bootstrap.render(Some(&lds.to_string_lossy()))
        } else {
            bootstrap.render(None)
        };
        let file = directory.path().join("envoy.json");
        fs::write(&file, serde_json::to_string_pretty(&whole)?)?;
        Self::launch(directory, &file, bootstrap.workers, &bootstrap.environment).await
    }

    /// Starts Envoy with the text of a configuration in YAML or JSON. The configuration's admin
    /// listener must be on port 0 or a free one.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_text(
        text: &str,
        workers: u16,
        environment: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let directory = TempDir::new()?;
        let file = directory.path().join("envoy.yaml");
        fs::write(&file, text)?;
        Self::launch(directory, &file, workers, environment).await
    }

    async fn launch(
        directory: TempDir,
        file: &Path,
        workers: u16,
        environment: &[(String, String)],
    ) -> anyhow::Result<Self> {
        let binary = envoy_binary()?;
        let log = directory.path().join("envoy.log");
        let admin_path = directory.path().join("admin");
        let child = Command::new(&binary)
            .arg("-c")
            .arg(file)
            .args(["--concurrency", &workers.to_string()])
            .args(["--disable-hot-restart", "--reject-unknown-dynamic-fields"])
            .args(["--log-level", "info"])
            .arg("--admin-address-path")
            .arg(&admin_path)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", binary.display()))?;
        let mut envoy = Self {
            child,
            admin: SocketAddr::from(([127, 0, 0, 1], 0)),
            directory,
            log,
        };
        envoy.wait_until_ready(&admin_path).await?;
        Ok(envoy)
    }

    async fn wait_until_ready(&mut self, admin_path: &Path) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("Envoy ended with {status}:\n{}", self.log_end());
            }
            ensure!(
                Instant::now() < deadline,
                "Envoy is not ready within {PATIENCE:?}:\n{}",
                self.log_end()
            );
            let told = fs::read_to_string(admin_path).unwrap_or_default();
            if let Ok(admin) = told.trim().parse() {
                self.admin = admin;
                let ready = self.admin("/ready").await;
                if ready.is_ok_and(|text| text.trim() == "LIVE") {
                    return Ok(());
                }
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the address at which a listener accepts connections.
    ///
    /// # Errors
    /// When there is no listener of that name within [`PATIENCE`].
    pub async fn listener(&self, name: &str) -> anyhow::Result<SocketAddr> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let listeners: Value =
                serde_json::from_str(&self.admin("/listeners?format=json").await?)?;
            let listeners = listeners["listener_statuses"].as_array().cloned();
            let found = listeners
                .unwrap_or_default()
                .into_iter()
                .find(|listener| listener["name"] == name);
            if let Some(found) = found {
                let address = &found["local_address"]["socket_address"];
                let host = address["address"].as_str().unwrap_or_default();
                let port = u16::try_from(address["port_value"].as_u64().unwrap_or(0))?;
                return Ok(SocketAddr::new(host.parse()?, port));
            }
            ensure!(
                Instant::now() < deadline,
                "there is no listener {name}:\n{}",
                self.log_end()
            );
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the admin listener's answer to a GET.
    ///
    /// # Errors
    /// When the admin listener does not answer.
    pub async fn admin(&self, path: &str) -> anyhow::Result<String> {
        let client = Client::connect(self.admin, Protocol::Http1).await?;
        let response = client.get(path).await?;
        Ok(String::from_utf8_lossy(&response.body).into_owned())
    }

    /// Returns the values of all counters and gauges, by name.
    ///
    /// # Errors
    /// When the admin listener does not answer.
    pub async fn stats(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let text = self.admin("/stats").await?;
        Ok(text
            .lines()
            .filter_map(|line| line.split_once(": "))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect())
    }

    /// Waits until the value of a counter or gauge satisfies `holds`, and returns it. One that does
    /// not exist counts as 0.
    ///
    /// # Errors
    /// When the value does not satisfy it within [`PATIENCE`].
    pub async fn wait_for_stat(
        &self,
        name: &str,
        holds: impl Fn(u64) -> bool,
    ) -> anyhow::Result<u64> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let value = self.stats().await?.get(name).copied().unwrap_or(0);
            if holds(value) {
                return Ok(value);
            }
            ensure!(Instant::now() < deadline, "{name} is still {value}");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Replaces the listener of a running Envoy, and waits until it is in place. Envoy must have
    /// been started with `listener_by_file`.
    ///
    /// # Errors
    /// When Envoy refuses the listener, with the end of its log.
    pub async fn replace_listener(&self, bootstrap: &Bootstrap) -> anyhow::Result<()> {
        let outcome = |stats: &BTreeMap<String, u64>| {
            let count = |name| stats.get(name).copied().unwrap_or(0);
            (
                count("listener_manager.lds.update_success"),
                count("listener_manager.lds.update_rejected"),
            )
        };
        let before = outcome(&self.stats().await?);
        // Envoy looks when a file is moved there, so that it never reads half.
        let next = self.directory.path().join("lds.next");
        fs::write(&next, bootstrap.render_lds().to_string())?;
        fs::rename(&next, self.directory.path().join("lds.json"))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let after = outcome(&self.stats().await?);
            if after.1 > before.1 {
                bail!("Envoy refused the listener:\n{}", self.log_end());
            }
            if after.0 > before.0 {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "Envoy did not take up the listener:\n{}",
                self.log_end()
            );
            sleep(LOOK_EVERY).await;
        }
    }

    /// Returns the resident memory of the process, in bytes.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn memory_bytes(&self) -> anyhow::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes: u64 = kilobytes.context("no VmRSS")?.parse()?;
        Ok(kilobytes * 1024)
    }

    /// Returns the identifier of the process.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn id(&self) -> anyhow::Result<u32> {
        self.child.id().context("Envoy has ended")
    }

    /// Returns the whole log of Envoy so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn log_end(&self) -> String {
        let log = self.log();
        let mut from = log.len().saturating_sub(LOG_SHOWN_BYTES);
        while !log.is_char_boundary(from) {
            from += 1;
        }
        log[from..].to_owned()
    }

    /// Checks that Envoy still runs, asks it to end, and waits for that.
    ///
    /// # Errors
    /// When it had crashed, ends with a failure, or does not end.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("Envoy had ended with {status}:\n{}", self.log_end());
        }
        let told = Command::new("kill")
            .args(["-s", "TERM", &self.id()?.to_string()])
            .status()
            .await?;
        ensure!(told.success(), "cannot signal Envoy");
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => {
                let status = status?;
                ensure!(
                    status.success(),
                    "Envoy ended with {status}:\n{}",
                    self.log_end()
                );
                Ok(())
            }
            Err(_) => bail!("Envoy does not end:\n{}", self.log_end()),
        }
    }
}
