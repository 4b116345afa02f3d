//! Pages on their way into the store, and what is remembered of those that are there.
//!
//! A [`Spool`] takes the pages that were written since the last snapshot: in a file without a name, in the directory that has room for the
//! dump and goes with it. Each page has a slot in that file, which is overwritten if the page is copied again.
//!
//! [`Prints`] outlive it: a fingerprint of the newest copy of every page, eight bytes each, also of those that went into the store with
//! earlier snapshots. So a page that is called clean can be compared with what was stored of it without reading the store.
//! A fingerprint only ever raises a doubt; no page is left out because of one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use xxhash_rust::xxh3::xxh3_64;

use crate::ahead::PageSink;
use crate::error::SinkError;
use crate::pages::{PAGE, PAGE_BYTES, Run, Task};
use crate::table::PageTable;

/// Fingerprints of the newest copies of pages.
#[derive(Debug, Default)]
pub struct Prints {
    /// 0 where there is none.
    tasks: BTreeMap<Task, PageTable<u64>>,
}

impl Prints {
    /// Forgets a task.
    pub fn forget(&mut self, task: Task) {
        self.tasks.remove(&task);
    }

    /// Forgets pages that a task no longer has; `present` is in order.
    pub fn keep_near(&mut self, task: Task, present: &[Run]) {
        if let Some(table) = self.tasks.get_mut(&task) {
            table.keep_near(present);
        }
    }

    /// The memory that they take, in bytes.
    pub fn bytes(&self) -> u64 {
        self.tasks.values().map(PageTable::bytes).sum()
    }

    /// Takes what was found out of the pages of a task, in place of what was known of it.
    pub(crate) fn take(&mut self, task: Task, prints: PageTable<u64>) {
        self.tasks.insert(task, prints);
    }

    fn set(&mut self, task: Task, address: u64, page: &[u8]) {
        self.tasks.entry(task).or_default().set(address, print_of(page));
    }

    fn drop_page(&mut self, task: Task, address: u64) {
        if let Some(table) = self.tasks.get_mut(&task) {
            table.set(address, 0);
        }
    }

    fn is(&self, task: Task, address: u64, page: &[u8]) -> bool {
        self.tasks.get(&task).is_some_and(|table| table.get(address) == print_of(page))
    }
}

/// The fingerprint of a page. Never 0.
pub(crate) fn print_of(page: &[u8]) -> u64 {
    xxh3_64(page).max(1)
}

/// Pages that were copied since the last snapshot.
#[derive(Debug)]
pub struct Spool {
    file: File,
    /// 0 where a page is not here, else the number of its slot, counted from 1.
    tasks: BTreeMap<Task, PageTable<u32>>,
    used: u32,
}

impl Spool {
    /// An empty one. Its file is in this directory, and has no name.
    pub fn in_directory(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = open(directory, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { file: file.into(), tasks: BTreeMap::new(), used: 0 })
    }

    /// The room that it takes, in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.used) * PAGE
    }

    /// Forgets a task. Its room is not used again.
    pub fn forget(&mut self, task: Task) {
        self.tasks.remove(&task);
    }

    /// The pages of a task that are here, in order.
    pub fn pages_of(&self, task: Task) -> Vec<Run> {
        self.tasks.get(&task).map(PageTable::runs).unwrap_or_default()
    }

    /// Reads whole pages that are here, from an address on.
    pub fn read(&self, task: Task, address: u64, into: &mut [u8]) -> io::Result<()> {
        let missing = |address: u64| {
            io::Error::other(format!(
                "page {address:#x} of task {task} was not copied since the last snapshot"
            ))
        };
        let table = self.tasks.get(&task).ok_or_else(|| missing(address))?;
        let slot = |page: usize| table.get(address + (page * PAGE_BYTES) as u64);
        let count = into.len() / PAGE_BYTES;
        if let Some(page) = (0..count).find(|page| slot(*page) == 0) {
            return Err(missing(address + (page * PAGE_BYTES) as u64));
        }
        for part in neighbours((0..count).map(slot)) {
            let bytes = part.pages.start * PAGE_BYTES..part.pages.end * PAGE_BYTES;
            let into = into.get_mut(bytes).unwrap_or_default();
            self.file.read_exact_at(into, offset_of(part.slot))?;
        }
        Ok(())
    }

    /// Writes pages into their slots; those that are new get some.
    fn write(&mut self, task: Task, start: u64, pages: &[u8]) -> io::Result<()> {
        let table = self.tasks.entry(task).or_default();
        let mut slots = Vec::with_capacity(pages.len() / PAGE_BYTES);
        let mut used = self.used;
        for address in (start..).step_by(PAGE_BYTES).take(pages.len() / PAGE_BYTES) {
            let known = table.get(address);
            slots.push(if known != 0 {
                known
            } else {
                used = used.checked_add(1).ok_or_else(|| io::Error::other("too many pages for one spool"))?;
                used
            });
        }
        for part in neighbours(slots.iter().copied()) {
            let bytes = part.pages.start * PAGE_BYTES..part.pages.end * PAGE_BYTES;
            self.file.write_all_at(pages.get(bytes).unwrap_or_default(), offset_of(part.slot))?;
        }
        // Only now: a write that failed has left pages half written, and they may not be taken for whole ones.
        for (slot, address) in slots.into_iter().zip((start..).step_by(PAGE_BYTES)) {
            table.set(address, slot);
        }
        self.used = used;
        Ok(())
    }
}

