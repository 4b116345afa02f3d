//! Storing an address space: hands leaves to the workers, gathers scattered pages, builds the new map.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};

use super::fingerprints::Prints;
use super::fragmentation;
use super::map::{LeafMap, Page, PagesRef};
use super::scan::{ChangedLeaf, LeafInput, LeafOutput, Runs, scan};
use super::source::{PageSource, Region};
use super::tree::{AddressMap, LoadedLeaf, MapRoot};
use super::{LEAF_PAGES, LEAF_SPAN, PAGE, SCATTERED_PAGES};
use crate::error::{Result, StoreError};
use crate::id::Kind;
use crate::progress::{Progress, Task};
use crate::store::ReadContext;
use crate::transaction::WriteTransaction;

/// What storing an address space did, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IngestStats {
    /// Pages that are there.
    pub present: u64,
    /// Of these, all zeros.
    pub zero: u64,
    /// Pages whose bytes were not in the parent.
    pub new: u64,
    /// Pages that were rewritten to keep fragmentation bounded.
    pub rewritten: u64,
    /// Pages of the parent that could not be read and were stored anew.
    pub parent_unreadable: u64,
}

impl WriteTransaction {
    /// Stores an address space. Pages that are as in `parent` are shared with it; the parent should be pinned. Returns
    /// the map's root; it is durable after the next flush or commit.
    pub fn put_memory(
        &self,
        source: &Arc<dyn PageSource>,
        parent: Option<&MapRoot>,
        progress: &dyn Progress,
    ) -> Result<(MapRoot, IngestStats)> {
        let regions = source.regions();
        check_regions(&regions)?;
        let written = source.written();
        check_regions(written.as_deref().unwrap_or_default())?;
        progress.begin(Task::IngestMemory, Some(regions.iter().map(|region| region.len).sum()));
        let result = Ingest::new(self, parent)
            .and_then(|ingest| ingest.run(source, &regions, written.as_deref(), progress));
        progress.end(Task::IngestMemory);
        result
    }
}

fn check_regions(regions: &[Region]) -> Result<()> {
    let mut end = 0;
    for region in regions {
        let aligned = region.start % PAGE as u64 == 0 && region.len % PAGE as u64 == 0;
        let next = region.start.checked_add(region.len).filter(|next| *next <= 1 << 57);
        match next {
            Some(next) if aligned && region.start >= end && region.len > 0 => end = next,
            _ => {
                let what = format!("memory region {:#x}+{:#x} is not in order", region.start, region.len);
                return Err(StoreError::Invalid { what });
            }
        }
    }
    Ok(())
}

struct Ingest<'a> {
    transaction: &'a WriteTransaction,
    parent: AddressMap,
    parent_prints: Option<Prints>,
    map: AddressMap,
    prints: Prints,
    scattered: Scattered,
    stats: IngestStats,
}

impl<'a> Ingest<'a> {
    fn new(transaction: &'a WriteTransaction, parent: Option<&MapRoot>) -> Result<Self> {
        let store = transaction.store();
        let mut ingest = Self {
            transaction,
            parent: AddressMap::default(),
            parent_prints: None,
            map: AddressMap::default(),
            prints: Prints::default(),
            scattered: Scattered::default(),
            stats: IngestStats::default(),
        };
        if let Some(root) = parent {
            ingest.parent = AddressMap::load(store, root, &mut ReadContext::new()?)?;
            ingest.parent.forget_unusable(store)?;
            ingest.parent_prints = Prints::load(store, &root.id);
        }
        Ok(ingest)
    }

    fn run(
        mut self,
        source: &Arc<dyn PageSource>,
        regions: &[Region],
        written: Option<&[Region]>,
        progress: &dyn Progress,
    ) -> Result<(MapRoot, IngestStats)> {
        let mut written: Option<BTreeMap<u64, Runs>> = written.map(|regions| leaves_of(regions).collect());
        let (reply, replies) = unbounded();
        let mut inbox = Inbox { replies, waiting: BTreeMap::new(), next: 0, sent: 0 };
        // Results are taken in address order, so that the same memory always gives the same objects. As many leaves are
        // under way as keep the workers busy; each holds at most 2 MiB of scattered pages.
        let ahead = self.transaction.store().threads() * 4;
        for (number, runs) in leaves_of(regions) {
            let input = LeafInput {
                number,
                runs,
                written: written.as_mut().map(|leaves| leaves.remove(&number).unwrap_or_default()),
                parent: self.parent.leaves.get(&number).map(|leaf| leaf.map.clone()),
                prints: self.parent_prints.as_mut().and_then(|prints| prints.leaves.remove(&number)),
            };
            let answer = Answer { sequence: inbox.sent, reply: Some(reply.clone()) };
            let source = source.clone();
            self.transaction.submit(move |worker, shared| {
                let output = scan(worker, shared, source.as_ref(), input)?;
                answer.send(output);
                Ok(())
            })?;
            inbox.sent += 1;
            while inbox.sent - inbox.next >= ahead {
                self.take(inbox.receive()?, progress)?;
            }
        }
        while inbox.next < inbox.sent {
            self.take(inbox.receive()?, progress)?;
        }
        self.finish()
    }

