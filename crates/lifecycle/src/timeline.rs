//! What was, by session: which heads a history begins at, and which sessions a commit concerns. How commits are listed and shown is
//! `history`'s business, and what a *family* of threads is; here a branch and its original are one too.

use std::collections::HashMap;
use std::path::Path;

use api::{Commits, CopyOutOutcome, CopyOutRequest, FileText, SnapshotFiles, ThreadView};
use cas_core::ObjectId;
use history::{Families, UserStore};
use session_record::Record;

use crate::engine::Engine;
use crate::error::Result;

/// Which part of history.
#[derive(Clone, Copy, Default, Debug)]
pub struct HistoryRequest<'a> {
    /// Of one session; of all threads if `None`.
    pub session: Option<&'a str>,
    /// Also what is connected with it, and the threads.
    pub family: bool,
    /// No more than so many, the newest.
    pub limit: Option<usize>,
}

impl Engine {
    /// A history, newest first.
    pub fn history(&self, request: HistoryRequest<'_>) -> Result<Commits> {
        let record = request.session.map(|which| self.find(which)).transpose()?;
        let store = self.inner.store.open()?;
        let mut threads = Vec::new();
        let heads: Vec<ObjectId> = match record {
            Some(record) if request.family => {
                let family = self.family(&store, &record.thread)?;
                let heads: Vec<ObjectId> = family.iter().map(|(head, _)| *head).collect();
                threads = family.into_iter().map(|(_, thread)| thread).collect();
                // Its own head may be one that the thread does not know yet, or the thread was deleted.
                heads.into_iter().chain(record.head_id()?).collect()
            }
            Some(record) => record.head_id()?.into_iter().collect(),
            None => store.threads()?.into_iter().map(|(_, head)| head).collect(),
        };
        Ok(Commits { commits: store.commits(heads, request.limit)?, threads })
    }

    /// Looks into the store: at a snapshot, at what lies between two, at what went with one.
    pub fn look<T>(&self, look: impl FnOnce(&UserStore) -> history::Result<T>) -> Result<T> {
        Ok(look(&self.inner.store.open()?)?)
    }

    /// The files of a snapshot, the first `limit` of them.
    pub fn snapshot_files(&self, which: &str, limit: usize) -> Result<SnapshotFiles> {
        Ok(session_record::snapshot_files(&self.inner.store.open()?, which, limit)?)
    }

    /// The text of a file of a snapshot.
    pub fn file_text(&self, which: &str, path: &Path) -> Result<FileText> {
        Ok(session_record::file_text(&self.inner.store.open()?, which, path)?)
    }

    /// Copies files of a snapshot into a directory.
    pub fn copy_out(&self, which: &str, request: &CopyOutRequest) -> Result<CopyOutOutcome> {
        Ok(session_record::copy_out(&self.inner.store.open()?, &self.inner.user, which, request)?)
    }

    /// The threads that a session's own is connected with.
    fn family(&self, store: &UserStore, thread: &str) -> Result<Vec<(ObjectId, ThreadView)>> {
        let members = self.families(store)?.of_thread(thread);
        let by_thread = self.sessions_by_thread();
        let session = |name: &String| by_thread.get(name).map(|record| record.id.to_string());
        let view = |name: String, head| ThreadView { session: session(&name), name, head };
        Ok(members.into_iter().map(|(name, head)| (head, view(name, head.to_string()))).collect())
    }

    /// The sessions in whose family a commit is.
    pub(crate) fn family_of(&self, store: &UserStore, commit: &ObjectId) -> Result<Vec<Record>> {
        let members = self.families(store)?.of_commit(commit);
        let mut by_thread = self.sessions_by_thread();
        Ok(members.iter().filter_map(|(thread, _)| by_thread.remove(thread)).collect())
    }

    /// All threads, and which of them are connected: by their commits, or because one session is a branch of the other. A common
    /// ancestor may have been forgotten; the records still know.
    fn families(&self, store: &UserStore) -> Result<Families> {
        let mut families = store.families()?;
        let records = self.records();
        for record in records.values() {
            if let Some(origin) = record.origin.as_ref().and_then(|origin| records.get(&origin.session)) {
                families.join(&record.thread, &origin.thread);
            }
        }
        Ok(families)
    }

    fn sessions_by_thread(&self) -> HashMap<String, Record> {
        self.records().values().map(|record| (record.thread.clone(), record.clone())).collect()
    }
}
