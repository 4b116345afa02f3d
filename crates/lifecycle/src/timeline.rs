//! What was: histories, single snapshots, and the notes that went with them.
//!
//! A list is made of commits alone, which are small and cached by the store; no snapshot is loaded for it. The *family* of a
//! session is the whole graph that its newest snapshot is connected with: the session itself, what it was branched off, and
//! all branches of those. Threads that have an ancestor in common are connected, and so are a branch and its original, whose
//! common ancestor may have been forgotten.

use std::collections::{BTreeMap, HashMap};

use cas_core::ObjectId;
use cas_core::progress::Silent;
use manifest::history::Grafts;
use manifest::snapshot::{NotebookSection, VariablesSection};
use manifest::{BlobRef, Commit, ObjectSource, Snapshot};

use crate::along::{NOTEBOOK_LIMIT, parse_variables};
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::history::{Source, UserStore};
use crate::record::{Record, SessionId};
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
                Some((record.id.clone(), record.head_id()?))
            }
            None => None,
        };
        let store = self.inner.store.open()?;
        let mut threads = Vec::new();
        let heads: Vec<ObjectId> = match head {
            Some((session, head)) if request.family => {
                threads = self.family(&store, &session)?;
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
    fn family(&self, store: &UserStore, session: &SessionId) -> Result<Vec<ThreadView>> {
        let mut families = self.families(store)?;
        let own = families.threads.iter().position(|(thread, _)| thread.session.as_ref() == Some(session));
        Ok(own.map(|own| families.with(families.threads[own].1)).unwrap_or_default())
    }

    /// The sessions in whose family a commit is.
    pub(crate) fn family_of(&self, store: &UserStore, commit: &ObjectId) -> Result<Vec<Record>> {
        let mut families = self.families(store)?;
        let Some(group) = families.groups.of.get(commit).copied() else { return Ok(Vec::new()) };
        let sessions: Vec<_> = families.with(group).into_iter().filter_map(|thread| thread.session).collect();
        let records = self.records();
        Ok(sessions.iter().filter_map(|id| records.get(id).cloned()).collect())
    }

    /// All threads, and which of them are connected.
    fn families(&self, store: &UserStore) -> Result<Families> {
        let records: Vec<Record> = self.records().values().cloned().collect();
        let by_thread: HashMap<&str, &SessionId> =
            records.iter().map(|record| (record.thread.as_str(), &record.id)).collect();
        let mut families = Families::default();
        let source = store.source()?;
        for (name, head) in store.threads()? {
            let session = by_thread.get(name.as_str()).map(|id| (*id).clone());
            let group = families.groups.connect(&source, head);
            families.threads.push((ThreadView { name, head, session }, group));
        }
        // A common ancestor may have been forgotten; the records still know.
        let of_session: BTreeMap<SessionId, usize> = families
            .threads
            .iter()
            .filter_map(|(thread, group)| Some((thread.session.clone()?, *group)))
            .collect();
        for record in &records {
            let origin = record.origin.as_ref().and_then(|origin| of_session.get(&origin.session));
            if let (Some(own), Some(origin)) = (of_session.get(&record.id), origin) {
                families.groups.join(*own, *origin);
            }
        }
        Ok(families)
    }
}

/// Threads, each with the group that its commits are in.
#[derive(Default)]
struct Families {
    threads: Vec<(ThreadView, usize)>,
    groups: Groups,
}

impl Families {
    /// The threads that are connected with those of a group.
    fn with(&mut self, group: usize) -> Vec<ThreadView> {
        let Self { threads, groups } = self;
        let wanted = groups.find(group);
        threads
            .iter()
            .filter(|(_, group)| groups.find(*group) == wanted)
            .map(|(thread, _)| thread.clone())
            .collect()
    }
}

/// Which commits are connected: each belongs to a group, and groups are joined where they meet.
#[derive(Default)]
struct Groups {
    joined: Vec<usize>,
    of: HashMap<ObjectId, usize>,
}

impl Groups {
    fn find(&mut self, group: usize) -> usize {
        let mut root = group;
        while self.joined[root] != root {
            // Halving the way keeps later ones short.
            self.joined[root] = self.joined[self.joined[root]];
            root = self.joined[root];
        }
        root
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.find(one), self.find(other));
        self.joined[one] = other;
    }

    /// Puts a commit and all that it came from into a group, down to those that are in one already.
    fn connect(&mut self, source: &Source<'_>, head: ObjectId) -> usize {
        let group = self.joined.len();
        self.joined.push(group);
        let mut rest = vec![head];
        while let Some(id) = rest.pop() {
            if let Some(other) = self.of.get(&id) {
                self.join(group, *other);
                continue;
            }
            self.of.insert(id, group);
            // One that was never in this store ends its line; that it is damaged, the list says.
            if let Ok(commit) = source.commit(&id) {
                rest.extend(commit.parents);
            }
        }
        group
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
