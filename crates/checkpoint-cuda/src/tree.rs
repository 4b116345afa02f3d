//! A tree of CUDA processes that go through the driver's states together.

use std::fmt;
use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::beside::Beside;
use crate::bring::{self, Member, Silence};
use crate::claims::Claim;
use crate::core::{self, Core, Scribe};
use crate::error::{CudaError, Result};
use crate::facts::Target;
use crate::frozen::{self, Thawed};
use crate::host_memory;
use crate::notes::{Action, Notes};
use crate::process::Process;
use crate::protocol::{Answer, Ask};
use crate::settings::LockOptions;
use crate::state::State;
use crate::uuid::{GpuMap, GpuUuid};

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Locked {}
    impl Sealed for super::Checkpointed {}
}

/// The states a [`Tree`] can be in.
pub trait Kind: sealed::Sealed {}

/// All processes are LOCKED.
#[derive(Debug)]
pub enum Locked {}

/// All processes are CHECKPOINTED.
#[derive(Debug)]
pub enum Checkpointed {}

impl Kind for Locked {}
impl Kind for Checkpointed {}

/// A tree of processes, all in the state `S`. Dropping it brings them back to RUNNING.
#[must_use = "dropping it brings the processes back to RUNNING"]
pub struct Tree<S: Kind> {
    /// Taken when the tree goes on to another state.
    held: Option<Box<Held>>,
    state: PhantomData<S>,
}

impl<S: Kind> fmt::Debug for Tree<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tree").field(&self.pids()).finish()
    }
}

/// What a tree holds on to. Fields are dropped in this order: processes are stopped again before others may have them.
struct Held {
    core: Arc<Core>,
    members: Vec<Member>,
    thawed: Thawed,
    _claim: Claim,
}

/// A checkpoint that failed. All processes were brought back to RUNNING, but for those in `stranded`.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    /// What went wrong first.
    #[source]
    pub error: CudaError,
    /// Processes that could not be brought back.
    pub stranded: Vec<Stranded>,
}

/// A process that could not be brought back to RUNNING.
#[derive(Debug)]
pub struct Stranded {
    /// The process that could not be brought back.
    pub pid: i32,
    /// What it is, if it could be asked.
    pub state: Option<State>,
    /// What the driver said of it.
    pub error: CudaError,
}

impl<S: Kind> Tree<S> {
    const fn of(held: Box<Held>) -> Self {
        Self { held: Some(held), state: PhantomData }
    }

    /// The processes.
    pub fn pids(&self) -> Vec<i32> {
        self.held.iter().flat_map(|held| held.pids()).collect()
    }

    /// Leaves the processes to whoever called, as they are.
    fn release(mut self) -> Result<Box<Held>> {
        self.held.take().ok_or_else(|| CudaError::Invalid { what: "the tree is used up".to_owned() })
    }
}

impl<S: Kind> Drop for Tree<S> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.bring_back(&mut Scribe::none());
        }
    }
}

impl Held {
    /// Finds and claims the processes.
    fn find(core: &Arc<Core>, targets: &[Target]) -> Result<Box<Self>> {
        let mut members: Vec<Member> = Vec::new();
        for target in targets {
            let process = Process::find(target.pid)?;
            // Two threads of one process are one process.
            if let Some(known) = members.iter_mut().find(|known| known.process.pid == process.pid) {
                known.vram_bytes = known.vram_bytes.max(target.vram_bytes);
            } else {
                members.push(Member::new(process, target.vram_bytes));
            }
        }
        let pids: Vec<i32> = members.iter().map(|member| member.process.pid).collect();
        let claim = core.claim(&pids)?;
        let (core, thawed) = (Arc::clone(core), Thawed::default());
        Ok(Box::new(Self { core, members, thawed, _claim: claim }))
    }

    fn pids(&self) -> Vec<i32> {
        self.members.iter().map(|member| member.process.pid).collect()
    }

    /// Brings all back to RUNNING; those that could not be are returned.
    fn bring_back(&self, scribe: &mut Scribe<'_>) -> Vec<Stranded> {
        bring::bring_back(&self.core, &self.members, scribe)
            .into_iter()
            .filter_map(|brought| {
                let error = brought.error?;
                // A process that has ended is in nobody's way.
                let ended = matches!(error, CudaError::Ended { .. });
                (!ended).then_some(Stranded { pid: brought.pid, state: brought.now, error })
            })
            .collect()
    }

    /// Checks that a process is in the state that `action` needs.
    fn expect(&self, member: &Member, action: Action, needed: State) -> Result<()> {
        let pid = member.process.pid;
        match bring::settled_state(&self.core, member)? {
            state if state == needed => Ok(()),
            State::Failed => Err(CudaError::Lost { action, pid }),
            state => Err(CudaError::WrongState { action, pid, state }),
        }
    }

    fn lock_all(&mut self, scribe: &mut Scribe<'_>) -> Result<()> {
        for at in 0..self.members.len() {
            let outcome = self.lock_one(&self.members[at].process, scribe);
            self.note(at, &outcome);
            outcome?;
        }
        Ok(())
    }

