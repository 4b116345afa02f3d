//! Processes that somebody left locked or off the GPU come back.
//!
//! Three ways lead here: the daemon was killed, and the journal names the processes; the driver would not bring them back, and the
//! record says so (`gpu_trouble`); or a call to the driver hangs, and nobody can say what it will do. In all three the journal's
//! entry is still there. First the workers of an earlier daemon are waited for, since a call that is under way must not be cut
//! short or raced; then each process is asked what it is and brought back from there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::explain;
use sandbox::process::Identity;
use session_record::journal::{Entry, GpuNotes};
use session_record::{Record, SessionId};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use session_record::locks::Doing;

/// How soon to look again whether what was in the way has passed.
const AGAIN: Duration = Duration::from_millis(200);

impl Engine {
    /// Waits for workers of an earlier daemon. They are never killed.
    pub(crate) fn wait_for_gpu_workers(&self, notes: &GpuNotes) {
        for worker in &notes.gpu_workers {
            self.gpu().wait_for_worker(*worker);
        }
    }

    /// Brings the processes of these notes back. Workers of an earlier daemon have been waited for; our own may well be among those
    /// that are noted, and what they do is the driver's business.
    pub(crate) fn back_from_notes(&self, id: &SessionId, notes: &GpuNotes) -> Result<()> {
        self.gpu().bring_back(&notes.gpu, &self.inner.place.device_memory(id))
    }

    /// The same for a tree of which nothing was noted, or what was noted cannot be read.
    pub(crate) fn back_from_anywhere(&self, record: &Record) -> Result<()> {
        match record.init.filter(Identity::is_alive) {
            Some(init) => self.gpu().bring_back_tree(init, &self.inner.place.device_memory(&record.id)),
            None => Ok(()),
        }
    }

    /// An operation has left processes off the GPU: the record says why, and its entry stays in the journal.
    pub(crate) fn note_gpu_trouble(&self, record: &mut Record, error: &LifecycleError) -> Result<()> {
        record.gpu_trouble = Some(explain(error));
        self.save(record)?;
        self.mend_later(&record.id);
        Ok(())
    }

    /// Tries again to bring a session's processes back to the GPU, if they are not there.
    pub(crate) fn mend(&self, record: &mut Record) -> Result<()> {
        if record.gpu_trouble.is_none() {
            return Ok(());
        }
        let entry = self.inner.journal.reopen(&record.id)?;
        let result = match &entry {
            Some(entry) => self.back_from_notes(&record.id, &entry.notes()),
            None => self.back_from_anywhere(record),
        };
        match result {
            Ok(()) => {
                record.gpu_trouble = None;
                self.save(record)?;
                Ok(entry.map_or(Ok(()), Entry::done)?)
            }
            Err(error) => {
                record.gpu_trouble = Some(explain(&error));
                self.save(record)?;
                Err(LifecycleError::GpuStuck { pids: Vec::new(), source: Box::new(error) })
            }
        }
    }

    /// Something is in the way that can pass: when it has, the session is looked after. Without a thread the next operation does it.
    fn mend_later(&self, id: &SessionId) {
        let notes =
            self.inner.journal.reopen(id).ok().flatten().map(|entry| entry.notes()).unwrap_or_default();
        if !self.gpu().must_wait(&notes.gpu) {
            return;
        }
        let (weak, id) = (Arc::downgrade(&self.inner), id.clone());
        let begun = Instant::now();
        let wait = move || {
            loop {
                // A little longer each time: a call that has hung for an hour may hang for another.
                std::thread::sleep(AGAIN.max(begun.elapsed() / 100));
                let Some(inner) = weak.upgrade() else { return };
                let engine = Self { inner };
                let record = engine.records().get(&id).cloned();
                let Some(record) = record.filter(|record| record.gpu_trouble.is_some()) else { return };
                if engine.gpu().must_wait(&notes.gpu) {
                    continue;
                }
                let Ok(_held) = engine.inner.locks.take(&id, &record.name, Doing::GpuReturn) else {
                    continue;
                };
                let record = engine.records().get(&id).cloned();
                if let Some(mut record) = record {
                    // What it says is in the record.
                    let _said = engine.mend(&mut record);
                }
                return;
            }
        };
        let _later = std::thread::Builder::new().name("gpu".to_owned()).spawn(wait);
    }
}
