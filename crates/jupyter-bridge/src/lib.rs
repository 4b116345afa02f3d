//! What a Jupyter kernel is, seen from outside: where its specification lies ([`Search`], [`Kernelspec`]), how it is told
//! where to listen ([`ConnectionFile`]) and how it is started ([`kernel_command`]); and what it is doing, as a client that
//! talks to it sees it ([`client`]), or as somebody who listens to many of them does ([`watch`]).
//!
//! Files here belong to a user and can be changed by them. Read them on a thread that has that user's rights: nothing here
//! checks who may read what. What is read, from files and from kernels, is bounded, never waits for the other end of a pipe,
//! and never panics.
#![forbid(unsafe_code)]

pub mod client;
mod command;
mod connection;
mod error;
mod file;
mod kernelspec;
mod search;
pub mod watch;

pub use command::{KernelCommand, kernel_command, own_command};
pub use connection::{Connection, ConnectionFile, Ports};
pub use error::{Class, JupyterError, Result};
pub use kernelspec::{InterruptMode, Kernelspec};
pub use search::{Listing, Search, data_directory};
