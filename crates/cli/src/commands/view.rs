//! A commit as `log` and `show` give it to programs, and the names that lead to commits.

use std::collections::HashMap;

use anyhow::Result;
use cas_core::{ObjectId, Store, StoreError};
use manifest::{Commit, Tag, Thread};
use serde::Serialize;

/// Names that lead straight to a commit.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Names {
    pub(crate) threads: Vec<String>,
    pub(crate) tags: Vec<String>,
}

impl Names {
    /// For people: `main, tag v1`.
    pub(crate) fn text(&self) -> String {
        let threads = self.threads.iter().map(|name| crate::format::safe(name));
        let tags = self.tags.iter().map(|name| format!("tag {}", crate::format::safe(name)));
        threads.chain(tags).collect::<Vec<_>>().join(", ")
    }
}

/// All refs of a store.
#[derive(Debug, Default)]
pub(crate) struct AllNames {
    pub(crate) by_commit: HashMap<ObjectId, Names>,
    pub(crate) threads: Vec<ObjectId>,
    pub(crate) tags: Vec<ObjectId>,
    /// Refs that cannot be read.
    pub(crate) damaged: Vec<(String, StoreError)>,
}

impl AllNames {
    pub(crate) fn of(store: &Store) -> Result<Self> {
        let mut all = Self::default();
        for (path, target) in store.refs().list("")? {
            let id = match target {
                Ok(id) => id,
                Err(error) => {
                    all.damaged.push((path, error));
                    continue;
                }
            };
            if let Some(name) = path.strip_prefix(Thread::PREFIX) {
                all.by_commit.entry(id).or_default().threads.push(name.to_owned());
                all.threads.push(id);
            } else if let Some(name) = path.strip_prefix(Tag::PREFIX) {
                all.by_commit.entry(id).or_default().tags.push(name.to_owned());
                all.tags.push(id);
            }
        }
        Ok(all)
    }

    pub(crate) fn names(&self, id: &ObjectId) -> Names {
        self.by_commit.get(id).cloned().unwrap_or_default()
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct CommitView {
    pub(crate) id: String,
    pub(crate) snapshot: String,
    pub(crate) parents: Vec<String>,
    pub(crate) thread: String,
    pub(crate) names: Names,
    pub(crate) author: AuthorView,
    pub(crate) time: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) label: Option<String>,
    pub(crate) tool: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct AuthorView {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) host: String,
}

impl CommitView {
    pub(crate) fn new(id: &ObjectId, commit: &Commit, names: Names) -> Self {
        Self {
            id: id.to_string(),
            snapshot: commit.snapshot.to_string(),
            parents: commit.parents.iter().map(ToString::to_string).collect(),
            thread: commit.thread.to_string(),
            names,
            author: AuthorView {
                name: commit.author.name.clone(),
                uid: commit.author.uid,
                host: commit.author.host.clone(),
            },
            time: commit.time.to_string(),
            reason: commit.reason.to_string(),
            message: commit.message.clone(),
            label: commit.label.clone(),
            tool: commit.tool.clone(),
        }
    }
}