    fn take(&mut self, output: Option<LeafOutput>, progress: &dyn Progress) -> Result<()> {
        // A worker failed: its error is in the transaction.
        let Some(output) = output else {
            self.transaction.check()?;
            return Err(StoreError::TransactionFailed {
                detail: "a worker gave no answer".into(),
                hint: None,
            });
        };
        let counts = output.counts;
        self.stats.present += counts.present;
        self.stats.zero += counts.zero;
        self.stats.new += counts.new;
        self.stats.parent_unreadable += counts.unreadable;
        progress.advance(Task::IngestMemory, counts.present * PAGE as u64);
        if let Some(prints) = output.prints {
            self.prints.leaves.insert(output.number, prints);
        }
        let leaf = match output.changed {
            None => self.parent.leaves.get(&output.number).cloned(),
            Some(ChangedLeaf { pages, scattered, bytes }) => {
                for (page, bytes) in scattered.iter().zip(bytes.chunks(PAGE)) {
                    self.scattered.add(self.transaction, output.number, *page, bytes)?;
                }
                Some(LoadedLeaf { id: None, map: Arc::new(LeafMap::fold(&pages)) })
            }
        };
        let leaf =
            leaf.ok_or_else(|| StoreError::Bug { detail: "an unchanged leaf has no parent".into() })?;
        self.map.leaves.insert(output.number, leaf);
        Ok(())
    }

    fn finish(mut self) -> Result<(MapRoot, IngestStats)> {
        self.scattered.close(self.transaction)?;
        self.place_scattered();
        let store = self.transaction.store();
        let rewrites = fragmentation::plan(&self.parent, &self.map);
        self.stats.rewritten =
            fragmentation::read_rewrites(store, &self.map, &rewrites, &mut |leaf, page, bytes| {
                self.scattered.add(self.transaction, leaf, page, bytes)
            })?;
        self.scattered.close(self.transaction)?;
        self.place_scattered();
        let root = self.map.store(self.transaction)?;
        self.prints.save(store, &root.id);
        Ok((root, self.stats))
    }

    /// Enters the scattered pages, now that it is known in which objects they lie.
    fn place_scattered(&mut self) {
        for (number, places) in std::mem::take(&mut self.scattered.placed) {
            if let Some(leaf) = self.map.leaves.get_mut(&number) {
                let mut pages = leaf.map.unfold();
                for (page, target) in places {
                    pages[usize::from(page)] = target;
                }
                *leaf = LoadedLeaf { id: None, map: Arc::new(LeafMap::fold(&pages)) };
            }
        }
    }
}

/// Gathers pages from all over the address space into objects.
#[derive(Default)]
struct Scattered {
    bytes: Vec<u8>,
    places: Vec<(u64, u16)>,
    placed: BTreeMap<u64, Vec<(u16, Page)>>,
}

impl Scattered {
    fn add(&mut self, transaction: &WriteTransaction, leaf: u64, page: u16, bytes: &[u8]) -> Result<()> {
        self.bytes.extend_from_slice(bytes);
        self.places.push((leaf, page));
        if self.places.len() == SCATTERED_PAGES { self.close(transaction) } else { Ok(()) }
    }

    fn close(&mut self, transaction: &WriteTransaction) -> Result<()> {
        if self.places.is_empty() {
            return Ok(());
        }
        let pages = u16::try_from(self.places.len()).unwrap_or(u16::MAX);
        let id = transaction.put(Kind::PAGES, std::mem::take(&mut self.bytes))?;
        let object = PagesRef { id, pages };
        for (page, (leaf, place)) in (0u16..).zip(self.places.drain(..)) {
            self.placed.entry(leaf).or_default().push((place, Page::Stored { object, page }));
        }
        Ok(())
    }
}

/// A worker's promise to answer, also when its job fails or panics.
struct Answer {
    sequence: usize,
    reply: Option<Sender<(usize, Option<LeafOutput>)>>,
}

impl Answer {
    fn send(mut self, output: LeafOutput) {
        if let Some(reply) = self.reply.take() {
            // Nobody listens any more when the ingest has failed already.
            let _ = reply.send((self.sequence, Some(output)));
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            let _ = reply.send((self.sequence, None));
        }
    }
}

/// Puts answers back into order.
struct Inbox {
    replies: Receiver<(usize, Option<LeafOutput>)>,
    waiting: BTreeMap<usize, Option<LeafOutput>>,
    next: usize,
    sent: usize,
}

impl Inbox {
    fn receive(&mut self) -> Result<Option<LeafOutput>> {
        loop {
            if let Some(output) = self.waiting.remove(&self.next) {
                self.next += 1;
                return Ok(output);
            }
            let (sequence, output) =
                self.replies.recv().map_err(|_| StoreError::Bug { detail: "all workers are gone".into() })?;
            self.waiting.insert(sequence, output);
        }
    }
}

/// Cuts regions into leaves: leaf number, and runs of pages within it.
fn leaves_of(regions: &[Region]) -> impl Iterator<Item = (u64, Runs)> {
    let mut pieces = regions
        .iter()
        .flat_map(|region| {
            let end = region.start + region.len;
            (region.start / LEAF_SPAN..=(end - 1) / LEAF_SPAN).map(move |number| {
                let base = number * LEAF_SPAN;
                let from = region.start.max(base) - base;
                let to = end.min(base + LEAF_SPAN) - base;
                (number, in_pages(from), in_pages(to - from))
            })
        })
        .peekable();
    std::iter::from_fn(move || {
        let (number, first, count) = pieces.next()?;
        let mut runs = vec![(first, count)];
        while let Some((_, first, count)) = pieces.next_if(|(next, ..)| *next == number) {
            runs.push((first, count));
        }
        Some((number, runs))
    })
}

fn in_pages(bytes: u64) -> usize {
    usize::try_from(bytes).map_or(LEAF_PAGES, |bytes| bytes / PAGE)
}
