//! The pipelines: snapshot, rollback, branch, suspend, resume, with their journal.
//!
//! Everything that is done to a session is done here, in one order, written once. The crates below know one thing each. What is done to the
//! machine is done by whoever is plugged into the [`ports`]. This crate answers for the whole: **a session is either running
//! or can be restored, whatever happens at whatever moment.**
//!
//! # How that is kept
//!
//! * A *record* on disk (`record`) says what a session is. It is replaced atomically and is never ahead of the truth.
//! * Before a step that cannot be taken back, a line of *intent* is written to the `journal`. When the daemon starts, it
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
pub mod encryption;
mod ending;
mod engine;
mod error;
mod events;
mod exec;
mod forget;
mod gpu;
mod hints;
mod inspect;
mod introspect;
mod journal;
mod json;
mod kernels;
mod locks;
mod making;
mod notes;
mod noting;
mod open;
mod pipeline;
mod place;
pub mod ports;
mod prepare;
mod record;
mod records;
mod recover;
mod remove;
mod restart;
mod restore;
mod restoring;
mod rollback;
mod schedule;
mod section;
mod session;
mod signal;
mod snapshot;
mod start;
mod steps;
mod stop;
mod suspend;
mod swap;
mod timeline;
#[cfg(test)]
mod trial;
mod view;
mod watch;
mod words;

pub use cas_core::progress::{Progress, Task};
pub use config::Config;
pub use doctor::{Finding, FindingState, works};
pub use engine::Engine;
pub use error::{Class, LifecycleError, Result};
pub use events::{EngineEvent, EventKind};
pub use introspect::{Asked, Introspect};
pub use policy::plan::{Did, Due};
pub use preflight::Problem;
pub use record::SessionId;
pub use recover::Recovery;
pub use sandbox::bounded;
pub use schedule::Errand;
pub use session::GpuWish;
pub use steps::{NoWatch, StepState, Watch};
pub use timeline::HistoryRequest;
pub use words::micros;
