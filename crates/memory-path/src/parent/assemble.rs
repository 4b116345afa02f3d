//! An ordinary dump, made of one without pages and of the sink.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::doubt::Doubt;
use super::wire::{Entry, Head, Place, pagemap, read_pagemap};
use crate::ahead::PageSink;
use crate::pages::{PAGE, PAGE_BYTES, Run, Task};

/// The longest list that is read: enough for 64 GiB in single pages.
const LONGEST_LIST: u64 = 512 << 20;
/// What is written in one go.
const PIECE: usize = 1 << 20;

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
    /// In the file that CRIU has written, from this byte on.
    Images { offset: u64 },
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
        let (head, entries) = read_pagemap(&path, &fs::read(&path).map_err(Doubt::io("read", &path))?)?;
        let mut plan = Self { task, pages_id: head.pages_id, pieces: Vec::with_capacity(entries.len()) };
        let (mut offset, mut last) = (0_u64, 0);
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
                    let here = Source::Images { offset };
                    offset += bytes;
                    here
                }
                Some(Place::Parent) if looked_at.contains(&task) => Source::Sink,
                Some(Place::Parent) => return Err(Doubt::NotLookedAt { task }),
                None => return Err(wrong("it has pages of a sort that was not asked for")),
            };
            plan.pieces.push(Piece { run, source });
        }
        let pages = plan.pages_file(images);
        let written = fs::metadata(&pages).map_err(Doubt::io("look at", &pages))?.len();
        match written == offset {
            true => Ok(plan),
            false => Err(wrong("it names another number of pages than were written")),
        }
    }

    /// How many pages come from where.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for Piece { run, source } in &self.pieces {
            match source {
                Source::Images { .. } => counts.from_images += run.pages(),
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

    /// Puts all pages of the task into the images, in place of what CRIU has written of it. A page that the sink has not is a doubt, and
    /// leaves the images as they were.
    pub fn write(&self, images: &Path, sink: &mut dyn PageSink) -> Result<(), Doubt> {
        let (list, pages) = (images.join(format!("pagemap-{}.img", self.task)), self.pages_file(images));
        let (new_list, new_pages) = (list.with_extension("new"), pages.with_extension("new"));
        let written = self
            .write_pages(&pages, &new_pages, sink)
            .and_then(|()| fs::write(&new_list, self.list()).map_err(Doubt::io("write", &new_list)))
            .and_then(|()| fs::rename(&new_pages, &pages).map_err(Doubt::io("rename", &new_pages)))
            .and_then(|()| fs::rename(&new_list, &list).map_err(Doubt::io("rename", &new_list)));
        if written.is_err() {
            // What is reported is why there is nothing.
            let _ = fs::remove_file(&new_pages);
            let _ = fs::remove_file(&new_list);
        }
        written
    }

    /// Takes away what says that the images have a parent, once all tasks are written.
    pub fn forget_parent(images: &Path) -> Result<(), Doubt> {
        let link = images.join("parent");
        match fs::remove_file(&link) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Doubt::io("remove", link)(error))
            }
            _ => Ok(()),
        }
    }

    fn pages_file(&self, images: &Path) -> std::path::PathBuf {
        images.join(format!("pages-{}.img", self.pages_id))
    }

    /// All pages, in runs as long as can be.
    fn list(&self) -> Vec<u8> {
        let mut runs: Vec<Run> = Vec::new();
        for Piece { run, .. } in &self.pieces {
            match runs.last_mut() {
                Some(last) if last.end == run.start => last.end = run.end,
                _ => runs.push(*run),
            }
        }
        let entries: Vec<Entry> = runs.iter().map(|run| Entry::written(run.start, run.pages())).collect();
        pagemap(Head { pages_id: self.pages_id }, &entries)
    }

    fn write_pages(&self, from: &Path, into: &Path, sink: &mut dyn PageSink) -> Result<(), Doubt> {
        let task = self.task;
        let old = File::open(from).map_err(Doubt::io("open", from))?;
        let new = File::options().write(true).create(true).truncate(true).mode(0o600).open(into);
        let mut new = BufWriter::with_capacity(PIECE, new.map_err(Doubt::io("create", into))?);
        let mut page = [0; PAGE_BYTES];
        for Piece { run, source } in &self.pieces {
            for address in run.addresses() {
                match source {
                    Source::Images { offset } => old
                        .read_exact_at(&mut page, offset + (address - run.start))
                        .map_err(Doubt::io("read", from))?,
                    Source::Sink => {
                        let found = sink.get(task, address, &mut page);
                        if !found.map_err(|source| Doubt::Sink { task, source })? {
                            return Err(Doubt::Missing { task, address });
                        }
                    }
                }
                new.write_all(&page).map_err(Doubt::io("write", into))?;
            }
        }
        new.flush().map_err(Doubt::io("write", into))
    }
}
