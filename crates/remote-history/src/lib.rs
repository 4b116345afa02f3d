//! A history and a remote: what is sent there, and what goes here because it is there.
//!
//! `remote` knows bytes and refs, `history` knows commits and no remote. Here is what needs both: [`send()`], which is a push with all that belongs to it
//! for whoever asks, a person or the daemon; and [`free()`], which lets go of data that a remote has, so that the store takes no more room than
//! it may.
#![forbid(unsafe_code)]

mod free;
mod send;

use std::sync::Arc;

use cas_core::Store;
use history::HistoryError;
use remote::{Limited, Named, Objects, Patience, Remote, RemoteError};

pub use free::{Freed, free};
pub use send::{Sending, send};

/// What can go wrong. Both have codes, classes and hints of their own.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The remote.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// What is here.
    #[error(transparent)]
    History(#[from] HistoryError),
}

impl From<cas_core::StoreError> for Error {
    fn from(error: cas_core::StoreError) -> Self {
        Self::History(error.into())
    }
}

/// The server of a remote, with the credentials that are found here; no more than so many bytes a second.
pub fn server(named: &Named, limit_rate: Option<u64>) -> remote::Result<Arc<dyn Objects>> {
    let objects: Arc<dyn Objects> = Arc::new(named.address.open()?);
    Ok(match limit_rate {
        Some(rate) => Arc::new(Limited::new(objects, rate)),
        None => objects,
    })
}

/// The remote, open.
pub fn connect(store: &Arc<Store>, named: &Named, limit_rate: Option<u64>) -> remote::Result<Remote> {
    Remote::open(server(named, limit_rate)?, store.clone(), Patience::default())
}

/// The result of most calls here.
pub type Result<T, E = Error> = std::result::Result<T, E>;
