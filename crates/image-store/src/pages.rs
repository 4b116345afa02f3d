//! Where the pages of a pagemap lie in its pages file.
//!
//! A pages file has the bytes of all pages that its pagemap lists as present, in that order and with nothing between them.
//! CRIU cuts the list into entries at other places each time, so entries that touch are joined first: the same memory has
//! then the same runs, and reads are long.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use cas_core::memory::{MapRoot, PAGE, PageSink, PageSource, Region};
use checkpoint_criu::images::{Images, Pagemap, PagemapEntry};

use crate::error::Result;

/// Addresses end here: 57 bits.
pub(crate) const LIMIT: u64 = 1 << 57;

/// Pages that lie one after the other, in memory and in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    start: u64,
    len: u64,
    offset: u64,
}

/// All present pages of a pagemap: joined, by address, which is the file's order too.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct PagesLayout {
    runs: Vec<Run>,
    bytes: u64,
}

/// Why a pagemap has no [`PagesLayout`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Odd {
    /// Some of its pages are in other images, so this is not a whole dump.
    InParent,
    /// It is not in order of addresses. Nothing of CRIU's, but nothing that would be wrong.
    Order,
}

impl PagesLayout {
    /// Of a whole dump: one that left nothing out.
    pub(crate) fn of(pagemap: &Pagemap) -> Result<Self, Odd> {
        if has_left_out(pagemap) { Err(Odd::InParent) } else { Self::of_present(pagemap) }
    }

    /// Of the pages that are in the file, whether or not others were left out.
    pub(crate) fn of_present(pagemap: &Pagemap) -> Result<Self, Odd> {
        Self::of_those(pagemap, PagemapEntry::is_present)
    }

    /// As it will be when those that were left out are in the file, too.
    pub(crate) fn of_all(pagemap: &Pagemap) -> Result<Self, Odd> {
        Self::of_those(pagemap, |entry| entry.is_present() || entry.in_parent())
    }

    /// Of a file that has all pages of a map, from address 0 on.
    pub(crate) fn whole(map: &MapRoot) -> Self {
        let bytes = map.bytes();
        let run = Run { start: 0, len: bytes, offset: 0 };
        Self { runs: (bytes > 0).then_some(run).into_iter().collect(), bytes }
    }

    fn of_those(pagemap: &Pagemap, wanted: impl Fn(&PagemapEntry) -> bool) -> Result<Self, Odd> {
        let mut layout = Self::default();
        for entry in pagemap.entries.iter().filter(|entry| wanted(entry)) {
            let len = entry.pages().checked_mul(PAGE as u64).ok_or(Odd::Order)?;
            layout.push(entry.vaddr, len)?;
        }
        Ok(layout)
    }

    fn push(&mut self, start: u64, len: u64) -> Result<(), Odd> {
        if len == 0 {
            return Ok(());
        }
        let end = start.checked_add(len).filter(|end| *end <= LIMIT).ok_or(Odd::Order)?;
        if !start.is_multiple_of(PAGE as u64) || !end.is_multiple_of(PAGE as u64) {
            return Err(Odd::Order);
        }
        match self.runs.last_mut() {
            Some(last) if last.start + last.len == start => last.len += len,
            Some(last) if last.start + last.len > start => return Err(Odd::Order),
            _ => self.runs.push(Run { start, len, offset: self.bytes }),
        }
        self.bytes += len;
        Ok(())
    }

    /// How long the pages file is.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Its pages.
    pub(crate) fn regions(&self) -> Vec<Region> {
        self.runs.iter().map(|run| Region { start: run.start, len: run.len }).collect()
    }

    /// The first address from `address` on that has a page here.
    pub(crate) fn next(&self, address: u64) -> Option<u64> {
        let after = self.runs.partition_point(|run| run.start + run.len <= address);
        self.runs.get(after).map(|run| run.start.max(address))
    }

    /// Where the bytes of `address` are in the file, and how many follow in one piece.
    pub(crate) fn find(&self, address: u64) -> io::Result<(u64, u64)> {
        let after = self.runs.partition_point(|run| run.start <= address);
        let run = after.checked_sub(1).and_then(|before| self.runs.get(before));
        run.filter(|run| address < run.start + run.len)
            .map(|run| (run.offset + (address - run.start), run.start + run.len - address))
            .ok_or_else(|| io::Error::other(format!("address {address:#x} is not in the pagemap")))
    }
}

/// A pages file and how to find pages in it: read on the way into the store, written on the way out.
#[derive(Debug)]
pub(crate) struct PagesFile {
    file: File,
    layout: PagesLayout,
    /// Bytes that were written, or left as holes.
    filled: AtomicU64,
}

