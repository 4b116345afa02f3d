//! A snapshot becomes a commit on a thread.

use std::collections::BTreeSet;

use cas_core::refs::{Expected, RefChange};
use cas_core::{ObjectId, StoreError, WriteTransaction};
use jiff::Timestamp;
use manifest::snapshot::{NotebookSection, OutsideSection, VariablesSection, WorkspaceSection};
use manifest::stored;
use manifest::{Author, CellNote, Commit, CommitReason, Extra, Figures, Snapshot, Tag, Thread, TypedSection};
use sandbox::User;

use crate::error::Result;
use crate::own_store::UserStore;
use crate::seal::Sealer;

/// A commit that is to be made.
#[derive(Clone, Debug)]
pub struct NewCommit<'a> {
    /// The state.
    pub snapshot: &'a Snapshot,
    /// What it came from; the thread's last commit first.
    pub parents: Vec<ObjectId>,
    /// The thread that it is made on.
    pub thread: &'a str,
    /// The thread's head, which must not have moved; `None` if the thread must be new.
    pub expected: Option<ObjectId>,
    /// Who made it.
    pub author: &'a User,
    /// What they say about it.
    pub message: &'a str,
    /// What made it happen.
    pub reason: CommitReason,
    /// A tag that is set with it, and must be new.
    pub tag: Option<&'a str>,
    /// Of which session.
    pub session: Option<&'a str>,
    /// What it is called in lists.
    pub label: Option<String>,
    /// The cell that ran before it.
    pub cell: Option<CellNote>,
    /// What it took: history shows it, so that nobody has to load the snapshot for a list.
    pub figures: Figures,
    /// Marks it as taken by this installation, before anything names it: a crash leaves a mark too many, never a snapshot of ours
    /// that nobody trusts.
    pub seal: Option<&'a Sealer>,
}

/// Why files are kept by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeptFor {
    /// Others come in their place.
    Replaced,
    /// They go with their session.
    Removed,
}

impl UserStore {
    /// Ends `session` with a commit as the thread's new head. Returns the ids of commit and snapshot, both durable.
    pub fn commit_snapshot(
        &self,
        session: WriteTransaction,
        new: NewCommit<'_>,
    ) -> Result<(ObjectId, ObjectId)> {
        let snapshot = stored::save(new.snapshot, &session)?;
        self.make_whole(&session, &snapshot, &new.parents)?;
        let tag = new.tag.map(Tag::new).transpose()?;
        let commit = Commit {
            snapshot,
            parents: new.parents,
            thread: Thread::new(new.thread)?,
            author: author(new.author),
            time: Timestamp::now(),
            order: None,
            message: new.message.to_owned(),
            label: new.label,
            reason: new.reason,
            tags: BTreeSet::from_iter(tag),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            session: new.session.map(str::to_owned),
            cell: new.cell,
            figures: Some(Figures { bytes: Some(new.snapshot.bytes()), ..new.figures }),
            has_notebook: new.snapshot.section(NotebookSection::NAME).is_some(),
            has_variables: new.snapshot.section(VariablesSection::NAME).is_some(),
            extra: Extra::default(),
        };
        Ok((self.commit(session, commit, new.expected, new.seal)?, snapshot))
    }

    /// Says on a thread that its session went back from `left`, its head, to `to`. Returns the ids of the new commit and of
    /// the snapshot, which is that of `to`.
    pub fn commit_rollback(
        &self,
        (session_id, thread): (&str, &str),
        left: &ObjectId,
        to: &ObjectId,
        author: &User,
        seal: Option<&Sealer>,
    ) -> Result<(ObjectId, ObjectId)> {
        let session = self.write(&[*left, *to])?;
        let (target, snapshot) = self.load(to)?;
        let was = target.figures.unwrap_or_default();
        // It holds what the target holds, and cost nothing.
        let figures = Figures {
            new_bytes: Some(0),
            memory_bytes: was.memory_bytes,
            vram_bytes: was.vram_bytes,
            ..Figures::default()
        };
        // Going back to the very head is one parent, not the same twice.
        let parents = if left == to { vec![*left] } else { vec![*left, *to] };
        let new = NewCommit {
            snapshot: &snapshot,
            parents,
            thread,
            expected: Some(*left),
            author,
            message: &format!("back to {}", to.short()),
            reason: CommitReason::Rollback,
            tag: None,
            session: Some(session_id),
            label: None,
            cell: target.cell,
            figures,
            seal,
        };
        self.commit_snapshot(session, new)
    }

    /// Files that no other snapshot of a session, which has this id and thread, holds; and nothing else.
    pub fn commit_files(
        &self,
        session: WriteTransaction,
        (id, thread): (&str, &str),
        author: &User,
        why: KeptFor,
        workspace: &WorkspaceSection,
        outside: &OutsideSection,
    ) -> Result<ObjectId> {
        let (thread, message) = match why {
            // Its own thread goes on with what the session becomes.
            KeptFor::Replaced => (format!("{thread}-files"), "files that were replaced"),
            KeptFor::Removed => (thread.to_owned(), "files of a session that was removed"),
        };
        let before = self.head(&thread)?;
        let snapshot = Snapshot::new(vec![workspace.to_section()?, outside.to_section()?])?;
        let new = NewCommit {
            snapshot: &snapshot,
            parents: before.into_iter().collect(),
            thread: &thread,
            expected: before,
            author,
            message,
            reason: CommitReason::Files,
            tag: None,
            session: Some(id),
            label: None,
            cell: None,
            figures: Figures::default(),
            seal: None,
        };
        Ok(self.commit_snapshot(session, new)?.0)
    }

