//! Fetching: what the store lacks, and then the names under which it remembers where the remote's refs are.
//!
//! Everything is compared with its id before it enters the store, and refs move last, so a remote can send wrong bytes, too many or none at
//! all, and what comes of it is an error. What it can do is to show an old state of a ref; a ref that does not lead to where it was seen
//! before is reported and left alone.
//!
//! A fetch can bring the history alone: everything that leads on, and no pages and chunks. Which snapshots have their data in the remote
//! is written down before they can be read ([`cas_core::elsewhere`]), so whatever cuts it short, no snapshot is taken for whole that is not.
//! What local refs lead to is complete only as long as nothing is in that list. While something is, a fetch of everything walks all of it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use cas_core::progress::{Progress, Task};
use cas_core::reach::References;
use cas_core::refs::{Expected, RefChange};
use cas_core::{Kind, ObjectId};

use crate::error::{RemoteError, Result};
use crate::push::leads_to;
use crate::remote::Remote;
use crate::walk::Walk;

/// What arrived is made durable after so many bytes, so that a fetch which is cut short is continued by the next.
const FLUSH: u64 = 1 << 30;

/// What to fetch.
#[derive(Clone, Debug, Default)]
pub struct FetchOptions {
    /// These refs; `None`: all.
    pub refs: Option<Vec<String>>,
    /// Where refs are remembered: `remotes/origin` for `remotes/origin/threads/main`.
    pub tracking: String,
    /// Follow refs that went back.
    pub force: bool,
    /// No more bytes than these may come.
    pub room: Option<u64>,
    /// Only find out how much would come.
    pub dry_run: bool,
    /// Only what leads on, and no data.
    pub history: Option<HistoryOnly>,
}

/// How a history without its data is written down.
#[derive(Clone, Debug)]
pub struct HistoryOnly {
    /// Of this kind are the objects whose data is somewhere as a whole: snapshots.
    pub kind: Kind,
    /// What this remote is called.
    pub place: String,
}

/// How a ref has moved since it was last seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Movement {
    /// It was never seen before.
    New,
    /// Not at all.
    Same,
    /// To something that descends from where it was.
    Forward,
    /// To something that does not.
    Elsewhere,
}

/// A ref that was fetched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// `threads/main`.
    pub name: String,
    /// Where it is.
    pub target: ObjectId,
    /// Where it was when it was last seen.
    pub before: Option<ObjectId>,
    /// How it has moved.
    pub movement: Movement,
}

/// What a fetch did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchReport {
    /// Refs.
    pub refs: Vec<Fetched>,
    /// Objects that came.
    pub objects: u64,
    /// Their stored length.
    pub bytes: u64,
}

