//! Garbage collection: what no ref leads to goes, beside running writers, and crash-safe at every step.
//!
//! The danger in collecting beside writers is an object that is unreachable now and about to be referred to: a writer has
//! found it in the store and therefore not written it again. Two things prevent that loss:
//!
//! * *Condemned packs.* gc first marks what is reachable, then marks in the catalogue the packs that it is going to
//!   remove. From that moment on, writers do not count on anything in them. Then gc waits until every write
//!   transaction that began earlier has ended, and marks again. What is unreachable now stays unreachable.
//! * *Pins.* A transaction names the objects it builds upon (its parent snapshot), and these are roots like refs. So the
//!   parent's pages, which a child refers to without looking them up, stay.
//!
//! A pack without reachable objects is dropped. A sparse pack is repacked, and so are many small ones together: its
//! reachable objects are copied, as they are, into new packs; the catalogue moves them over in the same step that
//! enters the new packs; only then the old pack's rows go and its file is unlinked. A crash leaves, at worst,
//! files and marks that the next transaction or gc removes ([`Store::recover`]).
//!
//! Nothing is deleted while a reachable object cannot be read, for what it led to is unknown. `--dry-run` is
//! [`Store::plan_gc`], which makes the same plan and stops.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use crate::catalogue::{PackNo, PackRow};
use crate::error::{Class, Result, StoreError};
use crate::id::{ObjectId, PackId};
use crate::lock;
use crate::pack::PackClass;
use crate::pack::PackReader;
use crate::progress::{Progress, Task};
use crate::reach::{LiveSet, Marker, References, Unreadable};
use crate::store::Store;
use crate::transaction::{PACK_TARGET, WriteTransaction};

/// How often gc looks whether older transactions have ended.
const POLL: Duration = Duration::from_millis(50);
/// Bytes of live objects that are copied before the old packs are given up. Bounds the extra room a repack needs.
const REPACK_BATCH: u64 = 1 << 30;

/// A pack below this size counts as small, and more than so many small packs of a class are put together. Each snapshot
/// adds at least two packs, however little has changed; ten thousand of them would be twenty thousand files.
const SMALL_PACK: u64 = PACK_TARGET / 8;
const MANY_SMALL_PACKS: usize = 64;

/// What gc may do.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    /// A pack is repacked when less than this part of it, in percent, is reachable.
    pub repack_below_percent: u8,
    /// Repack every pack that has anything unreachable in it, so that its key can be destroyed.
    pub erase: bool,
    /// How long to wait for write transactions that began before.
    pub patience: Duration,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self { repack_below_percent: 60, erase: false, patience: Duration::from_secs(60) }
    }
}

/// What shall become of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It stays.
    Keep,
    /// It goes.
    Drop,
    /// Its reachable objects are copied, then it goes.
    Repack,
}

/// A pack and its fate.
#[derive(Clone, Copy, Debug)]
pub struct PackPlan {
    /// The pack.
    pub pack: PackRow,
    /// Reachable objects in it.
    pub live_objects: u64,
    /// Their stored bytes.
    pub live_stored: u64,
    /// What shall become of it.
    pub action: Action,
}

/// What gc would do.
#[derive(Debug)]
pub struct GcPlan {
    /// Every pack.
    pub packs: Vec<PackPlan>,
    /// Reachable objects.
    pub live_objects: u64,
    /// Their stored bytes.
    pub live_stored: u64,
    /// Unreachable objects.
    pub dead_objects: u64,
    /// Their stored bytes.
    pub dead_stored: u64,
    /// Reachable objects that could not be read. If there are any, nothing is deleted.
    pub unreadable: Vec<Unreadable>,
}

impl GcPlan {
    /// Packs with this fate.
    pub fn with(&self, action: Action) -> impl Iterator<Item = &PackPlan> {
        self.packs.iter().filter(move |plan| plan.action == action)
    }

    /// Bytes on disk that will be free.
    pub fn freed(&self) -> u64 {
        let gone = self.packs.iter().filter(|plan| plan.action != Action::Keep);
        gone.map(|plan| plan.pack.file_len.saturating_sub(plan.live_stored)).sum()
    }
}

