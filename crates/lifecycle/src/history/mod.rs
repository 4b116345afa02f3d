//! The history of one user: commits, the threads and tags that lead to them, and the store that they lie in.
//!
//! The store is opened once and shared. A session writes to a thread; its head
//! moves by compare-and-swap, so that two writers cannot lose a commit. Going back does not rewrite anything: it adds a
//! commit with two parents, what was left and what was gone back to.

mod forget;
mod known;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cas_core::crypto::KdfCost;
use cas_core::layout::{Format, Layout};
use cas_core::refs::{Expected, RefChange};
use cas_core::{Encryption, ObjectId, OpenOptions, Store, StoreError, Trust, WriteTransaction};
pub use forget::GcView;
#[cfg(test)]
pub(crate) use forget::tests as testing;
pub(crate) use forget::{Forgotten, unsaved};
use jiff::Timestamp;
pub(crate) use known::{Source, Using};
use manifest::history::{self, RevisionError};
use manifest::snapshot::{NotebookSection, OutsideSection, VariablesSection, WorkspaceSection};
use manifest::stored::{self, FromStore};
use manifest::{
    Author, CellNote, Commit, CommitReason, Extra, Figures, ManifestObject, ObjectSource, ReadError,
    Snapshot, Tag, Thread, TypedSection,
};
use sandbox::User;

use crate::encryption::StoreKey;
use crate::error::{LifecycleError, Result};
use known::Known;

/// The store, opened when it is first asked for.
#[derive(Debug)]
pub(crate) struct OwnStore {
    root: PathBuf,
    key: Option<StoreKey>,
    open: Mutex<Option<UserStore>>,
}

impl OwnStore {
    /// The store at `root`, which is encrypted if there is a key to it. One that is there and cannot be opened so is refused:
    /// nobody is to find out in the middle of a snapshot.
    pub(crate) fn new(root: impl Into<PathBuf>, key: Option<StoreKey>) -> Result<Self> {
        let own = Self { root: root.into(), key, open: Mutex::default() };
        match (Format::read(&Layout::new(&own.root)), &own.key) {
            (Ok(format), None) if format.encrypted => {
                return Err(LifecycleError::StoreKey {
                    path: own.root,
                    why: "it is encrypted, and `key_file` is not set".to_owned(),
                });
            }
            (Ok(format), Some(_)) if !format.encrypted => {
                return Err(LifecycleError::NotEncrypted { store: own.root });
            }
            (Ok(_), Some(key)) => match own.open() {
                Err(LifecycleError::Store(StoreError::WrongKey { .. })) => {
                    let why = format!("it is not the key of the store `{}`", own.root.display());
                    return Err(LifecycleError::StoreKey { path: key.path.clone(), why });
                }
                opened => drop(opened?),
            },
            // It is made, or found to be damaged, when it is needed.
            _ => (),
        }
        Ok(own)
    }

    /// The store; an empty one is made if there is none.
    pub(crate) fn open(&self) -> Result<UserStore> {
        // Held while it is opened: two who ask at the same moment must not both make it.
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*open {
            return Ok(store.clone());
        }
        let store = UserStore { store: open_or_init(&self.root, self.key.as_ref())?, known: Arc::default() };
        *open = Some(store.clone());
        Ok(store)
    }
}

/// What is restored runs with the user's rights on the word of these bytes: so every read compares them with their id.
fn open_or_init(root: &Path, key: Option<&StoreKey>) -> Result<Arc<Store>, StoreError> {
    let unlock = key.map(|key| key.unlock.clone());
    let options = || OpenOptions { trust: Trust::Identity, unlock: unlock.clone(), ..OpenOptions::default() };
    match Store::open(root, options()) {
        Err(StoreError::NotAStore { .. }) => {
            let encryption = unlock
                .as_ref()
                .map(|unlock| Encryption { unlocks: vec![unlock.clone()], cost: KdfCost::default() });
            Store::init(root, encryption.as_ref(), options())
        }
        other => other,
    }
}

/// A commit that is to be made.
#[derive(Clone, Debug)]
pub(crate) struct NewCommit<'a> {
    /// The state.
    pub(crate) snapshot: &'a Snapshot,
    /// What it came from; the thread's last commit first.
    pub(crate) parents: Vec<ObjectId>,
    /// The thread that it is made on.
    pub(crate) thread: &'a str,
    /// The thread's head, which must not have moved; `None` if the thread must be new.
    pub(crate) expected: Option<ObjectId>,
    /// Who.
    pub(crate) author: &'a User,
    /// What they say about it.
    pub(crate) message: &'a str,
    /// Why.
    pub(crate) reason: CommitReason,
    /// A tag that is set with it, and must be new.
    pub(crate) tag: Option<&'a str>,
    /// What history shows of it beside that.
    pub(crate) about: About,
}

