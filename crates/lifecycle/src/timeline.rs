//! What was: histories, single snapshots, and the notes that went with them.
//!
//! A list is made of commits alone, which are small and cached by the store; no snapshot is loaded for it. What a *family* is,
//! `history` says; a branch and its original are one too.

use std::collections::HashMap;

use cas_core::ObjectId;
use cas_core::progress::Silent;
use history::{Families, UserStore};
use manifest::history::Grafts;
use manifest::snapshot::{NotebookSection, VariablesSection};
use manifest::{BlobRef, Commit, Snapshot};

use crate::along::{NOTEBOOK_LIMIT, parse_variables};
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::record::Record;
use crate::view::{CommitView, Figures, HistoryView, ThreadView, Variable};

/// The longest list of variables, in bytes.
const VARIABLES_BYTES: u64 = 64 << 20;

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
    pub fn history(&self, request: HistoryRequest<'_>) -> Result<HistoryView> {
        let head = match request.session {
            Some(which) => {
                let record = self.find(which)?;
                let head = record.head_id()?;
                Some((record.thread, head))
            }
            None => None,
        };
        let store = self.inner.store.open()?;
        let mut threads = Vec::new();
        let heads: Vec<ObjectId> = match head {
            Some((thread, head)) if request.family => {
                threads = self.family(&store, &thread)?;
                // A head that the thread does not know yet, or a thread that was deleted.
                threads.iter().map(|thread| thread.head).chain(head).collect()
            }
            Some((_, head)) => head.into_iter().collect(),
            None => store.threads()?.into_iter().map(|(_, head)| head).collect(),
        };
        let (tags, grafts) = (tags_by_commit(&store)?, store.grafts()?);
        let limit = request.limit.unwrap_or(usize::MAX);
        let commits = store
            .log(heads)?
            .take(limit)
            .map(|(id, commit)| Ok(view(&store, id, commit?, &tags, &grafts)))
            .collect::<Result<_>>()?;
        Ok(HistoryView { commits, threads })
    }

    /// One snapshot.
    pub fn commit(&self, which: &str) -> Result<CommitView> {
        let store = self.inner.store.open()?;
        let id = store.resolve(which)?;
        let (tags, grafts) = (tags_by_commit(&store)?, store.grafts()?);
        Ok(view(&store, id, store.commit_now(&id)?, &tags, &grafts))
    }

    /// The document that went with a snapshot.
    pub fn notebook(&self, which: &str) -> Result<Vec<u8>> {
        let store = self.inner.store.open()?;
        let id = store.resolve(which)?;
        let section = store.load(&id)?.1.get::<NotebookSection>()?;
        let section = section.ok_or_else(|| nothing(&id, "has no notebook"))?;
        read(&store, &id.short(), section.content, NOTEBOOK_LIMIT as u64)
    }

    /// The variables that a kernel had at a snapshot.
    pub fn variables(&self, which: &str) -> Result<Vec<Variable>> {
        let store = self.inner.store.open()?;
        let id = store.resolve(which)?;
        let found = variables_of(&store, &id.short(), &store.load(&id)?.1)?;
        found.ok_or_else(|| nothing(&id, "has no list of variables"))
    }

    /// The threads that a session's own is connected with.
    fn family(&self, store: &UserStore, thread: &str) -> Result<Vec<ThreadView>> {
        let members = self.families(store)?.of_thread(thread);
        let by_thread = self.sessions_by_thread();
        let view = |(name, head): (String, ObjectId)| {
            let session = by_thread.get(&name).map(|record| record.id.clone());
            ThreadView { name, head, session }
        };
        Ok(members.into_iter().map(view).collect())
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

/// The variables in a snapshot, if it has them.
pub(crate) fn variables_of(
    store: &UserStore,
    commit: &str,
    snapshot: &Snapshot,
) -> Result<Option<Vec<Variable>>> {
    let Some(section) = snapshot.get::<VariablesSection>()? else { return Ok(None) };
    parse_variables(commit, &read(store, commit, section.list, VARIABLES_BYTES)?).map(Some)
}

fn read(store: &UserStore, commit: &str, blob: BlobRef, limit: u64) -> Result<Vec<u8>> {
    if blob.len > limit {
        let detail = format!("a part of it has {} bytes", blob.len);
        return Err(LifecycleError::BadSnapshot { commit: commit.to_owned(), detail });
    }
    let mut bytes = Vec::new();
    store.store().read_blob(&blob.into(), &mut bytes, &Silent)?;
    Ok(bytes)
}

fn nothing(id: &ObjectId, what: &'static str) -> LifecycleError {
    LifecycleError::NotInSnapshot { commit: id.short(), what }
}

fn tags_by_commit(store: &UserStore) -> Result<HashMap<ObjectId, Vec<String>>> {
    let mut tags: HashMap<ObjectId, Vec<String>> = HashMap::new();
    for (tag, commit) in store.tags()? {
        tags.entry(commit).or_default().push(tag);
    }
    Ok(tags)
}

/// A commit as history shows it; its parents are those that are left.
fn view(
    store: &UserStore,
    id: ObjectId,
    commit: Commit,
    tags: &HashMap<ObjectId, Vec<String>>,
    grafts: &Grafts,
) -> CommitView {
    let figures = commit.figures.unwrap_or_default();
    // Commits of earlier versions do not say it.
    let bytes = figures
        .bytes
        .unwrap_or_else(|| store.snapshot_of(&commit.snapshot).map_or(0, |snapshot| snapshot.bytes()));
    CommitView {
        id,
        back_to: store.back_to(&id).filter(|to| !grafts.contains(to)),
        parents: commit.parents,
        thread: commit.thread.to_string(),
        time: commit.time,
        message: commit.message,
        automatic: commit.reason.is_automatic(),
        reason: commit.reason.to_string(),
        label: commit.label,
        tags: tags.get(&id).cloned().unwrap_or_default(),
        bytes,
        figures: Figures {
            new_bytes: figures.new_bytes,
            memory_bytes: figures.memory_bytes,
            vram_bytes: figures.vram_bytes,
            frozen_us: figures.frozen_us,
            gpu_paused_us: figures.gpu_paused_us,
        },
        cell: commit.cell.map(Into::into),
        has_notebook: commit.has_notebook,
        has_variables: commit.has_variables,
        session: commit.session,
    }
}
