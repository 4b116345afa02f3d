//! What CRIU says of a task whose pages it has left out.

use std::fs;
use std::path::{Path, PathBuf};

use super::doubt::Doubt;
use super::wire::{Place, read_pagemap};
use crate::pages::{PAGE, Run, Task, merged};

/// The longest list that is read: enough for 64 GiB in single pages.
const LONGEST_LIST: u64 = 512 << 20;

/// Which pages a task had at the freeze, and where each is.
#[derive(Debug)]
pub struct Plan {
    task: Task,
    pages_id: u32,
    pieces: Vec<Piece>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Piece {
    run: Run,
    source: Source,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// In the file that CRIU has written.
    Images,
    /// CRIU has left them to us.
    Sink,
}

/// How many pages come from where.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// That CRIU has written itself.
    pub from_images: u64,
    /// That it has left out.
    pub from_sink: u64,
}

impl Plan {
    /// Reads what CRIU says of a task. Pages may be left out only of tasks in `looked_at`, those that [`crate::Settled`] names: of another
    /// that happens to have the number of one that was followed, the sink has nothing.
    pub fn read(images: &Path, task: Task, looked_at: &[Task]) -> Result<Self, Doubt> {
        let path = images.join(format!("pagemap-{task}.img"));
        let wrong = |detail: &str| Doubt::Image { path: path.clone(), detail: detail.to_owned() };
        let length = fs::metadata(&path).map_err(Doubt::io("look at", &path))?.len();
        if length > LONGEST_LIST {
            return Err(wrong("it is too long"));
        }
        let list = fs::read(&path).map_err(Doubt::io("read", &path))?;
        let (plan, in_file) = Self::of_list(&path, &list, task, looked_at)?;
        let pages = plan.pages_file(images);
        let written = fs::metadata(&pages).map_err(Doubt::io("look at", &pages))?.len();
        match written == in_file {
            true => Ok(plan),
            false => Err(wrong("it names another number of pages than were written")),
        }
    }

    /// The same of the bytes of a list, with how many bytes CRIU must have written beside it. `path` is for errors.
    pub fn of_list(path: &Path, list: &[u8], task: Task, looked_at: &[Task]) -> Result<(Self, u64), Doubt> {
        let wrong = |detail: &str| Doubt::Image { path: path.to_owned(), detail: detail.to_owned() };
        let (head, entries) = read_pagemap(path, list)?;
        let mut plan = Self { task, pages_id: head.pages_id, pieces: Vec::with_capacity(entries.len()) };
        let (mut in_file, mut last) = (0_u64, 0);
        for entry in entries {
            let bytes = entry.pages().checked_mul(PAGE).ok_or_else(|| wrong("a run is too long"))?;
            let end = entry.address.checked_add(bytes).ok_or_else(|| wrong("a run is too long"))?;
            let run = Run { start: entry.address, end };
            if run.is_empty() || run.start < last || !run.start.is_multiple_of(PAGE) {
                return Err(wrong("its runs are not in order"));
            }
            last = end;
            let source = match entry.place() {
                Some(Place::Written) => {
                    in_file = in_file.checked_add(bytes).ok_or_else(|| wrong("it is too long"))?;
                    Source::Images
                }
                Some(Place::Parent) if looked_at.contains(&task) => Source::Sink,
                Some(Place::Parent) => return Err(Doubt::NotLookedAt { task }),
                None => return Err(wrong("it has pages of a sort that was not asked for")),
            };
            plan.pieces.push(Piece { run, source });
        }
        Ok((plan, in_file))
    }

    /// Whose pages.
    pub fn task(&self) -> Task {
        self.task
    }

    /// All pages that it had, in order.
    pub fn pages(&self) -> Vec<Run> {
        merged(self.pieces.iter().map(|piece| piece.run).collect())
    }

    /// Those that CRIU has left to us.
    pub fn left_out(&self) -> Vec<Run> {
        let ours = self.pieces.iter().filter(|piece| piece.source == Source::Sink);
        merged(ours.map(|piece| piece.run).collect())
    }

    /// How many pages come from where.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for Piece { run, source } in &self.pieces {
            match source {
                Source::Images => counts.from_images += run.pages(),
                Source::Sink => counts.from_sink += run.pages(),
            }
        }
        counts
    }

    /// Compares what the lists of all tasks leave out with what CRIU says that it has left out (`pages_skipped_parent` of its figures).
    pub fn check_counts<'a>(plans: impl IntoIterator<Item = &'a Self>, told: u64) -> Result<(), Doubt> {
        let listed = plans.into_iter().map(|plan| plan.counts().from_sink).sum();
        if told == listed { Ok(()) } else { Err(Doubt::Counts { told, listed }) }
    }

    /// The file that has the others, one after the other.
    pub fn pages_file(&self, images: &Path) -> PathBuf {
        images.join(format!("pages-{}.img", self.pages_id))
    }
}
