//! podman, asked to bring a container back from images, and to notice that one has ended. The container itself stays.
//!
//! `podman container restore` takes the images from the directory `checkpoint` beside the specification of a container that has ended. A link
//! there leads to ours; podman removes it afterwards. conmon then calls `runc restore`, with a search path of its own.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use base::io_error;

use super::error::{BackError, Result};
use super::restoring::{Restore, first_error};
use crate::command::{Said, ask};
use crate::container::ContainerId;

/// Where podman has runc keep its state.
const RUNC_ROOT: &str = "/run/runc";
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
    /// Where runc keeps the state of the container.
    pub(super) fn state(&self) -> &Path {
        Path::new(RUNC_ROOT)
    }

    pub(super) fn restore(&self, wanted: &Restore<'_>) -> Result<i32> {
        const ACTION: &str = "the restore";
        let link = wanted.bundle.join("checkpoint");
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("remove", &link)(error).into());
            }
            _ => std::os::unix::fs::symlink(wanted.images, &link).map_err(io_error("link", &link))?,
        }
        let words = ["container", "restore"].into_iter().chain(wanted.file_locks.then_some("--file-locks"));
        let words: Vec<&str> = words.chain([self.id.as_str()]).collect();
        let asked = self.ask(&words, wanted.limit);
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

    fn ask(&self, words: &[&str], limit: Duration) -> Result<Said> {
        let words: Vec<&str> = self.options.iter().map(String::as_str).chain(words.iter().copied()).collect();
        Ok(ask("podman", self.program, &words, limit)?)
    }

    fn refused(&self, action: &'static str, said: String) -> BackError {
        BackError::Refused { action, container: self.id.to_string(), said }
    }
}
