//! The command of a session, anew: the same session, the same history, the same way to reach it, other processes.
//!
//! Everything that could fail is tried first, with the old processes running: the kernelspec is found, the directory looked
//! at, the GPUs granted, and a snapshot taken if one is wanted. Then the intent is written down, the old processes are ended,
//! and the new ones made as at a start; but id, name, thread, newest snapshot, labels, ports and key stay. So the next
//! snapshot goes on from the last one, and whoever has the connection file need not read it again.
//!
//! A daemon that is killed in the middle leaves the old processes, the new ones or none ([`crate::recover`]). With none the
//! session is failed, as if its processes had died by themselves: it has its snapshots, and can be restarted again.

use manifest::CommitReason;
use sandbox::bounded;
use sandbox::forget_exit;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result, io_error};
use crate::journal::Phase;
use crate::locks::Doing;
use crate::place::CONNECTION;
use crate::prepare::{Connection, Prepared, check_directory, prepare, replace_as};
use crate::record::{Record, SessionState};
use crate::request::{RestartRequest, SnapshotRequest, Start};
use crate::start::for_people;
use crate::steps::{Steps, Watch};
use crate::view::SessionView;

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
        let (gpus, devices) = self.gpus_for(&record.gpu_wish, &record.owner)?;
        if request.snapshot && record.state == SessionState::Running {
            self.snapshot_held(
                &mut record,
                &SnapshotRequest::default(),
                CommitReason::BeforeRestart,
                Steps::new(watch),
            )?;
        }

        let entry = self.inner.journal.begin(&record.id, &Phase::Restarting)?;
        steps.run("end the old processes", || self.end_with_grace(&record, request.grace()))?;
        record.init = None;
        record.holder = None;
        record.exit = None;
        record.gpus = gpus;
        record.gpu_trouble = None;
        record.state = SessionState::Starting;
        record.command = for_people(&prepared.command);
        if let Some(cwd) = &request.cwd {
            cwd.as_path().clone_into(&mut record.cwd);
        }
        self.save(&record)?;
        let result = self.launch_again(&mut record, Prepared { devices, ..prepared }, &mut steps);
        match result {
            Ok(()) => {
                self.save(&record)?;
                entry.done()?;
                Ok(self.running(&record))
            }
            Err(error) => {
                self.end_tree(&record)?;
                record.exit = self.exit_status(&record);
                let ended = record.exit.is_some();
                let state = if ended { SessionState::Ended } else { SessionState::Failed };
                self.set_down(&mut record, state)?;
                entry.done()?;
                Err(error)
            }
        }
    }

    fn launch_again(&self, record: &mut Record, prepared: Prepared, steps: &mut Steps<'_>) -> Result<()> {
        let box_dir = self.inner.place.box_dir(&record.id);
        forget_exit(&box_dir)?;
        let log = self.inner.place.log(&record.id);
        bounded::open_to_append(&log).map_err(io_error("open", &log))?;
        if let Some(kernel) = &prepared.kernel {
            let content = kernel.connection.inside.to_json();
            replace_as(&box_dir.join(CONNECTION), content.as_bytes())?;
        }
        steps.run("launch", || self.run_box(record, prepared))?;
        self.ready(record, steps)
    }

    /// How the kernel was reached until now; anew if its files are gone.
    fn kept_connection(&self, record: &Record, spec: &str) -> Result<Connection> {
        let (Some(kernel), Ok(mut inside)) = (&record.kernel, self.connection_inside(record)) else {
            return Connection::new(record.network, spec);
        };
        let (mut outer, mut inner) = (inside.ports.to_array(), inside.ports.to_array());
        // The file in the box is the user's to change; which ports lead where is not.
        for ((outer, inner), (outside, inside)) in outer.iter_mut().zip(&mut inner).zip(&kernel.ports) {
            (*outer, *inner) = (*outside, *inside);
        }
        inside.ports = jupyter_bridge::Ports::from_array(inner);
        spec.clone_into(&mut inside.kernel_name);
        let mut outside = inside.clone();
        outside.ports = jupyter_bridge::Ports::from_array(outer);
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
