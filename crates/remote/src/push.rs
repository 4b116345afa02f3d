//! Pushing: what the remote lacks, and then the refs.
//!
//! The walk begins at the commits that are pushed and ends at commits that refs of the remote point at: what those lead to is there.
//! An object in the index promises nothing about what it refers to, because a push that was cut short leaves parts behind; so the
//! walk goes on through such objects and sends only what is missing. What was sent is published now and then, and a push that is cut short
//! is continued by the next.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use cas_core::pack::PackClass;
use cas_core::parcel::SealedParcel;
use cas_core::progress::{Progress, Task};
use cas_core::reach::{self, Reference, References};
use cas_core::{Kind, ObjectId, ReadContext, Store, StoreError};

use crate::bucket::{Changed, Edit};
use crate::error::{RemoteError, Result};
use crate::index::{IndexEntry, ShortId};
use crate::lease::Lease;
use crate::parallel;
use crate::refs::{self, RefBody};
use crate::remote::{Remote, View};
use crate::token::Token;

/// A pack is closed when it is so long.
pub(crate) const PACK: usize = 16 << 20;
/// Packs that are under way at a time. Bounds memory: each is in it twice.
const IN_FLIGHT: usize = 4;
/// What was sent is published whenever a fourth of the time so far has passed again, within these limits: a push that is cut short loses
/// little of what it did, and `root`, which all writers share, is seldom changed by a long one.
const PUBLISH_EARLIEST: Duration = Duration::from_secs(1);
const PUBLISH_LATEST: Duration = Duration::from_secs(30);
/// So many refs are read to see where a walk may end. A fleet has thousands, and each of its members only needs its own.
const ENDS: usize = 64;
/// So many objects are asked for at a time.
const BATCH: usize = 4096;
/// How often a push begins anew that was given up by a collection.
const TRIES: u32 = 5;

/// One ref that shall move.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// `threads/main`, `tags/v1`.
    pub name: String,
    /// Where it shall point.
    pub target: ObjectId,
    /// Where the remote's was when it was last seen. If it is there still, it moves wherever it shall: going back is ordinary
    /// for the one who works on a thread, and nobody else has done anything to it.
    pub seen: Option<ObjectId>,
    /// Also if somebody else has moved it elsewhere.
    pub force: bool,
}

/// What a push did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Objects that the remote lacked.
    pub objects: u64,
    /// Their stored length.
    pub bytes: u64,
    /// Packs that were sent.
    pub packs: u64,
    /// Refs that moved.
    pub moved: Vec<String>,
    /// Refs that were there already.
    pub unchanged: Vec<String>,
}

impl Remote {
    /// Pushes. With `dry_run` nothing is written, and the report says what would be.
    pub fn push(
        &self,
        pushed: &[Pushed],
        above: &dyn References,
        dry_run: bool,
        progress: &dyn Progress,
    ) -> Result<PushReport> {
        above.renew(&self.store)?;
        if dry_run {
            let view = self.view()?;
            let missing = self.missing(&view, pushed, above, &|| Ok(()))?;
            return Ok(PushReport {
                objects: missing.count(),
                bytes: missing.bytes,
                ..PushReport::default()
            });
        }
        let mut attempt = 0;
        loop {
            match self.try_push(pushed, above, progress) {
                Err(RemoteError::LeaseLost) if attempt + 1 < TRIES => attempt += 1,
                done => return done,
            }
        }
    }

    fn try_push(
        &self,
        pushed: &[Pushed],
        above: &dyn References,
        progress: &dyn Progress,
    ) -> Result<PushReport> {
        let generation = self.root()?.generation;
        self.leave_key()?;
        let names = pushed.iter().map(|one| one.name.clone()).collect();
        let lease = Lease::take(&self.bucket, self.hasher(), generation, names)?;
        let done = self.push_under(&lease, pushed, above, progress);
        // What was asked for is done, whatever becomes of this.
        let tidied = if done.is_ok() { self.tidy(&lease).map(drop) } else { Ok(()) };
        if let Err(error) = &tidied {
            tracing::debug!(%error, "segments are merged by somebody else");
        }
        // A request may be under way still: then the lease stays, and a collection settles it.
        if !done.as_ref().is_err_and(RemoteError::is_open) && !tidied.is_err_and(|error| error.is_open()) {
            let ended = lease.end();
            if let Err(error) = ended {
                tracing::debug!(%error, "the lease stays until a collection takes it away");
            }
        }
        done
    }

    fn push_under(
        &self,
        lease: &Lease<'_>,
        pushed: &[Pushed],
        above: &dyn References,
        progress: &dyn Progress,
    ) -> Result<PushReport> {
        let view = self.view()?;
        let missing = self.missing(&view, pushed, above, &|| lease.keep())?;
        let mut report =
            PushReport { objects: missing.count(), bytes: missing.bytes, ..PushReport::default() };
        progress.begin(Task::Transfer, Some(missing.bytes));
        let sent = self.send(lease, &missing, progress);
        progress.end(Task::Transfer);
        report.packs = sent?;
        for one in pushed {
            let moved = self.move_ref(lease, one, above)?;
            if moved { &mut report.moved } else { &mut report.unchanged }.push(one.name.clone());
        }
        Ok(report)
    }

