//! The way to the driver.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::bring::{self, Member, bring_back};
use crate::core::{Core, Scribe};
use crate::error::{CudaError, Result};
use crate::facts::{Abandoned, Brought, Capabilities, CudaProcess, Target};
use crate::frozen;
use crate::notes::Notes;
use crate::process::Process;
use crate::settings::{LockOptions, Settings};
use crate::state::State;
use crate::tree::{Checkpointed, Locked, Tree};

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
        Ok(Self { core: Core::open(settings, bring::bring_back_alone)? })
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
        self.make_running_from(pids, None)
    }

    /// The same where device memory of theirs may be below `directory`, as [`Tree::checkpoint_to`] puts it there. One that is LOCKED and
    /// whose memory did not all come back from there is left as it is.
    pub fn make_running_from(&self, pids: &[i32], directory: Option<&Path>) -> Vec<Brought> {
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
                let members: Vec<Member> = processes
                    .into_iter()
                    .map(|process| Member::found(&self.core, process, directory))
                    .collect();
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

    /// Whether a process is stopped or frozen, so that nothing can be done to it before it goes on.
    pub fn stands_still(&self, pid: i32) -> bool {
        frozen::holds(pid).is_ok_and(|holds| !holds.is_empty())
    }

    /// Workers that were given up and have not ended yet.
    pub fn abandoned(&self) -> Vec<Abandoned> {
        self.core.abandoned()
    }
}