/// What gc did.
#[derive(Debug)]
pub struct GcReport {
    /// The plan it followed.
    pub plan: GcPlan,
    /// Packs that are gone.
    pub packs_removed: u64,
    /// Bytes that were copied into new packs.
    pub bytes_copied: u64,
    /// Keys that were destroyed.
    pub epochs_forgotten: u64,
    /// Packs that had to stay because objects in them cannot be read.
    pub damaged: Vec<(PackNo, StoreError)>,
    /// Write transactions that began before and did not end in time; nothing was deleted then.
    pub waiting_for: u64,
}

impl Store {
    /// Finds out what gc would do. Changes nothing.
    pub fn plan_gc(
        &self,
        above: &dyn References,
        options: &GcOptions,
        progress: &dyn Progress,
    ) -> Result<GcPlan> {
        let mut marker = Marker::new(self, above, progress)?;
        mark(&mut marker, progress)?;
        let unreadable = std::mem::take(&mut marker.unreadable);
        self.plan(&marker.live, unreadable, options)
    }

    fn plan(&self, live: &LiveSet, unreadable: Vec<Unreadable>, options: &GcOptions) -> Result<GcPlan> {
        let mut counts: HashMap<PackNo, (u64, u64)> = HashMap::new();
        let mut plan = GcPlan {
            packs: Vec::new(),
            live_objects: 0,
            live_stored: 0,
            dead_objects: 0,
            dead_stored: 0,
            unreadable,
        };
        self.catalogue.for_each_object(&mut |id, location| {
            let stored = u64::from(location.stored_len);
            if live.contains(location.kind, id) {
                let count = counts.entry(location.pack).or_default();
                count.0 += 1;
                count.1 += stored;
                plan.live_objects += 1;
                plan.live_stored += stored;
            } else {
                plan.dead_objects += 1;
                plan.dead_stored += stored;
            }
            Ok(())
        })?;
        for pack in self.catalogue.packs()? {
            let (live_objects, live_stored) = counts.get(&pack.no).copied().unwrap_or_default();
            let sparse = live_stored * 100 < pack.file_len * u64::from(options.repack_below_percent);
            let clean = live_objects == u64::from(pack.objects);
            let action = match live_objects {
                0 => Action::Drop,
                // A small pack that is full of reachable objects has a footer and headers, and is not sparse for that.
                _ if clean => Action::Keep,
                _ if sparse || options.erase => Action::Repack,
                _ => Action::Keep,
            };
            plan.packs.push(PackPlan { pack, live_objects, live_stored, action });
        }
        gather_small_packs(&mut plan.packs);
        Ok(plan)
    }

    /// Collects garbage. One gc runs at a time; writers and readers may run beside it.
    pub fn gc(
        self: &std::sync::Arc<Self>,
        above: &dyn References,
        options: &GcOptions,
        progress: &dyn Progress,
    ) -> Result<GcReport> {
        self.gc_letting_go(&[], above, options, progress)
    }

