//! A commit: one snapshot's place in history, and who made it, when and why.

use std::collections::BTreeSet;
use std::fmt;

use cas_core::{Kind, ObjectId};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::names::{Tag, Thread};
use crate::object::ManifestObject;
use crate::reference::ObjectRef;
use crate::wire::{self, Extra};
use crate::{COMMIT, SNAPSHOT};

/// One point of history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Commit {
    /// The state.
    #[serde(with = "snapshot_ref")]
    pub snapshot: ObjectId,
    /// What this came from. The first is the state that the thread was in before; threads never merge, so a second one is
    /// rare.
    #[serde(with = "parent_refs")]
    pub parents: Vec<ObjectId>,
    /// The thread that it was made on. The thread may be renamed or deleted later; this stays.
    pub thread: Thread,
    /// Who made it.
    pub author: Author,
    /// When, in UTC, by the clock of that host.
    pub time: Timestamp,
    /// Set if a parent is not older by the clocks: this commit's place among the others. See [`Commit::order`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Timestamp>,
    /// What its author says about it; may be empty.
    pub message: String,
    /// What `%infinijup mark` called this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What made it happen.
    pub reason: CommitReason,
    /// Tags that were set together with it. Tags that came later are refs only.
    pub tags: BTreeSet<Tag>,
    /// Version of the program that wrote it.
    pub tool: String,
    /// The id of the session that it was taken of. Branches have sessions, and threads, of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The cell that ran last, or was about to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<CellNote>,
    /// What it holds and what it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Whether the snapshot has a section `notebook`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_notebook: bool,
    /// Whether the snapshot has a section `variables`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub has_variables: bool,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Extra,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A cell of a notebook, as history shows it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct CellNote {
    /// The cell's id in the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its number: `In [7]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// Its text, or the beginning of it.
    pub source: String,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a snapshot holds and what it cost. They stand in the commit so that a history of thousands can be listed without
/// loading one snapshot. Each was not known, or did not matter, where it is absent.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Figures {
    /// Bytes that the snapshot stands for, files included.
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Bytes that no earlier snapshot had.
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    pub new_bytes: Option<u64>,
    /// Bytes of memory, those of GPUs among them.
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Bytes of GPU memory.
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    pub vram_bytes: Option<u64>,
    /// How long the processes stood still, in microseconds.
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    pub frozen_us: Option<u64>,
    /// How long work on the GPU stood still, in microseconds.
    #[serde(with = "wire::optional_int", default, skip_serializing_if = "Option::is_none")]
    pub gpu_paused_us: Option<u64>,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Who made a commit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Author {
    /// Login name.
    pub name: String,
    /// Numeric id on that host.
    pub uid: u32,
    /// The host's name.
    pub host: String,
    /// Fields of a newer version.
    #[serde(flatten)]
    pub extra: Extra,
}

impl Commit {
    /// The time that this commit is sorted by: later than that of every parent, and nearly always [`Commit::time`].
    pub fn order(&self) -> Timestamp {
        self.order.unwrap_or(self.time)
    }

    /// What a session went back to, if this commit says that it did.
    pub fn back_to(&self) -> Option<&ObjectId> {
        let parent = || self.parents.get(1).or_else(|| self.parents.first());
        (self.reason == CommitReason::Rollback).then(parent).flatten()
    }

    /// Puts this commit behind its parents, whatever the clocks say. History is walked newest first, and a clock that was
    /// set back must not make a parent come before its child.
    pub fn order_after<'a>(&mut self, parents: impl IntoIterator<Item = &'a Self>) {
        let newest = parents.into_iter().map(Self::order).max();
        self.order = newest.filter(|newest| *newest >= self.time).map(|newest| {
            // The end of time, in the year 9999, has no successor.
            newest.checked_add(SignedDuration::from_nanos(1)).unwrap_or(newest)
        });
        if self.order == Some(self.time) {
            self.order = None;
        }
    }
}

impl ManifestObject for Commit {
    const KIND: Kind = COMMIT;

    fn check(&self) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.parents.iter().find(|parent| !seen.insert(**parent)) {
            return Err(format!("parent {} is listed twice", twice.short()));
        }
        match self.order {
            Some(order) if order <= self.time => Err("`order` is not later than `time`".to_owned()),
            _ => Ok(()),
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What made a commit happen.
        #[derive(Clone, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum CommitReason {
            $($(#[$doc])* $variant,)*
            /// One that a newer version knows.
            Other(String),
        }

        impl CommitReason {
            /// Every reason that has a name here.
            pub const KNOWN: &[Self] = &[$(Self::$variant),*];

            /// Its name in JSON and on the command line.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Other(text) => text,
                }
            }
        }

