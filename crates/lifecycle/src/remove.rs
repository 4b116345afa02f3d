//! The end of a session. Its history stays in the store.

use api::{FileNote, KeptFiles, SessionState};
use session_record::{keep_loose_files, loose_files};

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
    /// Forgets a session that has no processes. Files of a branch that no snapshot has are kept in a last one, unless that is not wanted.
    pub fn remove(&self, which: &str, discard_files: bool) -> Result<Option<KeptFiles>> {
        let (_held, mut record) = self.hold(which, Doing::Remove)?;
        if matches!(record.state, SessionState::Running | SessionState::Starting) {
            return Err(LifecycleError::WrongState {
                session: record.name,
                state: record.state.as_str(),
                action: "be removed; stop or suspend it first",
            });
        }
        let (store, places) = (self.inner.store.open()?, self.habitat(&record).places(&record));
        let kept = match discard_files {
            true => None,
            false => keep_loose_files(&record, &places, &store, &self.inner.listings, &self.inner.stages)?,
        };
        Work::new(self, &mut record, Steps::new(&NoWatch)).run(REMOVE, &mut New::default())?;
        Ok(kept)
    }

    /// The files of a session that would be lost with it.
    pub fn loose_files(&self, which: &str) -> Result<Vec<FileNote>> {
        let record = self.find(which)?;
        let places = self.habitat(&record).places(&record);
        Ok(loose_files(&record, &places, &self.inner.store.open()?, &self.inner.listings)?)
    }
}
