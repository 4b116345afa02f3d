//! What can go wrong, in three kinds: it cannot be done here at all ([`NotHere`]), it could not be done now, and the machine failed.
//!
//! None of them harms the processes: whoever gets an error takes a plain dump instead. The crate that plugs this one in gives the kinds
//! their codes.

use std::io;
use std::time::Duration;

use crate::pages::Task;

/// The result of most calls here.
pub type Result<T, E = MemoryError> = std::result::Result<T, E>;

/// Whatever keeps pages may fail in its own words.
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// An error of the memory path.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// The writes of this process cannot be followed here. Asking again gives the same answer.
    #[error("process {pid} cannot be followed: {reason}")]
    NotHere {
        /// The process.
        pid: i32,
        /// Why.
        reason: NotHere,
    },
    /// The process has ended.
    #[error("process {pid} has ended")]
    Gone {
        /// The process.
        pid: i32,
    },
    /// A thread did not come to a halt in time. All threads run again.
    #[error("thread {thread} of process {pid} did not stop within {} ms", limit.as_millis())]
    TooSlow {
        /// The process.
        pid: i32,
        /// The thread.
        thread: i32,
        /// The limit.
        limit: Duration,
    },
    /// Every thread stood where a call cannot be made on its behalf. The next attempt finds them elsewhere.
    #[error("no thread of process {pid} can make a call now: {detail}")]
    Busy {
        /// The process.
        pid: i32,
        /// Where they stood.
        detail: &'static str,
    },
    /// A process that was to stand still does not.
    #[error("process {pid} was to stand still, but its thread {thread} is in state {state}")]
    NotStill {
        /// The process.
        pid: i32,
        /// The thread.
        thread: i32,
        /// Its state, in the letter of `/proc`.
        state: char,
    },
    /// A task was to be looked at for the last time that nothing was copied of.
    #[error("task {task} is not followed")]
    NotFollowed {
        /// The task.
        task: Task,
    },
    /// A process of a tree that was made anew is not there, or is there twice.
    #[error("task {task} is not below process {root}, or not alone")]
    NoTask {
        /// The task.
        task: Task,
        /// The root of the tree.
        root: i32,
    },
    /// A process that was made anew has no such memory.
    #[error("task {task} has no private anonymous memory at {address:#x}")]
    NoRoom {
        /// The task.
        task: Task,
        /// Where a page is missing.
        address: u64,
    },
    /// Pages that are missing could not be read, or not be written.
    #[error("pages of task {task} could not be brought back")]
    Source {
        /// Whose pages.
        task: Task,
        /// What whoever has them said.
        source: SinkError,
    },
    /// Not all pages that are missing came.
    #[error("{given} bytes of task {task} were brought back, {wanted} are missing")]
    NotAll {
        /// The task.
        task: Task,
        /// How many came.
        given: u64,
        /// How many should have.
        wanted: u64,
    },
    /// The kernel refused something that should work.
    #[error("cannot {what} of process {pid}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The process.
        pid: i32,
        /// What the kernel said.
        source: io::Error,
    },
    /// Pages could not be kept, or not be given back.
    #[error("pages of task {task} could not be kept")]
    Sink {
        /// Whose pages.
        task: Task,
        /// What the sink said.
        source: SinkError,
    },
}

/// Why the writes of a process cannot be followed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotHere {
    /// Not this architecture: a call is injected in its machine code.
    #[error("that is written for x86_64 only")]
    Architecture,
    /// The kernel has no `PAGEMAP_SCAN`, or no asynchronous write protection.
    #[error("the kernel has no {missing} (Linux 6.7 has)")]
    Kernel {
        /// What it lacks.
        missing: &'static str,
    },
    /// The kernel refused the process a userfaultfd.
    #[error("the kernel refuses it a userfaultfd: {detail}")]
    Refused {
        /// What it said.
        detail: String,
    },
    /// Whoever was to make a call on its behalf says why not.
    #[error("{detail}")]
    Told {
        /// In these words.
        detail: String,
    },
    /// We may not look into it, or somebody else traces it.
    #[error("it may not be traced by us, or is traced by somebody else")]
    Traced,
    /// A filter of system calls might end it for a call of ours, and we may not have it look away.
    #[error("it has a seccomp filter")]
    Filtered,
    /// It ignores the signal that ends a single step, and would stop to do so.
    #[error("it ignores SIGTRAP")]
    TrapIgnored,
    /// It is not a 64-bit program.
    #[error("it is not a 64-bit program")]
    NotNative,
    /// It has no vDSO, where the instruction is that an injected call needs.
    #[error("it has no vDSO with a system call in it")]
    NoCallGate,
    /// Somebody else follows its writes.
    #[error("its writes are followed by somebody else")]
    FollowedTwice,
    /// Something writes to its memory that no page table knows of: asynchronous I/O or a device.
    #[error("memory of it may be written without a trace, through `{mapping}`")]
    WrittenBehind {
        /// The mapping that shows it.
        mapping: String,
    },
}

impl MemoryError {
    pub(crate) fn system(what: &'static str, pid: i32) -> impl Fn(io::Error) -> Self {
        move |source| match base::proc::has_ended(&source) {
            true => Self::Gone { pid },
            false => Self::System { what, pid, source },
        }
    }

    /// The same for the error numbers of nix and rustix.
    pub(crate) fn number<E: Into<io::Error>>(what: &'static str, pid: i32) -> impl Fn(E) -> Self {
        move |number| Self::system(what, pid)(number.into())
    }

    pub(crate) fn not_here(pid: i32, reason: NotHere) -> Self {
        Self::NotHere { pid, reason }
    }
}
