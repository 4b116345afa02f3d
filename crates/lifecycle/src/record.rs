//! What is known about a session, on disk.
//!
//! One JSON file a session, `sessions/<id>/record.json`, replaced by rename and synced, so that it is the old one or the
//! new one. It is written *after* what it says has become true, except for the intent of an operation, which is the
//! journal's business. Nobody but its user reads it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use api::InterruptMode;
use cas_core::ObjectId;
use jiff::Timestamp;
use sandbox::User;
use sandbox::bounded;
use sandbox::process::Identity;
use serde::{Deserialize, Serialize};
use workspace::FilePolicy;

use crate::error::{LifecycleError, Result, io_error};
use crate::notes::Notes;
use crate::ports::HabitatKind;

pub(crate) use crate::json::write_json;
pub(crate) use crate::session::GpuWish;
pub use crate::session::SessionId;
pub(crate) use api::{Network, SessionState};

/// No record is longer: labels, sidecars and mounts are bounded when they are taken in.
const RECORD_LIMIT: u64 = 16 << 20;

/// A Jupyter kernel's side of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelRecord {
    /// Name of the kernelspec.
    pub(crate) spec: String,
    /// The connection file for clients, outside.
    pub(crate) connection_file: PathBuf,
    /// Ports on loopback outside, and the ones inside that they lead to.
    pub ports: Vec<(u16, u16)>,
    /// The language of its cells; empty if nobody said.
    #[serde(default)]
    pub(crate) language: String,
    #[serde(default)]
    pub(crate) interrupt_mode: InterruptMode,
}

/// Where a session came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct OriginRecord {
    pub(crate) session: SessionId,
    pub(crate) commit: String,
}

/// Everything that must be known to look after a session. A habitat reads and writes what is its own of it: where processes are, who they
/// are, and what helps them.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its name for ever.
    pub id: SessionId,
    /// Its name for people.
    pub name: String,
    /// Whose it is.
    pub owner: User,
    pub(crate) state: SessionState,
    /// For people.
    pub(crate) command: Vec<String>,
    /// Where its command runs.
    pub cwd: PathBuf,
    pub(crate) created: Timestamp,
    /// Its network.
    pub network: Network,
    /// Whether a private network has a way out.
    pub outside: bool,
    /// The directory that is the session's own, as seen inside.
    pub workspace: PathBuf,
    pub(crate) files: FilePolicy,
    /// Bytes of memory that it may use.
    pub memory_limit: Option<u64>,
    /// Processes and threads that it may have.
    pub pids_limit: Option<u64>,
    /// Its kernel, if it is one.
    pub kernel: Option<KernelRecord>,
    /// The thread that its snapshots go to.
    pub(crate) thread: String,
    /// Its newest snapshot, or the one it came from.
    pub(crate) head: Option<String>,
    pub(crate) origin: Option<OriginRecord>,
    /// Where the files of the workspace really are: there, or in a directory of their own if it is a branch's.
    pub files_at: PathBuf,
    /// The first process of the tree, as the machine numbers it.
    pub init: Option<Identity>,
    /// Process 1 of the box, which no snapshot contains.
    #[serde(default)]
    pub holder: Option<Identity>,
    /// Leads ports outside to its kernel.
    pub forwarder: Option<Identity>,
    /// Its way out, if it has a private network.
    pub pasta: Option<Identity>,
    pub(crate) exit: Option<i32>,
    /// Files outside the workspace that the session has a private copy of: the original and the copy.
    #[serde(default)]
    pub outside_copies: Vec<(PathBuf, PathBuf)>,
    /// Where its processes live.
    #[serde(default, rename = "attached")]
    pub(crate) habitat: HabitatKind,
    /// Which GPUs it was to have.
    #[serde(default)]
    pub(crate) gpu_wish: GpuWish,
    /// UUIDs of the GPUs that it has nodes for.
    #[serde(default)]
    pub(crate) gpus: Vec<String>,
    /// Its work on the GPU stands still, and why: the driver would not bring it back. A resume tries again.
    #[serde(default)]
    pub(crate) gpu_trouble: Option<String>,
    /// Commands that run beside the main one.
    #[serde(default)]
    pub(crate) sidecars: Vec<Vec<OsString>>,
    /// What others noted about it. Like the name, it can change while an operation has hold of the session, so the copy of an
    /// operation may be old; [`crate::engine::Engine::save`] knows.
    #[serde(default)]
    pub(crate) notes: Notes,
}

impl Record {
    pub(crate) fn head_id(&self) -> Result<Option<ObjectId>> {
        self.head
            .as_deref()
            .map(|text| {
                text.parse().map_err(|_| {
                    LifecycleError::Bug(format!("session {} has `{text}` as its newest snapshot", self.id))
                })
            })
            .transpose()
    }

    /// The commits that it names.
    pub(crate) fn commits_mut(&mut self) -> Vec<&mut String> {
        self.head.iter_mut().chain(self.origin.iter_mut().map(|origin| &mut origin.commit)).collect()
    }

    /// The box, if the session is in one and runs.
    pub fn living_holder(&self, action: &'static str) -> Result<Identity> {
        self.holder.filter(|_| self.state == SessionState::Running).ok_or_else(|| {
            LifecycleError::WrongState { session: self.name.clone(), state: self.state.as_str(), action }
        })
    }

    /// Takes over what can change while somebody works with a copy.
    pub(crate) fn take_notes(&mut self, known: &Self) {
        self.name.clone_from(&known.name);
        self.notes.clone_from(&known.notes);
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = bounded::read_small(path, RECORD_LIMIT).map_err(io_error("read", path))?;
        serde_json::from_slice(&bytes).map_err(|error| LifecycleError::DamagedRecord {
            path: path.to_owned(),
            detail: error.to_string(),
        })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it was written before sessions had GPUs, labels and restarts.
    const OLD: &str = r#"{"id": "0123456789ab", "name": "a", "owner": {"uid": 0, "gid": 0, "groups": [], "name": "root",
        "home": "/root", "shell": "/bin/sh"}, "state": "running", "command": ["a"], "cwd": "/",
        "created": "2026-11-15T09:12:09Z", "network": "private", "outside": false, "workspace": "/",
        "files": {"policy": "open"}, "memory_limit": null, "pids_limit": null,
        "kernel": {"spec": "python3", "connection_file": "/c", "ports": [[1, 2]]}, "thread": "a", "head": null,
        "origin": null, "files_at": "/", "init": null, "forwarder": null, "pasta": null, "exit": null}"#;

    #[test]
    fn an_old_record_is_read() {
        let record: Record = serde_json::from_str(OLD).unwrap();
        assert_eq!(record.notes, Notes::default());
        assert_eq!(record.kernel.unwrap().interrupt_mode, InterruptMode::Signal);
    }
}
