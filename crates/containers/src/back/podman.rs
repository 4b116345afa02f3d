//! podman, asked to bring a container back from images, and to notice that one has ended. The container itself stays.
//!
//! `podman container restore` takes the images from the directory `checkpoint` beside the specification of a container that has ended. A link
//! there leads to ours; podman removes it afterwards. conmon then calls `runc restore`, with a search path of its own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::io_error;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::{BackError, Result};
use super::own_mounts::{in_place_of, remove_mounts, write_program};
use super::restoring::{Restore, first_error};
use super::runc::DEFAULT_ROOT;
use crate::command::{Said, ask_with};
use crate::container::ContainerId;

/// With this variable podman is told of settings that add to its own.
const SETTINGS: &str = "CONTAINERS_CONF_OVERRIDE";
/// How long podman may take to notice that a container has ended.
const LIMIT: Duration = Duration::from_secs(60);

/// A container of podman's, and how it is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Podman<'a> {
    /// The program.
    pub program: &'a Path,
    /// Options before its command.
    pub options: &'a [String],
    /// The container.
    pub id: &'a ContainerId,
}

impl Podman<'_> {
    /// Where runc keeps the state of the container: podman does not tell it.
    pub(super) fn state(&self) -> &Path {
        Path::new(DEFAULT_ROOT)
    }

    pub(super) fn restore(&self, wanted: &Restore<'_>) -> Result<i32> {
        const ACTION: &str = "the restore";
        let settings = self.settings(wanted.programs)?;
        let link = wanted.bundle.join("checkpoint");
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("remove", &link)(error).into());
            }
            _ => std::os::unix::fs::symlink(wanted.images, &link).map_err(io_error("link", &link))?,
        }
        let words = ["container", "restore"].into_iter().chain(wanted.file_locks.then_some("--file-locks"));
        let words: Vec<&str> = words.chain([self.id.as_str()]).collect();
        let asked = self.ask_with(&words, &[(SETTINGS, &settings)], wanted.limit);
        // It is there still if podman never came so far.
        let _gone = fs::remove_file(&link);
        if let Said::Refused(why) = asked? {
            let said = why + &first_error(&wanted.bundle.join("restore.log"));
            return Err(self.refused(ACTION, said));
        }
        let pid = match self
            .ask(&["container", "inspect", "--format", "{{.State.Pid}}", self.id.as_str()], LIMIT)?
        {
            Said::Answer(text) => String::from_utf8_lossy(&text).trim().parse().ok().filter(|pid| *pid > 0),
            Said::Refused(why) => return Err(self.refused(ACTION, why)),
        };
        pid.ok_or_else(|| self.refused(ACTION, "it does not say which process it made".to_owned()))
    }

    /// Has podman notice the end of the container; with `force` it is ended first.
    pub(super) fn delete(&self, force: bool) -> Result<()> {
        remove_mounts(&self.state().join(self.id.as_str()), self.id)?;
        if force {
            // One that has ended already cannot be killed.
            self.ask(&["kill", "--signal", "KILL", self.id.as_str()], LIMIT)?;
            self.ask(&["wait", self.id.as_str()], LIMIT)?;
        }
        match self.ask(&["container", "cleanup", self.id.as_str()], LIMIT)? {
            Said::Refused(why) if !why.contains("no such container") => Err(self.refused("the removal", why)),
            _ => Ok(()),
        }
    }

    /// What it says of a container, as far as that is read.
    pub(crate) fn inspect<T: DeserializeOwned>(&self, which: &str, action: &'static str) -> Result<T> {
        let said = match self.ask(&["container", "inspect", which], LIMIT)? {
            Said::Answer(said) => said,
            Said::Refused(why) => return Err(self.refused(action, why)),
        };
        let found: Vec<T> =
            serde_json::from_slice(&said).map_err(|error| self.refused(action, error.to_string()))?;
        found.into_iter().next().ok_or_else(|| self.refused(action, "podman says nothing of it".to_owned()))
    }

    /// Settings of podman's with which the runtime of the container has mounts of its own when it restores.
    fn settings(&self, programs: &Path) -> Result<PathBuf> {
        const ACTION: &str = "the restore";
        let one_line = |words: &[&str]| match self.ask(words, LIMIT)? {
            Said::Answer(text) => Ok(String::from_utf8_lossy(&text).trim().to_owned()),
            Said::Refused(why) => Err(self.refused(ACTION, why)),
        };
        let name = one_line(&["container", "inspect", "--format", "{{.OCIRuntime}}", self.id.as_str()])?;
        let real = one_line(&["--runtime", &name, "info", "--format", "{{.Host.OCIRuntime.Path}}"])?;
        if name.is_empty() || !real.starts_with('/') {
            return Err(self.refused(ACTION, "podman does not say where its runtime is".to_owned()));
        }
        let program = in_place_of(Path::new(&real), programs)?;
        // Of another name podman would say that there is no such runtime.
        let program = program
            .to_str()
            .ok_or_else(|| self.refused(ACTION, format!("{} is not UTF-8", program.display())))?;
        // The second is for the day on which the first is not there any more. Strings of JSON are strings of TOML.
        let text = format!(
            "[engine.runtimes]\n{} = [{}, {}]\n",
            Value::from(name),
            Value::from(program),
            Value::from(real)
        );
        let path = programs.join("podman-with-own-mounts.conf");
        write_program(&path, text.as_bytes())?;
        Ok(path)
    }

    pub(crate) fn ask(&self, words: &[&str], limit: Duration) -> Result<Said> {
        self.ask_with(words, &[], limit)
    }

    fn ask_with(&self, words: &[&str], environment: &[(&str, &Path)], limit: Duration) -> Result<Said> {
        let words: Vec<&str> = self.options.iter().map(String::as_str).chain(words.iter().copied()).collect();
        Ok(ask_with("podman", self.program, &words, environment, limit)?)
    }

    pub(crate) fn refused(&self, action: &'static str, said: String) -> BackError {
        BackError::Refused { action, container: self.id.to_string(), said }
    }
}
