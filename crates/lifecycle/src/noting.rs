//! Noting something about a session, whatever is being done to it: see [`session_record::Notes`].

use api::{SessionPatch, SessionView};
use session_record::{Record, SessionId};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use session_record::events::EventKind;

impl Engine {
    /// Changes what is noted about a session, whatever it is doing.
    pub fn change(&self, which: &str, patch: SessionPatch) -> Result<SessionView> {
        let record = self.find(which)?;
        // Two may want the same name at the same time.
        let _naming = patch.name.is_some().then(|| self.inner.naming.lock());
        let record = self.note(&record.id, |record| {
            if let Some(name) = &patch.name
                && *name != record.name
            {
                self.check_free_name(name)?;
                record.name.clone_from(name);
            }
            record.notes.change(patch);
            Ok(record.notes.check()?)
        })?;
        self.session(record.id.as_str())
    }

    /// Takes the mark off a session: the snapshot that was just taken carries it.
    pub(crate) fn mark_used(&self, id: &SessionId, mark: &str) -> Result<()> {
        self.note(id, |record| {
            // Another may have been set meanwhile, for the snapshot after this one.
            if record.notes.mark.as_deref() == Some(mark) {
                record.notes.mark = None;
            }
            Ok(())
        })
        .map(drop)
    }

    /// Changes name or notes of a record, on disk first.
    fn note(&self, id: &SessionId, change: impl FnOnce(&mut Record) -> Result<()>) -> Result<Record> {
        let _writing = self.writing(id);
        let known = self.records().get(id).cloned();
        let Some(known) = known else {
            return Err(LifecycleError::NoSuchSession { which: id.to_string() });
        };
        let mut record = known.clone();
        change(&mut record)?;
        if record == known {
            return Ok(record);
        }
        record.write(&self.inner.place.record(id))?;
        self.records().insert(id.clone(), record.clone());
        self.inner.events.tell(&record, EventKind::Changed);
        Ok(record)
    }
}