    /// The same, and data goes, too, that only these objects lead to, as far as they are [elsewhere](crate::elsewhere).
    pub(crate) fn gc_letting_go(
        self: &std::sync::Arc<Self>,
        let_go: &[ObjectId],
        above: &dyn References,
        options: &GcOptions,
        progress: &dyn Progress,
    ) -> Result<GcReport> {
        let path = self.layout.lock("gc");
        let _guard = lock::try_exclusive(&path)?
            .ok_or_else(|| StoreError::Locked { path, holder: "another gc".to_owned() })?;
        self.recover()?;
        // A gc that died left its marks behind.
        let left_over: Vec<_> = self
            .catalogue
            .packs()?
            .iter()
            .filter(|pack| pack.condemned.is_some())
            .map(|pack| pack.no)
            .collect();
        self.catalogue.pardon(&left_over)?;
        let epochs = self.keys.as_ref().map(|keys| keys.epochs()).transpose()?.unwrap_or_default();

        let mut marker = Marker::new(self, above, progress)?;
        marker.letting_go(self.still_elsewhere(let_go)?);
        mark(&mut marker, progress)?;
        let unreadable = std::mem::take(&mut marker.unreadable);
        let plan = self.plan(&marker.live, unreadable, options)?;
        let mut report = GcReport {
            plan,
            packs_removed: 0,
            bytes_copied: 0,
            epochs_forgotten: 0,
            damaged: Vec::new(),
            waiting_for: 0,
        };
        let doomed: Vec<PackRow> = report
            .plan
            .packs
            .iter()
            .filter(|plan| plan.action != Action::Keep)
            .map(|plan| plan.pack)
            .collect();
        if !report.plan.unreadable.is_empty() {
            return Ok(report);
        }
        if doomed.is_empty() {
            // A gc before this one may have died when all that was left to do was forgetting.
            if self.catalogue.open_writes()?.is_empty() {
                report.epochs_forgotten = self.forget_unused_epochs(epochs)?;
            }
            return Ok(report);
        }

        let numbers: Vec<PackNo> = doomed.iter().map(|pack| pack.no).collect();
        let generation = self.catalogue.condemn(&numbers)?;
        report.waiting_for = self.wait_for_older_transactions(generation, options.patience)?;
        if report.waiting_for > 0 {
            self.catalogue.pardon(&numbers)?;
            return Ok(report);
        }
        // What was fetched meanwhile is meant to be here.
        marker.letting_go(self.still_elsewhere(let_go)?);
        mark(&mut marker, progress)?;
        if !marker.unreadable.is_empty() {
            self.catalogue.pardon(&numbers)?;
            report.plan.unreadable = marker.unreadable;
            return Ok(report);
        }
        self.remove_packs(&doomed, &marker.live, &mut report, progress)?;
        report.epochs_forgotten = self.forget_unused_epochs(epochs)?;
        Ok(report)
    }

    /// Waits until no transaction is left that began before `generation`; returns how many are left when patience ends.
    fn wait_for_older_transactions(&self, generation: u64, patience: Duration) -> Result<u64> {
        let deadline = Instant::now() + patience;
        loop {
            // Transactions of processes that died would be waited for in vain.
            self.recover()?;
            let older = self
                .catalogue
                .open_writes()?
                .iter()
                .filter(|one| one.started_generation < generation)
                .count();
            if older == 0 || Instant::now() >= deadline {
                return Ok(older as u64);
            }
            std::thread::sleep(POLL);
        }
    }

    fn remove_packs(
        self: &std::sync::Arc<Self>,
        doomed: &[PackRow],
        live: &LiveSet,
        report: &mut GcReport,
        progress: &dyn Progress,
    ) -> Result<()> {
        let expected: u64 = report.plan.with(Action::Repack).map(|plan| plan.live_stored).sum();
        progress.begin(Task::Repack, Some(expected));
        let transaction = self.write(&[])?;
        let mut batch = Vec::new();
        let mut copied = 0;
        for pack in doomed {
            match self.copy_live(&transaction, pack, live, progress) {
                Ok(bytes) => {
                    copied += bytes;
                    report.bytes_copied += bytes;
                    batch.push(*pack);
                }
                Err(error) if matches!(error.class(), Class::Corruption | Class::Key) => {
                    self.catalogue.pardon(&[pack.no])?;
                    report.damaged.push((pack.no, error));
                }
                Err(error) => return Err(error),
            }
            if copied >= REPACK_BATCH {
                self.give_up(&transaction, &mut batch, report)?;
                copied = 0;
            }
        }
        self.give_up(&transaction, &mut batch, report)?;
        transaction.commit(&[])?;
        progress.end(Task::Repack);
        Ok(())
    }