    fn lock_one(&self, process: &Process, scribe: &mut Scribe<'_>) -> Result<()> {
        let (pid, action) = (process.pid, Action::Lock);
        let limit = self.core.limits().lock;
        // The driver's own limit is a little shorter, so that its answer comes before we give up.
        let timeout_ms = u32::try_from((limit * 9 / 10).as_millis()).unwrap_or(u32::MAX).max(1);
        let error = match self.core.step(process, action, Ask::Lock { pid, timeout_ms }, limit, scribe) {
            Ok(Answer::Done) => return Ok(()),
            Ok(other) => core::unexpected(action, pid, &other),
            Err(error) => error,
        };
        match bring::after(&self.core, process, &error) {
            Some(State::Locked) => Ok(()),
            state => Err(bring::told(error, action, process, state)),
        }
    }

    /// LOCKED to CHECKPOINTED. Succeeds if the process is CHECKPOINTED afterwards, whatever the call said.
    fn checkpoint_one(&self, member: &Member, scribe: &mut Scribe<'_>) -> Result<()> {
        let (pid, action, process) = (member.process.pid, Action::Checkpoint, &member.process);
        if let Some(directory) = &member.storage {
            fs::create_dir_all(directory).map_err(CudaError::io("create", directory))?;
        }
        self.core.stores_in(process, member.storage.as_deref());
        let ask = Ask::Checkpoint { pid, storage: member.storage.clone() };
        let error = match self.core.step(process, action, ask, member.limit(&self.core), scribe) {
            Ok(Answer::Done) => return Ok(()),
            Ok(other) => core::unexpected(action, pid, &other),
            Err(error) => error,
        };
        match bring::after(&self.core, process, &error) {
            Some(State::Checkpointed) if member.storage.is_none() => Ok(()),
            // The driver was let finish, but the bytes were not all kept.
            Some(State::Checkpointed) => Err(CudaError::Lost { action, pid }),
            state => Err(bring::told(error, action, process, state)),
        }
    }

    fn checkpoint_all(&mut self, storage: Option<&Path>, scribe: &mut Scribe<'_>) -> Result<()> {
        self.use_storage(storage)?;
        for at in 0..self.members.len() {
            let member = &self.members[at];
            self.expect(member, Action::Checkpoint, State::Locked)?;
            let outcome = self.checkpoint_one(member, scribe);
            self.note(at, &outcome);
            outcome?;
        }
        Ok(())
    }

    fn restore_all(&mut self, map: &GpuMap, storage: Option<&Path>, scribe: &mut Scribe<'_>) -> Result<()> {
        let pairs = if map.is_identity() { &[] } else { map.pairs() };
        if !pairs.is_empty() && !self.core.capabilities.pairs {
            return Err(CudaError::Unsupported { what: "restore on other GPUs".to_owned() });
        }
        if storage.is_some() {
            self.use_storage(storage)?;
        }
        let mut restored = 0;
        let mut outcome = Ok(());
        while outcome.is_ok() && restored < self.members.len() {
            outcome = self.restore_one(&self.members[restored], pairs, scribe);
            self.note(restored, &outcome);
            restored += usize::from(outcome.is_ok());
        }
        if outcome.is_err() {
            // All or none: those that were restored are checkpointed again.
            scribe.undoing = true;
            for member in self.members[..restored].iter().rev() {
                if let Ok(State::Locked) = self.core.state(&member.process) {
                    let _ = self.checkpoint_one(member, scribe);
                }
            }
        }
        outcome
    }

    fn restore_one(
        &self,
        member: &Member,
        pairs: &[(GpuUuid, GpuUuid)],
        scribe: &mut Scribe<'_>,
    ) -> Result<()> {
        if member.spoiled || member.is_torn() && self.core.state(&member.process)? == State::Locked {
            return Err(CudaError::Lost { action: Action::Restore, pid: member.process.pid });
        }
        match self.expect(member, Action::Restore, State::Checkpointed) {
            // A restore that was given up has ended after all.
            Err(CudaError::WrongState { state: State::Locked, .. }) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => bring::restore(&self.core, member, pairs, scribe),
        }
    }

    /// From now on device memory goes to, or comes from, files below `directory`.
    fn use_storage(&mut self, directory: Option<&Path>) -> Result<()> {
        if directory.is_some() && !self.core.capabilities.custom_storage {
            return Err(CudaError::Unsupported { what: "copy GPU memory to storage of ours".to_owned() });
        }
        for member in &mut self.members {
            member.storage =
                directory.map(|directory| own_directory(directory, &member.process)).transpose()?;
        }
        Ok(())
    }

    /// What the way back has to know of a step: a process whose bytes are gone must not run on, and one that does not answer
    /// is not asked again.
    fn note(&mut self, at: usize, outcome: &Result<()>) {
        let member = &mut self.members[at];
        member.spoiled |= member.storage.is_some() && matches!(outcome, Err(CudaError::Lost { .. }));
        member.silent = outcome.as_ref().err().and_then(Silence::of);
    }
}

