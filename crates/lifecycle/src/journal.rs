//! Intent, written down before what cannot be taken back.
//!
//! One file for each session that is in the middle of an operation, `journal/<id>.json`, with the phase that it is in. The
//! phase is written and synced *before* the first step of it is taken, and the file goes away when the record says how it
//! ended. So whoever finds a file after a crash knows what may have happened:
//!
//! | phase | what may be true | what [`crate::recover`] does |
//! |---|---|---|
//! | `Starting` | there may be processes, a namespace, mounts | ends all of it; the session is gone, nobody was told of it |
//! | `Dumping` | the tree may be frozen or stopped, CRIU may be at work | waits for CRIU, then lets the tree go on |
//! | `Ending` | its state is committed as `safe`, the tree may be stopped or dead | ends it; goes on as `Restoring`, or suspends |
//! | `Restoring` | there is no tree, or half of one | ends what is there, restores `commit`, else `safe`, else suspends at `safe` |
//! | `Stopping` | some processes were told to end | ends the rest |
//!
//! The one rule behind it: a tree is only ended when its state is durable in the store. Until then it is merely stopped,
//! and a crash lets it go on.

use std::fs;
use std::path::{Path, PathBuf};

use sandbox::process::Identity;
use serde::{Deserialize, Serialize};

use crate::error::{LifecycleError, Result, io_error};
use crate::record::{SessionId, write_json};

/// How far an operation is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "lowercase")]
pub(crate) enum Phase {
    /// Processes are being made for a session that did not have any.
    Starting,
    /// CRIU freezes and dumps; the tree is to go on.
    Dumping {
        /// CRIU's worker, once it is known.
        worker: Option<Identity>,
    },
    /// The state is committed; the stopped tree is being ended.
    Ending {
        /// The commit that holds it.
        safe: String,
        /// What is to be restored afterwards: a rollback. Nothing: a suspend.
        then: Option<String>,
        /// Whether files are to be put back with it.
        files: bool,
    },
    /// The old tree is gone; `commit` is being restored.
    Restoring {
        /// What is to be running.
        commit: String,
        /// What the session goes back to if that fails.
        safe: String,
        /// Whether files are to be put back with it.
        files: bool,
    },
    /// The tree is being ended for good.
    Stopping,
}

/// The journal's directory.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
}

/// An intent that is written down. It stays on disk until [`Entry::done`]: an error or a crash leaves it to recovery.
#[derive(Debug)]
pub(crate) struct Entry {
    path: PathBuf,
}

impl Journal {
    pub(crate) fn open(directory: PathBuf) -> Result<Self> {
        fs::create_dir_all(&directory).map_err(io_error("create", &directory))?;
        Ok(Self { directory })
    }

    /// Writes the first phase of an operation.
    pub(crate) fn begin(&self, id: &SessionId, phase: &Phase) -> Result<Entry> {
        let entry = Entry { path: self.directory.join(format!("{id}.json")) };
        entry.enter(phase)?;
        Ok(entry)
    }

    /// What was under way when the daemon ended.
    pub(crate) fn pending(&self) -> Result<Vec<(SessionId, Entry, Result<Phase>)>> {
        let mut found = Vec::new();
        for item in fs::read_dir(&self.directory).map_err(io_error("list", &self.directory))? {
            let path = item.map_err(io_error("list", &self.directory))?.path();
            let Some(id) = session_of(&path) else {
                // The half of a write that never became a file of ours.
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
                continue;
            };
            let phase = fs::read(&path).map_err(io_error("read", &path)).and_then(|bytes| {
                serde_json::from_slice(&bytes).map_err(|error| LifecycleError::DamagedRecord {
                    path: path.clone(),
                    detail: error.to_string(),
                })
            });
            found.push((id, Entry { path }, phase));
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }
}

fn session_of(path: &Path) -> Option<SessionId> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    SessionId::try_from(name.to_owned()).ok()
}

impl Entry {
    /// Replaces the phase, durably.
    pub(crate) fn enter(&self, phase: &Phase) -> Result<()> {
        write_json(&self.path, phase)
    }

    /// The record says how it ended.
    pub(crate) fn done(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(io_error("remove", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_is_found_again_until_it_is_done() {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::open(home.path().join("journal")).unwrap();
        let id = SessionId::random().unwrap();
        let entry = journal.begin(&id, &Phase::Starting).unwrap();
        let phase = Phase::Restoring { commit: "a".into(), safe: "b".into(), files: true };
        entry.enter(&phase).unwrap();
        fs::write(home.path().join("journal/half.new"), b"{").unwrap();
        let pending = journal.pending().unwrap();
        assert_eq!(pending.len(), 1);
        assert_eq!(pending[0].0, id);
        assert_eq!(pending[0].2.as_ref().unwrap(), &phase);
        entry.done().unwrap();
        assert!(journal.pending().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_intent_is_said_to_be_one() {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::open(home.path().to_owned()).unwrap();
        let id = SessionId::random().unwrap();
        let _entry = journal.begin(&id, &Phase::Stopping).unwrap();
        fs::write(home.path().join(format!("{id}.json")), b"{\"phase\":\"fly\"}").unwrap();
        let pending = journal.pending().unwrap();
        assert_eq!(pending[0].2.as_ref().unwrap_err().code(), "IJ-L070");
    }
}
