//! Where the engine keeps its things, and how much of the machine it may take.

use std::path::PathBuf;

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// What outlives a reboot: store, records, journal.
    pub state: PathBuf,
    /// What does not: sockets, namespaces, mounts.
    pub run: PathBuf,
    /// The key of the store: then everything in it is encrypted, and plain images are in memory only.
    pub key_file: Option<PathBuf>,
    /// How many bytes the store may take; half of what it takes and what is free if `None`.
    pub store_budget: Option<u64>,
    /// How many bytes of the disk are kept back, so that sessions can be stopped and suspended when it is full.
    pub reserve_bytes: u64,
    /// Bytes of memory that a session may use whose request does not say so.
    pub memory_limit: Option<u64>,
    /// The same for processes and threads.
    pub pids_limit: Option<u64>,
    /// Whom to ask for data that is not in the store.
    pub beyond: Option<history::LookBeyond>,
}

impl Config {
    /// The settings of an installation.
    pub fn new(state: impl Into<PathBuf>, run: impl Into<PathBuf>) -> Self {
        Self {
            state: state.into(),
            run: run.into(),
            key_file: None,
            store_budget: None,
            reserve_bytes: 64 << 20,
            memory_limit: None,
            pids_limit: None,
            beyond: None,
        }
    }
}
