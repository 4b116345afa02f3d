//! Histories for tests.

use cas_core::ObjectId;
use cas_core::progress::Silent;
use manifest::snapshot::NotebookSection;
use manifest::{CommitReason, Figures, Snapshot, TypedSection};
use sandbox::User;

use crate::{NewCommit, OwnStore, Result, UserStore};

pub(crate) fn own_store() -> (tempfile::TempDir, OwnStore) {
    let dir = tempfile::tempdir().unwrap();
    let own = OwnStore::new(dir.path().join("store"), None).unwrap();
    (dir, own)
}

pub(crate) fn ada() -> User {
    User {
        uid: 1000,
        gid: 1000,
        groups: vec![1000],
        name: "ada".into(),
        home: "/home/ada".into(),
        shell: "/bin/sh".into(),
    }
}

pub(crate) fn commit_at(
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
        session: None,
        label: None,
        cell: None,
        figures: Figures::default(),
        seal: None,
    };
    let session = store.write(head.as_slice()).unwrap();
    store.commit_snapshot(session, new).map(|(commit, _)| commit)
}

pub(crate) fn commit(store: &UserStore, thread: &str) -> ObjectId {
    commit_at(store, thread, store.head(thread).unwrap(), None).unwrap()
}

/// Text of some length that no other commit has.
fn content(number: usize) -> Vec<u8> {
    let mut state = number as u64 ^ 0x9e37_79b9_7f4a_7c15;
    let word = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{state:016x}")
    };
    std::iter::repeat_with(word).take(256).collect::<String>().into_bytes()
}

/// A commit with a document that only it has.
pub(crate) fn commit_numbered(
    store: &UserStore,
    thread: &str,
    parents: &[ObjectId],
    number: usize,
) -> Result<ObjectId> {
    let session = store.write(parents)?;
    let blob = session.put_blob(&mut content(number).as_slice(), &Silent)?;
    let notebook = NotebookSection {
        path: "n.ipynb".into(),
        content: blob.into(),
        kernel_name: String::new(),
        cell: None,
    };
    let snapshot = Snapshot::new(vec![notebook.to_section()?])?;
    let new = NewCommit {
        snapshot: &snapshot,
        parents: parents.to_vec(),
        thread,
        expected: store.head(thread)?,
        author: &ada(),
        message: "",
        reason: CommitReason::Interval,
        tag: None,
        session: None,
        label: None,
        cell: None,
        figures: Figures::default(),
        seal: None,
    };
    store.commit_snapshot(session, new).map(|(commit, _)| commit)
}

/// The commit has the document of its number.
#[track_caller]
pub(crate) fn assert_holds(store: &UserStore, id: &ObjectId, number: usize) {
    let section = store.load(id).unwrap().1.get::<NotebookSection>().unwrap().unwrap();
    let mut bytes = Vec::new();
    store.store().read_blob(&section.content.into(), &mut bytes, &Silent).unwrap();
    assert!(bytes == content(number), "commit {number}");
}

/// Commits one after the other, on `main`.
pub(crate) fn line(store: &UserStore, length: usize) -> Vec<ObjectId> {
    let mut commits: Vec<ObjectId> = Vec::new();
    for number in 0..length {
        let parents: Vec<_> = commits.last().copied().into_iter().collect();
        commits.push(commit_numbered(store, "main", &parents, number).unwrap());
    }
    commits
}
