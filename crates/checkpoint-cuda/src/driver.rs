//! The way to the driver.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bring::{Member, bring_back};
use crate::core::{Core, Scribe};
use crate::error::{CudaError, Result};
use crate::frozen;
use crate::notes::Notes;
use crate::process::Process;
use crate::state::State;
use crate::tree::{Checkpointed, Locked, Tree};

/// Where things are, and how long they may take.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program `infinijup-gpu`.
    pub worker: PathBuf,
    /// The driver's library; the loader's `libcuda.so.1` if none is named.
    pub library: Option<PathBuf>,
    /// The `cuda-checkpoint` program, for machines where the library lacks the calls. Looked for in `PATH` if none is named.
    pub tool: Option<PathBuf>,
    /// How long the driver's calls may take.
    pub limits: Limits,
}

impl Settings {
    /// The usual library and limits.
    pub fn new(worker: impl AsRef<Path>) -> Self {
        Self { worker: worker.as_ref().to_path_buf(), library: None, tool: None, limits: Limits::default() }
    }
}

/// How long the driver's calls may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// State, restore thread.
    pub question: Duration,
    /// Lock; the driver is given nine tenths of it, so that its own answer comes first.
    pub lock: Duration,
    /// Checkpoint and restore, to which a second is added for each 256 MiB of device memory.
    pub step: Duration,
    /// Unlock.
    pub unlock: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            question: Duration::from_secs(5),
            lock: Duration::from_secs(10),
            step: Duration::from_secs(60),
            unlock: Duration::from_secs(30),
        }
    }
}

impl Limits {
    /// For a checkpoint or restore of this much device memory.
    pub fn step_for(&self, vram_bytes: u64) -> Duration {
        self.step.saturating_add(Duration::from_secs(vram_bytes / (256 << 20)))
    }
}

/// How the driver is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// By the functions of its library.
    Api,
    /// By the program `cuda-checkpoint`.
    Tool,
}

/// What this driver can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Capabilities {
    /// How it is reached.
    pub backend: Backend,
    /// The newest CUDA that the driver knows, as 1000 x major + 10 x minor; 0 if it was not found out.
    pub cuda_version: u32,
    /// Can processes be restored on other GPUs?
    pub pairs: bool,
    /// Can device memory be copied elsewhere than into the process?
    pub custom_storage: bool,
}

/// A process to work on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Target {
    /// Its id, or that of one of its threads.
    pub pid: i32,
    /// How much device memory it has: decides the limits, and whether there is room.
    pub vram_bytes: u64,
}

/// How to lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockOptions {
    /// Let frozen processes run for the time they are needed, and freeze them again afterwards, instead of refusing them.
    pub thaw: bool,
    /// See that there is room for the device memory ([`crate::host_memory::check`]). Only custom storage can do without.
    pub room: bool,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self { thaw: false, room: true }
    }
}

/// A process that has CUDA in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CudaProcess {
    /// Its id.
    pub pid: i32,
    /// The thread that does the driver's work in it.
    pub restore_tid: i32,
    /// What it is.
    pub state: State,
}

/// What became of a process that was to be brought back to RUNNING.
#[derive(Debug)]
pub struct Brought {
    /// Its id.
    pub pid: i32,
    /// What it was; `None` if it could not be asked, or has no CUDA in it.
    pub was: Option<State>,
    /// What it is now.
    pub now: Option<State>,
    /// Why it is not RUNNING.
    pub error: Option<CudaError>,
}

/// A worker that was given up because a call took too long. It ends by itself when the call does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abandoned {
    /// Its process id.
    pub pid: i32,
    /// When it started, to tell it from a later process with its number (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
}

/// The driver. Clones share one worker.
#[derive(Clone)]
pub struct Driver {
    core: Arc<Core>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("settings", &self.core.settings)
            .field("capabilities", &self.core.capabilities)
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// Starts a worker and finds out what the driver can do.
    ///
    /// Fails with [`CudaError::NoDriver`] if there is neither the library nor the program, and with [`CudaError::TooOld`] if the
    /// library lacks the calls and there is no program either.
    pub fn open(settings: Settings) -> Result<Self> {
        Ok(Self { core: Core::open(settings)? })
    }

