//! What a snapshot keeps of its session so that a new one can be made of it when that session is gone, here or on another machine.
//!
//! A restored kernel answers only to the key that it had, and that is written down nowhere but in the session's directory. So it goes into
//! the snapshot, with whatever else of the record a new session begins with. It is a secret, but no new one: the memory beside it holds
//! it, too. It is a part of the section `session` and none of its attributes, so that nobody reads it who only looks at a snapshot.
//!
//! A snapshot may come from elsewhere, so nothing in it is believed that concerns this machine: the owner is whoever restores it, and paths
//! and processes are those that are made here.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use api::{InterruptMode, SessionState};
use cas_core::progress::Silent;
use cas_core::{ObjectId, WriteTransaction};
use history::{HistoryError, UserStore};
use manifest::snapshot::{Root, RootTarget};
use manifest::{Section, Snapshot, TypedSection};
use policy::SessionPolicy;
use sandbox::User;
use serde::{Deserialize, Serialize};
use workspace::FilePolicy;

use crate::error::{RecordError, Result};
use crate::notes::Notes;
use crate::programs::{self, Programs};
use crate::record::{KernelRecord, Record};
use crate::section::SessionSection;
use crate::session::{GpuWish, SessionId};

/// Its name among the section's roots.
const ROOT: &str = "record";
/// No seed is longer.
const LIMIT: u64 = 16 << 20;

/// The number of everybody who is not known in a user namespace.
const UNKNOWN: u32 = 65534;

/// What the section does not say in its attributes.
#[derive(Serialize, Deserialize)]
struct Seed {
    outside: bool,
    files: FilePolicy,
    memory_limit: Option<u64>,
    pids_limit: Option<u64>,
    gpu_wish: GpuWish,
    gpus: Vec<String>,
    sidecars: Vec<Vec<OsString>>,
    policy: SessionPolicy,
    kernel: Option<KernelSeed>,
    /// Its user and group, as its processes know them.
    #[serde(default)]
    ids: Option<(u32, u32)>,
}

#[derive(Serialize, Deserialize)]
struct KernelSeed {
    language: String,
    interrupt_mode: InterruptMode,
    /// The connection file inside, as text.
    connection: String,
}

/// A session that is gone, as a snapshot remembers it.
#[derive(Debug)]
pub struct Gone {
    /// What would be its record here, without processes and files.
    pub record: Record,
    /// The text of its kernel's connection file, if it has a kernel.
    pub connection: Option<String>,
}

/// Files of ours that the processes of a snapshot have mapped and that are not where they were: written into a directory of a new session's.
/// The old path of each, and the new one.
pub fn bring_programs(store: &UserStore, commit: &ObjectId, to: &Path) -> Result<Vec<(PathBuf, PathBuf)>> {
    let (_, snapshot) = store.load(commit)?;
    let programs = snapshot.section(SessionSection::NAME).and_then(Programs::of);
    programs.map_or_else(|| Ok(Vec::new()), |programs| programs.bring(store.store(), to))
}

/// The section `session` of a snapshot. `connection` is the text of the kernel's connection file; without the file of a kernel no new
/// session can be made of it.
pub fn session_section(
    record: &Record,
    connection: Option<String>,
    parent: Option<&Snapshot>,
    into: &WriteTransaction,
) -> Result<Section> {
    let mut section = SessionSection::of(record).to_section().map_err(HistoryError::from)?;
    programs::add(&mut section, record, parent, into)?;
    let kernel = match (&record.kernel, connection) {
        (Some(kernel), Some(connection)) => Some(KernelSeed {
            language: kernel.language.clone(),
            interrupt_mode: kernel.interrupt_mode,
            connection,
        }),
        (Some(_), None) => return Ok(section),
        (None, _) => None,
    };
    let seed = Seed {
        outside: record.outside,
        files: record.files.clone(),
        memory_limit: record.memory_limit,
        pids_limit: record.pids_limit,
        gpu_wish: record.gpu_wish.clone(),
        gpus: record.gpus.clone(),
        sidecars: record.sidecars.clone(),
        policy: record.notes.policy.clone(),
        kernel,
        ids: Some(record.ids_inside()),
    };
    let bytes = serde_json::to_vec(&seed)
        .map_err(|error| RecordError::Bug(format!("a session cannot be written down: {error}")))?;
    let blob = into.put_blob(&mut bytes.as_slice(), &Silent).map_err(HistoryError::from)?;
    section.roots.push(Root::blob(ROOT, blob.into()));
    Ok(section)
}

