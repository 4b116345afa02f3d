//! Memory on its way back: pages are put into processes that were made without them and have not run yet.
//!
//! Whoever makes the processes (CRIU) leaves them all standing still, with their large mappings empty. [`fill`] puts the pages there, from
//! several threads at once, straight out of the buffer that they were read into, by `process_vm_writev`. New memory is zero, so
//! pages of zeros need not be written. That memory is new and empty is looked at, though, and not believed: a
//! page that is there already is overwritten, also by zeros.
//!
//! **All or nothing.** A process that runs with one page missing is wrong and does not know it. So every page that is missing must be
//! given once and be written whole, which is counted, and every process must be found, by the number that it has for itself. If not,
//! [`fill`] says so, and the tree must be ended: it must never run. A signal would be enough to let it run, from
//! whomever; so the whole tree is traced while it is filled, which no signal ends, and in such a way that the kernel kills it if we end first
//! ([`crate::Standing::hold_or_kill`]). [`fill_then`] keeps it so for longer: a tree that is whole and waits for its hour.

mod followed;
mod process;
mod source;
mod target;

pub use followed::Begun;
pub use process::{Filled, fill, fill_and_follow, fill_then};
pub use source::Source;
pub use target::Target;