/// What history shows of a commit, so that nobody has to load its snapshot for a list.
#[derive(Clone, Default, Debug)]
pub(crate) struct About {
    pub(crate) session: Option<String>,
    pub(crate) label: Option<String>,
    pub(crate) cell: Option<CellNote>,
    pub(crate) figures: Figures,
}

/// The history of one user, and the store that it is in.
#[derive(Clone, Debug)]
pub(crate) struct UserStore {
    store: Arc<Store>,
    known: Arc<Known>,
}

impl UserStore {
    /// The store.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Starts a write that builds upon `parents`: gc keeps them, and all they lead to, while it lasts.
    pub(crate) fn write(&self, parents: &[ObjectId]) -> Result<WriteTransaction> {
        Ok(self.store.write(parents)?)
    }

    /// Ends `session` with a commit as the thread's new head. Returns the ids of commit and snapshot, both durable.
    pub(crate) fn commit_snapshot(
        &self,
        session: WriteTransaction,
        new: NewCommit<'_>,
    ) -> Result<(ObjectId, ObjectId)> {
        let snapshot = save(new.snapshot, &session)?;
        let tag = new.tag.map(Tag::new).transpose()?;
        let commit = Commit {
            snapshot,
            parents: new.parents,
            thread: Thread::new(new.thread)?,
            author: author(new.author),
            time: Timestamp::now(),
            order: None,
            message: new.message.to_owned(),
            label: new.about.label,
            reason: new.reason,
            tags: BTreeSet::from_iter(tag),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            session: new.about.session,
            cell: new.about.cell,
            figures: Some(Figures { bytes: Some(new.snapshot.bytes()), ..new.about.figures }),
            has_notebook: new.snapshot.section(NotebookSection::NAME).is_some(),
            has_variables: new.snapshot.section(VariablesSection::NAME).is_some(),
            extra: Extra::default(),
        };
        Ok((self.commit(session, commit, new.expected)?, snapshot))
    }

