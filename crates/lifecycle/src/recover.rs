//! After a crash, a restart or a reboot: every session becomes running or restorable again.
//!
//! The journal says what was under way (its table is in [`crate::journal`]), the records say what was there, the kernel says
//! what is there now. Nothing here trusts a process id alone: a process is ours if its start time is the one written down,
//! or if it is in the session's cgroup.

use std::time::Duration;

use rustix::process::Signal;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::gpu::{Wanted, explain};
use crate::journal::{Entry, Line, Phase};
use crate::record::{Record, SessionId, SessionState};
use crate::rollback::{Safe, To};
use crate::steps::{NoWatch, Steps};

/// What was found and done at the start.
#[derive(Clone, Default, Debug)]
pub struct Recovery {
    /// Sessions that ran on without us and are looked after again.
    pub adopted: Vec<String>,
    /// Operations that had been cut short, and what became of them.
    pub finished: Vec<String>,
    /// Sessions whose processes ended while nobody looked.
    pub ended: Vec<String>,
    /// What could not be put right; said, and tried again at the next start.
    pub troubles: Vec<String>,
}

/// How long CRIU may still work on a dump that nobody waits for any more.
const WORKER_LIMIT: Duration = Duration::from_secs(120);

impl Engine {
    pub(crate) fn recover(&self) -> Result<Recovery> {
        let mut recovery = Recovery::default();
        for (id, entry, line) in self.inner.journal.pending()? {
            let record = self.records().get(&id).cloned();
            let outcome = match (record, line) {
                (None, line) => self.sweep(&id, line.ok(), entry),
                (Some(record), Ok(line)) => self.finish(record, line, entry),
                // Nobody knows how far it was: the record alone decides, as if there were no journal.
                (Some(mut record), Err(_)) => {
                    self.let_go_on(&record);
                    let said = format!("{}: its journal could not be read", record.name);
                    match self.back_from_anywhere(&record) {
                        Ok(()) => entry.done().map(|()| said),
                        Err(error) => self.off_the_gpu(&mut record, error),
                    }
                }
            };
            match outcome {
                Ok(what) => recovery.finished.push(what),
                Err(error) => recovery.troubles.push(format!("session {id}: {error}")),
            }
        }
        let records: Vec<Record> = self.records().values().cloned().collect();
        for record in records {
            if let Err(error) = self.adopt(record, &mut recovery) {
                recovery.troubles.push(error.to_string());
            }
        }
        Ok(recovery)
    }

    /// A session that had no record yet when its start was cut short; or a tree that never was one, and was dumped or restored
    /// once: it goes on.
    fn sweep(&self, id: &SessionId, line: Option<Line>, entry: Entry) -> Result<String> {
        if let Some(line) = line {
            self.wait_for_gpu_workers(&line.notes);
            if matches!(line.phase, Phase::Dumping { .. }) {
                self.back_from_notes(&line.notes)?;
            }
        }
        // Only a box is made before there is a record of it.
        self.inner.ports.own_box.sweep(id)?;
        crate::stop::remove_directory(&self.inner.place.session(id))?;
        entry.done()?;
        Ok(format!("{id}: a start that was cut short was cleared away"))
    }

    fn finish(&self, mut record: Record, line: Line, entry: Entry) -> Result<String> {
        let name = record.name.clone();
        // A call to the driver that is under way must neither be raced nor lose its target.
        self.wait_for_gpu_workers(&line.notes);
        match line.phase {
            Phase::Starting => {
                self.clear_away(&record);
                self.forget(&record);
                entry.done()?;
                Ok(format!("{name}: a start or removal that was cut short was cleared away"))
            }
            Phase::Dumping { worker } => {
                if let Some(worker) = worker
                    && !worker.wait_gone(WORKER_LIMIT)
                {
                    let _gone = worker.signal(Signal::KILL);
                    worker.wait_gone(WORKER_LIMIT);
                }
                self.let_go_on(&record);
                // What is stopped cannot be brought back onto the GPU, so this comes last.
                if let Err(error) = self.back_from_notes(&line.notes) {
                    return self.off_the_gpu(&mut record, error);
                }
                record.gpu_trouble = None;
                self.save(&record)?;
                entry.done()?;
                Ok(format!("{name}: a snapshot was cut short; the session goes on"))
            }
            Phase::Ending { safe, then: None, .. } => {
                self.end_tree(&record)?;
                record.head = Some(safe);
                self.set_down(&mut record, SessionState::Suspended)?;
                entry.done()?;
                Ok(format!("{name}: a suspend was finished"))
            }
            Phase::Ending { safe, then: Some(commit), files } | Phase::Restoring { commit, safe, files } => {
                self.end_tree(&record)?;
                record.init = None;
                self.restore_again(record, &commit, &safe, files, entry)
            }
            Phase::Stopping => {
                self.end_tree(&record)?;
                record.exit = self.exit_status(&record);
                self.set_down(&mut record, SessionState::Ended)?;
                entry.done()?;
                Ok(format!("{name}: its end was finished"))
            }
            Phase::Restarting => {
                // The record names the old tree until that is ended, nobody while the new one is made, and then that one.
                if record.init.is_some_and(|init| init.is_alive()) {
                    entry.done()?;
                    return Ok(format!("{name}: a restart was cut short before or after all of it"));
                }
                self.end_tree(&record)?;
                record.exit = None;
                self.set_down(&mut record, SessionState::Failed)?;
                entry.done()?;
                Ok(format!("{name}: a restart was cut short; the session has no processes"))
            }
        }
    }

