//! One leaf of memory, on a worker: read it, find what changed, store the dense part of it.
//!
//! A page that the source calls unwritten, and that the parent has, is the parent's (*kept*) and never asked of the source. Where all
//! pages of a group are kept, the group is the parent's, with its fingerprint. Where only some are, the fingerprint is a new
//! one and needs the bytes of all four: those of the kept pages are read from the parent.

use std::ops::Range;
use std::sync::Arc;

use super::fingerprints::{LeafPrints, NOTHING};
use super::map::{LeafMap, Page, PagesRef};
use super::source::PageSource;
use super::{DENSE_PAGES, GROUP, GROUP_PAGES, LEAF_GROUPS, LEAF_PAGES, LEAF_SPAN, PAGE};
use crate::error::{Result, StoreError};
use crate::id::{Kind, LeafHash};
use crate::transaction::{Shared, Worker};

/// Full groups that make an object.
const FULL_OBJECT: usize = DENSE_PAGES / GROUP_PAGES;
/// Full groups that are too few for an object of their own travel with the scattered pages.
const SMALLEST_DENSE: usize = FULL_OBJECT / 4;

/// Runs of a leaf's pages: the first page's place in the leaf, and their count.
pub(super) type Runs = Vec<(usize, usize)>;

/// What a worker is told about a leaf.
pub(super) struct LeafInput {
    pub(super) number: u64,
    /// Pages that are there.
    pub(super) runs: Runs,
    /// Pages that may have been written since the parent; `None`: any.
    pub(super) written: Option<Runs>,
    pub(super) parent: Option<Arc<LeafMap>>,
    pub(super) prints: Option<LeafPrints>,
}

/// What it found.
pub(super) struct LeafOutput {
    pub(super) number: u64,
    /// `None`: not known for all of it, because the parent's were not at hand and not all was read.
    pub(super) prints: Option<LeafPrints>,
    pub(super) counts: LeafCounts,
    /// `None`: the leaf is what it was in the parent.
    pub(super) changed: Option<ChangedLeaf>,
}