/// Pages in slots that lie one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    pages: std::ops::Range<usize>,
    slot: u32,
}

fn neighbours(slots: impl Iterator<Item = u32>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for (page, slot) in slots.enumerate() {
        match parts.last_mut() {
            Some(last) if u64::from(last.slot) + last.pages.len() as u64 == u64::from(slot) => {
                last.pages.end += 1
            }
            _ => parts.push(Part { pages: page..page + 1, slot }),
        }
    }
    parts
}

fn offset_of(slot: u32) -> u64 {
    u64::from(slot.saturating_sub(1)) * PAGE
}

/// Both together are where pages go.
#[derive(Debug)]
pub struct Copies<'a> {
    /// What was copied since the last snapshot.
    pub spool: &'a mut Spool,
    /// What is known of all.
    pub prints: &'a mut Prints,
}

impl PageSink for Copies<'_> {
    fn put(&mut self, task: Task, start: u64, pages: &[u8]) -> Result<(), SinkError> {
        self.spool.write(task, start, pages)?;
        for (address, page) in (start..).step_by(PAGE_BYTES).zip(pages.chunks_exact(PAGE_BYTES)) {
            self.prints.set(task, address, page);
        }
        Ok(())
    }

    fn forget(&mut self, task: Task, run: Run) -> Result<(), SinkError> {
        for address in run.addresses() {
            self.prints.drop_page(task, address);
            if let Some(table) = self.spool.tasks.get_mut(&task) {
                table.set(address, 0);
            }
        }
        Ok(())
    }

    fn holds(&mut self, task: Task, address: u64, page: &[u8]) -> Result<bool, SinkError> {
        Ok(self.prints.is(task, address, page))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const TASK: Task = Task(7);

    fn page(content: u8) -> Vec<u8> {
        vec![content; PAGE_BYTES]
    }

    proptest! {
        /// Whatever is put and forgotten in whatever order: what is read is what was put last.
        #[test]
        fn the_newest_copy_is_read(
            steps in proptest::collection::vec((0_u64..40, 1_u64..9, any::<u8>(), any::<bool>()), 1..40),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let (mut spool, mut prints) = (Spool::in_directory(directory.path()).unwrap(), Prints::default());
            let mut model = BTreeMap::new();
            for (first, count, content, keep) in steps {
                let mut copies = Copies { spool: &mut spool, prints: &mut prints };
                let run = Run { start: first * PAGE, end: (first + count) * PAGE };
                if keep {
                    let contents: Vec<u8> = (0..count).zip(0_u8..).map(|(_, at)| content.wrapping_add(at)).collect();
                    let pages: Vec<u8> = contents.iter().flat_map(|content| page(*content)).collect();
                    copies.put(TASK, run.start, &pages).unwrap();
                    model.extend(run.addresses().zip(contents));
                } else {
                    copies.forget(TASK, run).unwrap();
                    model.retain(|address, _| !(run.start..run.end).contains(address));
                }
            }
            let listed: Vec<u64> = spool.pages_of(TASK).iter().flat_map(Run::addresses).collect();
            prop_assert_eq!(&listed, &model.keys().copied().collect::<Vec<_>>());
            for run in spool.pages_of(TASK) {
                let mut read = vec![0; usize::try_from(run.len()).unwrap()];
                spool.read(TASK, run.start, &mut read).unwrap();
                for (address, read) in run.addresses().zip(read.chunks_exact(PAGE_BYTES)) {
                    prop_assert_eq!(read, &page(model[&address])[..]);
                    let mut copies = Copies { spool: &mut spool, prints: &mut prints };
                    prop_assert!(copies.holds(TASK, address, read).unwrap());
                    prop_assert!(!copies.holds(TASK, address, &page(model[&address].wrapping_add(1))).unwrap());
                }
            }
        }
    }

    #[test]
    fn a_page_that_is_not_here_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (mut spool, mut prints) = (Spool::in_directory(directory.path()).unwrap(), Prints::default());
        let mut copies = Copies { spool: &mut spool, prints: &mut prints };
        copies.put(TASK, PAGE, &page(1)).unwrap();
        assert!(!copies.holds(TASK, 2 * PAGE, &page(0)).unwrap());
        assert!(!copies.holds(Task(8), PAGE, &page(1)).unwrap());
        let error = spool.read(TASK, PAGE, &mut vec![0; 2 * PAGE_BYTES]).unwrap_err();
        assert!(error.to_string().contains("page 0x2000 of task 7"), "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "its file has no name");
    }

    #[test]
    fn what_was_stored_is_remembered_and_what_is_gone_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let mut prints = Prints::default();
        let far = 1 << 40;
        let mut first = Spool::in_directory(directory.path()).unwrap();
        let mut copies = Copies { spool: &mut first, prints: &mut prints };
        copies.put(TASK, PAGE, &page(1)).unwrap();
        copies.put(TASK, far, &page(2)).unwrap();
        let mut next = Spool::in_directory(directory.path()).unwrap();
        prints.keep_near(TASK, &[Run::page(PAGE)]);
        let mut copies = Copies { spool: &mut next, prints: &mut prints };
        assert!(copies.holds(TASK, PAGE, &page(1)).unwrap());
        assert!(!copies.holds(TASK, far, &page(2)).unwrap());
        prints.forget(TASK);
        let mut copies = Copies { spool: &mut next, prints: &mut prints };
        assert!(!copies.holds(TASK, PAGE, &page(1)).unwrap());
    }
}
