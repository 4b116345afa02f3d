//! What was, as it is shown: lists of commits, single ones, and the document that went with one.
//!
//! A list is made of commits alone, which are small and kept in memory; no snapshot is loaded for it.

use std::collections::HashMap;
use std::sync::Arc;

use api::{CellNote, CommitView};
use cas_core::ObjectId;
use cas_core::elsewhere::Elsewhere;
use cas_core::progress::Silent;
use manifest::history::Grafts;
use manifest::snapshot::NotebookSection;
use manifest::{BlobRef, Commit};

use crate::error::{HistoryError, Result};
use crate::forget::by_commit;
use crate::own_store::UserStore;

/// The longest document.
pub const NOTEBOOK_LIMIT: usize = 64 << 20;

impl UserStore {
    /// What is left of what `heads` came from, newest first, no more than `limit` of it.
    pub fn commits(&self, heads: Vec<ObjectId>, limit: Option<usize>) -> Result<Vec<CommitView>> {
        let names = Names::of(self)?;
        let log = self.log(heads)?.take(limit.unwrap_or(usize::MAX));
        log.map(|(id, commit)| Ok(self.view(id, commit?, &names))).collect()
    }

    /// One commit.
    pub fn commit_view(&self, id: ObjectId) -> Result<CommitView> {
        Ok(self.view(id, self.commit_now(&id)?, &Names::of(self)?))
    }

    /// The document that went with a commit.
    pub fn notebook(&self, id: &ObjectId) -> Result<Vec<u8>> {
        let section = self.load(id)?.1.get::<NotebookSection>()?;
        let section = section
            .ok_or_else(|| HistoryError::NotInSnapshot { commit: id.short(), what: "has no notebook" })?;
        self.read_part(&id.short(), section.content, NOTEBOOK_LIMIT as u64)
    }

    /// A part of a snapshot. One that is longer than `limit` is none that we wrote.
    pub fn read_part(&self, commit: &str, blob: BlobRef, limit: u64) -> Result<Vec<u8>> {
        if blob.len > limit {
            let detail = format!("a part of it has {} bytes", blob.len);
            return Err(HistoryError::BadSnapshot { commit: commit.to_owned(), detail });
        }
        let mut bytes = Vec::new();
        self.store.read_blob(&blob.into(), &mut bytes, &Silent)?;
        Ok(bytes)
    }

    /// A commit as it is shown; its parents are those that are left.
    pub fn view(&self, id: ObjectId, commit: Commit, names: &Names) -> CommitView {
        let figures = commit.figures.unwrap_or_default();
        // Commits of earlier versions do not say it.
        let bytes = figures
            .bytes
            .unwrap_or_else(|| self.snapshot_of(&commit.snapshot).map_or(0, |snapshot| snapshot.bytes()));
        let elsewhere = names.elsewhere.place(&commit.snapshot).map(str::to_owned);
        let back_to = self.back_to(&id).filter(|to| !names.grafts.contains(to));
        CommitView {
            id: id.to_string(),
            parents: commit.parents.iter().map(ToString::to_string).collect(),
            thread: commit.thread.to_string(),
            tags: names.tags.get(&id).cloned().unwrap_or_default(),
            time: commit.time.to_string(),
            automatic: commit.reason.is_automatic(),
            reason: commit.reason.to_string(),
            message: commit.message,
            label: commit.label,
            bytes,
            new_bytes: figures.new_bytes,
            memory_bytes: figures.memory_bytes,
            vram_bytes: figures.vram_bytes,
            frozen_us: figures.frozen_us,
            gpu_paused_us: figures.gpu_paused_us,
            cell: commit.cell.map(|cell| CellNote { id: cell.id, number: cell.number, source: cell.source }),
            has_notebook: commit.has_notebook,
            has_variables: commit.has_variables,
            session: commit.session,
            back_to: back_to.map(|id| id.to_string()),
            elsewhere,
        }
    }
}

/// What leads to commits beside their children, and what was forgotten: read once for a whole list.
#[derive(Debug)]
pub struct Names {
    tags: HashMap<ObjectId, Vec<String>>,
    grafts: Arc<Grafts>,
    elsewhere: Elsewhere,
}

impl Names {
    fn of(store: &UserStore) -> Result<Self> {
        Self::with_tags(store, by_commit(store.tags()?))
    }

    /// For whoever has read the tags already.
    pub fn with_tags(store: &UserStore, tags: HashMap<ObjectId, Vec<String>>) -> Result<Self> {
        Ok(Self { tags, grafts: store.grafts()?, elsewhere: store.store.elsewhere()? })
    }
}

#[cfg(test)]
mod tests {
    use crate::HistoryError;
    use crate::testing::{ada, commit, commit_at, line, own_store};

    #[test]
    fn a_list_has_names_and_the_parents_that_are_left() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let one = commit_at(&store, "main", None, Some("v1")).unwrap();
        let (two, three) = (commit(&store, "main"), commit(&store, "main"));
        store.forget(&[two], &|_| None, false).unwrap();
        let list = store.commits(vec![three], None).unwrap();
        let ids: Vec<_> = list.iter().map(|view| view.id.as_str()).collect();
        assert_eq!(ids, [three.to_string(), one.to_string()]);
        assert_eq!(
            (list[0].parents.as_slice(), list[1].tags.as_slice()),
            (&[one.to_string()][..], &["v1".to_owned()][..])
        );
        assert_eq!(store.commits(vec![three], Some(1)).unwrap(), list[..1]);
        assert_eq!(store.commit_view(one).unwrap(), list[1]);
    }

    #[test]
    fn what_a_session_went_back_to_is_shown_until_it_is_forgotten() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let (one, two) = (commit(&store, "main"), commit(&store, "main"));
        let (back, _) = store.commit_rollback(("s", "main"), &two, &one, &ada(), None).unwrap();
        assert_eq!(store.commit_view(back).unwrap().back_to, Some(one.to_string()));
        store.forget(&[one], &|_| None, false).unwrap();
        assert_eq!(store.commit_view(back).unwrap().back_to, None);
    }

    #[test]
    fn a_document_comes_back_and_a_snapshot_without_one_says_so() {
        let (_dir, own) = own_store();
        let store = own.open().unwrap();
        let with = line(&store, 1)[0];
        assert_eq!(store.notebook(&with).unwrap().len(), 4096);
        let without = commit(&store, "bare");
        for error in [store.notebook(&without).unwrap_err(), store.variables(&with).unwrap_err()] {
            assert!(matches!(error, HistoryError::NotInSnapshot { .. }), "{error}");
        }
    }
}
