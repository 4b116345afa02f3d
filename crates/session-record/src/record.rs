//! What is known about a session, on disk.
//!
//! One JSON file a session, `sessions/<id>/record.json`, replaced by rename and synced, so that it is the old one or the
//! new one. It is written *after* what it says has become true, except for the intent of an operation, which is the
//! journal's business. Nobody but its user reads it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use api::{ContainerName, InterruptMode, Network, SessionState};
use base::io_error;
use cas_core::ObjectId;
use history::UserStore;
use history::along::Document;
use jiff::Timestamp;
use sandbox::User;
use sandbox::bounded;
use sandbox::process::Identity;
use serde::{Deserialize, Serialize};
use workspace::FilePolicy;

use crate::error::{RecordError, Result};
use crate::habitat::{Adopted, ContainerRecord, HabitatKind};
use crate::json::write_json;
use crate::notes::Notes;
use crate::session::{GpuWish, SessionId};

/// No record is longer: labels, sidecars and mounts are bounded when they are taken in.
const RECORD_LIMIT: u64 = 16 << 20;

/// A Jupyter kernel's side of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KernelRecord {
    /// Name of the kernelspec.
    pub spec: String,
    /// The connection file for clients, outside.
    pub connection_file: PathBuf,
    /// Ports on loopback outside, and the ones inside that they lead to.
    pub ports: Vec<(u16, u16)>,
    /// The language of its cells; empty if nobody said.
    #[serde(default)]
    pub language: String,
    /// How it is interrupted.
    #[serde(default)]
    pub interrupt_mode: InterruptMode,
}

impl KernelRecord {
    /// Whether its cells are Python's, as it says or as its name tells.
    pub fn speaks_python(&self) -> bool {
        let said = if self.language.is_empty() { &self.spec } else { &self.language };
        said.to_ascii_lowercase().starts_with("python")
    }

    /// Its ports outside.
    pub fn outer(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().map(|(outside, _)| *outside)
    }

    /// The ones inside that they lead to.
    pub fn inner(&self) -> impl Iterator<Item = u16> {
        self.ports.iter().map(|(_, inside)| *inside)
    }
}

/// Where a session came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OriginRecord {
    /// The session that it is a branch of.
    pub session: SessionId,
    /// The snapshot of it.
    pub commit: String,
    /// When the branch's own files were made.
    #[serde(default)]
    pub files_made: Option<Timestamp>,
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
    /// What it does.
    pub state: SessionState,
    /// What it runs, for people.
    pub command: Vec<String>,
    /// Where its command runs.
    pub cwd: PathBuf,
    /// When it was made.
    pub created: Timestamp,
    /// Its network.
    pub network: Network,
    /// Whether a private network has a way out.
    pub outside: bool,
    /// The directory that is the session's own, as seen inside.
    pub workspace: PathBuf,
    /// Which files belong to its snapshots.
    pub files: FilePolicy,
    /// Bytes of memory that it may use.
    pub memory_limit: Option<u64>,
    /// Processes and threads that it may have.
    pub pids_limit: Option<u64>,
    /// Its kernel, if it is one.
    pub kernel: Option<KernelRecord>,
    /// The thread that its snapshots go to.
    pub thread: String,
    /// Its newest snapshot, or the one it came from.
    pub head: Option<String>,
    /// What it is a branch of.
    pub origin: Option<OriginRecord>,
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
    /// The status of its command, if that has ended.
    pub exit: Option<i32>,
    /// Files outside the workspace that the session has a private copy of: the original and the copy.
    #[serde(default)]
    pub outside_copies: Vec<(PathBuf, PathBuf)>,
    /// The numbers of its user and group as its processes know them, if it was snapshotted by somebody with others.
    #[serde(default)]
    pub ids: Option<(u32, u32)>,
    /// Directories that lie elsewhere than its processes see them: as they see them, and where they are.
    #[serde(default)]
    pub mapped: Vec<(PathBuf, PathBuf)>,
    /// Where its processes live.
    #[serde(default, rename = "attached")]
    pub habitat: HabitatKind,
    /// The container that it is, if it is one.
    #[serde(default)]
    pub container: Option<ContainerRecord>,
    /// Which GPUs it was to have.
    #[serde(default)]
    pub gpu_wish: GpuWish,
    /// UUIDs of the GPUs that it has nodes for.
    #[serde(default)]
    pub gpus: Vec<String>,
    /// Its work on the GPU stands still, and why: the driver would not bring it back. A resume tries again.
    #[serde(default)]
    pub gpu_trouble: Option<String>,
    /// Commands that run beside the main one.
    #[serde(default)]
    pub sidecars: Vec<Vec<OsString>>,
    /// What others noted about it. Like the name, it can change while an operation has hold of the session, so the copy of an
    /// operation may be old: see `notes`.
    #[serde(default)]
    pub notes: Notes,
}

