//! Intent, written down before what cannot be taken back.
//!
//! One file for each session that is in the middle of an operation, `journal/<id>.json`, with the phase that it is in. The
//! phase is written and synced *before* the first step of it is taken, and the file goes away when the record says how it
//! ended. So whoever finds a file after a crash knows what may have happened:
//!
//! | phase | what may be true |
//! |---|---|
//! | `Starting` | there may be processes, a namespace, mounts of a session that nobody was told of, or that is being removed |
//! | `Dumping` | the tree may be frozen or stopped, CRIU may be at work |
//! | `Ending` | its state is committed as `safe`, the tree may be stopped or dead |
//! | `Restoring` | there is no tree, or half of one; `safe` is what it was |
//! | `Stopping` | some processes were told to end |
//! | `Restarting` | the old tree runs, or some of it, or none, or some of the new one, or all of it |
//!
//! What is done then is said by the stage of the pipeline that wrote the line (`pipeline.rs` and `recover.rs` of `lifecycle`).
//!
//! The one rule behind it: a tree is only ended when its state is durable in the store. Until then it is merely stopped,
//! and a crash lets it go on.
//!
//! Beside the phase stand the processes whose work on the GPU may be locked or off the GPU, and the workers that may be in a
//! call to the driver ([`GpuNotes`]). They are written before the first lock. Recovery waits for the workers, which end by
//! themselves and are never killed in a call, and then brings each of the processes back, whatever state it is in.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::io_error;
use sandbox::process::Identity;
use serde::{Deserialize, Serialize};

use crate::error::{RecordError, Result};
use crate::json::write_json;
use crate::session::SessionId;

/// How far an operation is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "phase", rename_all = "lowercase")]
pub enum Phase {
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
    /// The old tree is being ended, and a new one made by the command.
    Restarting,
}

impl Phase {
    /// As a word.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Dumping { .. } => "dumping",
            Self::Ending { .. } => "ending",
            Self::Restoring { .. } => "restoring",
            Self::Stopping => "stopping",
            Self::Restarting => "restarting",
        }
    }

    /// Whether a commit is named, so that recovery may go there.
    pub fn names(&self, commit: &str) -> bool {
        match self {
            Self::Ending { safe, then, .. } => safe == commit || then.as_deref() == Some(commit),
            Self::Restoring { commit: aim, safe, .. } => aim == commit || safe == commit,
            Self::Starting | Self::Dumping { .. } | Self::Stopping | Self::Restarting => false,
        }
    }
}

/// What may have been done to GPUs.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct GpuNotes {
    /// Processes that may be locked, or off the GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu: Vec<Identity>,
    /// Workers that may be in a call to the driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_workers: Vec<Identity>,
}

/// A file of the journal: a line of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// How far the operation is.
    #[serde(flatten)]
    pub phase: Phase,
    /// What may have been done to GPUs.
    #[serde(flatten)]
    pub notes: GpuNotes,
}

/// Is told what the journal says, each time that something else is on disk. Tests end the daemon there.
pub type Told = fn(&str);

/// The journal's directory.
#[derive(Clone, Debug)]
pub struct Journal {
    directory: PathBuf,
    told: Told,
}

/// An intent that is written down. It stays on disk until [`Entry::done`]: an error or a crash leaves it to recovery.
#[derive(Debug)]
pub struct Entry {
    path: PathBuf,
    /// What is to be on disk. The flag says that it is not there yet.
    line: Mutex<(Line, bool)>,
    told: Told,
}

impl Journal {
    /// Makes the directory if it is not there.
    pub fn open(directory: PathBuf, told: Told) -> Result<Self> {
        fs::create_dir_all(&directory).map_err(io_error("create", &directory))?;
        Ok(Self { directory, told })
    }

    /// Writes the first phase of an operation.
    pub fn begin(&self, id: &SessionId, phase: &Phase) -> Result<Entry> {
        let line = Line { phase: phase.clone(), notes: GpuNotes::default() };
        let entry = self.entry(self.directory.join(format!("{id}.json")), line);
        entry.write(&mut entry.line())?;
        Ok(entry)
    }

