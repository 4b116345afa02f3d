//! What an image says about a process, beyond the fields of its messages.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{Core, Credentials, TaskState};

impl Core {
    /// Whether the process was over at the dump: then it has no memory, no files and no place, and no images of them.
    pub fn is_over(&self) -> bool {
        self.task.as_ref().is_some_and(|task| matches!(task.state(), TaskState::Dead | TaskState::Zombie))
    }

    /// The process's name, from where this thread's image has it.
    pub fn comm(&self) -> Option<&OsStr> {
        let task = self.task.as_ref().map(|task| &task.comm);
        let thread = self.thread.as_ref().and_then(|thread| thread.comm.as_ref());
        task.or(thread).map(|name| OsStr::from_bytes(name))
    }

    /// Who this thread is.
    pub fn credentials(&self) -> Option<&Credentials> {
        self.thread.as_ref()?.credentials.as_ref()
    }
}
