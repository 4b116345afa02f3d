//! Requests of `ptrace` that nix does not have, or has for the signals with names only.

use nix::errno::Errno;
use nix::libc::{self, c_long, c_void, pid_t};

/// Lets a stopped thread go, with a signal (0: none). nix knows no real-time signals, and a thread that was about to get one must get it.
pub(crate) fn detach(thread: pid_t, signal: i32) -> Result<(), Errno> {
    // SAFETY: `PTRACE_DETACH` takes a number and no pointer: `data` is the signal. It touches no memory of ours.
    let result = unsafe {
        libc::ptrace(libc::PTRACE_DETACH, thread, std::ptr::null_mut::<c_void>(), c_long::from(signal))
    };
    Errno::result(result).map(drop)
}

/// The signals that a stopped thread has blocked, as the kernel's 64 bits.
pub(crate) fn signal_mask(thread: pid_t) -> Result<u64, Errno> {
    let mut mask = 0_u64;
    // SAFETY: `PTRACE_GETSIGMASK` writes as many bytes as `addr` says, eight, to `data`, which is a `u64` that lives until the call has
    // returned.
    let result = unsafe {
        libc::ptrace(libc::PTRACE_GETSIGMASK, thread, size_of::<u64>(), std::ptr::from_mut(&mut mask))
    };
    Errno::result(result).map(|_| mask)
}

/// Sets the signals that a stopped thread has blocked.
pub(crate) fn set_signal_mask(thread: pid_t, mask: u64) -> Result<(), Errno> {
    // SAFETY: `PTRACE_SETSIGMASK` reads as many bytes as `addr` says, eight, from `data`, which is a `u64` that lives until the call
    // has returned.
    let result =
        unsafe { libc::ptrace(libc::PTRACE_SETSIGMASK, thread, size_of::<u64>(), std::ptr::from_ref(&mask)) };
    Errno::result(result).map(drop)
}

/// `struct ptrace_rseq_configuration`.
#[repr(C)]
#[derive(Default)]
struct RestartableSequences {
    abi_pointer: u64,
    abi_size: u32,
    signature: u32,
    flags: u32,
    padding: u32,
}

const PTRACE_GET_RSEQ_CONFIGURATION: libc::c_uint = 0x420f;
/// Where in `struct rseq` the pointer to the critical section stands that the thread is in.
const CRITICAL_SECTION: u64 = 8;

/// Where in the process's memory a stopped thread keeps the pointer to its restartable sequence; `None` if it uses none.
pub(crate) fn critical_section_pointer(thread: pid_t) -> Result<Option<u64>, Errno> {
    let mut answer = RestartableSequences::default();
    // SAFETY: this request writes as many bytes as `addr` says, the size of the structure, to `data`, which is the structure and
    // lives until the call has returned.
    let result = unsafe {
        libc::ptrace(
            PTRACE_GET_RSEQ_CONFIGURATION,
            thread,
            size_of::<RestartableSequences>(),
            std::ptr::from_mut(&mut answer),
        )
    };
    match Errno::result(result) {
        // A kernel without restartable sequences, or without this question.
        Err(Errno::EIO | Errno::EINVAL) => Ok(None),
        Err(error) => Err(error),
        Ok(_) => Ok((answer.abi_pointer != 0).then_some(answer.abi_pointer + CRITICAL_SECTION)),
    }
}
