//! A container of runc's that is paused, for `detect`: how long it takes to find it and to say who holds it still.
//!
//! Its root is an empty directory with this machine's `/usr` bound into it, so it needs no image.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use containers::{Kind, Narrowed, Places, Query};
use gpu_detect::Detector;
use serde_json::json;

use crate::live::Place;

/// Where scripts/install-containers.sh puts the runtimes.
pub(crate) const RUNC: &str = "/opt/infinijup/containers/bin/runc";

/// A container that is paused until this is dropped.
pub(crate) struct Paused {
    place: Place,
    name: String,
}

impl Paused {
    /// Starts and pauses it.
    pub(crate) fn start() -> Result<Self> {
        let place = Place::new("paused")?;
        let root = place.dir.join("bundle/rootfs");
        for name in ["usr", "proc", "dev"] {
            fs::create_dir_all(root.join(name))?;
        }
        for name in ["bin", "lib", "lib64"] {
            symlink(Path::new("usr").join(name), root.join(name))?;
        }
        let name = format!("bench-{}", std::process::id());
        let specification = json!({
            "ociVersion": "1.0.2",
            "process": { "user": { "uid": 0, "gid": 0 }, "args": ["/usr/bin/sleep", "3600"], "cwd": "/", "env": ["PATH=/usr/bin"] },
            "root": { "path": "rootfs" },
            "mounts": [
                { "destination": "/proc", "type": "proc", "source": "proc" },
                { "destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"] },
            ],
            "linux": {
                "cgroupsPath": format!("/infinijup-{name}"),
                "namespaces": [{ "type": "pid" }, { "type": "mount" }],
            },
        });
        fs::write(place.dir.join("bundle/config.json"), specification.to_string())?;
        let paused = Self { place, name };
        paused.runc(&["run", "--detach", "--bundle", "bundle", &paused.name])?;
        paused.runc(&["pause", &paused.name])?;
        Ok(paused)
    }

    fn state(&self) -> PathBuf {
        self.place.dir.join("state")
    }

    fn runc(&self, words: &[&str]) -> Result<()> {
        let ended = Command::new(RUNC)
            .arg("--root")
            .arg(self.state())
            .args(words)
            .current_dir(&self.place.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .context("cannot start runc")?;
        ensure!(ended.success(), "runc {} ended with {ended}", words.join(" "));
        Ok(())
    }

    /// Finds it by asking runc, and looks at it, as the command does.
    pub(crate) fn look(&self, detector: &Detector) -> Result<()> {
        let narrowed =
            Narrowed { kind: Some(Kind::Runc), runtime_root: Some(self.state()), ..Narrowed::default() };
        let mut places = Places::here(&narrowed);
        // Whatever is in the path: this one made it.
        places.runtimes = vec![containers::Runtime::Runc { program: RUNC.into(), root: self.state() }];
        let container = containers::find(&places, &Query::parse(&self.name)?)?;
        let seen = containers::examine(&container, detector)?;
        ensure!(
            seen.held.len() == 1 && !seen.can_be_captured,
            "it was not seen to be paused: {:?}",
            seen.held
        );
        Ok(())
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = self.runc(&["resume", &self.name]);
        let _ = self.runc(&["delete", "--force", &self.name]);
    }
}
