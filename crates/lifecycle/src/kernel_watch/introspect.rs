//! The variables of kernels, for the snapshots that they go with.
//!
//! Asked of Python kernels between cells, before anything stands still, and never waited for longer than a moment: a snapshot
//! without them is as good a snapshot.

use std::sync::Weak;
use std::time::Duration;

use crate::along::Introspect;
use crate::engine::{Engine, Inner};
use crate::record::{KernelRecord, SessionId};
use crate::view::Variable;

/// How long a kernel may take.
const LIMIT: Duration = Duration::from_millis(1500);

/// Asks kernels by the connections that there are to them.
pub(crate) struct Variables(pub(crate) Weak<Inner>);

impl Introspect for Variables {
    fn variables(&self, session: &SessionId) -> Option<Vec<Variable>> {
        let engine = Engine { inner: self.0.upgrade()? };
        let is_python = engine.records().get(session)?.kernel.as_ref().is_some_and(speaks_python);
        let kernel = engine.inner.kernels.kernel(session).filter(|_| is_python)?;
        // Busy, away, too slow: all the same here.
        kernel.variables(LIMIT).ok()?
    }
}

/// Whether its cells are Python's, as it says or as its name tells.
fn speaks_python(kernel: &KernelRecord) -> bool {
    let said = if kernel.language.is_empty() { &kernel.spec } else { &kernel.language };
    said.to_ascii_lowercase().starts_with("python")
}