impl PagesFile {
    pub(crate) fn new(file: File, layout: PagesLayout) -> Self {
        Self { file, layout, filled: AtomicU64::new(0) }
    }

    /// Whether every page has been written.
    pub(crate) fn is_full(&self) -> bool {
        self.filled.load(Ordering::Acquire) == self.layout.bytes
    }
}

impl PageSource for PagesFile {
    fn regions(&self) -> Vec<Region> {
        self.layout.regions()
    }

    fn read(&self, address: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (offset, left) = self.layout.find(address)?;
        if (buffer.len() as u64) > left {
            return Err(io::Error::other(format!("memory at {address:#x} is not in one piece")));
        }
        self.file.read_exact_at(buffer, offset)
    }
}

impl PageSink for PagesFile {
    fn pages(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        let (offset, left) = self.layout.find(address)?;
        if (bytes.len() as u64) > left {
            return Err(io::Error::other(format!("memory at {address:#x} is not in the pagemap")));
        }
        self.file.write_all_at(bytes, offset)?;
        self.filled.fetch_add(bytes.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    /// The file has its length already, so zeros are holes.
    fn zeros(&self, address: u64, len: u64) -> io::Result<()> {
        let (_, left) = self.layout.find(address)?;
        if len > left {
            return Err(io::Error::other(format!("memory at {address:#x} is not in the pagemap")));
        }
        self.filled.fetch_add(len, Ordering::AcqRel);
        Ok(())
    }
}

/// Whether some pages of a pagemap are not in its pages file.
pub(crate) fn has_left_out(pagemap: &Pagemap) -> bool {
    pagemap.entries.iter().any(PagemapEntry::in_parent)
}

/// All pagemaps in a directory, with the names that their address spaces have in a snapshot.
pub(crate) fn pagemaps(images: &Images) -> Result<Vec<(String, Pagemap)>> {
    let mut found = Vec::new();
    for name in images.names()? {
        let pid = name.to_str().and_then(|name| name.strip_prefix("pagemap-")?.strip_suffix(".img"));
        // Shared memory has names of its own here, and those are no numbers.
        if let Some(Ok(pid)) = pid.map(str::parse::<u32>) {
            found.push((space_of(pid), images.pagemap(pid)?));
        }
    }
    for (segment, pagemap) in images.shmem_pagemaps()? {
        found.push((format!("shm:{segment}"), pagemap));
    }
    Ok(found)
}

/// The name that the memory of a process has in a snapshot.
pub(crate) fn space_of(pid: u32) -> String {
    format!("pid:{pid}")
}

/// The process whose memory a space is; `None` for shared memory.
pub(crate) fn process_of(space: &str) -> Option<u32> {
    space.strip_prefix("pid:")?.parse().ok()
}

/// The name of a process's pagemap.
pub(crate) fn pagemap_image(pid: u32) -> String {
    format!("pagemap-{pid}.img")
}

/// The name of a pages file.
pub(crate) fn pages_image(pages_id: u32) -> String {
    format!("pages-{pages_id}.img")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(runs: &[(u64, u64)]) -> Result<PagesLayout, Odd> {
        let mut layout = PagesLayout::default();
        for (page, count) in runs {
            layout.push(page * PAGE as u64, count * PAGE as u64)?;
        }
        Ok(layout)
    }

    #[test]
    fn entries_that_touch_are_one_run_wherever_they_were_cut() {
        let one = layout(&[(16, 4), (32, 8)]).unwrap();
        assert_eq!(one, layout(&[(16, 1), (17, 3), (32, 5), (37, 3)]).unwrap());
        assert_eq!((one.runs.len(), one.bytes()), (2, 12 * 4096));
        assert_eq!(one.find(33 * 4096 + 5).unwrap(), (5 * 4096 + 5, 7 * 4096 - 5));
        for outside in [0, 15, 20, 31, 40] {
            one.find(outside * 4096).unwrap_err();
        }
    }

    #[test]
    fn what_is_out_of_order_has_no_layout() {
        assert_eq!(layout(&[(16, 4), (19, 1)]), Err(Odd::Order));
        assert_eq!(layout(&[(16, 4), (1, 1)]), Err(Odd::Order));
        assert_eq!(PagesLayout::default().push(100, 4096), Err(Odd::Order));
        assert_eq!(PagesLayout::default().push(u64::MAX - 4095, 8192), Err(Odd::Order));
        assert_eq!(PagesLayout::default().push(LIMIT, 4096), Err(Odd::Order));
    }
}
