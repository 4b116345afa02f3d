//! Bringing processes back to RUNNING from wherever they are.
//!
//! This is the one way back: for a tree that is dropped, for a step that failed half-way, for a call that came late, and for
//! recovery after a crash. It trusts nothing but the driver's word: each state is read before anything is done, and read
//! again when a call fails, because a call may fail and yet have had its effect.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::beside::Beside;
use crate::core::{Core, Scribe, unexpected};
use crate::error::{CudaError, Result};
use crate::facts::Brought;
use crate::notes::Action;
use crate::process::{self, Process};
use crate::protocol::{Answer, Ask};
use crate::state::State;
use crate::sys::layout::code;
use crate::uuid::GpuUuid;

/// An unlock that is refused is asked for again, because a process must not stay locked for a passing reason.
const UNLOCKS: usize = 3;

/// How often a process is looked at that somebody else is working on.
const GLANCE: Duration = Duration::from_millis(50);

/// A process of a tree.
pub(crate) struct Member {
    pub(crate) process: Process,
    pub(crate) vram_bytes: u64,
    /// Where its device memory is, if it is not in its own memory.
    pub(crate) storage: Option<PathBuf>,
    /// Its device memory is lost: it must not run on as if nothing had happened.
    pub(crate) spoiled: bool,
    /// A call about it hangs, and so does the question for its state: asking again would only take time. It is brought back
    /// when the call ends.
    pub(crate) silent: Option<Silence>,
}

/// Which call hangs.
#[derive(Clone, Copy)]
pub(crate) struct Silence {
    action: Action,
    worker: i32,
    limit: Duration,
}

impl Silence {
    /// What an error says of a process that does not even answer the question for its state.
    pub(crate) const fn of(error: &CudaError) -> Option<Self> {
        match error {
            CudaError::Hung { action, worker, limit, state: None, .. } => {
                Some(Self { action: *action, worker: *worker, limit: *limit })
            }
            _ => None,
        }
    }

    const fn error(self, pid: i32) -> CudaError {
        let Self { action, worker, limit } = self;
        CudaError::Hung { action, pid, worker, limit, state: None }
    }
}

impl Member {
    pub(crate) const fn new(process: Process, vram_bytes: u64) -> Self {
        Self { process, vram_bytes, storage: None, spoiled: false, silent: None }
    }

    /// One that nobody has in hand: its device memory is where we put it, or below `directory` if it is found there.
    pub(crate) fn found(core: &Core, process: Process, directory: Option<&Path>) -> Self {
        let below = |directory: &Path| -> Option<PathBuf> {
            let beside = Beside::of(directory, process.own_id().ok()?);
            beside.parts().ok()?.map(|_| beside.directory().to_owned())
        };
        let storage = core.stored_in(&process).or_else(|| directory.and_then(below));
        let parts = storage.as_deref().and_then(|storage| Beside::at(storage).parts().ok()?);
        let bytes = parts.unwrap_or_default().iter().map(|part| part.bytes).sum();
        Self { storage, ..Self::new(process, bytes) }
    }

    /// Whether a restore began that did not bring all of its memory back.
    pub(crate) fn is_torn(&self) -> bool {
        self.storage.as_deref().is_some_and(|storage| Beside::at(storage).is_torn(self.process.pid))
    }

    /// How long a checkpoint or restore may take.
    pub(crate) fn limit(&self, core: &Core) -> Duration {
        // In recovery nobody knows how much device memory there was; but it is in the process's own memory now.
        let status = process::read(self.process.pid, "status").unwrap_or_default();
        let own = base::proc::amount_in_bytes(&status, "RssAnon").unwrap_or(0);
        core.limits().step_for(self.vram_bytes.max(own))
    }
}

/// Restores all that are CHECKPOINTED, in reverse order, then unlocks all that are LOCKED. The answers are in the order of
/// `members`; those that are spoiled are left as they are.
pub(crate) fn bring_back(core: &Core, members: &[Member], scribe: &mut Scribe<'_>) -> Vec<Brought> {
    scribe.undoing = true;
    let mut brought: Vec<Brought> = members
        .iter()
        .map(|member| Brought { pid: member.process.pid, was: None, now: None, error: None })
        .collect();
    for (member, brought) in members.iter().zip(&mut brought).rev() {
        if member.spoiled {
            brought.error = Some(CudaError::Lost { action: Action::Restore, pid: brought.pid });
            continue;
        }
        if let Some(silence) = member.silent {
            brought.error = Some(silence.error(brought.pid));
            continue;
        }
        match settled_state(core, member) {
            Ok(state) => {
                (brought.was, brought.now) = (Some(state), Some(state));
                if state == State::Checkpointed {
                    match restore(core, member, &[], scribe) {
                        Ok(()) => brought.now = Some(State::Locked),
                        Err(error) => brought.error = Some(error),
                    }
                }
            }
            Err(error) => brought.error = Some(error),
        }
    }
    for (member, brought) in members.iter().zip(&mut brought).rev() {
        let process = &member.process;
        match brought.now {
            Some(State::Locked) if member.is_torn() => {
                brought.error = Some(CudaError::Lost { action: Action::Restore, pid: process.pid });
            }
            Some(State::Locked) => match unlock(core, process, scribe) {
                Ok(()) => brought.now = Some(State::Running),
                Err(error) => brought.error = Some(error),
            },
            Some(State::Failed) => {
                brought.error = Some(CudaError::Lost { action: Action::State, pid: process.pid });
            }
            Some(state @ (State::Checkpointing | State::Restoring | State::Other(_))) => {
                let (action, pid) = (Action::Unlock, process.pid);
                brought.error = Some(CudaError::WrongState { action, pid, state });
            }
            _ => {}
        }
    }
    brought
}

