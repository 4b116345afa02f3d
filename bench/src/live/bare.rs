//! A kernel in a box made with the tools of the system, dumped and restored by `criu` command lines.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::live::{CRIU, PYTHON, Place, must};

const INSIDE: &str = include_str!("box.sh");
/// CRIU refuses a tree with a descriptor from outside, and whoever started us may have left us some.
const WITHOUT_DESCRIPTORS: &str =
    "import os, sys; os.closerange(3, 4096); os.execvp(sys.argv[1], sys.argv[1:])";

/// One box; what runs in it ends with this value.
pub(crate) struct BareBox {
    name: String,
    place: Place,
    launcher: Option<Child>,
    pid: Option<i32>,
}

impl BareBox {
    /// A box with nothing in it: a network namespace and a root.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let place = Place::new(name)?;
        for dir in ["root", "shared", "place"] {
            fs::create_dir(place.dir.join(dir))?;
        }
        let name = format!("ijbench{}{name}", std::process::id());
        must(Command::new("ip").args(["netns", "add", &name]))?;
        let new = Self { name, place, launcher: None, pid: None };
        must(Command::new("ip").args(["-n", &new.name, "link", "set", "lo", "up"]))?;
        must(Command::new("mount").arg("--bind").arg("/").arg(new.root()))?;
        must(Command::new("mount").arg("--make-private").arg(new.root()))?;
        Ok(new)
    }

    /// Starts a kernel in it.
    pub(crate) fn launch_kernel(&mut self) -> Result<()> {
        let ports = [51001, 51002, 51003, 51004, 51005];
        let connection = json!({
            "ip": "127.0.0.1", "transport": "tcp", "key": "bench", "signature_scheme": "hmac-sha256", "kernel_name": "",
            "shell_port": ports[0], "iopub_port": ports[1], "stdin_port": ports[2], "control_port": ports[3],
            "hb_port": ports[4],
        });
        fs::write(self.connection_file(), connection.to_string())?;
        let file = self.place.dir.join("place/c.json");
        let mut kernel = Command::new(PYTHON);
        kernel.args(["-m", "ipykernel_launcher", "--HistoryManager.enabled=False", "-f"]).arg(file);
        self.launch(&kernel, "")
    }

    /// Starts a command in it, with the command's environment on top of ours. `nodes` are further devices, a line each: name,
    /// major, minor.
    pub(crate) fn launch(&mut self, command: &Command, nodes: &str) -> Result<()> {
        let launcher = Command::new(PYTHON)
            .args(["-c", WITHOUT_DESCRIPTORS, "ip", "netns", "exec", &self.name])
            .args(["unshare", "--mount", "--pid", "--fork", "--ipc", "sh", "-c", INSIDE, "sh"])
            .arg(self.root())
            .arg(self.place.dir.join("shared"))
            .arg(self.place.dir.join("place"))
            .arg(command.get_program())
            .args(command.get_args())
            .envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))))
            .env("BOX_NODES", nodes)
            .spawn()
            .context("cannot launch a bare box")?;
        let pid = launcher.id();
        self.launcher = Some(launcher);
        let begun = Instant::now();
        let children = format!("/proc/{pid}/task/{pid}/children");
        while self.pid.is_none() {
            ensure!(begun.elapsed() < Duration::from_secs(20), "the bare box did not start");
            let text = fs::read_to_string(&children).context("the bare box has ended")?;
            self.pid = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Its process 1, as the machine numbers it.
    pub(crate) fn pid(&self) -> Result<i32> {
        self.pid.context("nothing runs in the bare box")
    }

    /// What runs in it writes its output here.
    pub(crate) fn log(&self) -> PathBuf {
        self.place.dir.join("shared/log")
    }

    /// Where clients in [`BareBox::namespace`] find the kernel.
    pub(crate) fn connection_file(&self) -> PathBuf {
        self.place.dir.join("shared/c.json")
    }

    /// The network namespace by its name.
    pub(crate) fn namespace(&self) -> &str {
        &self.name
    }

    fn root(&self) -> PathBuf {
        self.place.dir.join("root")
    }

    /// `criu dump` into a directory, which is made.
    pub(crate) fn dump(&mut self, images: &Path, leave_running: bool) -> Result<()> {
        fs::create_dir_all(images)?;
        let pid = self.pid()?;
        let network = fs::metadata(format!("/proc/{pid}/ns/net"))?.ino();
        let mut command = Command::new(CRIU);
        command.args(["dump", "-t", &pid.to_string(), "-o", "dump.log", "-D"]).arg(images);
        command.args(["--tcp-close", "--network-lock", "skip", "--file-locks", "--manage-cgroups=ignore"]);
        command.args([
            "--link-remap",
            "--ghost-limit",
            "1G",
            "--external",
            &format!("net[{network}]:extNet"),
        ]);
        command.args(["--external", &format!("mnt[{}]:shared", self.place.dir.join("place").display())]);
        if leave_running {
            command.arg("--leave-running");
        }
        must(&mut command)?;
        if !leave_running {
            self.pid = None;
            self.reap();
        }
        Ok(())
    }

    /// `criu restore` into this box, whose namespaces are ready.
    pub(crate) fn restore(&mut self, images: &Path) -> Result<()> {
        let pid_file = self.place.dir.join("shared/pid");
        let _ = fs::remove_file(&pid_file);
        // The shell opens the namespace as descriptor 9; CRIU takes it by number.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$@\" 9</run/netns/\"$0\"", &self.name, CRIU, "restore", "-d", "-o"]);
        command.arg(self.place.dir.join("restore.log")).arg("-D").arg(images).arg("--root").arg(self.root());
        command.arg("--pidfile").arg(&pid_file);
        command.args([
            "--tcp-close",
            "--manage-cgroups=ignore",
            "--link-remap",
            "--inherit-fd",
            "fd[9]:extNet",
        ]);
        command.args(["--external", &format!("mnt[shared]:{}", self.place.dir.join("shared").display())]);
        must(&mut command).with_context(|| {
            let log = fs::read_to_string(self.place.dir.join("restore.log")).unwrap_or_default();
            log.lines().filter(|line| line.contains("Error")).collect::<Vec<_>>().join("; ")
        })?;
        self.pid = Some(fs::read_to_string(&pid_file)?.trim().parse().context("no pid in the pid file")?);
        Ok(())
    }

    /// Takes over what a restore in another box needs: the connection file and the log that is open.
    pub(crate) fn share(&self, with: &Self) -> Result<()> {
        for name in ["c.json", "log"] {
            fs::copy(self.place.dir.join("shared").join(name), with.place.dir.join("shared").join(name))?;
        }
        Ok(())
    }

    /// Ends what runs in it.
    pub(crate) fn kill(&mut self) {
        if let Some(pid) = self.pid.take().and_then(rustix::process::Pid::from_raw) {
            // Process 1 of its namespace: all others end with it. It may have ended already.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            let begun = Instant::now();
            let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
            while self.launcher.is_none()
                && fs::read_to_string(&path).is_ok_and(|stat| !has_ended(&stat))
                && begun.elapsed() < Duration::from_secs(10)
            {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.reap();
    }

    fn reap(&mut self) {
        if let Some(mut launcher) = self.launcher.take() {
            let _ = launcher.wait();
        }
    }
}

/// Whether a process with this `/proc/PID/stat` has ended, and all of its pid namespace with it if it was process 1 there.
///
/// What `criu restore -d` made belongs to the machine's init, which may take a second to reap it: to wait for that would
/// count another program's time as CRIU's. The first thread shows as a zombie while others still end, so it has to be the
/// only one left: the last thread of a process 1 goes when everything in the namespace has gone.
fn has_ended(stat: &str) -> bool {
    // The name before the bracket may hold anything. proc_pid_stat(5): state is field 3, num_threads field 20.
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next();
    let threads = fields.nth(16);
    matches!(state, Some("Z" | "X")) && matches!(threads, Some("0" | "1"))
}

impl Drop for BareBox {
    fn drop(&mut self) {
        self.kill();
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

#[cfg(test)]
mod tests {
    use super::has_ended;

    #[test]
    fn a_zombie_with_no_thread_left_has_ended() {
        let stat = |state: &str, threads: u32| {
            format!("41 (a) Z 1 (b) {state} 1 41 41 0 -1 4228364 0 0 0 0 0 0 0 0 20 0 {threads} 0 900 0 0")
        };
        assert!(has_ended(&stat("Z", 1)));
        assert!(!has_ended(&stat("Z", 2)), "its other threads still end");
        assert!(!has_ended(&stat("S", 1)));
        assert!(!has_ended(""));
    }

    #[test]
    fn the_kernel_says_it_so() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let begun = std::time::Instant::now();
        let path = format!("/proc/{}/stat", child.id());
        while !has_ended(&std::fs::read_to_string(&path).unwrap()) {
            assert!(begun.elapsed().as_secs() < 20);
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        child.wait().unwrap();
    }
}
