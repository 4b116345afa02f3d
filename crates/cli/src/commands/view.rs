//! A commit as `log` and `show` give it to programs, and the names that lead to commits.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Result;
use cas_core::{ObjectId, Store, StoreError};
use history::UserStore;
use manifest::{Author, Commit, Tag, Thread};
use serde::Serialize;

use crate::objects;

/// Names that lead straight to a commit.
#[derive(Debug, Default, Clone, Serialize)]
pub(crate) struct Names {
    pub(crate) threads: Vec<String>,
    pub(crate) tags: Vec<String>,
}

impl Names {
    /// For people: `main, tag v1`.
    pub(crate) fn text(&self) -> String {
        self.text_after(None)
    }

    /// The same for a list, where the thread that a commit was made on comes first, whether or not it leads straight to it.
    pub(crate) fn text_after(&self, made_on: Option<&str>) -> String {
        let others = self.threads.iter().map(String::as_str).filter(|name| made_on != Some(*name));
        let threads = made_on.into_iter().chain(others).map(crate::format::safe);
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

/// A commit, with the fields that the daemon's answers have and a few more.
#[derive(Debug, Serialize)]
pub(crate) struct CommitView {
    #[serde(flatten)]
    pub(crate) commit: api::CommitView,
    pub(crate) snapshot: String,
    pub(crate) names: Names,
    pub(crate) author: AuthorView,
    pub(crate) tool: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct AuthorView {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) host: String,
}

/// How commits of a store are shown.
#[derive(Debug)]
pub(crate) struct Views {
    store: UserStore,
    tags: history::Names,
}

impl Views {
    pub(crate) fn new(store: Arc<Store>, names: &AllNames) -> Result<Self> {
        let store = UserStore::over(store);
        let tagged = names.by_commit.iter().filter(|(_, names)| !names.tags.is_empty());
        let tags = tagged.map(|(id, names)| (*id, names.tags.clone())).collect();
        let tags = history::Names::with_tags(&store, tags).map_err(objects::of_history)?;
        Ok(Self { store, tags })
    }

    pub(crate) fn of(&self, id: ObjectId, commit: Commit, names: Names) -> CommitView {
        let Author { name, uid, host, .. } = commit.author.clone();
        CommitView {
            snapshot: commit.snapshot.to_string(),
            names,
            author: AuthorView { name, uid, host },
            tool: commit.tool.clone(),
            commit: self.store.view(id, commit, &self.tags),
        }
    }
}
