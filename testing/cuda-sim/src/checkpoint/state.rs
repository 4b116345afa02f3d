//! The states of a process as the driver reports them, and the steps between them.
//!
//! `CUprocessState` has four values; 13.4 adds two for the time in which the caller of a custom-storage checkpoint holds
//! the memory. A step that does not start from the present state is `CUDA_ERROR_ILLEGAL_STATE`.

use serde::{Deserialize, Serialize};

use crate::code::Code;

/// `CUprocessState`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Calls are served.
    Running,
    /// Calls wait, streams are drained, memory is on the device.
    Locked,
    /// Calls wait, memory is on the host, the process holds nothing of the device.
    Checkpointed,
    /// Lost: nothing but the end of the process helps.
    Failed,
    /// A caller is copying the memory away (13.4).
    Checkpointing,
    /// A caller is copying the memory back (13.4).
    Restoring,
}

/// What a caller may ask of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Running to locked.
    Lock,
    /// Locked to checkpointed, or to checkpointing.
    Checkpoint,
    /// Checkpointed to locked, or to restoring.
    Restore,
    /// Locked to running.
    Unlock,
    /// The end of a custom-storage step.
    Complete,
}

impl State {
    /// The number in `cuda.h`.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Running => 0,
            Self::Locked => 1,
            Self::Checkpointed => 2,
            Self::Failed => 3,
            Self::Checkpointing => 4,
            Self::Restoring => 5,
        }
    }

    /// The state with this number.
    #[must_use]
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Running,
            1 => Self::Locked,
            2 => Self::Checkpointed,
            3 => Self::Failed,
            4 => Self::Checkpointing,
            5 => Self::Restoring,
            _ => return None,
        })
    }

    /// The word that the `cuda-checkpoint` program prints.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Locked => "locked",
            Self::Checkpointed => "checkpointed",
            Self::Failed => "failed",
            Self::Checkpointing => "checkpointing",
            Self::Restoring => "restoring",
        }
    }

    /// Where a step leads, or why it may not be taken. With `custom` the memory goes to, or comes from, the caller.
    ///
    /// # Errors
    /// [`Code::ILLEGAL_STATE`] if the step does not start here.
    pub const fn after(self, step: Step, custom: bool) -> Result<Self, Code> {
        Ok(match (self, step) {
            (Self::Running, Step::Lock) => Self::Locked,
            (Self::Locked, Step::Checkpoint) if custom => Self::Checkpointing,
            (Self::Locked, Step::Checkpoint) | (Self::Checkpointing, Step::Complete) => Self::Checkpointed,
            (Self::Checkpointed, Step::Restore) if custom => Self::Restoring,
            (Self::Checkpointed, Step::Restore) | (Self::Restoring, Step::Complete) => Self::Locked,
            (Self::Locked, Step::Unlock) => Self::Running,
            _ => return Err(Code::ILLEGAL_STATE),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_of_steps() {
        let mut state = State::Running;
        for (step, expected) in [
            (Step::Lock, State::Locked),
            (Step::Checkpoint, State::Checkpointed),
            (Step::Restore, State::Locked),
            (Step::Unlock, State::Running),
        ] {
            state = state.after(step, false).unwrap();
            assert_eq!(state, expected);
        }
    }

    #[test]
    fn every_other_step_is_refused() {
        let steps = [Step::Lock, Step::Checkpoint, Step::Restore, Step::Unlock, Step::Complete];
        let allowed: usize = (0..6)
            .filter_map(State::from_number)
            .map(|state| steps.iter().filter(|step| state.after(**step, false).is_ok()).count())
            .sum();
        assert_eq!(allowed, 6);
        assert!(steps.iter().all(|step| State::Failed.after(*step, true) == Err(Code::ILLEGAL_STATE)));
    }

    #[test]
    fn numbers_come_back() {
        for number in 0..6 {
            assert_eq!(State::from_number(number).unwrap().number(), number);
        }
        assert_eq!(State::from_number(6), None);
    }
}