    /// Says on a thread that its session went back from `left`, its head, to `to`. Returns the ids of the new commit and of
    /// the snapshot, which is that of `to`.
    pub(crate) fn commit_rollback(
        &self,
        (session_id, thread): (&str, &str),
        left: &ObjectId,
        to: &ObjectId,
        author: &User,
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
            about: About { session: Some(session_id.to_owned()), label: None, cell: target.cell, figures },
        };
        self.commit_snapshot(session, new)
    }

    fn commit(
        &self,
        session: WriteTransaction,
        mut commit: Commit,
        expected: Option<ObjectId>,
    ) -> Result<ObjectId> {
        let parents = commit.parents.iter().map(|id| self.commit_of(id)).collect::<Result<Vec<_>>>()?;
        commit.order_after(&parents);
        let id = save(&commit, &session)?;
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

    /// A commit, as it was written.
    pub(crate) fn commit_of(&self, id: &ObjectId) -> Result<Commit> {
        Ok(Commit::clone(&*self.known.commit(&self.store, id).map_err(|error| unread(*error))?))
    }

    /// A commit with the parents that are left.
    pub(crate) fn commit_now(&self, id: &ObjectId) -> Result<Commit> {
        self.source()?.commit(id).map_err(unread)
    }

    /// What the session of a commit went back to, if that is what it says.
    pub(crate) fn back_to(&self, id: &ObjectId) -> Option<ObjectId> {
        self.known.commit(&self.store, id).ok()?.back_to().copied()
    }

    /// A snapshot by its own id.
    pub(crate) fn snapshot_of(&self, id: &ObjectId) -> Result<Snapshot> {
        Snapshot::load(&FromStore(&self.store), id).map_err(unread)
    }

    /// A commit and its snapshot.
    pub(crate) fn load(&self, id: &ObjectId) -> Result<(Commit, Snapshot)> {
        let commit = self.commit_of(id)?;
        let snapshot = self.snapshot_of(&commit.snapshot)?;
        Ok((commit, snapshot))
    }

    /// The commit that `text` means: a thread, a tag, the first digits of an id, each with steps back as in `main~2`.
    pub(crate) fn resolve(&self, text: &str) -> Result<ObjectId> {
        history::resolve_with(&self.store, &*self.grafts()?, text).map_err(|error| match error {
            RevisionError::Store(error) => error.into(),
            RevisionError::Commit(error) => unread(*error),
            RevisionError::Forgotten { revision } => LifecycleError::Forgotten { commit: revision },
            RevisionError::Ambiguous { .. } => LifecycleError::BadRequest { detail: error.to_string() },
            _ => LifecycleError::NoSuchSnapshot { which: text.to_owned() },
        })
    }

    /// The newest commit of a thread; `None` if it has none.
    pub(crate) fn head(&self, thread: &str) -> Result<Option<ObjectId>> {
        Ok(self.store.refs().get(&Thread::new(thread)?.ref_path())?)
    }

    /// Everything that is left of what `heads` came from, newest first, themselves among it. What cannot be read is an error
    /// in its place; parents that were never in this store are left out.
    pub(crate) fn log(
        &self,
        heads: impl IntoIterator<Item = ObjectId>,
    ) -> Result<impl Iterator<Item = (ObjectId, Result<Commit>)> + '_> {
        let walk = history::walk(self.source()?, heads);
        Ok(walk.filter_map(|(id, commit)| match commit {
            Err(ReadError::Source { source: StoreError::MissingObject { .. }, .. }) => None,
            other => Some((id, other.map_err(unread))),
        }))
    }

    /// All threads with their heads.
    pub(crate) fn threads(&self) -> Result<Vec<(String, ObjectId)>> {
        self.names(Thread::PREFIX)
    }

    /// All tags with their commits.
    pub(crate) fn tags(&self) -> Result<Vec<(String, ObjectId)>> {
        self.names(Tag::PREFIX)
    }

    fn names(&self, prefix: &str) -> Result<Vec<(String, ObjectId)>> {
        let refs = self.store.refs().list(prefix)?;
        let name = |path: &str| path.strip_prefix(prefix).unwrap_or(path).to_owned();
        refs.into_iter().map(|(path, id)| Ok((name(&path), id?))).collect()
    }

    /// Whether one commit came from another, or is it.
    pub(crate) fn is_ancestor(&self, ancestor: &ObjectId, descendant: &ObjectId) -> Result<bool> {
        history::is_ancestor(self.source()?, ancestor, descendant).map_err(unread)
    }

    /// A name for a new thread: the one given, or with the id if a thread is called so already.
    pub(crate) fn free_thread(&self, name: &str, id: &str) -> Result<String> {
        Ok(if self.head(name)?.is_none() { name.to_owned() } else { format!("{name}-{id}") })
    }

    /// Files that no other snapshot holds, as a commit on a thread of their own beside `thread`.
    pub(crate) fn commit_files(
        &self,
        session: WriteTransaction,
        thread: &str,
        author: &User,
        workspace: &WorkspaceSection,
        outside: &OutsideSection,
    ) -> Result<Snapshot> {
        let thread = format!("{thread}-files");
        let before = self.head(&thread)?;
        let snapshot = Snapshot::new(vec![workspace.to_section()?, outside.to_section()?])?;
        let new = NewCommit {
            snapshot: &snapshot,
            parents: before.into_iter().collect(),
            thread: &thread,
            expected: before,
            author,
            message: "files that a rollback replaced",
            reason: CommitReason::BeforeRollback,
            tag: None,
            about: About::default(),
        };
        self.commit_snapshot(session, new)?;
        Ok(snapshot)
    }

    /// Starts a thread at a commit.
    pub(crate) fn start_thread(&self, thread: &str, at: &ObjectId) -> Result<()> {
        self.change(Thread::new(thread)?.ref_path(), Expected::Absent, Some(*at))
    }

    /// Ends a thread; one that is not there has ended. Its commits stay until gc finds that nothing else leads to them.
    pub(crate) fn delete_thread(&self, thread: &str) -> Result<()> {
        self.change(Thread::new(thread)?.ref_path(), Expected::Any, None)
    }

    /// Refuses what cannot be a tag, or is one: asked before much is done for a snapshot that is to have it.
    pub(crate) fn check_new_tag(&self, tag: &str) -> Result<()> {
        let name = Tag::new(tag)?.ref_path();
        match self.store.refs().get(&name)? {
            None => Ok(()),
            found => Err(StoreError::RefConflict { name, expected: None, found }.into()),
        }
    }

    fn change(&self, name: String, expected: Expected, new: Option<ObjectId>) -> Result<()> {
        Ok(self.store.refs().update(&[RefChange { name, expected, new }])?)
    }
}

fn author(user: &User) -> Author {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Author { name: user.name.clone(), uid: user.uid, host, extra: Extra::default() }
}

fn save(object: &impl ManifestObject, session: &WriteTransaction) -> Result<ObjectId> {
    stored::save(object, session).map_err(unsaved)
}

