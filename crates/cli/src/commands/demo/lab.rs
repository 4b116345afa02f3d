//! The JupyterLab that the demo runs in: found, started, waited for.
//!
//! A server of Jupyter's tells where it listens, and with which token, in a file of its user's named after its process. It opens the browser
//! itself, by a file too, so that the token stands on no command line.

use std::fs::{self, OpenOptions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

use super::folder::{Folder, NOTEBOOK};
use crate::commands::daemon::starter;
use crate::error::CliError;

const PROGRAM: &str = "jupyter-lab";
/// Whether both packages are there, without loading them.
const BOTH: &str = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, ['jupyterlab', 'infinijup'])))";
/// How long it may take until it listens. A first start compiles every file of its packages.
const START: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(100);

pub(super) struct Lab {
    program: PathBuf,
}

/// What a server tells of itself.
#[derive(Deserialize)]
struct Told {
    url: String,
    token: String,
}

impl Lab {
    /// The JupyterLab beside this program, or the first in the path. It must have our package.
    pub(super) fn find() -> Result<Self, CliError> {
        let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.to_owned()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path).filter(|one| one.is_absolute()).collect::<Vec<_>>();
        let found = beside.into_iter().chain(path).map(|directory| directory.join(PROGRAM));
        let Some(program) = found.into_iter().find(|path| path.is_file()) else {
            return Err(CliError::NoLab {
                why: "JupyterLab is not installed where this command is, nor anywhere in the path".to_owned(),
            });
        };
        match python_of(&program) {
            Some(python) if !has_both(&python) => Err(CliError::NoLab {
                why: format!("the JupyterLab at `{}` does not have infinijup", program.display()),
            }),
            _ => Ok(Self { program }),
        }
    }

    /// Starts it and waits until it listens.
    pub(super) fn start(&self, folder: &Folder, log: &Path, browser: bool) -> Result<Running> {
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let mut options = OpenOptions::new();
        // The token is in it.
        options.write(true).create(true).truncate(true).mode(0o600).custom_flags(nofollow);
        let file = options.open(log).with_context(|| format!("cannot write `{}`", log.display()))?;
        let mut command = Command::new(&self.program);
        command.arg("--InfinijupExtension.at_exit=suspend");
        if !browser {
            command.arg("--no-browser");
        }
        command.arg(folder.path.join(NOTEBOOK)).current_dir(&folder.path);
        starter::without_manager(&mut command);
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        // Ctrl-C is for us; we tell it.
        command.process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start `{}`", self.program.display()))?;
        let mut running = Running { child, log: log.to_owned(), address: String::new() };
        running.address = running.until_it_listens()?;
        Ok(running)
    }
}

/// The Python that a script is for, as its first line says; `None` if that is not told so.
fn python_of(program: &Path) -> Option<PathBuf> {
    let mut line = String::new();
    BufReader::new(fs::File::open(program).ok()?.take(4096)).read_line(&mut line).ok()?;
    let python = PathBuf::from(line.strip_prefix("#!")?.trim());
    (python.is_file() && python.file_name()?.to_string_lossy().starts_with("python")).then_some(python)
}

fn has_both(python: &Path) -> bool {
    let ran = Command::new(python).args(["-c", BOTH]).stdin(Stdio::null()).output();
    ran.is_ok_and(|ran| ran.status.success())
}

/// A server. It ends with this value, if it has not ended before.
pub(super) struct Running {
    child: Child,
    log: PathBuf,
    /// Of the notebook, with the token.
    pub(super) address: String,
}

impl Running {
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn until_it_listens(&mut self) -> Result<String> {
        let file = runtime_directory()?.join(format!("jpserver-{}.json", self.pid()));
        let deadline = Instant::now() + START;
        loop {
            // It may be half written.
            if let Some(told) =
                fs::read(&file).ok().and_then(|text| serde_json::from_slice::<Told>(&text).ok())
            {
                let token =
                    if told.token.is_empty() { String::new() } else { format!("?token={}", told.token) };
                return Ok(format!("{}lab/tree/{NOTEBOOK}{token}", told.url));
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(self.failed(format!("it ended at once ({status})")).into());
            }
            if Instant::now() > deadline {
                return Err(self.failed(format!("it does not listen after {} s", START.as_secs())).into());
            }
            sleep(LOOK);
        }
    }

    /// Until it ends, by itself or because the user wants it to.
    pub(super) fn wait(mut self) -> Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot wait for events")?;
        runtime.block_on(async {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut end = signal(SignalKind::terminate())?;
            let mut hang_up = signal(SignalKind::hangup())?;
            let mut looks = tokio::time::interval(LOOK);
            let mut told = false;
            loop {
                tokio::select! {
                    _ = interrupt.recv() => self.tell(&mut told)?,
                    _ = end.recv() => self.tell(&mut told)?,
                    _ = hang_up.recv() => self.tell(&mut told)?,
                    _ = looks.tick() => {}
                }
                match self.child.try_wait()? {
                    None => {}
                    Some(status) if told || status.success() => return Ok(()),
                    Some(status) => return Err(self.failed(format!("it ended ({status})")).into()),
                }
            }
        })
    }

    /// To end, which takes as long as its kernels take to be put to sleep; whoever says it twice does not want to wait.
    fn tell(&mut self, told: &mut bool) -> io::Result<()> {
        if std::mem::replace(told, true) {
            return self.child.kill();
        }
        let pid = Pid::from_child(&self.child);
        Ok(kill_process(pid, Signal::TERM)?)
    }

    fn failed(&self, why: String) -> CliError {
        let lines = starter::last_lines((&self.log, 0)).unwrap_or_default();
        CliError::LabFailed { why, log: self.log.clone(), lines }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Nobody would know of it.
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// Where Jupyter's servers tell of themselves.
fn runtime_directory() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("JUPYTER_RUNTIME_DIR").filter(|named| !named.is_empty()) {
        return Ok(named.into());
    }
    let home = std::env::home_dir().context("cannot tell which directory is your home")?;
    let env: Vec<_> = std::env::vars_os().collect();
    Ok(jupyter_bridge::data_directory(&home, &env).join("runtime"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(directory: &Path, text: &str) -> PathBuf {
        let path = directory.join(PROGRAM);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn one_that_ends_at_once_has_its_last_words_shown() {
        let home = tempfile::tempdir().unwrap();
        let program = script(home.path(), "#!/bin/sh\necho 'Running as root is not recommended'\nexit 1\n");
        let folder = Folder::prepare(&home.path().join("demo"), false).unwrap();
        let log = home.path().join("demo.log");
        let error = Lab { program }.start(&folder, &log, false).err().unwrap();
        let Some(CliError::LabFailed { why, lines, .. }) = error.downcast_ref::<CliError>() else {
            panic!("{error}")
        };
        assert!(why.contains("exit status: 1"), "{why}");
        assert_eq!(*lines, ["Running as root is not recommended"]);
        assert_eq!(fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_first_line_of_a_script_names_its_python() {
        let home = tempfile::tempdir().unwrap();
        let python = home.path().join("python3.11");
        fs::write(&python, "").unwrap();
        let named = script(home.path(), &format!("#!{}\nimport sys\n", python.display()));
        assert_eq!(python_of(&named), Some(python));
        for other in ["#!/bin/sh\n", "#!/nowhere/python3\n", "import sys\n", ""] {
            assert_eq!(python_of(&script(home.path(), other)), None, "{other:?}");
        }
    }
}