    /// What this driver can do.
    pub fn capabilities(&self) -> Capabilities {
        self.core.capabilities
    }

    /// Those of `pids` that have CUDA in them. Processes that have ended are left out.
    ///
    /// The probe is the restore thread: the state is answered for processes that never used CUDA, too. A CUDA process that
    /// stands still is an error ([`CudaError::Frozen`]), because asking it for its state would hang.
    pub fn find(&self, pids: &[i32]) -> Result<Vec<CudaProcess>> {
        let mut found: Vec<CudaProcess> = Vec::new();
        for pid in pids {
            match self.look_at(*pid) {
                Ok(Some(process)) if found.iter().all(|known| known.pid != process.pid) => {
                    found.push(process)
                }
                Ok(_) | Err(CudaError::Ended { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    fn look_at(&self, pid: i32) -> Result<Option<CudaProcess>> {
        let process = Process::find(pid)?;
        let Some(restore_tid) = self.core.thread(&process)? else { return Ok(None) };
        frozen::refuse([&process])?;
        let state = self.core.state(&process)?;
        Ok(Some(CudaProcess { pid: process.pid, restore_tid, state }))
    }

    /// What a process is.
    pub fn state(&self, pid: i32) -> Result<State> {
        self.core.state(&Process::find(pid)?)
    }

    /// Locks all of `targets`, or none. Frozen processes, and too little memory, are refused before the first is locked.
    pub fn lock(&self, targets: &[Target], notes: &mut dyn Notes) -> Result<Tree<Locked>> {
        self.lock_with(targets, &LockOptions::default(), notes)
    }

    /// [`Driver::lock`] with options.
    pub fn lock_with(
        &self,
        targets: &[Target],
        options: &LockOptions,
        notes: &mut dyn Notes,
    ) -> Result<Tree<Locked>> {
        Tree::lock(&self.core, targets, options, notes)
    }

    /// Takes over processes that are CHECKPOINTED, as they are after CRIU has restored them.
    pub fn adopt(&self, targets: &[Target]) -> Result<Tree<Checkpointed>> {
        Tree::adopt(&self.core, targets)
    }

    /// Brings processes back to RUNNING from wherever they are. For recovery, when nobody knows how far things had got.
    ///
    /// Processes without CUDA and processes that have ended are answered with neither state nor, in the first case, an error.
    pub fn make_running(&self, pids: &[i32]) -> Vec<Brought> {
        let mut brought = Vec::new();
        let mut processes = Vec::new();
        for pid in pids {
            let with = |error| Brought { pid: *pid, was: None, now: None, error };
            match self.with_cuda(*pid) {
                Ok(Some(process)) => processes.push(process),
                Ok(None) => brought.push(with(None)),
                Err(error) => brought.push(with(Some(error))),
            }
        }
        processes.sort_by_key(|process| process.pid);
        processes.dedup_by_key(|process| process.pid);
        let ids: Vec<i32> = processes.iter().map(|process| process.pid).collect();
        match self.core.claim(&ids) {
            Ok(claim) => {
                let members: Vec<Member> =
                    processes.into_iter().map(|process| Member::new(process, 0)).collect();
                brought.extend(bring_back(&self.core, &members, &mut Scribe::none()));
                drop(claim);
            }
            Err(_) => brought.extend(ids.into_iter().map(|pid| Brought {
                pid,
                was: None,
                now: None,
                error: Some(CudaError::Busy { pid }),
            })),
        }
        brought
    }

    /// A process, if it has CUDA in it and does not stand still.
    fn with_cuda(&self, pid: i32) -> Result<Option<Process>> {
        let process = Process::find(pid)?;
        if self.core.thread(&process)?.is_none() {
            return Ok(None);
        }
        frozen::refuse([&process])?;
        Ok(Some(process))
    }

    /// Workers that were given up and have not ended yet.
    pub fn abandoned(&self) -> Vec<Abandoned> {
        self.core.abandoned()
    }
}