        impl From<&str> for CommitReason {
            fn from(text: &str) -> Self {
                match text {
                    $($text => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }
    };
}

reasons! {
    /// Somebody asked for it.
    Manual = "manual",
    /// Automatic: a cell was about to run.
    BeforeCell = "before-cell",
    /// Automatic: a cell had run.
    AfterCell = "after-cell",
    /// Automatic: some time had passed.
    Interval = "interval",
    /// Automatic: the kernel was idle for some time.
    Idle = "idle",
    /// Automatic: the session was about to go back, and this keeps where it was.
    BeforeRollback = "before-rollback",
    /// The session went back: the first parent is what was left, the second what was gone back to.
    Rollback = "rollback",
    /// Automatic: the kernel was about to be restarted.
    BeforeRestart = "before-restart",
    /// Automatic: the kernel was about to be shut down.
    BeforeShutdown = "before-shutdown",
    /// The session was suspended.
    Suspend = "suspend",
    /// A branch was made of a running session.
    Branch = "branch",
    /// Files that were about to be replaced or removed, and nothing else.
    Files = "files",
}

impl CommitReason {
    /// Whether nobody asked for it. Automatic snapshots are the first that a retention policy lets go. One that we do not
    /// know is not automatic: it is kept.
    pub fn is_automatic(&self) -> bool {
        !matches!(
            self,
            Self::Manual | Self::Rollback | Self::Suspend | Self::Branch | Self::Files | Self::Other(_)
        )
    }
}

impl fmt::Display for CommitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for CommitReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for CommitReason {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| text.as_str().into())
    }
}

mod snapshot_ref {
    use super::{Deserialize, Deserializer, ObjectId, ObjectRef, SNAPSHOT, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &ObjectId, serializer: S) -> Result<S::Ok, S::Error> {
        ObjectRef::<{ SNAPSHOT.0 }>(*id).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectId, D::Error> {
        ObjectRef::<{ SNAPSHOT.0 }>::deserialize(deserializer).map(|reference| reference.0)
    }
}

mod parent_refs {
    use super::{COMMIT, Deserialize, Deserializer, ObjectId, ObjectRef, Serializer};

    type Parent = ObjectRef<{ COMMIT.0 }>;

    pub(super) fn serialize<S: Serializer>(ids: &[ObjectId], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ids.iter().map(|id| ObjectRef::<{ COMMIT.0 }>(*id)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ObjectId>, D::Error> {
        Vec::<Parent>::deserialize(deserializer)
            .map(|parents| parents.iter().map(|parent| parent.0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(time: &str) -> Commit {
        Commit {
            snapshot: ObjectId::from_bytes([1; 32]),
            parents: Vec::new(),
            thread: Thread::new("main").unwrap(),
            author: Author { name: "ada".into(), uid: 1000, host: "box".into(), extra: Extra::default() },
            time: time.parse().unwrap(),
            order: None,
            message: String::new(),
            label: None,
            reason: CommitReason::Manual,
            tags: BTreeSet::new(),
            tool: "0.1.0".into(),
            session: None,
            cell: None,
            figures: None,
            has_notebook: false,
            has_variables: false,
            extra: Extra::default(),
        }
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_change_the_order() {
        let parent = commit("2026-11-15T02:00:00Z");
        let mut later = commit("2026-11-15T02:00:00.000000001Z");
        later.order_after([&parent]);
        assert_eq!(later.order, None);

        let mut child = commit("2026-11-15T01:00:00Z");
        child.order_after([&parent]);
        assert_eq!(child.order.unwrap().to_string(), "2026-11-15T02:00:00.000000001Z");
        let mut grandchild = commit("2026-11-15T01:30:00Z");
        grandchild.order_after([&child, &parent]);
        assert_eq!(grandchild.order().to_string(), "2026-11-15T02:00:00.000000002Z");
        assert_eq!(grandchild.time.to_string(), "2026-11-15T01:30:00Z");
        assert_eq!(Commit::decode(&grandchild.encode().unwrap()).unwrap(), grandchild);

        let mut same_moment = commit("2026-11-15T02:00:00Z");
        same_moment.order_after([&parent]);
        assert!(same_moment.order() > parent.order());
    }

    #[test]
    fn an_order_that_is_not_needed_and_a_parent_that_is_listed_twice_are_refused() {
        let mut odd = commit("2026-11-15T02:00:00Z");
        odd.order = Some(odd.time);
        assert_eq!(odd.encode().unwrap_err().code(), "IJ-M011");
        let mut twice = commit("2026-11-15T02:00:00Z");
        twice.parents = vec![ObjectId::from_bytes([2; 32]); 2];
        assert_eq!(twice.encode().unwrap_err().code(), "IJ-M011");
    }

    #[test]
    fn reasons_keep_their_names_and_unknown_ones_are_kept() {
        for reason in CommitReason::KNOWN {
            assert_eq!(&CommitReason::from(reason.as_str()), reason);
        }
        let mut odd = commit("2026-11-15T02:00:00Z");
        odd.reason = "before-lunch".into();
        let again = Commit::decode(&odd.encode().unwrap()).unwrap();
        assert_eq!(again.reason, CommitReason::Other("before-lunch".into()));
        assert!(!again.reason.is_automatic());
        assert!(CommitReason::BeforeCell.is_automatic() && !CommitReason::Manual.is_automatic());
    }
}
