//! The daemon: who may do what, sessions, jobs, events, the API socket.
//!
//! The daemon knows the wire and the people at its other end; what a snapshot is, it leaves to `lifecycle`. The seam is
//! [`Operations`], one blocking call for each thing that can be asked for. A request goes this way:
//!
//! ```text
//! socket (peer, listener)  who is it?          SO_PEERCRED, never anything that the client says
//!   routes                 what is asked for?  types of `api`; ids checked, bodies bounded
//!   routes::resolve        whose is it?        a session of somebody else is one that does not exist
//!   jobs                   do it               on a thread of its own, with progress; the answer does not wait
//!   Operations             …                   `lifecycle`, or a double in tests
//! ```
//!
//! Nothing here is needed for a session to live: the daemon can be stopped, killed and replaced, and finds the sessions
//! again when it starts.
#![forbid(unsafe_code)]

pub mod caller;
pub mod engine;
mod errands;
pub mod error;
pub mod events;
pub mod instance;
pub mod jobs;
pub mod listener;
pub mod logging;
pub mod metrics;
pub mod notify;
pub mod openapi;
pub mod operations;
pub mod redis;
mod routes;
pub mod server;
pub mod settings;
mod words;

pub use caller::Caller;
pub use error::DaemonError;
pub use operations::{Failure, Happening, Operations, Outcome, Progress};
pub use server::{App, Limits};

/// Locks a mutex whether or not somebody panicked while holding it.
///
/// What is behind the locks here is changed in single steps that leave it whole, and a daemon that gives up its job table
/// because one job panicked would be worse than that panic.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Now, as the wire writes it.
fn now() -> String {
    jiff::Timestamp::now().to_string()
}
