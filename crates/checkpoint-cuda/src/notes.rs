//! What the caller is told before each step, so that it can write it down.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What is asked of the driver.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// The process's state.
    State,
    /// The thread that does the driver's work in the process.
    Thread,
    /// RUNNING to LOCKED.
    Lock,
    /// LOCKED to CHECKPOINTED.
    Checkpoint,
    /// CHECKPOINTED to LOCKED.
    Restore,
    /// LOCKED to RUNNING.
    Unlock,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::State => "get-state",
            Self::Thread => "get-restore-tid",
            Self::Lock => "lock",
            Self::Checkpoint => "checkpoint",
            Self::Restore => "restore",
            Self::Unlock => "unlock",
        })
    }
}

/// Somebody who writes down what is about to happen, so that it can be undone after a crash.
///
/// An `Err` stops everything before the action is taken; what was done so far is undone.
pub trait Notes {
    /// The driver's calls are made by the process `pid`, which started at `start_time` (field 22 of `/proc/PID/stat`).
    /// Called again when another worker takes its place.
    fn worker(&mut self, pid: i32, start_time: u64) -> Result<(), String>;

    /// `action` is about to be done to `pid`.
    fn about_to(&mut self, action: Action, pid: i32) -> Result<(), String>;
}

/// Nothing is written down.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoNotes;

impl Notes for NoNotes {
    fn worker(&mut self, _: i32, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn about_to(&mut self, _: Action, _: i32) -> Result<(), String> {
        Ok(())
    }
}