    /// What the remote lacks of everything that these lead to.
    fn missing(
        &self,
        view: &View,
        pushed: &[Pushed],
        above: &dyn References,
        keep: &dyn Fn() -> Result<()>,
    ) -> Result<Missing> {
        let names: Vec<&str> = pushed.iter().map(|one| one.name.as_str()).collect();
        let complete = refs::some(&self.bucket, self.hasher(), &names, ENDS)?;
        let mut walk = LocalWalk::new(&self.store, above, complete)?;
        for one in pushed {
            walk.begin(&one.target)?;
        }
        let mut missing = Missing::default();
        while let Some(batch) = walk.next(BATCH)? {
            keep()?;
            let ids: Vec<ObjectId> = batch.iter().map(|(reference, _)| reference.id).collect();
            let there = view.find_safe(&ids)?;
            for (reference, stored) in batch {
                match stored {
                    _ if there.contains_key(&reference.id) => {}
                    Some(stored) => missing.add(reference, stored),
                    None => return Err(StoreError::MissingObject { id: reference.id }.into()),
                }
            }
        }
        Ok(missing)
    }

    /// Sends objects in packs, and publishes them. Returns how many packs.
    fn send(&self, lease: &Lease<'_>, missing: &Missing, progress: &dyn Progress) -> Result<u64> {
        let mut packs: Vec<(PackClass, &[ObjectId])> = Vec::new();
        for (class, ids) in [(PackClass::Data, &missing.data), (PackClass::Metadata, &missing.metadata)] {
            let mut left: &[ObjectId] = ids;
            while !left.is_empty() {
                let (pack, rest) = left.split_at(self.pack_of(left)?);
                packs.push((class, pack));
                left = rest;
            }
        }
        let begun = Instant::now();
        let sent = Mutex::new(Sent { entries: Vec::new(), published: begun, publishing: false });
        parallel::each(IN_FLIGHT, &packs, &|(class, ids)| {
            lease.keep()?;
            let parcel = self.fill(*class, ids)?;
            self.bucket.put_new(&format!("packs/{}", Token::of_pack(&parcel.id)), &parcel.bytes)?;
            progress.advance(Task::Transfer, stored(&parcel));
            let new = entries_of(&parcel)?;
            drop(parcel);
            let due = {
                let sent = &mut *sent.lock().unwrap_or_else(PoisonError::into_inner);
                sent.entries.extend(new);
                let wait = (begun.elapsed() / 4).clamp(PUBLISH_EARLIEST, PUBLISH_LATEST);
                if sent.publishing || sent.published.elapsed() < wait {
                    return Ok(());
                }
                sent.publishing = true;
                std::mem::take(&mut sent.entries)
            };
            // The others go on sending meanwhile.
            self.publish(lease, due)?;
            self.tidy(lease)?;
            let sent = &mut *sent.lock().unwrap_or_else(PoisonError::into_inner);
            (sent.publishing, sent.published) = (false, Instant::now());
            Ok(())
        })?;
        self.publish(lease, sent.into_inner().unwrap_or_else(PoisonError::into_inner).entries)?;
        Ok(packs.len() as u64)
    }

    /// How many of these objects fill a pack.
    fn pack_of(&self, ids: &[ObjectId]) -> Result<usize> {
        let mut len = 0;
        for (n, id) in ids.iter().enumerate() {
            let location = self.store.catalogue().lookup(id)?.ok_or(StoreError::MissingObject { id: *id })?;
            len += location.stored_len as usize + 200;
            if len > PACK {
                return Ok(n.max(1));
            }
        }
        Ok(ids.len())
    }

    fn fill(&self, class: PackClass, ids: &[ObjectId]) -> Result<SealedParcel> {
        let mut parcel = self.store.parcel(class)?;
        ids.iter().try_for_each(|id| parcel.add(&self.store, id))?;
        Ok(parcel.finish())
    }

    /// Moves a ref forward. `false`: it is there already.
    fn move_ref(&self, lease: &Lease<'_>, one: &Pushed, above: &dyn References) -> Result<bool> {
        let key = refs::key_of(&one.name)?;
        let changed =
            self.bucket.change::<RefBody>(self.hasher(), &key, &|| lease.renew(), &mut |found| {
                let there = found.map(|found| found.target(&key)).transpose()?.flatten();
                if there == Some(one.target) {
                    return Ok(Edit::Keep);
                }
                if let Some(there) = there
                    && !one.force
                    && one.seen != Some(there)
                    && !leads_to(&self.store, above, &one.target, &there)?
                {
                    // What we push may be behind: then there is nothing to do.
                    if leads_to(&self.store, above, &there, &one.target)? {
                        return Ok(Edit::Keep);
                    }
                    return Err(RemoteError::RefMoved { name: one.name.clone(), found: Some(there) });
                }
                Ok(Edit::Set(RefBody::new(&one.name, Some(one.target))))
            })?;
        Ok(matches!(changed, Changed::Set(_)))
    }
}

