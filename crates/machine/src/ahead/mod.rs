//! Memory is copied ahead: while a session runs, and only the rest while it stands still.
//!
//! This is the [`MemoryPath`] of sessions in boxes and of containers, made of the engine `memory-path`. A tree is followed from its first dump on: a [`course::Course`]
//! knows which pages were written since the last one, and what the store has of all the others. What one dump does:
//!
//! 1. *Leave*, the tree runs. Rounds copy what was written since the last dump, everything at the first, into a [`memory_path::Spool`]: a file
//!    without a name beside the images. A parent that claims every page is laid down, so that CRIU leaves all of them out.
//! 2. *Frozen*. What was written since the last round is copied, with a sample of what is called clean.
//! 3. *Thawed*. The rest goes to the spool; the sample is compared; CRIU's lists are held against its own figures, and
//!    every page that was left out must be in the spool or in what the store has. Otherwise the dump is not used.
//! 4. [`checkpoint_criu::LeftOut`] gives the pages to whoever stores them. When they are stored, the course is kept for the next dump.
//!
//! **Whatever fails in between, the course is dropped**, and with it the tracking of the tree. The next dump copies everything again, while the tree runs.
//! So there is no state to repair, and a page is believed to be stored only under the name of the map that has it: if
//! the newest snapshot has another map of a process (a snapshot was not committed, a rollback, a restart), that process begins anew.
//!
//! Between dumps, what a tree has written is copied while it rests ([`resting`]), into a spool with which the next dump begins.
//!
//! A tree that comes back the way that [`crate::filling`] has for it is followed before it runs: its course begins with the map that it was
//! filled from, and with everything else owed. A container comes back by its runtime, with all pages in the images, and is followed from its next dump on.
//!
//! A session in which one page was ever found to be stale is dumped plainly from then on ([`Mistrust`]).

mod course;
mod courses;
mod figures;
mod gentle;
mod left_out;
mod mistrust;
mod quiet;
mod resting;
mod way_out;

use std::collections::BTreeMap;
use std::sync::Arc;

use checkpoint_criu::{ComingBack, Leaving, MapId, MemoryPath, Plain, WayBack, WayOut};
use lifecycle::SessionId;
use memory_path::{Sample, Task};
use sandbox::process::Identity;

pub use courses::Courses;
pub use figures::{Counted, Plainly, When};
pub(crate) use mistrust::Mistrust;
pub(crate) use resting::begin as look_after_resting;
use way_out::AheadOut;

/// The path of one dump.
#[derive(Debug)]
pub(crate) struct AheadPath {
    pub(crate) courses: Arc<Courses>,
    pub(crate) mistrust: Mistrust,
    /// Whose tree it is.
    pub(crate) session: SessionId,
    /// The first process of the tree.
    pub(crate) root: Identity,
    /// What the newest snapshot has of its processes.
    pub(crate) stored: BTreeMap<Task, MapId>,
    /// How many pages that are called clean are compared.
    pub(crate) sample: Sample,
}

impl MemoryPath for AheadPath {
    fn leave(&self, dump: &Leaving<'_>) -> Result<Box<dyn WayOut>, String> {
        AheadOut::begin(self, dump.images).inspect_err(|_| self.courses.doubt(self.root))
    }

    fn come_back(&self, restore: &ComingBack<'_>) -> Result<Box<dyn WayBack>, String> {
        Plain.come_back(restore)
    }
}
