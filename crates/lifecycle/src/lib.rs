//! The pipelines: snapshot, rollback, branch, suspend, resume, with their journal.
//!
//! Everything that is done to a session is done here, in one order, written once. The crates below know one thing each. What is done to the
//! machine is done by whoever is plugged into the [`ports`]. This crate answers for the whole: **a session is either running
//! or can be restored, whatever happens at whatever moment.**
//!
//! # How that is kept
//!
//! * A *record* on disk ([`session_record`]) says what a session is. It is replaced atomically and is never ahead of the truth.
//! * Before a step that cannot be taken back, a line of *intent* is written to the [journal](session_record::journal). When the daemon starts, it
//!   finishes or undoes what is written there (`recover`).
//! * What could fail is tried before what cannot be undone: checks, space, trust, files, and only then the end of the old
//!   processes.
//! * Before anything of the user's is replaced, it is in an automatic snapshot that is committed and durable.
//!
//! # Who calls what
//!
//! [`Engine`] is the front. Its methods block; the daemon calls them on threads of its own. An
//! engine works for one user, the one who runs it, and with their rights only.
#![forbid(unsafe_code)]

mod attach;
mod below;
mod branch;
mod config;
mod disk;
mod due;
mod dump;
mod effects;
mod ending;
mod engine;
mod error;
mod exec;
mod forget;
mod gpu;
mod hints;
mod inspect;
mod kernels;
mod making;
mod noting;
mod open;
mod pipeline;
pub mod ports;
mod prepare;
mod recover;
mod remove;
mod restart;
mod restore;
mod restoring;
mod rollback;
mod signal;
mod snapshot;
mod standby;
mod start;
mod steps;
mod stop;
mod suspend;
mod swap;
mod timeline;
#[cfg(test)]
mod trial;
mod waiting;
mod words;

pub use cas_core::progress::{Progress, Task};
pub use config::Config;
pub use doctor::{Finding, FindingState, works};
pub use due::Errand;
pub use engine::Engine;
pub use error::{Class, LifecycleError, Result};
pub use history::LookBeyond;
pub use kernels::Asked;
pub use policy::plan::{Did, Due};
pub use preflight::Problem;
pub use recover::Recovery;
pub use sandbox::bounded;
pub use session_record::events::{EngineEvent, EventKind};
pub use session_record::watch::{NoWatch, StepState, Watch};
pub use session_record::{GpuWish, RecordError, SessionId, encryption};
pub use timeline::HistoryRequest;
pub use words::micros;
