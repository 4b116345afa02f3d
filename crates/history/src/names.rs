//! Threads and tags: the names that lead to commits.
//!
//! A thread moves with each commit that is made on it, a tag stays where it was set.

use cas_core::refs::{Expected, RefChange};
use cas_core::{ObjectId, StoreError};
use manifest::{Tag, Thread};

use crate::error::{HistoryError, Result};
use crate::own_store::UserStore;

/// Below this name is remembered where threads and tags of remotes were when they were last seen.
pub(crate) const REMEMBERED: &str = "remotes/";

impl UserStore {
    /// The newest commit of a thread; `None` if it has none.
    pub fn head(&self, thread: &str) -> Result<Option<ObjectId>> {
        Ok(self.store.refs().get(&Thread::new(thread)?.ref_path())?)
    }

    /// All threads with their heads.
    pub fn threads(&self) -> Result<Vec<(String, ObjectId)>> {
        self.names(Thread::PREFIX)
    }

    /// A name for a new thread: the one given, or with the id if a thread is called so already.
    pub fn free_thread(&self, name: &str, id: &str) -> Result<String> {
        Ok(if self.head(name)?.is_none() { name.to_owned() } else { format!("{name}-{id}") })
    }

    /// Starts a thread at a commit.
    pub fn start_thread(&self, thread: &str, at: &ObjectId) -> Result<()> {
        self.change(Thread::new(thread)?.ref_path(), Expected::Absent, Some(*at))
    }

    /// Ends a thread; one that is not there has ended. Its commits stay until gc finds that nothing else leads to them.
    pub fn delete_thread(&self, thread: &str) -> Result<()> {
        self.change(Thread::new(thread)?.ref_path(), Expected::Any, None)
    }

    /// Where threads and tags of remotes were last seen: `origin/threads/main`.
    pub(crate) fn remembered(&self) -> Result<Vec<(String, ObjectId)>> {
        self.names(REMEMBERED)
    }

    /// All tags with their commits.
    pub fn tags(&self) -> Result<Vec<(String, ObjectId)>> {
        self.names(Tag::PREFIX)
    }

    /// What a tag is at.
    pub fn tag(&self, tag: &str) -> Result<Option<ObjectId>> {
        Ok(self.store.refs().get(&Tag::new(tag)?.ref_path())?)
    }

    /// Refuses what cannot be a tag, or is one: asked before much is done for a snapshot that is to have it.
    pub fn check_new_tag(&self, tag: &str) -> Result<()> {
        let name = Tag::new(tag)?.ref_path();
        match self.store.refs().get(&name)? {
            None => Ok(()),
            found => Err(StoreError::RefConflict { name, expected: None, found }.into()),
        }
    }

    /// Sets a tag. One that is there is moved only with `move_it`.
    pub fn set_tag(&self, name: &str, id: ObjectId, move_it: bool) -> Result<()> {
        let name = Tag::new(name)?.ref_path();
        // So that it is not forgotten at the same moment.
        let _nobody_forgets = self.known.used();
        if self.grafts()?.contains(&id) {
            return Err(HistoryError::Forgotten { commit: id.short() });
        }
        let expected = if move_it { Expected::Any } else { Expected::Absent };
        if !move_it && self.store.refs().get(&name)? == Some(id) {
            return Ok(());
        }
        self.change(name, expected, Some(id))
    }

    /// Takes a tag away, and says what it was at.
    pub fn remove_tag(&self, tag: &str) -> Result<ObjectId> {
        let name = Tag::new(tag)?.ref_path();
        let found = self.store.refs().get(&name)?;
        let id = found.ok_or_else(|| HistoryError::NoSuchSnapshot { which: tag.to_owned() })?;
        self.change(name, Expected::At(id), None)?;
        Ok(id)
    }

    fn names(&self, prefix: &str) -> Result<Vec<(String, ObjectId)>> {
        let refs = self.store.refs().list(prefix)?;
        let name = |path: &str| path.strip_prefix(prefix).unwrap_or(path).to_owned();
        refs.into_iter().map(|(path, id)| Ok((name(&path), id?))).collect()
    }

    fn change(&self, name: String, expected: Expected, new: Option<ObjectId>) -> Result<()> {
        Ok(self.store.refs().update(&[RefChange { name, expected, new }])?)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{commit, own_store};

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
