//! podman with stores and settings of its own, and a container of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::ticker::Ticker;
use super::{PREFIX, path};
use crate::live::{must, output};

const IMAGE: &str = "localhost/infinijup-bench:1";
/// Networks need the machine's; processes may be as many as they like, because the limit is a controller that not every machine has.
const SETTINGS: &str = r#"[containers]
netns = "none"
pids_limit = 0
cgroupns = "host"
log_driver = "k8s-file"
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
conmon_path = ["PREFIX/conmon"]
helper_binaries_dir = ["PREFIX"]
tmp_dir = "BASE/run/tmp"
static_dir = "BASE/libpod"
[engine.runtimes]
runc = ["PREFIX/runc"]
"#;
const STORAGE: &str = r#"[storage]
driver = "overlay"
graphroot = "BASE/storage"
runroot = "BASE/run/storage"
"#;
const POLICY: &str = r#"{ "default": [{ "type": "insecureAcceptAnything" }] }"#;

/// podman, with the image of a root directory into which this machine's `/usr` is bound.
pub(super) struct Podman {
    base: PathBuf,
}

impl Podman {
    pub(super) fn new(base: &Path) -> Result<Self> {
        let podman = Self { base: base.to_owned() };
        fs::create_dir_all(base.join(".config/containers"))?;
        fs::create_dir(base.join("run"))?;
        let place = base.display().to_string();
        for (name, text) in [("containers.conf", SETTINGS), ("storage.conf", STORAGE)] {
            fs::write(base.join(name), text.replace("BASE", &place).replace("PREFIX", PREFIX))?;
        }
        fs::write(base.join(".config/containers/policy.json"), POLICY)?;
        let layer = base.join("layer.tar");
        let root = base.join("root");
        root_directory(&root)?;
        must(Command::new("tar").arg("-cf").arg(&layer).arg("-C").arg(root).arg("."))?;
        must(podman.command().args(["import", "--quiet"]).arg(layer).arg(IMAGE))?;
        Ok(podman)
    }

    /// What tells its programs, and ours that ask it, where everything is.
    pub(super) fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("PATH", path().into()),
            ("HOME", self.base.clone()),
            ("CONTAINERS_CONF", self.base.join("containers.conf")),
            ("CONTAINERS_STORAGE_CONF", self.base.join("storage.conf")),
        ]
    }

    fn command(&self) -> Command {
        let mut command = Command::new(Path::new(PREFIX).join("podman"));
        command.env_clear().envs(self.environment()).current_dir("/").stdin(Stdio::null());
        command
    }

    /// Starts a container with so many MiB.
    pub(super) fn start(&self, name: &str, mib: u64, settings_of_criu: &Path) -> Result<Container<'_>> {
        let ticker = Ticker::new(self.base.join(name))?;
        let mut command = self.command();
        command.args(["run", "--detach", "--name", name, "--volume=/usr:/usr:ro"]);
        command.arg(format!("--volume={}:/work", ticker.directory().display()));
        command.arg(format!("--annotation=org.criu.config={}", settings_of_criu.display()));
        // It would keep our pipe open for as long as the container lives.
        command.arg(IMAGE).args(Ticker::command(mib)).stdout(Stdio::null()).stderr(Stdio::null());
        ensure!(command.status()?.success(), "podman run has failed");
        ticker.beats()?;
        Ok(Container { podman: self, name: name.to_owned(), ticker })
    }
}

/// A container of podman's, removed with this value.
pub(super) struct Container<'a> {
    podman: &'a Podman,
    name: String,
    ticker: Ticker,
}

impl Container<'_> {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn ticker(&self) -> &Ticker {
        &self.ticker
    }

    /// Its first process.
    pub(super) fn pid(&self) -> Result<i32> {
        let asked = output(self.podman.command().args(["container", "inspect", &self.name]))?;
        let seen: Value = serde_json::from_str(&asked)?;
        let pid = seen[0]["State"]["Pid"].as_i64().context("podman says no process")?;
        Ok(i32::try_from(pid)?)
    }

    /// `podman container checkpoint`; without more words the container ends.
    pub(super) fn checkpoint(&self, more: &[&str]) -> Result<()> {
        must(self.podman.command().args(["container", "checkpoint"]).args(more).arg(&self.name))
    }

    pub(super) fn restore(&self) -> Result<()> {
        let mut command = self.podman.command();
        command.args(["container", "restore", &self.name]).stdout(Stdio::null()).stderr(Stdio::null());
        ensure!(command.status()?.success(), "podman container restore has failed");
        Ok(())
    }

    /// Where it keeps the images of a checkpoint that is not exported.
    pub(super) fn images(&self) -> Result<PathBuf> {
        let words = ["container", "inspect", "--format", "{{.Id}}", &self.name];
        let id = output(self.podman.command().args(words))?;
        let kept = self.podman.base.join("storage/overlay-containers").join(id.trim());
        Ok(kept.join("userdata/checkpoint"))
    }
}

impl Drop for Container<'_> {
    fn drop(&mut self) {
        let words = ["rm", "--force", "--time", "0", &self.name];
        let _ = self.podman.command().args(words).output();
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        // A layer that is still mounted would be in the way of whoever removes the directory.
        let _ = self.command().args(["system", "reset", "--force"]).output();
    }
}

/// Directories for mounts, and names that lead into `/usr`.
pub(super) fn root_directory(to: &Path) -> Result<()> {
    for name in ["usr", "proc", "sys", "dev", "tmp", "run", "work", "etc"] {
        fs::create_dir_all(to.join(name))?;
    }
    for name in ["bin", "sbin", "lib", "lib64"] {
        symlink(Path::new("usr").join(name), to.join(name))?;
    }
    Ok(())
}
