//! The states of a CUDA process.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the driver says a process is (`CUprocessState`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(from = "i32", into = "i32")]
#[non_exhaustive]
pub enum State {
    /// It may use its GPUs.
    Running,
    /// Its calls of CUDA block.
    Locked,
    /// Its GPU state is in its own memory, and it holds nothing of the GPU.
    Checkpointed,
    /// An error that cannot be corrected: its GPU state is lost.
    Failed,
    /// Somebody is copying its GPU memory away (13.4).
    Checkpointing,
    /// Somebody is copying its GPU memory back (13.4).
    Restoring,
    /// A state that is newer than this program.
    Other(i32),
}

impl From<i32> for State {
    fn from(value: i32) -> Self {
        match value {
            0 => Self::Running,
            1 => Self::Locked,
            2 => Self::Checkpointed,
            3 => Self::Failed,
            4 => Self::Checkpointing,
            5 => Self::Restoring,
            other => Self::Other(other),
        }
    }
}

impl From<State> for i32 {
    fn from(state: State) -> Self {
        match state {
            State::Running => 0,
            State::Locked => 1,
            State::Checkpointed => 2,
            State::Failed => 3,
            State::Checkpointing => 4,
            State::Restoring => 5,
            State::Other(other) => other,
        }
    }
}

impl State {
    /// The state that the `cuda-checkpoint` program calls `word`.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::Running, Self::Locked, Self::Checkpointed, Self::Failed, Self::Checkpointing, Self::Restoring]
            .into_iter()
            .find(|state| state.to_string() == word)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running => f.write_str("running"),
            Self::Locked => f.write_str("locked"),
            Self::Checkpointed => f.write_str("checkpointed"),
            Self::Failed => f.write_str("failed"),
            Self::Checkpointing => f.write_str("checkpointing"),
            Self::Restoring => f.write_str("restoring"),
            Self::Other(number) => write!(f, "state {number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_a_state_and_comes_back() {
        for number in -2..10 {
            assert_eq!(i32::from(State::from(number)), number);
        }
        assert_eq!(State::from(7), State::Other(7));
    }

    #[test]
    fn words_are_those_of_the_program() {
        assert_eq!(State::from_word("checkpointed"), Some(State::Checkpointed));
        assert_eq!(State::from_word("state 9"), None);
        assert_eq!(State::from_word(""), None);
    }
}
