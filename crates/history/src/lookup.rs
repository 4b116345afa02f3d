//! Commits are found, loaded and listed.

use std::collections::BTreeSet;

use cas_core::{ObjectId, StoreError};
use jiff::Timestamp;
use manifest::history;
use manifest::stored::FromStore;
use manifest::{Commit, CommitReason, ManifestObject, ObjectSource, ReadError, Snapshot};

use crate::error::{HistoryError, Result, not_found};
use crate::own_store::UserStore;

impl UserStore {
    /// A commit, as it was written.
    pub fn commit_of(&self, id: &ObjectId) -> Result<Commit> {
        Ok(Commit::clone(&*self.known.commit(&self.store, id)?))
    }

    /// A commit with the parents that are left.
    pub fn commit_now(&self, id: &ObjectId) -> Result<Commit> {
        Ok(self.source()?.commit(id)?)
    }

    /// What the session of a commit went back to, if that is what it says.
    pub fn back_to(&self, id: &ObjectId) -> Option<ObjectId> {
        self.known.commit(&self.store, id).ok()?.back_to().copied()
    }

    /// A snapshot by its own id.
    pub fn snapshot_of(&self, id: &ObjectId) -> Result<Snapshot> {
        Ok(Snapshot::load(&FromStore(&self.store), id)?)
    }

    /// A commit and its snapshot.
    pub fn load(&self, id: &ObjectId) -> Result<(Commit, Snapshot)> {
        let commit = self.commit_of(id)?;
        let snapshot = self.snapshot_of(&commit.snapshot)?;
        Ok((commit, snapshot))
    }

    /// A snapshot that processes can be restored from.
    pub fn with_memory(&self, id: &ObjectId) -> Result<Snapshot> {
        let (commit, snapshot) = self.load(id)?;
        if commit.reason == CommitReason::Files {
            let what = "has files and no memory; `infinijup files --at` copies them";
            return Err(HistoryError::NotInSnapshot { commit: id.short(), what });
        }
        Ok(snapshot)
    }

    /// The commit that `text` means: a thread, a tag, the first digits of an id, each with steps back as in `main~2`.
    pub fn resolve(&self, text: &str) -> Result<ObjectId> {
        history::resolve_with(&self.store, &*self.grafts()?, text).map_err(|error| not_found(text, error))
    }

    /// Everything that is left of what `heads` came from, newest first, themselves among it. What cannot be read is an error
    /// in its place; parents that were never in this store are left out.
    pub fn log(
        &self,
        heads: impl IntoIterator<Item = ObjectId>,
    ) -> Result<impl Iterator<Item = (ObjectId, Result<Commit>)> + '_> {
        let walk = history::walk(self.source()?, heads);
        Ok(walk.filter_map(|(id, commit)| match commit {
            Err(ReadError::Source { source: StoreError::MissingObject { .. }, .. }) => None,
            other => Some((id, other.map_err(Into::into))),
        }))
    }

    /// The commits on `thread`, from its head on, that nobody asked for, with their times, newest first: taken automatically, and neither
    /// labelled nor named since.
    pub fn automatic(&self, thread: &str, head: ObjectId) -> Result<Vec<(ObjectId, Timestamp)>> {
        // A name that leads to a commit is somebody's wish to have it.
        let named: BTreeSet<ObjectId> =
            self.threads()?.into_iter().chain(self.tags()?).map(|(_, commit)| commit).collect();
        let mut automatic = Vec::new();
        for (id, commit) in self.log([head])? {
            let commit = commit?;
            let is_ours = commit.thread.as_str() == thread;
            if is_ours && commit.reason.is_automatic() && commit.label.is_none() && !named.contains(&id) {
                automatic.push((id, commit.time));
            }
        }
        Ok(automatic)
    }

    /// Whether one commit came from another, or is it.
    pub fn is_ancestor(&self, ancestor: &ObjectId, descendant: &ObjectId) -> Result<bool> {
        Ok(history::is_ancestor(self.source()?, ancestor, descendant)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::HistoryError;
    use crate::testing::{commit, commit_at, line, own_store};

    #[test]
    fn what_somebody_named_is_not_automatic() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let commits = line(&store, 4);
        store.set_tag("good", commits[1], false).unwrap();
        let by_hand = commit(&store, "main");
        let found: Vec<_> = store.automatic("main", by_hand).unwrap().into_iter().map(|(id, _)| id).collect();
        assert_eq!(found, [commits[3], commits[2], commits[0]]);
        assert!(store.automatic("other", by_hand).unwrap().is_empty());
    }

    #[test]
    fn what_people_type_is_found() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let one = commit_at(&store, "main", None, Some("v1")).unwrap();
        let two = commit(&store, "main");
        for (text, id) in [("main", two), ("main~1", one), ("v1", one), (&two.to_string()[..12], two)] {
            assert_eq!(store.resolve(text).unwrap(), id, "{text}");
        }
        for text in ["main~2", "nothing", "", "../main", "v1~"] {
            let error = store.resolve(text).unwrap_err();
            assert!(matches!(error, HistoryError::NoSuchSnapshot { .. }), "{text}: {error}");
        }
        assert_eq!(store.tags().unwrap(), [("v1".to_owned(), one)]);
        store.check_new_tag("v2").unwrap();
        store.check_new_tag("v1").unwrap_err();
        store.check_new_tag("../v1").unwrap_err();
        commit_at(&store, "main", Some(two), Some("v1")).unwrap_err();
        assert_eq!(store.head("main").unwrap(), Some(two), "all or nothing");
    }
}