/// The session that a snapshot was taken of, for whoever makes a new one of it; `None` if the snapshot does not know enough of it.
pub fn gone_session(store: &UserStore, commit: &ObjectId, owner: &User) -> Result<Option<Gone>> {
    let (_, snapshot) = store.load(commit)?;
    let Some(section) = snapshot.section(SessionSection::NAME) else { return Ok(None) };
    let Some(Root { target: RootTarget::Blob(blob), .. }) = section.root(ROOT) else { return Ok(None) };
    let bad = |detail: String| HistoryError::BadSnapshot {
        commit: commit.short(),
        detail: format!("what it says of its session: {detail}"),
    };
    let said = SessionSection::from_section(section).map_err(HistoryError::from)?;
    let seed: Seed = serde_json::from_slice(&store.read_part(&commit.short(), *blob, LIMIT)?)
        .map_err(|error| bad(error.to_string()))?;
    let plain = |path: &Path| {
        path.is_absolute() && path.components().all(|part| !matches!(part, Component::ParentDir))
    };
    if !plain(&said.workspace) || !plain(&said.cwd) {
        return Err(bad("its directories are no plain paths".to_owned()).into());
    }
    seed.files.check().map_err(bad)?;
    let notes = Notes::new([].into(), None, seed.policy)?;
    let (kernel, connection) = match (said.kernel, seed.kernel) {
        (Some(ports), Some(kernel)) => {
            let record = KernelRecord {
                spec: ports.spec,
                connection_file: PathBuf::new(),
                ports: ports.ports.into_iter().map(|port| (port, port)).collect(),
                language: kernel.language,
                interrupt_mode: kernel.interrupt_mode,
            };
            (Some(record), Some(kernel.connection))
        }
        _ => (None, None),
    };
    let id = SessionId::try_from(said.session).map_err(bad)?;
    // Which container it may be here is not for a snapshot to say.
    let record = Record {
        state: SessionState::Ended,
        command: said.command,
        cwd: said.cwd,
        network: said.network,
        outside: seed.outside,
        files_at: said.workspace.clone(),
        workspace: said.workspace,
        files: seed.files,
        memory_limit: seed.memory_limit,
        pids_limit: seed.pids_limit,
        kernel,
        ids: seed.ids.filter(|ids| may_keep(*ids, owner)),
        habitat: said.habitat,
        gpu_wish: seed.gpu_wish,
        gpus: seed.gpus,
        sidecars: seed.sidecars,
        notes,
        ..Record::new(id, said.name.clone(), said.name, owner.clone())
    };
    Ok(Some(Gone { record, connection }))
}

/// Whether processes that were another user's may keep that user's numbers. They are only what a box shows: outside, and for every file, its
/// processes are their new owner's. Nobody becomes root by it, not even by name, and root takes nobody's place.
fn may_keep(ids: (u32, u32), owner: &User) -> bool {
    let ordinary = |id: u32| (1..UNKNOWN).contains(&id);
    owner.uid != 0 && ordinary(ids.0) && ordinary(ids.1) && ids != (owner.uid, owner.gid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use history::{NewCommit, OwnStore};
    use manifest::{CommitReason, Figures};

    const RECORD: &str = r#"{"id": "0123456789ab", "name": "a", "owner": {"uid": 7, "gid": 7, "groups": [], "name": "ada",
        "home": "/home/ada", "shell": "/bin/sh"}, "state": "running", "command": ["a"], "cwd": "/home/ada/work",
        "created": "2026-11-15T09:12:09Z", "network": "private", "outside": true, "workspace": "/home/ada/work",
        "files": {"policy": "open"}, "memory_limit": 18446744073709551615, "pids_limit": null,
        "kernel": {"spec": "python3", "connection_file": "/c", "ports": [[1, 2]], "language": "python"}, "thread": "a",
        "head": null, "origin": null, "files_at": "/home/ada/work", "init": null, "forwarder": null, "pasta": null, "exit": null}"#;

    fn stored(record: &Record, connection: Option<&str>) -> (tempfile::TempDir, UserStore, ObjectId) {
        let directory = tempfile::tempdir().unwrap();
        let store = OwnStore::new(directory.path().join("store"), None).unwrap().open().unwrap();
        let into = store.write(&[]).unwrap();
        let section = session_section(record, connection.map(str::to_owned), None, &into).unwrap();
        let snapshot = Snapshot::new(vec![section]).unwrap();
        let new = NewCommit {
            snapshot: &snapshot,
            parents: Vec::new(),
            thread: "a",
            expected: None,
            author: &record.owner,
            message: "",
            reason: CommitReason::Manual,
            tag: None,
            session: Some(record.id.as_str()),
            label: None,
            cell: None,
            figures: Figures::default(),
            seal: None,
        };
        let (commit, _) = store.commit_snapshot(into, new).unwrap();
        (directory, store, commit)
    }

    #[test]
    fn a_session_comes_back_as_its_restorers_and_without_its_places() {
        let record: Record = serde_json::from_str(RECORD).unwrap();
        let (_directory, store, commit) = stored(&record, Some("{\"key\": \"secret\"}"));
        let eve = User { uid: 9, name: "eve".into(), ..record.owner.clone() };
        let gone = gone_session(&store, &commit, &eve).unwrap().unwrap();
        assert_eq!(gone.connection.as_deref(), Some("{\"key\": \"secret\"}"));
        assert_eq!(gone.record.owner, eve);
        // Inside it has the numbers that it had.
        assert_eq!((gone.record.ids, gone.record.ids_inside()), (Some((7, 7)), (7, 7)));
        assert_eq!(gone_session(&store, &commit, &record.owner).unwrap().unwrap().record.ids, None);
        assert!(
            !may_keep((0, 7), &eve)
                && !may_keep((7, 65534), &eve)
                && !may_keep((7, 7), &User { uid: 0, ..eve })
        );
        assert_eq!((gone.record.name.as_str(), gone.record.memory_limit), ("a", record.memory_limit));
        let kernel = gone.record.kernel.unwrap();
        assert_eq!((kernel.language.as_str(), kernel.connection_file), ("python", PathBuf::new()));
        // Whoever only looks at the snapshot does not see the key.
        let (_, snapshot) = store.load(&commit).unwrap();
        assert!(!format!("{:?}", snapshot.section("session").unwrap().attributes).contains("secret"));
    }

    #[test]
    fn one_without_a_key_or_with_odd_paths_does_not() {
        let mut record: Record = serde_json::from_str(RECORD).unwrap();
        let (_directory, store, commit) = stored(&record, None);
        assert!(gone_session(&store, &commit, &record.owner).unwrap().is_none());
        record.workspace = "/home/ada/../../etc".into();
        let (_directory, store, commit) = stored(&record, Some("{}"));
        let error = gone_session(&store, &commit, &record.owner).unwrap_err();
        assert!(error.to_string().contains("no plain paths"), "{error}");
    }
}