    /// The entry of an operation on this session that was left to be finished, if there is one.
    pub fn reopen(&self, id: &SessionId) -> Result<Option<Entry>> {
        let path = self.directory.join(format!("{id}.json"));
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(io_error("read", &path))?,
        };
        let damaged =
            |error: serde_json::Error| RecordError::Damaged { path: path.clone(), detail: error.to_string() };
        let line = serde_json::from_slice(&bytes).map_err(damaged)?;
        Ok(Some(self.entry(path, line)))
    }

    /// What was under way when the daemon ended. A line that cannot be read is said to be one, with its session.
    pub fn pending(&self) -> Result<Vec<(SessionId, Entry, Result<Line>)>> {
        let mut found = Vec::new();
        for item in fs::read_dir(&self.directory).map_err(io_error("list", &self.directory))? {
            let path = item.map_err(io_error("list", &self.directory))?.path();
            let Some(id) = session_of(&path) else {
                // The half of a write that never became a file of ours.
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
                continue;
            };
            let line: Result<Line> =
                fs::read(&path).map_err(|error| io_error("read", &path)(error).into()).and_then(|bytes| {
                    serde_json::from_slice(&bytes).map_err(|error| RecordError::Damaged {
                        path: path.clone(),
                        detail: error.to_string(),
                    })
                });
            let known = line.as_ref().ok().cloned();
            let entry = self
                .entry(path, known.unwrap_or(Line { phase: Phase::Stopping, notes: GpuNotes::default() }));
            found.push((id, entry, line));
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }

    fn entry(&self, path: PathBuf, line: Line) -> Entry {
        Entry { path, line: Mutex::new((line, true)), told: self.told }
    }
}

fn session_of(path: &Path) -> Option<SessionId> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    SessionId::try_from(name.to_owned()).ok()
}

impl Entry {
    fn line(&self) -> MutexGuard<'_, (Line, bool)> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, line: &mut (Line, bool)) -> Result<()> {
        line.1 = true;
        write_json(&self.path, &line.0)?;
        line.1 = false;
        (self.told)(&format!("the journal says {}", line.0.phase.as_str()));
        Ok(())
    }

    /// Replaces the phase, durably. What was noted of GPUs stays.
    pub fn enter(&self, phase: &Phase) -> Result<()> {
        let mut line = self.line();
        line.0.phase = phase.clone();
        self.write(&mut line)
    }

    /// What was noted of GPUs.
    pub fn notes(&self) -> GpuNotes {
        self.line().0.notes.clone()
    }

    /// The record says how it ended.
    pub fn done(self) -> Result<()> {
        fs::remove_file(&self.path).map_err(io_error("remove", &self.path))?;
        (self.told)("the journal says nothing any more");
        Ok(())
    }
}

/// Where it is written down who is about to be touched on a GPU, and by whom: all that whoever answers for GPUs sees of the journal.
pub trait GpuJournal {
    /// These processes are about to be taken off the GPU, or put onto it. On disk with the next [`GpuJournal::sync`].
    fn note_gpu(&self, processes: Vec<Identity>);

    /// This process is about to call the driver. On disk with the next [`GpuJournal::sync`].
    fn note_gpu_worker(&self, worker: Identity);

    /// Everything that was noted is on disk when this returns.
    fn sync(&self) -> Result<()>;
}

impl GpuJournal for Entry {
    fn note_gpu(&self, processes: Vec<Identity>) {
        let mut line = self.line();
        line.0.notes.gpu = processes;
        line.1 = true;
    }

    fn note_gpu_worker(&self, worker: Identity) {
        let mut line = self.line();
        if !line.0.notes.gpu_workers.contains(&worker) {
            line.0.notes.gpu_workers.push(worker);
            line.1 = true;
        }
    }

