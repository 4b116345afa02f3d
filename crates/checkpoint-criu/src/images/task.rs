//! What an image says about a process, beyond the fields of its messages.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use super::{Core, Credentials, TaskState};

impl Core {
    /// Whether the process was over at the dump: then it has no memory, no files and no place, and no images of them.
    pub fn is_over(&self) -> bool {
        self.task.as_ref().is_some_and(|task| matches!(task.state(), TaskState::Dead | TaskState::Zombie))
    }

    /// Whether a signal had stopped the process before the dump. It does not go on by itself after a restore.
    pub fn is_stopped(&self) -> bool {
        self.task.as_ref().is_some_and(|task| task.state() == TaskState::Stopped)
    }

    /// Where in memory the processor and the kernel look for this thread's things: its stack, its thread-local storage, what the
    /// kernel writes there by itself. `None` if that is not known, as on other processors than x86-64.
    pub fn places(&self) -> Option<Vec<u64>> {
        let (info, thread) = (self.info.as_ref()?, self.thread.as_ref()?);
        let registers = &info.registers;
        let mut places =
            vec![info.clear_tid, registers.sp, registers.fs_base, registers.gs_base, thread.robust_list];
        places.extend(thread.rseq.as_ref().map(|rseq| rseq.pointer));
        Some(places)
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
