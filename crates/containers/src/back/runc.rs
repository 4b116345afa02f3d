//! runc by itself, asked to make a container from images, and to remove one.

use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use base::io_error;
use rustix::process::{Pid, Signal, kill_process_group};

use super::criu_program;
use super::error::{BackError, Result};
use super::own_mounts::{in_place_of, remove_mounts};
use super::restoring::{Restore, beginning, descriptors, first_error};
use super::stdio;
use crate::command::{Said, ask};
use crate::container::ContainerId;

/// Where runc keeps its states if it is not told.
pub(super) const DEFAULT_ROOT: &str = "/run/runc";
/// How long a removal may take: runc itself waits for ten seconds for processes to end.
const DELETE_LIMIT: Duration = Duration::from_secs(30);
/// How often a runtime is looked at that works.
const AGAIN: Duration = Duration::from_millis(5);

/// A container of runc's, and how runc is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Runc<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its state directory.
    pub root: &'a Path,
    /// The container.
    pub id: &'a ContainerId,
}

impl Runc<'_> {
    /// Has runc make the container, and says the number of its first process. `started` is told the runtime's own, before it has done
    /// anything.
    pub(super) fn restore(&self, wanted: &Restore<'_>, started: impl FnOnce(&Child)) -> Result<i32> {
        self.restore_with(wanted, &[], started)
    }

    /// The same with more words for a program that has the same commands.
    pub(super) fn restore_with(
        &self,
        wanted: &Restore<'_>,
        more: &[&str],
        started: impl FnOnce(&Child),
    ) -> Result<i32> {
        const ACTION: &str = "the restore";
        let (log, pid_file) = (wanted.work.join("runtime.log"), wanted.work.join("runtime.pid"));
        for old in [&log, &pid_file, &wanted.work.join("restore.log")] {
            match fs::remove_file(old) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(io_error("remove", old)(error).into());
                }
                _ => {}
            }
        }
        let criu = criu_program::for_runtimes(wanted.criu, wanted.programs)?;
        let mut path = criu.into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let before = descriptors(wanted.images)?;
        let says = File::options().append(true).create(true).mode(0o600).open(wanted.log);
        let says = says.map_err(io_error("open", wanted.log))?;
        let end = |number: usize| {
            let before = before.get(number).map(String::as_str);
            stdio::replaced(number, before, &says).map_err(io_error("make a pipe for", wanted.log))
        };
        // Who is not root has mounts only where they go away with it anyway.
        let own_mounts = rustix::process::geteuid().is_root();
        let program = own_mounts.then(|| in_place_of(self.program, wanted.programs)).transpose()?;
        let mut command = Command::new(program.as_deref().unwrap_or(self.program));
        command.arg("--root").arg(self.root).arg("--log").arg(&log);
        command.args(["restore", "--detach", "--bundle"]).arg(wanted.bundle);
        command.arg("--image-path").arg(wanted.images).arg("--work-path").arg(wanted.work);
        command.arg("--pid-file").arg(&pid_file);
        command.args(more);
        if wanted.file_locks {
            command.arg("--file-locks");
        }
        command
            .arg(self.id.as_str())
            .env("PATH", path)
            .env_remove("CRIU_LIBS_DIR")
            .env_remove("CRIU_CONFIG_FILE");
        command.stdin(end(0)?).stdout(end(1)?).stderr(end(2)?).process_group(0);
        let mut child = command.spawn().map_err(io_error("run", self.program))?;
        // It holds the ends of the pipes that are the container's.
        drop(command);
        started(&child);
        let status = self.wait(&mut child, ACTION, wanted.limit)?;
        if !status.success() {
            let said = [beginning(&log), first_error(&wanted.work.join("restore.log"))].concat();
            return Err(self.refused(ACTION, &said));
        }
        let pid = fs::read_to_string(&pid_file).map_err(io_error("read", &pid_file))?;
        pid.trim().parse().map_err(|_| self.refused(ACTION, "it did not say which process it made"))
    }

    /// Has runc forget the container, and with `force` end what is in it first. Without, one that runs stays. It is no error if there is none.
    pub(super) fn delete(&self, force: bool) -> Result<()> {
        const ACTION: &str = "the removal";
        let state = self.root.join(self.id.as_str());
        if !state.exists() {
            return Ok(());
        }
        remove_mounts(&state, self.id)?;
        let root = self.root.to_string_lossy();
        let words = ["--root", &root, "delete"].into_iter().chain(force.then_some("--force"));
        let words: Vec<&str> = words.chain([self.id.as_str()]).collect();
        match ask("runc", self.program, &words, DELETE_LIMIT)? {
            Said::Refused(why) if state.exists() => Err(self.refused(ACTION, &why)),
            _ => Ok(()),
        }
    }

    fn wait(&self, child: &mut Child, action: &'static str, limit: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = child.try_wait().map_err(io_error("wait for", self.program))? {
                return Ok(status);
            }
            if Instant::now() >= deadline {
                // With it everybody who works for it.
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _gone = group.map(|group| kill_process_group(group, Signal::KILL));
                let _gone = child.wait();
                return Err(BackError::Slow { action, container: self.id.to_string(), limit });
            }
            std::thread::sleep(AGAIN);
        }
    }

    fn refused(&self, action: &'static str, said: &str) -> BackError {
        let said = match said.trim() {
            "" => "it gave no reason".to_owned(),
            said => said.to_owned(),
        };
        BackError::Refused { action, container: self.id.to_string(), said }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::super::runc_state::DESCRIPTORS;
    use super::*;

    /// A program in the place of runc.
    fn pretend(directory: &Path, script: &str) -> PathBuf {
        let path = directory.join("runc");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    #[test]
    fn a_removal_is_done_once_and_what_is_gone_needs_none() {
        let home = tempfile::tempdir().unwrap();
        let id = ContainerId::new("c1").unwrap();
        let program = pretend(home.path(), "echo it runs >&2; exit 1");
        let runc = Runc { program: &program, root: home.path(), id: &id };
        runc.delete(false).unwrap();
        fs::create_dir(home.path().join("c1")).unwrap();
        let error = runc.delete(false).unwrap_err();
        assert_eq!(error.to_string(), "the removal of container c1 failed: it runs");
        let program = pretend(home.path(), "[ \"$4\" = --force ] && rmdir \"$2/$5\"");
        Runc { program: &program, ..runc }.delete(true).unwrap();
        assert!(!home.path().join("c1").exists());
    }

    #[test]
    fn runc_finds_a_criu_that_closes_connections_and_loads_nothing() {
        let home = tempfile::tempdir().unwrap();
        let images = home.path().join("images");
        fs::create_dir(&images).unwrap();
        fs::write(images.join(DESCRIPTORS), r#"["/dev/null","pipe:[7]","/dev/null"]"#).unwrap();
        let real = home.path().join("the real one");
        fs::write(&real, "#!/bin/sh\necho \"$@\" > \"$OUT\"\n").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
        let out = home.path().join("out");
        let script = format!(
            "OUT={} criu swrk 3; echo said; while [ $# -gt 0 ]; do [ \"$1\" = --pid-file ] && echo 4711 > \"$2\"; shift; done",
            out.display()
        );
        let program = pretend(home.path(), &script);
        let id = ContainerId::new("c1").unwrap();
        let runc = Runc { program: &program, root: home.path(), id: &id };
        let log = home.path().join("log");
        let wanted = Restore {
            bundle: home.path(),
            images: &images,
            work: home.path(),
            criu: &real,
            programs: home.path(),
            file_locks: true,
            log: &log,
            limit: Duration::from_secs(20),
        };
        assert_eq!(runc.restore(&wanted, |_| ()).unwrap(), 4711);
        let told = fs::read_to_string(&out).unwrap();
        assert!(
            told.contains("--tcp-close") && told.contains("--libdir") && told.ends_with("swrk 3\n"),
            "{told}"
        );
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::read_to_string(&log).unwrap() != "said\n" && Instant::now() < deadline {
            std::thread::sleep(AGAIN);
        }
        assert_eq!(fs::read_to_string(&log).unwrap(), "said\n");
        let program = pretend(
            home.path(),
            "while [ $# -gt 0 ]; do [ \"$1\" = --log ] && echo no such thing > \"$2\"; shift; done; exit 1",
        );
        let error = Runc { program: &program, ..runc }.restore(&wanted, |_| ()).unwrap_err();
        assert!(error.to_string().contains("no such thing"), "{error}");
        let program = pretend(home.path(), "sleep 60");
        let slow = Restore { limit: Duration::from_millis(50), ..wanted };
        assert_eq!(Runc { program: &program, ..runc }.restore(&slow, |_| ()).unwrap_err().code(), "IJ-O043");
    }
}