    /// The driver would not bring a session's processes back. The entry stays in the journal for the next attempt.
    fn off_the_gpu(&self, record: &mut Record, error: LifecycleError) -> Result<String> {
        let error = LifecycleError::GpuStuck { pids: Vec::new(), source: Box::new(error) };
        record.gpu_trouble = Some(explain(&error));
        self.save(record)?;
        Err(error)
    }

    fn restore_again(
        &self,
        mut record: Record,
        commit: &str,
        safe: &str,
        files: bool,
        entry: Entry,
    ) -> Result<String> {
        let name = record.name.clone();
        let store = self.inner.store.open()?;
        record.head = Some(safe.to_owned());
        let (target, safe) = (store.resolve(commit)?, store.resolve(safe)?);
        let mut steps = Steps::new(&NoWatch);
        entry.enter(&Phase::Restoring { commit: target.to_string(), safe: safe.to_string(), files })?;
        let aim = self.aim(&record, &store, target, true, &mut steps).and_then(|aim| {
            let commit = aim.commit.short();
            let placed = self.place_gpus(&record, &commit, aim.gpu.as_ref(), Wanted::default())?;
            Ok((aim, placed))
        });
        let kept = self.parent_files(&store, &record);
        let restored = match (aim, kept) {
            (Ok((aim, placed)), Ok(kept)) => {
                let safe = Safe { commit: safe, files: kept };
                let to = To { aim: &aim, placed };
                let brought = self.bring_up(&mut record, &store, to, &safe, files, entry, &mut steps);
                brought.map(|_| self.kernel_restored(&record, &aim.commit.to_string(), None))
            }
            (Err(error), _) | (_, Err(error)) => {
                self.set_down(&mut record, SessionState::Suspended)?;
                entry.done()?;
                Err(error)
            }
        };
        Ok(match restored {
            Ok(()) => format!("{name}: a restore that was cut short was finished"),
            // Running at `safe`, or suspended at it: in the record, and nothing is lost.
            Err(error) => format!("{name}: a restore that was cut short failed: {error}"),
        })
    }

    /// A tree that may be stopped goes on.
    fn let_go_on(&self, record: &Record) {
        if let Some(init) = record.init
            && init.is_alive()
        {
            self.checkpointer().release(init);
        }
        self.habitat(record).thaw(&record.id);
    }

    /// A commit that was made, and whose session was not told any more, is the one that the next is made from.
    fn catch_up(&self, record: &mut Record) -> Result<()> {
        let head = self.inner.store.open()?.head(&record.thread)?.map(|head| head.to_string());
        if head.is_some() && head != record.head {
            record.head = head;
            self.save(record)?;
        }
        Ok(())
    }

    /// A session that nobody was in the middle of changing.
    fn adopt(&self, mut record: Record, recovery: &mut Recovery) -> Result<()> {
        self.catch_up(&mut record)?;
        if record.state != SessionState::Running && record.state != SessionState::Starting {
            return Ok(());
        }
        if record.init.is_some_and(|init| init.is_alive()) {
            self.habitat(&record).open_network(&mut record);
            self.forward(&mut record)?;
            self.save(&record)?;
            self.running(&record);
            recovery.adopted.push(record.name);
            return Ok(());
        }
        record.exit = self.exit_status(&record);
        let state = if record.exit.is_some() { SessionState::Ended } else { SessionState::Failed };
        self.end_tree(&record)?;
        self.set_down(&mut record, state)?;
        recovery.ended.push(record.name);
        Ok(())
    }
}