pub(super) struct ChangedLeaf {
    /// All pages; those in `scattered` are still `Absent`.
    pub(super) pages: Vec<Page>,
    /// Changed pages that are not stored yet: numbers, and their bytes one after the other.
    pub(super) scattered: Vec<u16>,
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct LeafCounts {
    pub(super) present: u64,
    pub(super) zero: u64,
    pub(super) new: u64,
    pub(super) unreadable: u64,
}

impl LeafCounts {
    /// A page of one of the parent's objects. `None` if it cannot be read: then it counts as changed and is stored again, and the
    /// child does not share the parent's fate.
    fn parent_page<'a>(
        &mut self,
        object: &PagesRef,
        page: u16,
        worker: &'a mut Worker,
        shared: &Shared,
    ) -> Result<Option<&'a [u8]>> {
        match worker.cache.pages(&shared.store, object, &mut worker.reading) {
            Ok(pages) => Ok(Some(page_of(pages, usize::from(page)))),
            Err(
                StoreError::Damaged { .. }
                | StoreError::MissingObject { .. }
                | StoreError::MissingPack { .. },
            ) => {
                self.unreadable += 1;
                shared.distrust(&object.id);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Scans one leaf.
pub(super) fn scan(
    worker: &mut Worker,
    shared: &Shared,
    source: &dyn PageSource,
    input: LeafInput,
) -> Result<LeafOutput> {
    let mut memory = std::mem::take(&mut worker.scratch);
    if memory.is_empty() {
        // Zeros from the system, not written one by one.
        memory = vec![0; LEAF_PAGES * PAGE];
    }
    let result = Scan::new(input, &mut memory).run(worker, shared, source);
    worker.scratch = memory;
    result
}

struct Scan<'a> {
    input: LeafInput,
    memory: &'a mut [u8],
    present: [bool; LEAF_PAGES],
    /// Present pages that are the parent's by the source's word.
    kept: [bool; LEAF_PAGES],
    before: Vec<Page>,
    after: Vec<Page>,
    prints: LeafPrints,
    /// Whether `prints` has all groups that were seen so far.
    all_printed: bool,
    counts: LeafCounts,
    /// Groups whose four pages are all new and not stored yet, with their hashes.
    full: Vec<(usize, LeafHash)>,
    /// Whether such groups were stored.
    any_stored: bool,
    /// Other new pages.
    scattered: Vec<u16>,
}

impl<'a> Scan<'a> {
    fn new(input: LeafInput, memory: &'a mut [u8]) -> Self {
        let present = marked(&input.runs);
        let before =
            input.parent.as_ref().map_or_else(|| vec![Page::Absent; LEAF_PAGES], |leaf| leaf.unfold());
        let mut kept = [false; LEAF_PAGES];
        if let Some(written) = &input.written {
            let written = marked(written);
            for page in 0..LEAF_PAGES {
                kept[page] = present[page] && !written[page] && before[page] != Page::Absent;
            }
        }
        Self {
            input,
            memory,
            present,
            kept,
            before,
            after: vec![Page::Absent; LEAF_PAGES],
            prints: Box::new([NOTHING; LEAF_GROUPS]),
            all_printed: true,
            counts: LeafCounts::default(),
            full: Vec::new(),
            any_stored: false,
            scattered: Vec::new(),
        }
    }

    /// Works through the leaf in steps of one object: what was just read is hashed and compressed while the processor
    /// still has it in its cache. (Reading the leaf at once made all of it 5 % slower.)
    fn run(mut self, worker: &mut Worker, shared: &Shared, source: &dyn PageSource) -> Result<LeafOutput> {
        for step in 0..LEAF_PAGES / DENSE_PAGES {
            let pages = step * DENSE_PAGES..(step + 1) * DENSE_PAGES;
            self.load_kept(pages.clone(), worker, shared)?;
            self.load(pages.clone(), source)?;
            for group in pages.step_by(GROUP_PAGES) {
                self.group(group / GROUP_PAGES, worker, shared)?;
            }
            if self.full.len() >= FULL_OBJECT {
                let later = self.full.split_off(FULL_OBJECT);
                self.store_full_groups(worker, shared)?;
                self.full = later;
                self.any_stored = true;
            }
        }
        if self.input.parent.is_some()
            && !self.any_stored
            && self.full.is_empty()
            && self.scattered.is_empty()
            && self.after == self.before
        {
            let Self { input, prints, all_printed, counts, .. } = self;
            let prints = all_printed.then_some(prints);
            return Ok(LeafOutput { number: input.number, prints, counts, changed: None });
        }
        self.store_full_groups(worker, shared)?;
        self.scattered.sort_unstable();
        let mut bytes = Vec::with_capacity(self.scattered.len() * PAGE);
        for page in &self.scattered {
            bytes.extend_from_slice(page_of(self.memory, usize::from(*page)));
        }
        let Self { input, prints, all_printed, counts, after: pages, scattered, .. } = self;
        let prints = all_printed.then_some(prints);
        let changed = Some(ChangedLeaf { pages, scattered, bytes });
        Ok(LeafOutput { number: input.number, prints, counts, changed })
    }

    /// Whether a group is as in the parent by the source's word: every page that is there is kept, and none has gone.
    fn is_kept(&self, group: usize) -> bool {
        let pages = group * GROUP_PAGES..(group + 1) * GROUP_PAGES;
        self.kept[pages.clone()].contains(&true)
            && pages
                .into_iter()
                .all(|page| self.kept[page] || self.before[page] == Page::Absent && !self.present[page])
    }

    /// Reads from the parent those of `pages` that are kept in groups that are not. What the parent cannot give any more is left
    /// to the source.
    fn load_kept(&mut self, pages: Range<usize>, worker: &mut Worker, shared: &Shared) -> Result<()> {
        for page in pages {
            if !self.kept[page] || self.is_kept(page / GROUP_PAGES) {
                continue;
            }
            match self.before[page] {
                Page::Zero => self.memory[page * PAGE..][..PAGE].fill(0),
                Page::Stored { object, page: at } => {
                    match self.counts.parent_page(&object, at, worker, shared)? {
                        Some(bytes) => self.memory[page * PAGE..][..PAGE].copy_from_slice(bytes),
                        None => self.kept[page] = false,
                    }
                }
                Page::Absent => self.kept[page] = false,
            }
        }
        Ok(())
    }

    /// Reads those of `pages` that are there and not kept.
    fn load(&mut self, pages: Range<usize>, source: &dyn PageSource) -> Result<()> {
        let base = self.input.number * LEAF_SPAN;
        for &(first, count) in &self.input.runs {
            let (mut from, end) = (first.max(pages.start), (first + count).min(pages.end));
            while from < end {
                let kept = self.kept[from];
                let to = (from..end).find(|page| self.kept[*page] != kept).unwrap_or(end);
                if !kept {
                    let address = base + (from * PAGE) as u64;
                    let read = source.read(address, &mut self.memory[from * PAGE..to * PAGE]);
                    read.map_err(|error| StoreError::Source {
                        what: format!("memory at {address:#x}"),
                        source: error,
                    })?;
                }
                from = to;
            }
        }
        // A group is hashed whole: what is not there counts as zeros, not as what the last leaf left in the buffer.
        for page in pages.filter(|page| !self.present[*page]) {
            if self.present[page / GROUP_PAGES * GROUP_PAGES..][..GROUP_PAGES].contains(&true) {
                self.memory[page * PAGE..][..PAGE].fill(0);
            }
        }
        Ok(())
    }

    /// Decides what the four pages of a group are.
    fn group(&mut self, group: usize, worker: &mut Worker, shared: &Shared) -> Result<()> {
        let first = group * GROUP_PAGES;
        let pages = first..first + GROUP_PAGES;
        if !self.present[pages.clone()].contains(&true) {
            return Ok(());
        }
        if self.is_kept(group) {
            for page in pages.clone() {
                self.counts.present += u64::from(self.present[page]);
                self.counts.zero += u64::from(self.before[page] == Page::Zero);
            }
            self.after[pages.clone()].copy_from_slice(&self.before[pages]);
            match &self.input.prints {
                Some(prints) => self.prints[group] = prints[group],
                None => self.all_printed = false,
            }
            return Ok(());
        }
        let mut zero = [false; GROUP_PAGES];
        for (zero, page) in zero.iter_mut().zip(pages.clone()) {
            *zero = is_zero(page_of(self.memory, page));
            self.counts.present += u64::from(self.present[page]);
            self.counts.zero += u64::from(self.present[page] && *zero);
        }
        let hash = if zero == [true; GROUP_PAGES] {
            None
        } else {
            let hash = shared.store.hasher.leaf(&self.memory[group * GROUP..][..GROUP]);
            self.prints[group] = hash.truncated();
            Some(hash)
        };
        let same_presence =
            pages.clone().all(|page| self.present[page] == (self.before[page] != Page::Absent));
        let known = self.input.prints.as_ref().map(|prints| prints[group]);
        if self.input.parent.is_some() && same_presence && known == Some(self.prints[group]) {
            self.after[pages.clone()].copy_from_slice(&self.before[pages]);
            return Ok(());
        }
        let mut new = Vec::with_capacity(GROUP_PAGES);
        for page in pages {
            if !self.present[page] {
                continue;
            }
            self.after[page] = if zero[page - first] {
                Page::Zero
            } else if self.kept[page] || self.equals_parent(page, worker, shared)? {
                self.before[page]
            } else {
                new.push(page);
                Page::Absent
            };
        }
        self.counts.new += new.len() as u64;
        match hash {
            Some(hash) if new.len() == GROUP_PAGES => self.full.push((group, hash)),
            _ => self.scattered.extend(new.into_iter().filter_map(|page| u16::try_from(page).ok())),
        }
        Ok(())
    }

    /// Whether a page has the bytes that it had in the parent.
    fn equals_parent(&mut self, page: usize, worker: &mut Worker, shared: &Shared) -> Result<bool> {
        let Page::Stored { object, page: at } = self.before[page] else { return Ok(false) };
        let parent = self.counts.parent_page(&object, at, worker, shared)?;
        Ok(parent.is_some_and(|bytes| bytes == page_of(self.memory, page)))
    }

    /// Stores groups that are new as a whole, in objects of up to 128 pages, without hashing them again.
    fn store_full_groups(&mut self, worker: &mut Worker, shared: &Shared) -> Result<()> {
        let full = std::mem::take(&mut self.full);
        for groups in full.chunks(FULL_OBJECT) {
            if groups.len() < SMALLEST_DENSE {
                let pages =
                    groups.iter().flat_map(|(group, _)| group * GROUP_PAGES..(group + 1) * GROUP_PAGES);
                self.scattered.extend(pages.filter_map(|page| u16::try_from(page).ok()));
                continue;
            }
            let hashes = groups.iter().map(|(_, hash)| *hash);
            let (first, last) = (groups[0].0, groups[groups.len() - 1].0);
            let id = if last - first + 1 == groups.len() {
                let content = &self.memory[first * GROUP..(last + 1) * GROUP];
                shared.put_hashed(worker, Kind::PAGES, content, hashes)?
            } else {
                let mut content = std::mem::take(&mut worker.gathered);
                content.clear();
                for (group, _) in groups {
                    content.extend_from_slice(&self.memory[group * GROUP..][..GROUP]);
                }
                let id = shared.put_hashed(worker, Kind::PAGES, &content, hashes)?;
                worker.gathered = content;
                id
            };
            let pages = u16::try_from(groups.len() * GROUP_PAGES).unwrap_or(u16::MAX);
            let object = PagesRef { id, pages };
            let places = groups.iter().flat_map(|(group, _)| group * GROUP_PAGES..(group + 1) * GROUP_PAGES);
            for (page, place) in (0u16..).zip(places) {
                self.after[place] = Page::Stored { object, page };
            }
        }
        Ok(())
    }
}

/// Which pages of a leaf are in `runs`.
fn marked(runs: &[(usize, usize)]) -> [bool; LEAF_PAGES] {
    let mut pages = [false; LEAF_PAGES];
    for &(first, count) in runs {
        pages[first..first + count].fill(true);
    }
    pages
}

/// One page of a buffer of pages.
pub(super) fn page_of(bytes: &[u8], page: usize) -> &[u8] {
    &bytes[page * PAGE..][..PAGE]
}

/// Whether all bytes are zero. Most pages with content say so in their first words; a page that does not is looked at
/// in blocks that the compiler turns into vector instructions.
fn is_zero(page: &[u8]) -> bool {
    let (head, rest) = page.split_at(64);
    head == [0; 64] && rest.chunks(256).all(|block| block.iter().fold(0, |any, byte| any | byte) == 0)
}