/// Brings back one process that nobody has in hand, as far as it goes.
pub(crate) fn bring_back_alone(core: &Core, process: Process) {
    bring_back(core, &[Member::found(core, process, None)], &mut Scribe::none());
}

/// The state of a process, once nobody is copying its memory any more.
pub(crate) fn settled_state(core: &Core, member: &Member) -> Result<State> {
    let deadline = Instant::now() + member.limit(core);
    loop {
        let state = core.state(&member.process)?;
        let moving = matches!(state, State::Checkpointing | State::Restoring);
        if !moving || Instant::now() >= deadline {
            return Ok(state);
        }
        thread::sleep(GLANCE);
    }
}

/// CHECKPOINTED to LOCKED. Succeeds if the process is LOCKED afterwards, whatever the call said.
pub(crate) fn restore(
    core: &Core,
    member: &Member,
    pairs: &[(GpuUuid, GpuUuid)],
    scribe: &mut Scribe<'_>,
) -> Result<()> {
    let (pid, action, process) = (member.process.pid, Action::Restore, &member.process);
    let storage = member.storage.clone();
    let ask = Ask::Restore { pid, pairs: pairs.to_vec(), storage };
    let error = match core.step(process, action, ask, member.limit(core), scribe) {
        Ok(Answer::Done) => return Ok(()),
        Ok(other) => unexpected(action, pid, &other),
        Err(error) => error,
    };
    match after(core, process, &error) {
        Some(State::Locked) if member.storage.is_none() => Ok(()),
        // The driver was let finish, but the bytes were not all there: what is on the GPU is not what was saved.
        Some(State::Locked) => Err(CudaError::Lost { action, pid }),
        state => Err(told(error, action, process, state)),
    }
}

/// LOCKED to RUNNING. Succeeds if the process is RUNNING afterwards, whatever the call said.
pub(crate) fn unlock(core: &Core, process: &Process, scribe: &mut Scribe<'_>) -> Result<()> {
    let (pid, action) = (process.pid, Action::Unlock);
    let mut tries = 1;
    loop {
        let error = match core.step(process, action, Ask::Unlock { pid }, core.limits().unlock, scribe) {
            Ok(Answer::Done) => return Ok(()),
            Ok(other) => unexpected(action, pid, &other),
            Err(error) => error,
        };
        match after(core, process, &error) {
            Some(State::Running) => return Ok(()),
            Some(State::Locked) if tries < UNLOCKS && !matches!(error, CudaError::Hung { .. }) => tries += 1,
            state => return Err(told(error, action, process, state)),
        }
    }
}

/// The state after a failed call, if it makes sense to ask.
pub(crate) fn after(core: &Core, process: &Process, error: &CudaError) -> Option<State> {
    match error {
        CudaError::Ended { .. } | CudaError::Note { .. } | CudaError::Start { .. } => None,
        _ => core.state(process).ok(),
    }
}

/// What a failed call means, now that the state is known.
pub(crate) fn told(error: CudaError, action: Action, process: &Process, state: Option<State>) -> CudaError {
    let pid = process.pid;
    if process.is_ending() {
        return CudaError::Ended { pid };
    }
    match (error, state) {
        (_, Some(State::Failed)) => CudaError::Lost { action, pid },
        (CudaError::Call { action: Action::Restore, code: code::OPERATING_SYSTEM, name, .. }, _) => {
            CudaError::Wedged { pid, code: code::OPERATING_SYSTEM, name }
        }
        (CudaError::Call { action, pid, code, name, .. }, state) => {
            CudaError::Call { action, pid, code, name, state }
        }
        (CudaError::Hung { action, pid, worker, limit, .. }, state) => {
            CudaError::Hung { action, pid, worker, limit, state }
        }
        (error, _) => error,
    }
}
