//! What a Jupyter kernel is, seen from outside: where its specification lies ([`Search`], [`Kernelspec`]), how it is told
//! where to listen ([`ConnectionFile`]) and how it is started ([`kernel_command`]).
//!
//! Everything here belongs to a user and is read from files that the user can change. Call it on a thread that has that
//! user's rights: nothing here checks who may read what. What is read is bounded, never waits for the other end of a
//! pipe, and never panics.
#![forbid(unsafe_code)]

mod command;
mod connection;
mod error;
mod file;
mod kernelspec;
mod search;

pub use command::{KernelCommand, kernel_command, own_command};
pub use connection::{ConnectionFile, Ports};
pub use error::{Class, JupyterError, Result};
pub use kernelspec::{InterruptMode, Kernelspec};
pub use search::{Listing, Search};
