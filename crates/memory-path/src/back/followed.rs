//! Processes that are followed from their first instruction on.
//!
//! What was put into a process that has never run is known page by page, and so is who has it: whoever gave it. If the process is followed
//! before it runs, the first dump need not copy these pages again. Everything else that is in its memory (what CRIU has brought from its
//! images, what CRIU and the kernel have written into it on the way) is not compared with anything: it is owed, as if it had just been
//! written, and the first round copies it.

use std::collections::BTreeMap;

use crate::ahead::Ahead;
use crate::error::MemoryError;
use crate::pages::{Run, Task};
use crate::spool::Prints;
use crate::standing::{Standing, StandsStill};
use crate::table::PageTable;

/// What was put into a process: the fingerprints of its pages with content.
pub(super) struct Known {
    pub(super) pid: i32,
    pub(super) task: Task,
    pub(super) prints: PageTable<u64>,
}

/// Processes that were filled, stand still, and are followed from here on.
#[derive(Debug, Default)]
pub struct Begun {
    /// Follows them.
    pub ahead: Ahead,
    /// Knows the pages that were filled.
    pub prints: Prints,
    /// These: until they are written they are what the source has. In order.
    pub filled: BTreeMap<Task, Vec<Run>>,
    /// Those that cannot be followed, and why.
    pub left_out: Vec<(Task, MemoryError)>,
}

impl Begun {
    pub(super) fn follow(held: &[Standing], known: Vec<Known>) -> Self {
        let mut begun = Self::default();
        for Known { pid, task, prints } in known {
            let Some(standing) = held.iter().find(|standing| standing.pid() == pid) else { continue };
            let filled = prints.runs();
            match begun.ahead.begin(task, standing, &filled) {
                Ok(()) => {
                    begun.prints.take(task, prints);
                    begun.filled.insert(task, filled);
                }
                Err(error) => begun.left_out.push((task, error)),
            }
        }
        begun
    }
}
