//! After a crash, a restart or a reboot: every session becomes running or restorable again.
//!
//! The journal says what was under way, the records say what was there, the kernel says what is there now. Each line of the
//! journal belongs to a stage of a [pipeline](crate::pipeline), and that stage leads out: what was begun is taken back or carried on by the
//! very steps that began it. Nothing here trusts a process id alone: a process is ours if its start time is the one written down,
//! or if it is in the session's cgroup.

use std::time::Duration;

use api::SessionState;
use rustix::process::Signal;
use session_record::journal::{Entry, Line, Phase};
use session_record::{Record, SessionId};

use crate::branch::BRANCH;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::making::New;
use crate::pipeline::Work;
use crate::restart::RESTART;
use crate::rollback::ROLLBACK;
use crate::stop::STOP;
use crate::suspend::SUSPEND;
use crate::swap::{Going, Safe, Swap};

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
                        Ok(()) => entry.done().map(|()| said).map_err(LifecycleError::from),
                        Err(error) => {
                            let error =
                                LifecycleError::GpuStuck { pids: Vec::new(), source: Box::new(error) };
                            self.note_gpu_trouble(&mut record, &error).and(Err(error))
                        }
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
                self.back_from_notes(id, &line.notes)?;
            }
        }
        // Only a box is made before there is a record of it.
        self.inner.ports.own_box.sweep(id)?;
        session_record::files::remove_directory(&self.inner.place.session(id))?;
        entry.done()?;
        Ok(format!("{id}: a start that was cut short was cleared away"))
    }

    /// Puts right what was cut short: by the pipeline that was under way, from the line that it had written.
    fn finish(&self, mut record: Record, line: Line, entry: Entry) -> Result<String> {
        let name = record.name.clone();
        self.wait_for_workers(&line);
        let mut work = Work::found(self, &mut record, entry);
        let phase = &line.phase;
        let said = match phase {
            Phase::Starting => {
                // A start and a removal do the same, and less.
                work.recover(BRANCH, &mut New::default(), phase)?;
                "a start or removal that was cut short was cleared away".to_owned()
            }
            Phase::Dumping { .. } => {
                work.recover(SUSPEND, &mut Swap::default(), phase)?;
                "a snapshot was cut short; the session goes on".to_owned()
            }
            Phase::Ending { safe, then: None, .. } => {
                let swap = &mut Swap { safe: Some(Safe::found(safe)?), ..Swap::default() };
                work.recover(SUSPEND, swap, phase)?;
                "a suspend was finished".to_owned()
            }
            Phase::Ending { safe, then: Some(commit), files } | Phase::Restoring { commit, safe, files } => {
                let (safe, going) = (Some(Safe::found(safe)?), Some(Going::found(commit, *files)?));
                let swap = &mut Swap { safe, going, ..Swap::default() };
                match work.recover(ROLLBACK, swap, phase) {
                    Ok(()) => {
                        self.kernel_restored(&record, commit, None);
                        "a restore that was cut short was finished".to_owned()
                    }
                    // Running or asleep where it was: in the record, and nothing is lost.
                    Err(error @ (LifecycleError::PutBack { .. } | LifecycleError::LeftSuspended { .. })) => {
                        format!("a restore that was cut short failed: {error}")
                    }
                    Err(error) => return Err(error),
                }
            }
            Phase::Stopping => {
                work.recover(STOP, &mut Duration::default(), phase)?;
                "its end was finished".to_owned()
            }
            Phase::Restarting => {
                work.recover(RESTART, &mut New::default(), phase)?;
                match record.state {
                    SessionState::Running => "a restart was cut short before or after all of it".to_owned(),
                    _ => "a restart was cut short; the session has no processes".to_owned(),
                }
            }
        };
        Ok(format!("{name}: {said}"))
    }

    /// Waits for whoever still works for the daemon that is gone. What CRIU does must not be raced, and a call to the driver must not
    /// lose its target either.
    fn wait_for_workers(&self, line: &Line) {
        self.wait_for_gpu_workers(&line.notes);
        if let Phase::Dumping { worker: Some(worker) } = line.phase
            && !worker.wait_gone(WORKER_LIMIT)
        {
            let _gone = worker.signal(Signal::KILL);
            worker.wait_gone(WORKER_LIMIT);
        }
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
        self.habitat(&record).end_strays(&record)?;
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
