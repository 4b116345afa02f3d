//! The end of a session's processes, wanted or not.

use std::time::Duration;

use api::{SessionState, SessionView, StopRequest};
use rustix::process::Signal;
use sandbox::SandboxError;
use sandbox::process::Identity;
use session_record::Record;
use session_record::journal::Phase;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::pipeline::{Pipeline, Stage, Step, WayOut, Work};
use crate::ports::Means;
use crate::steps::{NoWatch, Steps};
use session_record::locks::Doing;

/// How much later than the process that an operation missed the first process of a session may be gone.
const LAST_BREATH: Duration = Duration::from_secs(2);
/// How soon to look again whether an operation is done.
const AGAIN: Duration = Duration::from_millis(50);

/// Somebody wants them to end: whatever happens, they do. It knows how long they have between SIGTERM and SIGKILL.
pub(crate) const STOP: Pipeline<Duration> = &[Stage::new(
    "stopping",
    |_| Phase::Stopping,
    WayOut::On,
    &[
        Step::quiet("end the processes", |work, grace: &mut Duration| {
            work.engine.end_with_grace(work.record, *grace)
        }),
        Step::last("write down that it has ended", |work, _| {
            work.record.exit = work.engine.exit_status(work.record);
            work.engine.set_down(work.record, SessionState::Ended)
        }),
    ],
)];

impl Engine {
    /// Ends a session's processes: SIGTERM, and SIGKILL after a while. Its snapshots stay.
    pub fn stop(&self, which: &str, request: StopRequest) -> Result<SessionView> {
        let (_held, mut record) = self.hold(which, Doing::Stop)?;
        if record.state == SessionState::Ended || record.state == SessionState::Failed {
            return Ok(self.view(&record));
        }
        let mut grace = request.grace();
        Work::new(self, &mut record, Steps::new(&NoWatch)).run(STOP, &mut grace)?;
        Ok(self.view(&record))
    }

    /// The first process of a session ended. If somebody is in the middle of an operation on it, that was them, or they have
    /// not noticed: it is looked into when they are done.
    pub(crate) fn ended_by_itself(&self, init: Identity) {
        if self.note_end(init) {
            return;
        }
        let engine = self.clone();
        let wait = move || {
            while !engine.note_end(init) {
                std::thread::sleep(AGAIN);
            }
        };
        // Without a thread it is found at the next start: the process is gone then, too.
        let _later = std::thread::Builder::new().name("end".to_owned()).spawn(wait);
    }

    /// Sets down the session whose first process ended, if there still is one. `false` if an operation has hold of it.
    fn note_end(&self, init: Identity) -> bool {
        let find = || self.records().values().find(|record| record.init == Some(init)).cloned();
        let Some(record) = find() else { return true };
        let Ok(_held) = self.inner.locks.take(&record.id, &record.name, Doing::Stop) else { return false };
        let Some(mut record) = find() else { return true };
        // What cannot be written now is found again at the next start: the process is gone then, too.
        let _later = self.set_down_ended(&mut record);
        true
    }

    /// Sets down a session whose first process has ended by itself.
    fn set_down_ended(&self, record: &mut Record) -> Result<()> {
        record.exit = self.exit_status(record);
        // The box's init writes the status down when its command ends; one that could not was killed itself.
        let state = if record.exit.is_some() { SessionState::Ended } else { SessionState::Failed };
        self.end_tree(record)?;
        self.set_down(record, state)
    }

    /// Whether `error` came of a session that ended by itself under an operation's hands. It is set down then, and `record` says so.
    pub(crate) fn has_ended_meanwhile(&self, record: &mut Record, error: &LifecycleError) -> Result<bool> {
        // Its other processes are gone before its first one.
        let patience = if tells_of_an_end(error) { LAST_BREATH } else { Duration::ZERO };
        let ended =
            record.state == SessionState::Running && record.init.is_some_and(|init| init.wait_gone(patience));
        if ended {
            self.set_down_ended(record)?;
        }
        Ok(ended)
    }

    /// Asks the processes of the session to end, and after a while ends them.
    pub(crate) fn end_with_grace(&self, record: &Record, grace: Duration) -> Result<()> {
        if let Some(init) = record.init {
            // One that is gone already needs no signal.
            let _gone = init.signal(Signal::TERM);
            init.wait_gone(grace);
        }
        self.end_tree(record)
    }

    /// Ends every process of the session, and waits until they are gone.
    pub(crate) fn end_tree(&self, record: &Record) -> Result<()> {
        self.habitat(record).end(record)
    }

    /// The session has no processes any more: frees what it held on the machine, and says so.
    pub(crate) fn set_down(&self, record: &mut Record, state: SessionState) -> Result<()> {
        self.free_machine(record);
        record.init = None;
        record.holder = None;
        record.forwarder = None;
        record.pasta = None;
        record.gpu_trouble = None;
        record.state = state;
        self.save(record)
    }

    /// Frees namespaces, helpers, cgroup and mounts. Nothing of it holds state, so what fails here is litter, not loss;
    /// the next start looks for it again.
    pub(crate) fn free_machine(&self, record: &Record) {
        self.leave_kernel(&record.id);
        self.habitat(record).free(record);
    }

    /// The status that the session's command ended with, as its init wrote it down.
    pub(crate) fn exit_status(&self, record: &Record) -> Option<i32> {
        sandbox::recorded_exit(&self.inner.place.box_dir(&record.id))
    }
}

/// Whether a process was missed that had just been there.
fn tells_of_an_end(error: &LifecycleError) -> bool {
    match error {
        LifecycleError::Engine(said) => said.means == Means::ProcessGone,
        LifecycleError::Sandbox(SandboxError::Gone { .. })
        // It says in many ways that it does not find a process.
        | LifecycleError::Criu(_) => true,
        LifecycleError::GpuStuck { source, .. } => tells_of_an_end(source),
        _ => false,
    }
}
