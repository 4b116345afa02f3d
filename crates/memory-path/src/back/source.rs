//! Who has the pages that are missing.

use std::collections::BTreeMap;

use super::target::Target;
use crate::error::SinkError;
use crate::pages::{Run, Task};

/// Has the pages that processes were made without.
pub trait Source: Sync {
    /// Which pages of which processes: in order, and apart.
    fn missing(&self) -> BTreeMap<Task, Vec<Run>>;

    /// Gives each missing page of a process once, from as many threads as it likes.
    fn give(&self, task: Task, to: &Target) -> Result<(), SinkError>;
}