impl Record {
    /// The document that goes with its snapshots.
    pub fn document(&self) -> Document<'_> {
        Document {
            path: self.notes.notebook.as_deref(),
            shown: self.notes.shown.as_deref(),
            kernel_name: self.kernel.as_ref().map_or("", |kernel| kernel.spec.as_str()),
        }
    }

    /// The record of a session that has nothing yet but a name, and begins.
    pub fn new(id: SessionId, name: String, thread: String, owner: User) -> Self {
        Self {
            id,
            name,
            owner,
            thread,
            state: SessionState::Starting,
            command: Vec::new(),
            cwd: PathBuf::from("/"),
            created: Timestamp::now(),
            network: Network::Host,
            outside: false,
            workspace: PathBuf::from("/"),
            files: FilePolicy::Open,
            memory_limit: None,
            pids_limit: None,
            kernel: None,
            head: None,
            origin: None,
            files_at: PathBuf::from("/"),
            init: None,
            holder: None,
            forwarder: None,
            pasta: None,
            exit: None,
            outside_copies: Vec::new(),
            ids: None,
            mapped: Vec::new(),
            habitat: HabitatKind::OwnBox,
            container: None,
            gpu_wish: GpuWish::All,
            gpus: Vec::new(),
            gpu_trouble: None,
            sidecars: Vec::new(),
            notes: Notes::default(),
        }
    }

    /// The record of something that ran already.
    pub fn adopted(self, found: Adopted) -> Self {
        let Adopted { init, habitat, container, command, cwd, workspace: (workspace, files_at), mapped } =
            found;
        let (init, state, exit) = (Some(init), SessionState::Running, None);
        Self { state, exit, init, habitat, container, command, cwd, workspace, files_at, mapped, ..self }
    }

    /// Whether it is a container that is meant by this.
    pub fn is_container(&self, which: &ContainerName) -> bool {
        self.container.as_ref().is_some_and(|container| container.is_meant(which))
    }

    /// Whether it has processes, or is to have them again.
    pub fn runs_or_sleeps(&self) -> bool {
        match self.state {
            SessionState::Running => self.init.is_some_and(|init| init.is_alive()),
            state => state == SessionState::Suspended,
        }
    }

    /// Whether it was this container before that ended, and is nothing now.
    pub fn was_before(&self, found: &Adopted) -> bool {
        let same = |(one, other): (&ContainerRecord, &ContainerRecord)| one.is_same(other);
        self.container.as_ref().zip(found.container.as_ref()).is_some_and(same) && !self.runs_or_sleeps()
    }

    /// The record of a branch at a snapshot: what it takes over, and what it has to get itself.
    pub fn branched(&self, id: SessionId, name: String, thread: String, commit: &ObjectId) -> Self {
        let commit = commit.to_string();
        let origin = OriginRecord { session: self.id.clone(), commit: commit.clone(), files_made: None };
        let container = self.container.as_ref().and_then(|container| container.beside(&id, &name));
        Self {
            container,
            id,
            name,
            thread,
            state: SessionState::Starting,
            created: Timestamp::now(),
            kernel: None,
            head: Some(commit),
            origin: Some(origin),
            init: None,
            holder: None,
            forwarder: None,
            pasta: None,
            exit: None,
            outside_copies: Vec::new(),
            gpu_trouble: None,
            notes: self.notes.for_branch(),
            ..self.clone()
        }
    }

    /// Its user and group, as its processes know them.
    pub fn ids_inside(&self) -> (u32, u32) {
        self.ids.unwrap_or((self.owner.uid, self.owner.gid))
    }

    /// A session's name means its own thread, also where a thread of an earlier session has the same name.
    pub fn in_own_words(&self, to: &str) -> String {
        match to.strip_prefix(self.name.as_str()) {
            Some(rest) if rest.is_empty() || rest.starts_with('~') => format!("{}{rest}", self.thread),
            _ => to.to_owned(),
        }
    }

    /// Whether its kernel is reached by this port, inside or outside.
    pub fn has_port(&self, port: u32) -> bool {
        let mut ports = self.kernel.iter().flat_map(|kernel| &kernel.ports);
        ports.any(|(outside, inside)| port == u32::from(*inside) || port == u32::from(*outside))
    }

    /// It goes back to what it was, not to what another one was, unless that is really meant.
    pub fn check_ancestry(&self, store: &UserStore, target: &ObjectId, force: bool) -> Result<()> {
        let is_own = match self.head_id()? {
            Some(head) => store.is_ancestor(target, &head)?,
            None => false,
        };
        if is_own || force {
            return Ok(());
        }
        Err(RecordError::BadRequest {
            detail: format!(
                "snapshot {} is not in the history of session {}; branch it, or use --force to go there all the same",
                target.short(),
                self.name
            ),
        })
    }

    /// Its newest snapshot.
    pub fn head_id(&self) -> Result<Option<ObjectId>> {
        self.head
            .as_deref()
            .map(|text| {
                text.parse().map_err(|_| {
                    RecordError::Bug(format!("session {} has `{text}` as its newest snapshot", self.id))
                })
            })
            .transpose()
    }

    /// The commits that it names.
    pub fn commits_mut(&mut self) -> Vec<&mut String> {
        self.head.iter_mut().chain(self.origin.iter_mut().map(|origin| &mut origin.commit)).collect()
    }

    /// The first process, if the session runs.
    pub fn living_init(&self, action: &'static str) -> Result<Identity> {
        self.of_running(self.init, action)
    }

    /// The box, if the session is in one and runs.
    pub fn living_holder(&self, action: &'static str) -> Result<Identity> {
        self.of_running(self.holder, action)
    }

    fn of_running(&self, process: Option<Identity>, action: &'static str) -> Result<Identity> {
        process.filter(|_| self.state == SessionState::Running).ok_or_else(|| RecordError::WrongState {
            session: self.name.clone(),
            state: self.state.as_str(),
            action,
        })
    }

    /// Takes over what can change while somebody works with a copy.
    pub fn take_notes(&mut self, known: &Self) {
        self.name.clone_from(&known.name);
        self.notes.clone_from(&known.notes);
    }

    /// Reads one.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = bounded::read_small(path, RECORD_LIMIT).map_err(io_error("read", path))?;
        serde_json::from_slice(&bytes)
            .map_err(|error| RecordError::Damaged { path: path.to_owned(), detail: error.to_string() })
    }

    /// Replaces it, durably.
    pub fn write(&self, path: &Path) -> Result<()> {
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
