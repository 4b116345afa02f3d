//! Where pages go.

use crate::error::SinkError;
use crate::pages::{Run, Task};

/// Keeps the newest copy of pages, by task and address.
///
/// It need not know which pages are still there: whoever takes a page out has a list of those that belong to the snapshot.
pub trait PageSink {
    /// Takes pages that lie one after the other from this address on, in place of what it has of them.
    fn put(&mut self, task: Task, start: u64, pages: &[u8]) -> Result<(), SinkError>;

    /// Drops pages: what it has of them is no longer true, and there is nothing better.
    fn forget(&mut self, task: Task, run: Run) -> Result<(), SinkError>;

    /// Whether the page at an address is what was put there last; `false` if none was.
    fn holds(&mut self, task: Task, address: u64, page: &[u8]) -> Result<bool, SinkError>;
}