impl Remote {
    /// Fetches.
    pub fn fetch(
        &self,
        options: &FetchOptions,
        above: &dyn References,
        progress: &dyn Progress,
    ) -> Result<FetchReport> {
        above.renew(&self.store)?;
        let view = self.view()?;
        let targets = self.wanted(options)?;
        let local = self.store.refs();
        // What local refs lead to is complete. The walk ends there.
        let elsewhere = self.store.elsewhere()?;
        let known: HashSet<ObjectId> = match &options.history {
            None if !elsewhere.is_empty() => HashSet::new(),
            _ => local.list("")?.into_iter().filter_map(|(_, id)| id.ok()).collect(),
        };
        let ids: Vec<ObjectId> = targets.iter().map(|(_, id)| *id).filter(|id| !known.contains(id)).collect();
        let transaction = self.store.write(&[])?;
        let (objects, bytes, flushed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let mut walk = Walk::new(self, &view, above)?;
        walk.history_only = options.history.is_some();
        // Snapshots that come without their data.
        let bare: Mutex<Vec<ObjectId>> = Mutex::default();
        walk.begin(&ids)?;
        walk.done.extend(&known);
        progress.begin(Task::Transfer, None);
        while let Some(batch) = walk.next()? {
            let mut far = Vec::new();
            for placed in batch.placed {
                // What a gc is about to remove must come again.
                if self.store.keeps(&placed.0.id)? && walk.follow_local(&placed.0)? {
                    // A fetch of everything that was cut short may have left it without its data.
                    if let Some(history) = &options.history
                        && placed.0.kind == history.kind
                        && elsewhere.place(&placed.0.id).is_none()
                        && !self.store.is_whole(&placed.0.id, above)?
                    {
                        bare.lock().unwrap_or_else(PoisonError::into_inner).push(placed.0.id);
                    }
                } else {
                    objects.fetch_add(1, Ordering::Relaxed);
                    let so_far = bytes.fetch_add(u64::from(placed.1.stored), Ordering::Relaxed);
                    if let Some(limit) =
                        options.room.filter(|room| so_far + u64::from(placed.1.stored) > *room)
                    {
                        return Err(RemoteError::TooMuch { limit });
                    }
                    if !options.dry_run || placed.0.kind.is_metadata() {
                        far.push(placed);
                    }
                }
            }
            for reference in &batch.local_only {
                walk.follow_local(reference)?;
            }
            if let Some(id) = walk.missing.first() {
                return Err(RemoteError::Missing { id: *id });
            }
            walk.follow(far, &|reference, object| {
                if !options.dry_run {
                    transaction.adopt(object)?;
                    above.imported(reference.kind, &reference.id);
                    if options.history.as_ref().is_some_and(|history| history.kind == reference.kind) {
                        bare.lock().unwrap_or_else(PoisonError::into_inner).push(reference.id);
                    }
                }
                progress.advance(Task::Transfer, object.content().len() as u64);
                Ok(())
            })?;
            if bytes.load(Ordering::Relaxed) - flushed.load(Ordering::Relaxed) > FLUSH {
                self.note_bare(options, &bare)?;
                transaction.flush()?;
                flushed.store(bytes.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        progress.end(Task::Transfer);
        if let Some(id) = walk.missing.first() {
            return Err(RemoteError::Missing { id: *id });
        }
        let mut report =
            FetchReport { refs: Vec::new(), objects: objects.into_inner(), bytes: bytes.into_inner() };
        if !options.dry_run {
            self.note_bare(options, &bare)?;
            // They can be read from here on.
            transaction.flush()?;
            if options.history.is_none() && !elsewhere.is_empty() {
                // All that was passed is here now. Said while the transaction lives: no gc lets go of any of it before.
                self.store.change_elsewhere(|list| list.retain(|id| !walk.done.contains(id)))?;
            }
        }
        let mut changes = Vec::new();
        for (name, target) in targets {
            let tracked = format!("{}/{name}", options.tracking);
            let before = local.get(&tracked)?;
            let movement = match before {
                None => Movement::New,
                Some(before) if before == target => Movement::Same,
                Some(before) if !options.dry_run && leads_to(&self.store, above, &target, &before)? => {
                    Movement::Forward
                }
                Some(_) if options.dry_run => Movement::Forward,
                Some(_) => Movement::Elsewhere,
            };
            if movement != Movement::Same && (movement != Movement::Elsewhere || options.force) {
                let expected = before.map_or(Expected::Absent, Expected::At);
                changes.push(RefChange { name: tracked, expected, new: Some(target) });
            }
            report.refs.push(Fetched { name, target, before, movement });
        }
        if !options.dry_run {
            transaction.commit(&changes)?;
        }
        Ok(report)
    }

    fn note_bare(&self, options: &FetchOptions, bare: &Mutex<Vec<ObjectId>>) -> Result<()> {
        let Some(history) = &options.history else { return Ok(()) };
        let bare = bare.lock().unwrap_or_else(PoisonError::into_inner);
        let note = |list: &mut cas_core::elsewhere::Elsewhere| {
            bare.iter().for_each(|id| list.add(*id, &history.place));
        };
        Ok(self.store.change_elsewhere(note)?)
    }

    fn wanted(&self, options: &FetchOptions) -> Result<Vec<(String, ObjectId)>> {
        let Some(names) = &options.refs else { return self.refs() };
        let one = |name: &String| match self.get_ref(name)? {
            Some(id) => Ok((name.clone(), id)),
            None => Err(RemoteError::NoSuchRef { name: name.clone() }),
        };
        names.iter().map(one).collect()
    }
}
