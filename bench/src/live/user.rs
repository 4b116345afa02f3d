//! The ordinary user whom a live benchmark makes for itself: who runs the daemon, and the bare engine too.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::fs::Mode;
use rustix::process::{Pid, Signal, Uid};

use crate::live::must;

/// Users are called this and the number of the process that made them.
const NAME: &str = "ijbench";
const FILE: &str = "/etc/passwd";

/// A line of the file.
struct Entry {
    name: String,
    uid: u32,
    gid: u32,
    home: PathBuf,
}

/// Removed, with everything that still runs as this user, with this value: only ever one that a benchmark has made.
pub(crate) struct User(Entry);

impl User {
    pub(crate) fn make() -> Result<Self> {
        // What we make must be open to this user, whatever root is used to.
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        remove_those_of_earlier_runs()?;
        let name = format!("{NAME}{}", std::process::id());
        let mut add = Command::new("useradd");
        must(add.args(["--create-home", "--user-group", "--shell", "/bin/sh"]).arg(&name))?;
        let made = entries()?.into_iter().find(|entry| entry.name == name);
        made.map(Self).with_context(|| format!("{FILE} has no user {name}, who was just made"))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    pub(crate) fn uid(&self) -> Uid {
        Uid::from_raw(self.0.uid)
    }

    pub(crate) fn home(&self) -> &Path {
        &self.0.home
    }

    /// `uid=…,gid=…`, as `mount` takes it.
    pub(crate) fn mount_options(&self) -> String {
        format!("uid={},gid={}", self.0.uid, self.0.gid)
    }

    /// Gives a file or directory to this user.
    pub(crate) fn give(&self, path: &Path) -> Result<()> {
        chown(path, Some(self.0.uid), Some(self.0.gid))
            .with_context(|| format!("cannot give {} away", path.display()))
    }

    /// A program as this user, with no privilege and none to be had, and with the environment of nobody in particular.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={}", self.0.uid), format!("--regid={}", self.0.gid)]);
        command.args(["--init-groups", "--inh-caps=-all", "--no-new-privs", "--"]).arg(program);
        command.env_clear().envs(self.environment()).current_dir("/");
        command
    }

    /// What every program of this user's has in its environment.
    pub(crate) fn environment(&self) -> [(&'static str, PathBuf); 3] {
        [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".into()),
            ("HOME", self.0.home.clone()),
            ("LC_ALL", "C.UTF-8".into()),
        ]
    }

    fn processes(&self) -> Vec<Pid> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter(|pid| {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let uid = status
                .lines()
                .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next()?.parse().ok());
            uid == Some(self.0.uid)
        })
        .filter_map(Pid::from_raw)
        .collect()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let begun = Instant::now();
        loop {
            let left = self.processes();
            if left.is_empty() || begun.elapsed() > Duration::from_secs(10) {
                break;
            }
            for pid in left {
                // It may have ended meanwhile.
                let _ = rustix::process::kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // Images that its daemon kept there for a way back; the next user may get the same number.
        let of_user = format!("infinijup-{}-", self.0.uid);
        for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&of_user) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        // The next run tries again.
        let _ = Command::new("userdel").args(["--remove", "--force", &self.0.name]).output();
    }
}

/// Of benchmarks that were killed.
fn remove_those_of_earlier_runs() -> Result<()> {
    for entry in entries()? {
        let maker = entry.name.strip_prefix(NAME).and_then(|pid| pid.parse::<u32>().ok());
        if maker.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            drop(User(entry));
        }
    }
    Ok(())
}

fn entries() -> Result<Vec<Entry>> {
    let text = fs::read_to_string(FILE).with_context(|| format!("cannot read {FILE}"))?;
    Ok(text.lines().filter_map(read).collect())
}

/// Name, password, uid, gid, comment, home, shell.
fn read(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, _] = fields[..] else { return None };
    Some(Entry { name: name.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()?, home: home.into() })
}
