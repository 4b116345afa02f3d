//! The NVIDIA driver's checkpoint calls as a state machine of types.
//!
//! A CUDA process is RUNNING, LOCKED or CHECKPOINTED; the driver moves it from one to the next when somebody with the right to
//! do so asks. [`Driver::lock`] takes a whole tree of processes from RUNNING to [`Tree<Locked>`], [`Tree::checkpoint`] to
//! [`Tree<Checkpointed>`], and back. A tree that is dropped, in the ordinary way or by a panic, brings its processes back to
//! RUNNING: nobody forgets an unlock.
//!
//! Only one of the driver's calls has a time limit of its own, and several are known to hang. So they are made in a worker
//! process, `infinijup-gpu`, which is given up when a call takes too long, but never killed: a caller that dies in mid-call
//! leaves the target out of step with the driver. Every line of FFI is in `src/sys/`, and runs in that worker.
//!
//! The worker runs as the user whose processes they are. For drivers that want root there is a second program,
//! `infinijup-gpu-helper` ([`helper`]), which an administrator may install.
#![deny(unsafe_code)]

mod backend;
mod beside;
mod bring;
mod claims;
mod core;
mod driver;
mod error;
mod facts;
mod frozen;
mod notes;
mod process;
mod protocol;
mod settings;
mod state;
mod tool;
mod tree;
mod uuid;
mod worker;

pub mod helper;
pub mod host_memory;
pub mod serve;
#[expect(unsafe_code, reason = "the driver's interface is C")]
pub mod sys;

pub use crate::beside::{Beside, Part};
pub use crate::driver::Driver;
pub use crate::error::{Class, CudaError, Result};
pub use crate::facts::{Abandoned, Backend, Brought, Capabilities, CudaProcess, Target};
pub use crate::notes::{Action, NoNotes, Notes};
pub use crate::settings::{Limits, LockOptions, Settings};
pub use crate::state::State;
pub use crate::tree::{Checkpointed, Failure, Kind, Locked, Stranded, Tree};
pub use crate::uuid::{GpuMap, GpuUuid};
