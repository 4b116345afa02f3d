//! Data goes here because a remote has it.
//!
//! What goes is decided from the newest snapshot on: as many as fit stay whole, and of all that are older the data goes, if it may. What is
//! never let go of: what a session goes on from or comes back to; what no thread or tag of the remote leads to, because it would not stay
//! there; and what the remote has not got whole. All of that is found out from the remote as it is now. One that does not answer ends it,
//! before anything here was touched.
//!
//! *Gaps.* Where something was forgotten here, history goes on behind the gap, but nobody else knows how. To the remote's other users what lies
//! behind it is garbage as soon as the forgotten snapshot itself is. So whatever is let go of behind a gap gets a thread of its own in the
//! remote first, `kept/ID`.

use std::collections::HashSet;

use cas_core::gc::GcOptions;
use cas_core::progress::Progress;
use cas_core::{ObjectId, StoreError};
use history::{HistoryError, UserStore};
use manifest::Thread;
use manifest::stored::ManifestReferences;
use remote::{Named, Pushed, Remote};

use crate::{Result, connect};

/// Below this name is where threads and tags of remotes were last seen. What they lead to takes room, too.
const REMEMBERED: &str = "remotes/";

/// What was let go of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Freed {
    /// Snapshots whose data is only in the remote now.
    pub snapshots: u64,
    /// How much less the store takes.
    pub bytes: u64,
}

/// A commit and the snapshot that it is about.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    commit: ObjectId,
    snapshot: ObjectId,
}

/// Has the store take no more than `keep` bytes, as far as that can be. `needed` says which commits must stay whole.
pub fn free(
    history: &UserStore,
    named: &Named,
    keep: u64,
    needed: &dyn Fn(&ObjectId) -> bool,
    progress: &dyn Progress,
) -> Result<Freed> {
    let store = history.store();
    let before = store.catalogue().totals()?.stored;
    if before <= keep {
        return Ok(Freed::default());
    }
    let remote = connect(store, named, None)?;
    let references = ManifestReferences::default();
    let candidates = candidates(history, &remote.led_to(&references)?, needed)?;
    let snapshots: Vec<ObjectId> = candidates.iter().map(|one| one.snapshot).collect();
    // A little more than must be, or the next snapshot would be too much again.
    let surplus = store.surplus(&snapshots, keep / 10 * 9, &references, progress)?;
    let surplus: HashSet<ObjectId> = surplus.into_iter().collect();
    let noted = store.elsewhere()?;
    // Those that were noted before may have data here still, if that was cut short.
    let goes = |one: &&Candidate| {
        surplus.contains(&one.snapshot) || noted.place(&one.snapshot) == Some(named.name.as_str())
    };
    let going: Vec<ObjectId> = candidates.iter().filter(goes).map(|one| one.commit).collect();
    let held: HashSet<ObjectId> = remote.holds(&going, &references, progress)?.into_iter().collect();
    let going: Vec<Candidate> = candidates.into_iter().filter(|one| held.contains(&one.commit)).collect();
    if going.is_empty() {
        return Ok(Freed::default());
    }
    keep_there(&remote, &going, progress)?;
    let snapshots: Vec<ObjectId> = going.iter().map(|one| one.snapshot).collect();
    let options = GcOptions { repack_below_percent: 80, ..GcOptions::default() };
    let report = store.let_go(&snapshots, &named.name, &references, &options, progress)?;
    let unread = report.plan.unreadable.len() + report.damaged.len();
    if unread > 0 {
        return Err(HistoryError::GcIncomplete { count: unread }.into());
    }
    if report.waiting_for > 0 {
        return Err(HistoryError::WritersBusy { count: report.waiting_for }.into());
    }
    let new = snapshots.iter().filter(|id| noted.place(id).is_none()).count() as u64;
    Ok(Freed { snapshots: new, bytes: before.saturating_sub(store.catalogue().totals()?.stored) })
}

/// The snapshots whose data may go as far as history is concerned, newest first.
fn candidates(
    history: &UserStore,
    led_to: &HashSet<ObjectId>,
    needed: &dyn Fn(&ObjectId) -> bool,
) -> Result<Vec<Candidate>> {
    let mut heads: Vec<ObjectId> =
        history.threads()?.into_iter().chain(history.tags()?).map(|(_, head)| head).collect();
    for (_, target) in history.store().refs().list(REMEMBERED)? {
        match target {
            Ok(id) => heads.push(id),
            Err(StoreError::Damaged { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (mut candidates, mut stay, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
    for (commit, content) in history.log(heads)? {
        let snapshot = content?.snapshot;
        if needed(&commit) {
            stay.insert(snapshot);
        } else if led_to.contains(&commit) && seen.insert(snapshot) {
            candidates.push(Candidate { commit, snapshot });
        }
    }
    candidates.retain(|one| !stay.contains(&one.snapshot));
    Ok(candidates)
}

/// Gives threads in the remote to what others would not find there.
fn keep_there(remote: &Remote, going: &[Candidate], progress: &dyn Progress) -> Result<()> {
    let as_others_see = ManifestReferences::ending_at_gaps();
    let mut found = remote.led_to(&as_others_see)?;
    let mut threads = Vec::new();
    for one in going {
        if found.contains(&one.commit) {
            continue;
        }
        let name =
            Thread::new(format!("kept/{}", one.commit.short())).map_err(HistoryError::from)?.ref_path();
        // Nobody else makes threads of this name.
        let seen = remote.get_ref(&name)?;
        threads.push(Pushed { name, target: one.commit, seen, force: false });
        // It leads to older ones, as far as the next gap.
        found.extend(remote.led_to_from(vec![one.commit], &as_others_see)?);
    }
    if !threads.is_empty() {
        remote.push(&threads, &as_others_see, false, progress)?;
    }
    // Only now it is known that it stays.
    let found = remote.led_to(&as_others_see)?;
    match going.iter().find(|one| !found.contains(&one.commit)) {
        None => Ok(()),
        Some(one) => Err(StoreError::MissingObject { id: one.commit }.into()),
    }
}
