//! The end of a session. Its history stays in the store.

use api::SessionState;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::making::{New, end_processes, remove_files, remove_place, starting};
use crate::pipeline::{Pipeline, Stage, Step, WayOut, Work};
use crate::steps::{NoWatch, Steps};
use session_record::locks::Doing;

/// What is done to a start that was cut short, so its line in the journal is that of a start.
pub(crate) const REMOVE: Pipeline<New> = &[Stage::new(
    "starting",
    starting,
    WayOut::On,
    &[
        Step::quiet("end its processes", end_processes),
        Step::quiet("remove its files", remove_files),
        Step::last("remove its place", remove_place),
    ],
)];

impl Engine {
    /// Forgets a session that has no processes.
    pub fn remove(&self, which: &str) -> Result<()> {
        let (_held, mut record) = self.hold(which, Doing::Remove)?;
        if matches!(record.state, SessionState::Running | SessionState::Starting) {
            return Err(LifecycleError::WrongState {
                session: record.name,
                state: record.state.as_str(),
                action: "be removed; stop or suspend it first",
            });
        }
        Work::new(self, &mut record, Steps::new(&NoWatch)).run(REMOVE, &mut New::default())
    }
}