    fn sync(&self) -> Result<()> {
        let mut line = self.line();
        if line.1 { self.write(&mut line) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody(_: &str) {}

    #[test]
    fn an_intent_is_found_again_until_it_is_done() {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::open(home.path().join("journal"), nobody).unwrap();
        let id = SessionId::random().unwrap();
        let entry = journal.begin(&id, &Phase::Starting).unwrap();
        let phase = Phase::Restoring { commit: "a".into(), safe: "b".into(), files: true };
        entry.enter(&phase).unwrap();
        fs::write(home.path().join("journal/half.new"), b"{").unwrap();
        let pending = journal.pending().unwrap();
        assert_eq!(pending.len(), 1);
        assert_eq!(pending[0].0, id);
        assert_eq!(pending[0].2.as_ref().unwrap().phase, phase);
        entry.done().unwrap();
        assert!(journal.pending().unwrap().is_empty());
    }

    #[test]
    fn what_may_be_off_the_gpu_stays_noted_from_phase_to_phase() {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::open(home.path().to_owned(), nobody).unwrap();
        let id = SessionId::random().unwrap();
        let entry = journal.begin(&id, &Phase::Dumping { worker: None }).unwrap();
        let (one, worker) = (Identity { pid: 7, start_time: 70 }, Identity { pid: 9, start_time: 90 });
        entry.note_gpu(vec![one]);
        entry.note_gpu_worker(worker);
        let read = || journal.pending().unwrap().remove(0).2.unwrap();
        assert_eq!(read().notes, GpuNotes::default(), "notes are written together");
        entry.sync().unwrap();
        let notes = GpuNotes { gpu: vec![one], gpu_workers: vec![worker] };
        assert_eq!(read().notes, notes);
        entry.enter(&Phase::Dumping { worker: Some(worker) }).unwrap();
        assert_eq!(read(), Line { phase: Phase::Dumping { worker: Some(worker) }, notes });
    }

    #[test]
    fn what_was_written_before_there_were_gpus_is_read() {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::open(home.path().to_owned(), nobody).unwrap();
        let id = SessionId::random().unwrap();
        let old = [
            (r#"{"phase":"starting"}"#, Phase::Starting),
            (r#"{"phase":"dumping","worker":null}"#, Phase::Dumping { worker: None }),
            (
                r#"{"phase":"dumping","worker":{"pid":5,"start_time":6}}"#,
                Phase::Dumping { worker: Some(Identity { pid: 5, start_time: 6 }) },
            ),
            (
                r#"{"phase":"ending","safe":"a","then":null,"files":true}"#,
                Phase::Ending { safe: "a".into(), then: None, files: true },
            ),
            (
                r#"{"phase":"restoring","commit":"b","safe":"a","files":false}"#,
                Phase::Restoring { commit: "b".into(), safe: "a".into(), files: false },
            ),
            (r#"{"phase":"stopping"}"#, Phase::Stopping),
        ];
        for (text, phase) in old {
            fs::write(home.path().join(format!("{id}.json")), text).unwrap();
            let line = journal.pending().unwrap().remove(0).2.unwrap();
            assert_eq!(line, Line { phase, notes: GpuNotes::default() });
            // and what has nothing on the GPU is written as it was before
            let again = serde_json::to_value(&line).unwrap();
            assert_eq!(again, serde_json::from_str::<serde_json::Value>(text).unwrap());
        }
    }

    #[test]
    fn a_damaged_intent_is_said_to_be_one() {
        let home = tempfile::tempdir().unwrap();
        let journal = Journal::open(home.path().to_owned(), nobody).unwrap();
        let id = SessionId::random().unwrap();
        let _entry = journal.begin(&id, &Phase::Stopping).unwrap();
        fs::write(home.path().join(format!("{id}.json")), b"{\"phase\":\"fly\"}").unwrap();
        let pending = journal.pending().unwrap();
        assert!(matches!(pending[0].2, Err(RecordError::Damaged { .. })), "{:?}", pending[0].2);
    }
}
