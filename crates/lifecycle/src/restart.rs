//! The command of a session, anew: the same session, the same history, the same way to reach it, other processes.
//!
//! Everything that could fail is tried first, with the old processes running: the kernelspec is found, the directory looked
//! at, the GPUs granted, and a snapshot taken if one is wanted. Then the intent is written down, the old processes are ended,
//! and the new ones made as at a start; but id, name, thread, newest snapshot, labels, ports and key stay. So the next
//! snapshot goes on from the last one, and whoever has the connection file need not read it again.
//!
//! A daemon that is killed in the middle leaves the old processes, the new ones or none ([`crate::recover`]). With none the
//! session is failed, as if its processes had died by themselves: it has its snapshots, and can be restarted again.

use api::{RestartRequest, SessionState, SessionView, SnapshotRequest, Start};
use jupyter_bridge::{Connection, ConnectionFile};
use manifest::CommitReason;
use sandbox::bounded;
use sandbox::forget_exit;
use session_record::Record;
use session_record::files::{check_directory, replace_as};
use session_record::journal::Phase;
use session_record::place::CONNECTION;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result, io_error};
use crate::making::{Again, IT_RUNS, LAUNCH, LEAD_CLIENTS, New, WAIT_FOR_THE_KERNEL};
use crate::pipeline::{Pipeline, Stage, Step, WayOut, Work};
use crate::ports::Granted;
use crate::prepare::{Prepared, new_connection, prepare};
use crate::start::for_people;
use crate::steps::{Steps, Watch};
use session_record::locks::Doing;

/// The old processes, the new ones, or none.
pub(crate) const RESTART: Pipeline<New> = &[Stage::new(
    "restarting",
    |_| Phase::Restarting,
    WayOut::Settle(whole_or_none),
    &[
        Step::shown("end the old processes", |work, new: &mut New| {
            work.engine.end_with_grace(work.record, new.again.grace)?;
            work.record.init = None;
            work.record.holder = None;
            Ok(())
        }),
        Step::quiet("begin anew", begin_anew),
        LAUNCH,
        LEAD_CLIENTS,
        WAIT_FOR_THE_KERNEL,
        IT_RUNS,
    ],
)];

fn begin_anew(work: &mut Work<'_>, new: &mut New) -> Result<()> {
    let place = &work.engine.inner.place;
    let prepared = new.prepared()?;
    let record = &mut *work.record;
    let box_dir = place.box_dir(&record.id);
    // From here on the status that is found there is the new command's.
    forget_exit(&box_dir)?;
    record.exit = None;
    record.gpu_trouble = None;
    record.state = SessionState::Starting;
    record.command = for_people(&prepared.command);
    if let Some(kernel) = &prepared.kernel {
        let content = kernel.connection.inside.to_json();
        replace_as(&box_dir.join(CONNECTION), content.as_bytes())?;
    }
    record.gpus.clone_from(&new.again.gpus);
    if let Some(cwd) = &new.again.cwd {
        record.cwd.clone_from(cwd);
    }
    let log = place.log(&record.id);
    bounded::open_to_append(&log).map_err(io_error("open", &log))?;
    work.engine.save(record)
}

/// The record names the old tree until that is ended, nobody while the new one is made, and then that one: what is whole stays.
fn whole_or_none(work: &mut Work<'_>, _: &mut New) -> Result<()> {
    let (engine, record) = (work.engine, &mut *work.record);
    if record.init.is_some_and(|init| init.is_alive()) {
        return Ok(());
    }
    engine.end_tree(record)?;
    let is_new = record.state == SessionState::Starting;
    record.exit = is_new.then(|| engine.exit_status(record)).flatten();
    let state = if record.exit.is_some() { SessionState::Ended } else { SessionState::Failed };
    engine.set_down(record, state)
}

impl Engine {
    /// Ends the processes of a session, if it has any, and runs a command in it anew.
    pub fn restart(&self, which: &str, request: &RestartRequest, watch: &dyn Watch) -> Result<SessionView> {
        let (_held, mut record) = self.hold(which, Doing::Restart)?;
        let mut steps = Steps::new(watch);
        self.can_be_restarted(&record, &request.start)?;
        let kept = |spec: &str| self.kept_connection(&record, spec);
        let prepared = steps.run("prepare", || prepare(&record.owner, &request.start, &request.env, kept))?;
        if let Some(cwd) = &request.cwd
            && record.origin.is_none()
        {
            // A branch sees a copy of its own there; whether it can be entered is found out inside.
            check_directory(cwd.as_path())?;
        }
        let Granted { gpus, nodes: devices } = self.gpu().grant(&record.gpu_wish, &record.owner)?;
        if request.snapshot && record.state == SessionState::Running {
            self.snapshot_held(
                &mut record,
                &SnapshotRequest::default(),
                CommitReason::BeforeRestart,
                Steps::new(watch),
            )?;
        }

        let again = Again {
            grace: request.grace(),
            cwd: request.cwd.as_ref().map(|cwd| cwd.as_path().to_owned()),
            gpus,
        };
        let prepared = Some(Prepared { devices, ..prepared });
        let mut work = Work::new(self, &mut record, steps);
        work.run(RESTART, &mut New { prepared, again, ..New::default() })?;
        Ok(self.view(&record))
    }

    /// How the kernel was reached until now; anew if its files are gone.
    fn kept_connection(&self, record: &Record, spec: &str) -> Result<Connection> {
        let (Some(kernel), Ok(file)) = (&record.kernel, self.connection_inside(record)) else {
            return new_connection(record.network, None, spec);
        };
        let file = ConnectionFile { kernel_name: spec.to_owned(), ..file };
        // The file in the box is the user's to change; which ports lead where is not.
        let (inside, outside) = (file.clone().with_ports(kernel.inner()), file.with_ports(kernel.outer()));
        Ok(Connection { inside, outside })
    }

    fn can_be_restarted(&self, record: &Record, start: &Start) -> Result<()> {
        let is_kernel = record.kernel.is_some();
        let other_sort = (is_kernel != matches!(start, Start::Kernel { .. }))
            .then_some("a session that is a kernel stays one, and one that is not never becomes one");
        match self.habitat(record).why_no_restart().or(other_sort) {
            Some(detail) => Err(LifecycleError::BadRequest {
                detail: format!("session {} cannot be restarted so: {detail}", record.name),
            }),
            None => Ok(()),
        }
    }
}
