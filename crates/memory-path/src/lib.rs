//! How memory leaves a process tree while it runs.
//!
//! A plain dump freezes a tree for as long as all of its memory takes to copy. Here the memory is copied while the tree runs, and the
//! freeze lasts for what was written since:
//!
//! * [`Tracker`] knows which pages of a process were written since the last look. [`Standing`] keeps the process still meanwhile.
//! * [`Ahead`] copies pages of all processes of a tree into a [`PageSink`], round after round, until little is left, and the rest while
//!   the tree is frozen. It checks at every freeze that pages which were called clean are what the sink has.
//! * [`parent`] leads CRIU to dump everything but these pages, and puts an ordinary dump together of both.
//!
//! This is an engine: it knows neither the store nor CRIU's RPC nor the pipelines. Every doubt is an error or a verdict, and the answer
//! to all of them is the same: take a plain dump.
//!
//! **Nothing uses this crate yet.** `lifecycle` will: its checkpointer calls [`Ahead::round`] while a session runs, [`Ahead::last_look`] in
//! CRIU's post-dump hook, and gives a sink that writes to the store.
#![deny(unsafe_op_in_unsafe_fn)]

mod ahead;
mod error;
mod inject;
mod mappings;
mod memory;
mod pages;
pub mod parent;
mod scan;
mod standing;
#[expect(unsafe_code, reason = "system calls that no safe crate has")]
mod sys;
mod tracker;

pub use ahead::{Ahead, Clean, PageSink, Process, Rest, Round, Sample, Settled, Until, Verdict};
pub use error::{MemoryError, NotHere, Result, SinkError};
pub use pages::{PAGE, PAGE_BYTES, Run, Task, pages_in};
pub use standing::{Frozen, Standing, StandsStill};
pub use tracker::{Registered, Tracker};
