//! How memory leaves a process tree while it runs, and how it comes back.
//!
//! A plain dump freezes a tree for as long as all of its memory takes to copy. Here the memory is copied while the tree runs, and the
//! freeze lasts for what was written since:
//!
//! * [`Tracker`] knows which pages of a process were written since the last look. [`Standing`] keeps the process still meanwhile.
//! * [`Ahead`] copies pages of all processes of a tree into a [`PageSink`], round after round, until little is left, and the rest while
//!   the tree is frozen. It checks at every freeze that pages which were called clean are what the sink has.
//! * [`parent`] leads CRIU to dump everything but these pages, and puts an ordinary dump together of both.
//!
//! * [`back`] is for the way back: it fills processes that were made without their large mappings' pages and have not run yet.
//!
//! This is an engine: it knows neither the store nor CRIU's RPC nor the pipelines. Every doubt is an error or a verdict, and the answer
//! to all of them is the same: take a plain dump.
//!
//! `machine` plugs it in: it makes rounds before a dump, looks for the last time in CRIU's post-dump hook, and gives what was copied
//! ([`Spool`]) to whoever stores it; and it fills what comes back.
#![deny(unsafe_op_in_unsafe_fn)]

mod ahead;
pub mod back;
mod error;
mod inject;
mod injector;
mod mappings;
mod memory;
mod pages;
pub mod parent;
mod scan;
mod spool;
mod standing;
#[expect(unsafe_code, reason = "system calls that no safe crate has")]
mod sys;
mod table;
mod tracker;

pub use ahead::{Ahead, Clean, PageSink, Process, Rest, Round, Sample, Settled, Until, Verdict};
pub use error::{MemoryError, NotHere, Result, SinkError};
pub use injector::{Injector, lead};
pub use pages::{PAGE, PAGE_BYTES, Run, Task, difference, merged, pages_in};
pub use spool::{Copies, Prints, Spool};
pub use standing::{Frozen, Standing, StandsStill};
pub use tracker::{Registered, Tracker, kernel_lists_pages};