/// What was sent and not published yet.
struct Sent {
    entries: Vec<IndexEntry>,
    /// When something was published last.
    published: Instant,
    /// One thread does it now.
    publishing: bool,
}

/// What must be sent.
#[derive(Debug, Default)]
struct Missing {
    data: Vec<ObjectId>,
    metadata: Vec<ObjectId>,
    bytes: u64,
}

impl Missing {
    fn add(&mut self, reference: Reference, stored: u64) {
        let list = if reference.kind.is_metadata() { &mut self.metadata } else { &mut self.data };
        list.push(reference.id);
        self.bytes += stored;
    }

    fn count(&self) -> u64 {
        (self.data.len() + self.metadata.len()) as u64
    }
}

fn stored(parcel: &SealedParcel) -> u64 {
    parcel.records.iter().map(|record| u64::from(record.entry.stored_len)).sum()
}

pub(crate) fn entries_of(parcel: &SealedParcel) -> Result<Vec<IndexEntry>> {
    let pack = Token::of_pack(&parcel.id);
    let too_long = |_| StoreError::Bug { detail: "a pack of more than 4 GiB was made".to_owned() };
    let entry = |record: &cas_core::pack::FooterRecord| {
        Ok(IndexEntry {
            id: ShortId::of(&record.entry.id),
            pack,
            offset: u32::try_from(record.offset).map_err(too_long)?,
            stored: record.entry.stored_len,
            kind: record.entry.kind,
        })
    };
    parcel.records.iter().map(entry).collect()
}

/// An object, and its stored length if it is in the store.
type Local = (Reference, Option<u64>);

/// A walk through a store, from some objects down, some at a time.
struct LocalWalk<'a> {
    store: &'a Store,
    above: &'a dyn References,
    context: ReadContext,
    content: Vec<u8>,
    /// Seen, or known to be complete.
    done: HashSet<ObjectId>,
    open: Vec<Reference>,
}

impl<'a> LocalWalk<'a> {
    fn new(store: &'a Store, above: &'a dyn References, done: HashSet<ObjectId>) -> Result<Self> {
        Ok(Self { store, above, context: ReadContext::new()?, content: Vec::new(), done, open: Vec::new() })
    }

    fn begin(&mut self, id: &ObjectId) -> Result<()> {
        self.open.push(Reference::strong(kind_of(self.store, id)?, *id));
        Ok(())
    }

    /// More objects with their stored length, about so many. `None`: that was all. Data without a length is not here: it may be
    /// where it is pushed to.
    fn next(&mut self, about: usize) -> Result<Option<Vec<Local>>> {
        let mut batch = Vec::new();
        while let Some(reference) = self.open.pop() {
            if !self.done.insert(reference.id) {
                continue;
            }
            let Some(location) = self.store.catalogue().lookup(&reference.id)? else {
                if !reference.kind.is_metadata() {
                    batch.push((reference, None));
                    continue;
                }
                if reference.weak {
                    continue;
                }
                return Err(StoreError::MissingObject { id: reference.id }.into());
            };
            batch.push((reference, Some(u64::from(location.stored_len))));
            if reference.kind.is_metadata() {
                self.store.read_into(reference.kind, &reference.id, &mut self.context, &mut self.content)?;
                let below = reach::references(reference.kind, &self.content, self.above)
                    .map_err(|detail| StoreError::Malformed { id: reference.id, detail })?;
                self.open.extend(below);
            }
            if batch.len() >= about {
                break;
            }
        }
        Ok(if batch.is_empty() { None } else { Some(batch) })
    }
}

fn kind_of(store: &Store, id: &ObjectId) -> Result<Kind> {
    let location = store.catalogue().lookup(id)?.ok_or(StoreError::MissingObject { id: *id })?;
    Ok(location.kind)
}

/// Whether an object of the store leads to another of its own kind: a commit to an earlier one.
pub(crate) fn leads_to(
    store: &Store,
    above: &dyn References,
    from: &ObjectId,
    to: &ObjectId,
) -> Result<bool> {
    if !store.contains(from)? {
        return Ok(false);
    }
    let kind = kind_of(store, from)?;
    let (mut open, mut seen) = (vec![*from], HashSet::new());
    let (mut context, mut content) = (ReadContext::new()?, Vec::new());
    while let Some(id) = open.pop() {
        if id == *to {
            return Ok(true);
        }
        if !seen.insert(id) || !store.contains(&id)? {
            continue;
        }
        store.read_into(kind, &id, &mut context, &mut content)?;
        let below = reach::references(kind, &content, above)
            .map_err(|detail| StoreError::Malformed { id, detail })?;
        open.extend(below.into_iter().filter(|below| below.kind == kind).map(|below| below.id));
    }
    Ok(false)
}
