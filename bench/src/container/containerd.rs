//! containerd with a state of its own, and a container that `ctr` has started.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::podman::root_directory;
use super::ticker::Ticker;
use super::{PREFIX, path};
use crate::live::{must, output};

const SETTINGS: &str = r#"version = 3
root = "BASE/root"
state = "BASE/state"
disabled_plugins = [
    "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri",
    "io.containerd.podsandbox.controller.v1.podsandbox", "io.containerd.internal.v1.opt",
]
[grpc]
address = "BASE/sock"
[ttrpc]
address = "BASE/ttrpc"
[debug]
address = ""
"#;

/// The daemon and its container, both gone with this value.
pub(super) struct Containerd {
    base: PathBuf,
    daemon: Child,
    ticker: Ticker,
    /// Of the container. Its cgroup and what runc notes of it are called after it, too, and outlive a run that is killed.
    name: String,
}

impl Containerd {
    /// Starts both, the container with so many MiB.
    pub(super) fn start(base: &Path, mib: u64, settings_of_criu: &Path) -> Result<Self> {
        fs::create_dir(base)?;
        let settings = base.join("config.toml");
        fs::write(&settings, SETTINGS.replace("BASE", &base.display().to_string()))?;
        let log = fs::File::create(base.join("log"))?;
        let ticker = Ticker::new(base.join("work"))?;
        let daemon = program("containerd")
            .arg("--config")
            .arg(settings)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("cannot start containerd")?;
        let name = format!("theirs-{}", std::process::id());
        let mut started = Self { base: base.to_owned(), daemon, ticker, name };
        started.wait_for_answer()?;
        let root = base.join("rootfs");
        root_directory(&root)?;
        let mut command = started.ctr();
        command.args(["run", "--detach", "--null-io", "--rootfs"]);
        command.arg(format!("--annotation=org.criu.config={}", settings_of_criu.display()));
        for (here, inside, how) in
            [(Path::new("/usr"), "/usr", "ro"), (started.ticker.directory(), "/work", "rw")]
        {
            let mount = format!("--mount=type=bind,src={},dst={inside},options=rbind:{how}", here.display());
            command.arg(mount);
        }
        must(command.arg(root).arg(&started.name).args(Ticker::command(mib)))?;
        started.ticker.beats()?;
        Ok(started)
    }

    fn ctr(&self) -> Command {
        let mut command = program("ctr");
        command.arg("--address").arg(self.base.join("sock")).stdin(Stdio::null());
        command
    }

    fn wait_for_answer(&mut self) -> Result<()> {
        let begun = Instant::now();
        while !self.ctr().arg("version").output()?.status.success() {
            if self.daemon.try_wait()?.is_some() || begun.elapsed() > Duration::from_secs(60) {
                let log = fs::read_to_string(self.base.join("log")).unwrap_or_default();
                bail!("containerd does not answer; its log: {log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    pub(super) fn ticker(&self) -> &Ticker {
        &self.ticker
    }

    /// The first process of the container.
    pub(super) fn pid(&self) -> Result<i32> {
        let listed = output(self.ctr().args(["tasks", "list"]))?;
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(self.name.as_str()));
        let pid = line.and_then(|line| line.split_whitespace().nth(1)).context("ctr lists no such task")?;
        Ok(pid.parse()?)
    }

    /// `ctr tasks checkpoint`; the container goes on.
    pub(super) fn checkpoint(&self, images: &Path) -> Result<()> {
        let work = self.base.join("criu");
        let mut command = self.ctr();
        command.args(["tasks", "checkpoint", "--image-path"]).arg(images).arg("--work-path").arg(work);
        must(command.arg(&self.name))
    }
}

impl Drop for Containerd {
    fn drop(&mut self) {
        let _ = self.ctr().args(["tasks", "delete", "--force", &self.name]).output();
        let _ = self.ctr().args(["containers", "delete", &self.name]).output();
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn program(name: &str) -> Command {
    let mut command = Command::new(Path::new(PREFIX).join(name));
    command.env_clear().env("PATH", path()).env("HOME", "/").current_dir("/");
    command
}
