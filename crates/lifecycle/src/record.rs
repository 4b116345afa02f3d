//! What is known about a session, on disk.
//!
//! One JSON file a session, `sessions/<id>/record.json`, replaced by rename and synced, so that it is the old one or the
//! new one. It is written *after* what it says has become true, except for the intent of an operation, which is the
//! journal's business. Nobody but root reads it, and nothing in it comes from a user without having been checked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use cas_core::ObjectId;
use jiff::Timestamp;
use jupyter_bridge::InterruptMode;
use sandbox::User;
use sandbox::process::Identity;
use serde::{Deserialize, Serialize};

use crate::error::{LifecycleError, Result, io_error};
use crate::notes::Notes;
use crate::request::{FilePolicy, GpuWish};

/// Names a session for ever: 12 hex digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionId(String);

impl SessionId {
    const LEN: usize = 12;

    /// A new one.
    pub(crate) fn random() -> Result<Self> {
        let mut bytes = [0; Self::LEN / 2];
        getrandom::fill(&mut bytes)
            .map_err(|error| LifecycleError::Bug(format!("the system has no random bytes: {error}")))?;
        Ok(Self(cas_core::id::hex(&bytes)))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SessionId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // It becomes part of paths.
        let right =
            text.len() == Self::LEN && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if right { Ok(Self(text)) } else { Err("is not a session id".to_owned()) }
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// What a session is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionState {
    /// Its processes are being made.
    Starting,
    /// It has processes.
    Running,
    /// It has none, and a snapshot to come back from.
    Suspended,
    /// It has ended by itself or was stopped.
    Ended,
    /// It was lost: its processes ended without anyone wanting it.
    Failed,
}

impl SessionState {
    /// As a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Ended => "ended",
            Self::Failed => "failed",
        }
    }
}

/// A session's network.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Its own; the kernel's ports are forwarded from loopback.
    Private,
    /// The machine's. No branch can live beside its original then.
    Host,
}

/// A Jupyter kernel's side of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct KernelRecord {
    /// Name of the kernelspec.
    pub(crate) spec: String,
    /// The connection file for clients, outside.
    pub(crate) connection_file: PathBuf,
    /// Ports on loopback outside, and the ones inside that they lead to.
    pub(crate) ports: Vec<(u16, u16)>,
    /// The language of its cells; empty if nobody said.
    #[serde(default)]
    pub(crate) language: String,
    #[serde(default)]
    pub(crate) interrupt_mode: InterruptMode,
}

/// A file system that the box has from outside.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct MountRecord {
    /// CRIU's name for it.
    pub(crate) key: String,
    /// Where it is seen.
    pub(crate) inside: PathBuf,
    /// What is mounted there.
    pub(crate) source: PathBuf,
}

/// Where a session came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct OriginRecord {
    pub(crate) session: SessionId,
    pub(crate) commit: String,
}

/// Everything that must be known to look after a session.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: SessionId,
    pub(crate) name: String,
    pub(crate) owner: User,
    pub(crate) state: SessionState,
    /// For people.
    pub(crate) command: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) created: Timestamp,
    pub(crate) network: Network,
    pub(crate) outside: bool,
    /// The directory that is the session's own, as seen inside.
    pub(crate) workspace: PathBuf,
    pub(crate) files: FilePolicy,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) pids_limit: Option<u64>,
    pub(crate) kernel: Option<KernelRecord>,
    /// The thread that its snapshots go to.
    pub(crate) thread: String,
    /// Its newest snapshot, or the one it came from.
    pub(crate) head: Option<String>,
    pub(crate) origin: Option<OriginRecord>,
    pub(crate) mounts: Vec<MountRecord>,
    /// The first process of the box, as the host numbers it.
    pub(crate) init: Option<Identity>,
    pub(crate) forwarder: Option<Identity>,
    pub(crate) pasta: Option<Identity>,
    pub(crate) exit: Option<i32>,
    /// Files outside the workspace that the session has a private copy of: the original and the copy.
    #[serde(default)]
    pub(crate) outside_copies: Vec<(PathBuf, PathBuf)>,
    /// Not started by us: adopted while it ran, with no box around it.
    #[serde(default)]
    pub(crate) attached: bool,
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
    /// Mounts that it had before a restart. Another file system of the machine may be mounted since, and older snapshots name
    /// theirs.
    #[serde(default)]
    pub(crate) earlier_mounts: Vec<Vec<MountRecord>>,
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

    /// Where a mount of the box comes from.
    pub(crate) fn mount(&self, key: &str) -> Option<&MountRecord> {
        self.mounts.iter().find(|mount| mount.key == key)
    }

    /// Has these mounts from now on; the others are remembered.
    pub(crate) fn set_mounts(&mut self, mounts: Vec<MountRecord>) {
        self.earlier_mounts.retain(|earlier| *earlier != mounts);
        let old = std::mem::replace(&mut self.mounts, mounts);
        if !old.is_empty() && old != self.mounts {
            self.earlier_mounts.push(old);
        }
    }

    /// The mounts of a snapshot in which CRIU's names for them are these: those of now, or those of before some restart.
    pub(crate) fn mounts_named(&self, names: &BTreeMap<String, PathBuf>) -> Option<&[MountRecord]> {
        let fits = |mounts: &&Vec<MountRecord>| {
            mounts.len() == names.len()
                && mounts.iter().all(|mount| names.get(&mount.key) == Some(&mount.inside))
        };
        std::iter::once(&self.mounts).chain(self.earlier_mounts.iter().rev()).find(fits).map(Vec::as_slice)
    }

    /// Where this mount comes from, from now on.
    pub(crate) fn set_source(&mut self, key: &str, source: &Path) {
        for mount in self.mounts.iter_mut().chain(self.earlier_mounts.iter_mut().flatten()) {
            if mount.key == key {
                source.clone_into(&mut mount.source);
            }
        }
    }

    /// Takes over what can change while somebody works with a copy.
    pub(crate) fn take_notes(&mut self, known: &Self) {
        self.name.clone_from(&known.name);
        self.notes.clone_from(&known.notes);
    }

    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(io_error("read", path))?;
        serde_json::from_slice(&bytes).map_err(|error| LifecycleError::DamagedRecord {
            path: path.to_owned(),
            detail: error.to_string(),
        })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        write_json(path, self)
    }
}