    /// What is committed here is whole here, also where it shares data with a snapshot that is elsewhere: that is brought now. If it cannot
    /// be, the new snapshot has its data elsewhere, too, which is better than none. What is shared without being looked up is shared with the
    /// parents: where they are whole, so is their child, and nothing has to be gone through.
    fn make_whole(
        &self,
        session: &WriteTransaction,
        snapshot: &ObjectId,
        parents: &[ObjectId],
    ) -> Result<()> {
        let elsewhere = self.store.elsewhere()?;
        if elsewhere.is_empty() || elsewhere.place(snapshot).is_some() {
            return Ok(());
        }
        let mut of_parents = parents.iter().map(|parent| Ok(self.commit_of(parent)?.snapshot));
        if of_parents.all(|parent: Result<_>| parent.is_ok_and(|parent| elsewhere.place(&parent).is_none())) {
            return Ok(());
        }
        session.flush()?;
        for absent in self.store.absent_below(snapshot, &stored::ManifestReferences::default())? {
            match self.store.get(absent.kind, &absent.id) {
                Ok(content) => drop(session.put(absent.kind, content)?),
                Err(StoreError::Beyond { place, .. } | StoreError::NoBeyond { place, .. }) => {
                    return Ok(self.store.change_elsewhere(|list| list.add(*snapshot, &place))?);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn commit(
        &self,
        session: WriteTransaction,
        mut commit: Commit,
        expected: Option<ObjectId>,
        seal: Option<&Sealer>,
    ) -> Result<ObjectId> {
        let parents = commit.parents.iter().map(|id| self.commit_of(id)).collect::<Result<Vec<_>>>()?;
        commit.order_after(&parents);
        let id = stored::save(&commit, &session)?;
        if let Some(sealer) = seal {
            sealer.seal(&id.to_string())?;
        }
        let head = RefChange {
            name: commit.thread.ref_path(),
            expected: expected.map_or(Expected::Absent, Expected::At),
            new: Some(id),
        };
        let tag = |tag: &Tag| RefChange { name: tag.ref_path(), expected: Expected::Absent, new: Some(id) };
        let changes: Vec<_> = std::iter::once(head).chain(commit.tags.iter().map(tag)).collect();
        session.commit(&changes)?;
        Ok(id)
    }
}

fn author(user: &User) -> Author {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Author { name: user.name.clone(), uid: user.uid, host, extra: Extra::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HistoryError;
    use crate::testing::{ada, commit, commit_at, own_store};

    #[test]
    fn a_head_that_has_moved_is_not_lost() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let (one, two) = (commit(&store, "s/a"), commit(&store, "s/a"));
        for expected in [Some(one), None] {
            let error = commit_at(&store, "s/a", expected, None).unwrap_err();
            assert!(matches!(error, HistoryError::Store(StoreError::RefConflict { .. })), "{error}");
        }
        assert_eq!(store.head("s/a").unwrap(), Some(two));
    }

    #[test]
    fn a_commit_is_sealed_before_anything_names_it() {
        let (dir, own) = own_store();
        let store = own.open().unwrap();
        let (one, two) = (commit(&store, "main"), commit(&store, "main"));
        let sealer = Sealer::open(dir.path()).unwrap();
        // The head has moved, so nothing comes of it but the mark.
        let error = store.commit_rollback(("s", "main"), &one, &two, &ada(), Some(&sealer)).unwrap_err();
        assert!(matches!(error, HistoryError::Store(StoreError::RefConflict { .. })), "{error}");
        let (back, _) = store.commit_rollback(("s", "main"), &two, &one, &ada(), Some(&sealer)).unwrap();
        assert!(sealer.check(&back.to_string()).is_ok() && sealer.check(&two.to_string()).is_err());
    }

    #[test]
    fn going_back_adds_a_commit_with_two_parents() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let (one, two) = (commit(&store, "main"), commit(&store, "main"));
        let (back, state) = store.commit_rollback(("s", "main"), &two, &one, &ada(), None).unwrap();
        let (commit, snapshot) = store.load(&back).unwrap();
        assert_eq!((commit.parents, commit.snapshot), (vec![two, one], state));
        assert_eq!((commit.author.name.as_str(), commit.reason), ("ada", CommitReason::Rollback));
        assert_eq!((state, snapshot), (store.commit_of(&one).unwrap().snapshot, store.load(&one).unwrap().1));
        assert_eq!(store.resolve("main~").unwrap(), two);
        // To where it is already: one parent.
        let (again, _) = store.commit_rollback(("s", "main"), &back, &back, &ada(), None).unwrap();
        assert_eq!(store.commit_of(&again).unwrap().parents, [back]);
        let ids: Vec<_> =
            store.log([again]).unwrap().map(|(id, commit)| commit.map(|_| id).unwrap()).collect();
        assert_eq!(ids, [again, back, two, one]);
    }
}