    /// Copies a pack's reachable objects; nothing is decompressed, but in an encrypted store everything is sealed anew.
    fn copy_live(
        &self,
        transaction: &WriteTransaction,
        pack: &PackRow,
        live: &LiveSet,
        progress: &dyn Progress,
    ) -> Result<u64> {
        let open = match self.open_pack(pack.no) {
            Ok(open) => open,
            // Without reachable objects it does not matter that the file cannot be opened.
            Err(error) => {
                let needed = self.has_live_objects(pack.no, live)?;
                return if needed { Err(error) } else { Ok(0) };
            }
        };
        let mut copied = 0;
        let mut buffer = Vec::new();
        let mut opened = Vec::new();
        let mut wanted = self.catalogue.objects_of(pack.no)?;
        wanted.retain(|(id, location)| live.contains(location.kind, id));
        for (id, location) in wanted {
            let raw = open.reader.read(&id, location.offset, location.stored_len, &mut buffer)?;
            let encoded = open.reader.unseal(&raw, open.key.as_ref(), &mut opened)?;
            transaction.put_encoded(raw.entry, encoded)?;
            copied += u64::from(location.stored_len);
            progress.advance(Task::Repack, u64::from(location.stored_len));
        }
        Ok(copied)
    }

    fn has_live_objects(&self, pack: PackNo, live: &LiveSet) -> Result<bool> {
        Ok(self.catalogue.objects_of(pack)?.iter().any(|(id, location)| live.contains(location.kind, id)))
    }

    /// Makes the copies durable, then lets the old packs go.
    fn give_up(
        &self,
        transaction: &WriteTransaction,
        batch: &mut Vec<PackRow>,
        report: &mut GcReport,
    ) -> Result<()> {
        transaction.flush()?;
        let numbers: Vec<PackNo> = batch.iter().map(|pack| pack.no).collect();
        self.catalogue.drop_packs(&numbers)?;
        report.packs_removed += numbers.len() as u64;
        numbers.iter().for_each(|pack| self.close_pack(*pack));
        let files: Vec<PackId> = batch.drain(..).map(|pack| pack.id).collect();
        self.remove_doomed(&files)?;
        Ok(())
    }

    /// Destroys those of these keys that seal nothing any more. `epochs` were there when gc began, and every
    /// transaction of that time has ended: what it has written is in the catalogue, or never will be. Packs that the
    /// catalogue does not know are asked as well, because a rebuild would take them in.
    fn forget_unused_epochs(&self, epochs: Vec<u32>) -> Result<u64> {
        let Some(keys) = &self.keys else { return Ok(0) };
        let packs = self.catalogue.packs()?;
        let known: HashSet<PackId> = packs.iter().map(|pack| pack.id).collect();
        let mut used: HashSet<u32> = packs.iter().map(|pack| pack.epoch).collect();
        for pack in self.packs.list()? {
            if !known.contains(&pack) {
                used.extend(self.epoch_of(&pack)?);
            }
        }
        let unused: Vec<u32> = epochs.into_iter().filter(|epoch| !used.contains(epoch)).collect();
        keys.forget(&unused)
    }

    /// The key that a pack asks for. One without a header asks for none: it can never be opened again. One that cannot be
    /// read now may ask for any.
    fn epoch_of(&self, pack: &PackId) -> Result<Option<u32>> {
        match self.packs.open(pack).and_then(PackReader::new) {
            Ok(reader) => Ok(reader.header().epoch),
            Err(error) if error.class() == Class::Corruption => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Has small packs repacked together where there are many of them.
fn gather_small_packs(plans: &mut [PackPlan]) {
    for class in [PackClass::Data, PackClass::Metadata] {
        let small = |plan: &PackPlan| {
            plan.action == Action::Keep && plan.pack.class == class && plan.pack.file_len < SMALL_PACK
        };
        if plans.iter().filter(|plan| small(plan)).count() > MANY_SMALL_PACKS {
            plans.iter_mut().filter(|plan| small(plan)).for_each(|plan| plan.action = Action::Repack);
        }
    }
}

fn mark(marker: &mut Marker<'_>, progress: &dyn Progress) -> Result<()> {
    progress.begin(Task::Mark, None);
    let result = marker.mark_roots();
    progress.end(Task::Mark);
    result
}
