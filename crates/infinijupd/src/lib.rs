//! The daemon of one user: sessions, jobs, events, the API socket.
//!
//! The daemon knows the wire and serves the user who runs it, nobody else; what a snapshot is, it leaves to `lifecycle`. The seam is
//! [`Backend`], one blocking call for each thing that can be asked for. A request goes this way:
//!
//! ```text
//! listener                 who is it?          SO_PEERCRED: the daemon's own user, or the connection is closed
//!   server                 is there room?      connections are counted, bodies bounded before they are read
//!   routes                 what is asked for?  types of `api`; ids checked
//!   jobs                   do it               on a thread of its own, with progress; the answer does not wait
//!   Backend                …                   `lifecycle`, or a double in tests
//! ```
//!
//! Nothing here is needed for a session to live: the daemon can be stopped, killed and replaced, and finds the sessions
//! again when it starts.
#![forbid(unsafe_code)]

pub mod abroad;
mod arguments;
pub mod backend;
pub mod beside;
mod checks;
pub mod encryption;
pub mod engine;
mod errands;
pub mod error;
pub mod events;
mod fields;
mod following;
pub mod home;
mod idle;
pub mod instance;
pub mod jobs;
pub mod listener;
pub mod logging;
pub mod metrics;
pub mod notify;
pub mod openapi;
mod operation;
pub mod redis;
mod routes;
pub mod server;
pub mod settings;
mod settings_file;
mod trial;

pub use backend::{Backend, Beyond, Failure, Happening, Outcome, Progress};
pub use error::DaemonError;
pub use home::Home;
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
