//! A system call made by another process, without its knowledge.
//!
//! A userfaultfd belongs to the memory of the process that made it, and there is no call to make one for somebody else. So a thread of
//! the process, which stands still, is led through one: its registers are set to a `syscall` instruction that every process has (in the
//! vDSO) and to the call's arguments, it is let run for this one instruction, and then everything is put back as it was. The thread
//! finds itself where it stood; a call that it was in is begun again by the kernel as after any stop.
//!
//! If its tracer dies in between, the thread is lost, and the process with it. So nobody calls this whose death is not that of the process
//! anyway, but for a small program that does nothing else ([`crate::injector`]).
//!
//! What could show, and does not:
//! * **Signals.** One that arrived in between would be handled in the wrong place, so all are blocked for the moment, but for SIGTRAP: the
//!   kernel ends a single step by forcing this signal, and if it found it blocked it would throw the program's handler away.
//!   SIGSTOP cannot be blocked; if it comes, the thread gets it when it goes on.
//! * **Restartable sequences.** The kernel remembers that a thread is in one, and forgets it when the thread is seen elsewhere; the
//!   sequence would then not be begun again although it was interrupted. A thread that is in one is not used.
//! * **Interrupted calls.** The end of the injected call must not look like the end of the one that was interrupted
//!   (`orig_rax` is -1 for it, and its own value afterwards).

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::Injection;

#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use elsewhere::Injection;

/// A call that can be injected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// `userfaultfd(flags)`.
    Userfaultfd { flags: u64 },
    /// `close(descriptor)`.
    Close { descriptor: u64 },
}