pub(crate) fn unread(error: ReadError<StoreError>) -> LifecycleError {
    match error {
        ReadError::Source { source, .. } => source.into(),
        ReadError::Object { source, .. } => source.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_store() -> (tempfile::TempDir, OwnStore) {
        let dir = tempfile::tempdir().unwrap();
        let own = OwnStore::new(dir.path().join("store"), None).unwrap();
        (dir, own)
    }

    pub(super) fn ada() -> User {
        User {
            uid: 1000,
            gid: 1000,
            groups: vec![1000],
            name: "ada".into(),
            home: "/home/ada".into(),
            shell: "/bin/sh".into(),
        }
    }

    fn commit_at(
        store: &UserStore,
        thread: &str,
        head: Option<ObjectId>,
        tag: Option<&str>,
    ) -> Result<ObjectId> {
        // Of no sections: what is tested is the history.
        let new = NewCommit {
            snapshot: &Snapshot::default(),
            parents: head.into_iter().collect(),
            thread,
            expected: head,
            author: &ada(),
            message: "m",
            reason: CommitReason::Manual,
            tag,
            about: About::default(),
        };
        let session = store.write(head.as_slice()).unwrap();
        store.commit_snapshot(session, new).map(|(commit, _)| commit)
    }

    fn commit(store: &UserStore, thread: &str) -> ObjectId {
        commit_at(store, thread, store.head(thread).unwrap(), None).unwrap()
    }

    #[test]
    fn the_store_is_made_once_and_shared_and_closed_to_others() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, own) = own_store();
        let one = commit(&own.open().unwrap(), "main");
        assert_eq!(own.open().unwrap().head("main").unwrap(), Some(one));
        let mode = std::fs::metadata(dir.path().join("store")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let after_a_restart = OwnStore::new(dir.path().join("store"), None).unwrap();
        assert_eq!(after_a_restart.open().unwrap().head("main").unwrap(), Some(one));
    }

    #[test]
    fn a_head_that_has_moved_is_not_lost() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let (one, two) = (commit(&store, "s/a"), commit(&store, "s/a"));
        for expected in [Some(one), None] {
            let error = commit_at(&store, "s/a", expected, None).unwrap_err();
            assert!(matches!(error, LifecycleError::Store(StoreError::RefConflict { .. })), "{error}");
        }
        assert_eq!(store.head("s/a").unwrap(), Some(two));
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
            assert_eq!(store.resolve(text).unwrap_err().code(), "IJ-L061", "{text}");
        }
        assert_eq!(store.tags().unwrap(), [("v1".to_owned(), one)]);
        store.check_new_tag("v2").unwrap();
        store.check_new_tag("v1").unwrap_err();
        store.check_new_tag("../v1").unwrap_err();
        commit_at(&store, "main", Some(two), Some("v1")).unwrap_err();
        assert_eq!(store.head("main").unwrap(), Some(two), "all or nothing");
    }

    #[test]
    fn going_back_adds_a_commit_with_two_parents() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let (one, two) = (commit(&store, "main"), commit(&store, "main"));
        let (back, state) = store.commit_rollback(("s", "main"), &two, &one, &ada()).unwrap();
        let (commit, snapshot) = store.load(&back).unwrap();
        assert_eq!((commit.parents, commit.snapshot), (vec![two, one], state));
        assert_eq!((commit.author.name.as_str(), commit.reason), ("ada", CommitReason::Rollback));
        assert_eq!((state, snapshot), (store.commit_of(&one).unwrap().snapshot, store.load(&one).unwrap().1));
        assert_eq!(store.resolve("main~").unwrap(), two);
        // To where it is already: one parent.
        let (again, _) = store.commit_rollback(("s", "main"), &back, &back, &ada()).unwrap();
        assert_eq!(store.commit_of(&again).unwrap().parents, [back]);
        let ids: Vec<_> =
            store.log([again]).unwrap().map(|(id, commit)| commit.map(|_| id).unwrap()).collect();
        assert_eq!(ids, [again, back, two, one]);
    }

    #[test]
    fn threads_begin_at_a_commit_and_can_be_ended() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let one = commit(&store, "main");
        store.start_thread("side", &one).unwrap();
        store.start_thread("side", &one).unwrap_err();
        let two = commit(&store, "side");
        assert_eq!(store.threads().unwrap(), [("main".to_owned(), one), ("side".to_owned(), two)]);
        store.delete_thread("main").unwrap();
        store.delete_thread("main").unwrap();
        assert_eq!(store.threads().unwrap(), [("side".to_owned(), two)]);
    }
}
