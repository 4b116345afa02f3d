//! How long work tells how far it is. The library never prints: it calls a [`Progress`], and the caller decides whether
//! that becomes a bar, a line of JSON or nothing.

/// Which long job is running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Task {
    /// Storing process memory.
    IngestMemory,
    /// Storing files.
    IngestFiles,
    /// Reading a snapshot back.
    Read,
    /// Checking the store.
    Verify,
    /// Finding what is reachable.
    Mark,
    /// Copying live objects out of sparse packs.
    Repack,
    /// Rebuilding the catalogue from packs.
    Rebuild,
    /// Writing or reading an export file.
    Transfer,
}

impl Task {
    /// A stable name for machines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::IngestMemory => "ingest-memory",
            Self::IngestFiles => "ingest-files",
            Self::Read => "read",
            Self::Verify => "verify",
            Self::Mark => "mark",
            Self::Repack => "repack",
            Self::Rebuild => "rebuild",
            Self::Transfer => "transfer",
        }
    }
}

/// Receives progress. All methods may be called from several threads at once and must return quickly.
pub trait Progress: Send + Sync {
    /// A task starts. `total` is in bytes where the task moves bytes, in objects otherwise; `None` if unknown.
    fn begin(&self, task: Task, total: Option<u64>);
    /// `done` more units are finished.
    fn advance(&self, task: Task, done: u64);
    /// The task has ended, well or not.
    fn end(&self, task: Task);
}

/// Ignores everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: Task, _: Option<u64>) {}
    fn advance(&self, _: Task, _: u64) {}
    fn end(&self, _: Task) {}
}
