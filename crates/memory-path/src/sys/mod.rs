//! The kernel's interfaces that no safe crate has: two families of `ioctl`, and the requests of `ptrace` that nix leaves out.
//!
//! Every number and layout here is the kernel's own (`linux/userfaultfd.h`, `linux/fs.h`, `linux/ptrace.h`), which never change once
//! they are released. Nothing here decides anything: what to ask and in which order is the business of the files above.

mod pagemap;
mod ptrace;
mod userfault;

pub(crate) use pagemap::{Category, Question, Region, scan};
pub(crate) use ptrace::{critical_section_pointer, detach, set_signal_mask, signal_mask};
pub(crate) use userfault::Userfault;