/// Replaces a file by rename, durably.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value)
        .map_err(|error| LifecycleError::Bug(format!("cannot write `{}`: {error}", path.display())))?;
    let new = path.with_extension("new");
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = fs::File::create(&new).map_err(io_error("create", &new))?;
    std::io::Write::write_all(&mut file, &bytes).map_err(io_error("write", &new))?;
    file.sync_all().map_err(io_error("sync", &new))?;
    fs::rename(&new, path).map_err(io_error("rename", &new))?;
    fs::File::open(directory).and_then(|directory| directory.sync_all()).map_err(io_error("sync", directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts(names: &[(&str, &str)]) -> Vec<MountRecord> {
        let one = |(key, path): &(&str, &str)| MountRecord {
            key: (*key).to_owned(),
            inside: path.into(),
            source: path.into(),
        };
        names.iter().map(one).collect()
    }

    fn names(names: &[(&str, &str)]) -> BTreeMap<String, PathBuf> {
        names.iter().map(|(key, path)| ((*key).to_owned(), PathBuf::from(path))).collect()
    }

    #[test]
    fn a_snapshot_of_before_a_restart_finds_its_mounts() {
        let old = [("box", "/run/box"), ("m0", "/boot"), ("m1", "/home")];
        let new = [("box", "/run/box"), ("m0", "/home")];
        let mut record: Record = serde_json::from_str(OLD).unwrap();
        record.mounts = mounts(&old);
        record.set_mounts(mounts(&new));
        record.set_mounts(mounts(&new));
        assert_eq!(record.earlier_mounts, [mounts(&old)]);
        assert_eq!(record.mounts_named(&names(&old)).unwrap(), mounts(&old));
        assert_eq!(record.mounts_named(&names(&new)).unwrap(), mounts(&new));
        assert!(record.mounts_named(&names(&new[..1])).is_none());
        record.set_source("box", Path::new("/elsewhere"));
        let old = record.mounts_named(&names(&old)).unwrap().to_vec();
        assert_eq!(old[0].source, Path::new("/elsewhere"));
        record.set_mounts(old.clone());
        assert_eq!((&record.mounts, record.earlier_mounts.len()), (&old, 1));
    }

    /// As it was written before sessions had GPUs, labels and restarts.
    const OLD: &str = r#"{"id": "0123456789ab", "name": "a", "owner": {"uid": 0, "gid": 0, "groups": [], "name": "root",
        "home": "/root", "shell": "/bin/sh"}, "state": "running", "command": ["a"], "cwd": "/",
        "created": "2026-11-15T09:12:09Z", "network": "private", "outside": false, "workspace": "/",
        "files": {"policy": "open"}, "memory_limit": null, "pids_limit": null,
        "kernel": {"spec": "python3", "connection_file": "/c", "ports": [[1, 2]]}, "thread": "a", "head": null,
        "origin": null, "mounts": [], "init": null, "forwarder": null, "pasta": null, "exit": null}"#;

    #[test]
    fn an_old_record_is_read() {
        let record: Record = serde_json::from_str(OLD).unwrap();
        assert_eq!(record.notes, Notes::default());
        assert_eq!(record.kernel.unwrap().interrupt_mode, InterruptMode::Signal);
    }
}
