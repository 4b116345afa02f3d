//! After a crash, a restart or a reboot: every session becomes running or restorable again.
//!
//! The journal says what was under way (its table is in [`crate::journal`]), the records say what was there, the kernel says
//! what is there now. Nothing here trusts a process id alone: a process is ours if its start time is the one written down,
//! or if it is in the session's cgroup.

use std::time::Duration;

use rustix::process::Signal;

use crate::caller::Caller;
use crate::engine::Engine;
use crate::error::Result;
use crate::journal::{Entry, Phase};
use crate::record::{Record, SessionId, SessionState};
use crate::rollback::Safe;
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
        // Roots stand only while a box is made. Nobody makes one now, and what is mounted there is all of `/`.
        sandbox::unmount_all(&self.inner.place.run.join("root"))?;
        for (id, entry, phase) in self.inner.journal.pending()? {
            let record = self.records().get(&id).cloned();
            let outcome = match (record, phase) {
                (None, _) => self.sweep(&id, entry),
                (Some(record), Ok(phase)) => self.finish(record, phase, entry),
                // Nobody knows how far it was: the record alone decides, as if there were no journal.
                (Some(record), Err(_)) => {
                    self.let_go_on(&record);
                    entry.done().map(|()| format!("{}: its journal could not be read", record.name))
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

    /// A session that had no record yet when its start was cut short.
    fn sweep(&self, id: &SessionId, entry: Entry) -> Result<String> {
        if let Some(cgroup) = sandbox::Cgroup::open(id.as_str())? {
            cgroup.kill(WORKER_LIMIT)?;
            cgroup.remove()?;
        }
        crate::stop::remove_directory(&self.inner.place.session(id))?;
        entry.done()?;
        Ok(format!("{id}: a start that was cut short was cleared away"))
    }

    fn finish(&self, mut record: Record, phase: Phase, entry: Entry) -> Result<String> {
        let name = record.name.clone();
        match phase {
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
        }
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
        let root = Caller::by_uid(0)?;
        let store = self.inner.stores.open(record.owner.uid)?;
        record.head = Some(safe.to_owned());
        let (target, safe) = (store.resolve(commit)?, store.resolve(safe)?);
        let mut steps = Steps::new(&NoWatch);
        entry.enter(&Phase::Restoring { commit: target.to_string(), safe: safe.to_string(), files })?;
        let aim = self.aim(&root, &record, &store, target, &mut steps);
        let kept = self.parent_files(&store, &record);
        let restored = match (aim, kept) {
            (Ok(aim), Ok(kept)) => {
                let safe = Safe { commit: safe, files: kept };
                self.bring_up(&mut record, &store, &aim, &safe, files, entry, &mut steps).map(|_| ())
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
            let _gone = checkpoint_criu::release(init.pid);
        }
        if let Ok(Some(cgroup)) = sandbox::Cgroup::open(record.id.as_str()) {
            let _not_frozen = cgroup.thaw();
        }
    }

    /// A commit that was made, and whose session was not told any more, is the one that the next is made from.
    fn catch_up(&self, record: &mut Record) -> Result<()> {
        let head =
            self.inner.stores.open(record.owner.uid)?.head(&record.thread)?.map(|head| head.to_string());
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
            self.make_network(&mut record)?;
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