/// Where a process's device memory lies: named by its id in its own namespace, which is the same after CRIU's restore.
fn own_directory(directory: &Path, process: &Process) -> Result<PathBuf> {
    Ok(Beside::of(directory, process.own_id()?).directory().to_owned())
}

impl Tree<Locked> {
    /// Locks all of `targets`, or none.
    pub(crate) fn lock(
        core: &Arc<Core>,
        targets: &[Target],
        options: &LockOptions,
        notes: &mut dyn Notes,
    ) -> Result<Self> {
        let mut held = Held::find(core, targets)?;
        if options.thaw {
            held.thawed = Thawed::thaw(held.members.iter().map(|member| &member.process))?;
        } else {
            frozen::refuse(held.members.iter().map(|member| &member.process))?;
        }
        if options.room {
            let target = |member: &Member| Target { pid: member.process.pid, vram_bytes: member.vram_bytes };
            host_memory::check_now(&held.members.iter().map(target).collect::<Vec<_>>())?;
        }
        for member in &held.members {
            held.expect(member, Action::Lock, State::Running)?;
        }
        let mut scribe = Scribe::new(notes);
        // From here on dropping it unlocks what was locked.
        let mut tree = Self::of(held);
        let outcome = tree.held.iter_mut().try_for_each(|held| held.lock_all(&mut scribe));
        match outcome {
            Ok(()) => Ok(tree),
            Err(error) => {
                tree.release()?.bring_back(&mut scribe);
                Err(error)
            }
        }
    }

    /// Checkpoints all processes. If one fails, all are brought back to RUNNING.
    pub fn checkpoint(self, notes: &mut dyn Notes) -> Result<Tree<Checkpointed>, Failure> {
        self.checkpoint_into(None, notes)
    }

    /// Checkpoints all processes with their device memory in `directory` (`PID/UUID.vram`, with the process's id in its own
    /// namespace) instead of in the processes' own memory. Needs [`crate::Capabilities::custom_storage`].
    pub fn checkpoint_to(
        self,
        directory: &Path,
        notes: &mut dyn Notes,
    ) -> Result<Tree<Checkpointed>, Failure> {
        self.checkpoint_into(Some(directory), notes)
    }

    fn checkpoint_into(
        mut self,
        storage: Option<&Path>,
        notes: &mut dyn Notes,
    ) -> Result<Tree<Checkpointed>, Failure> {
        let mut scribe = Scribe::new(notes);
        let outcome = self.held.iter_mut().try_for_each(|held| held.checkpoint_all(storage, &mut scribe));
        let held = self.release().map_err(|error| Failure { error, stranded: Vec::new() })?;
        match outcome {
            Ok(()) => Ok(Tree::of(held)),
            Err(error) => {
                let stranded = held.bring_back(&mut scribe);
                Err(Failure { error, stranded })
            }
        }
    }

    /// Lets all processes go on. Those that can be are unlocked, also if one cannot; the first error is returned.
    pub fn unlock(self) -> Result<()> {
        let mut stranded = self.release()?.bring_back(&mut Scribe::none());
        if stranded.is_empty() { Ok(()) } else { Err(stranded.swap_remove(0).error) }
    }
}

impl Tree<Checkpointed> {
    /// Takes over processes that are CHECKPOINTED.
    pub(crate) fn adopt(core: &Arc<Core>, targets: &[Target]) -> Result<Self> {
        let held = Held::find(core, targets)?;
        frozen::refuse(held.members.iter().map(|member| &member.process))?;
        for member in &held.members {
            held.expect(member, Action::Restore, State::Checkpointed)?;
        }
        Ok(Self::of(held))
    }

    /// Restores all processes, on the GPUs of `map`. If one fails, all are CHECKPOINTED again, as far as that is possible, and
    /// given back.
    pub fn restore(
        self,
        map: &GpuMap,
        notes: &mut dyn Notes,
    ) -> std::result::Result<Tree<Locked>, (Self, CudaError)> {
        self.restore_with(map, None, notes)
    }

    /// Restores all processes with the device memory that [`Tree::checkpoint_to`] wrote into `directory`.
    pub fn restore_from(
        self,
        directory: &Path,
        map: &GpuMap,
        notes: &mut dyn Notes,
    ) -> std::result::Result<Tree<Locked>, (Self, CudaError)> {
        self.restore_with(map, Some(directory), notes)
    }

    fn restore_with(
        mut self,
        map: &GpuMap,
        storage: Option<&Path>,
        notes: &mut dyn Notes,
    ) -> std::result::Result<Tree<Locked>, (Self, CudaError)> {
        let mut scribe = Scribe::new(notes);
        let outcome = self.held.iter_mut().try_for_each(|held| held.restore_all(map, storage, &mut scribe));
        match outcome {
            Ok(()) => Ok(Tree { held: self.held.take(), state: PhantomData }),
            Err(error) => Err((self, error)),
        }
    }

    /// The processes have ended or will be ended as they are, or are to stay CHECKPOINTED: nothing is brought back.
    pub fn ended(mut self) {
        if let Some(mut held) = self.held.take() {
            held.thawed.forget();
        }
    }
}
