//! What a start, a restart, a branch and a removal know, and the steps that they share.
//!
//! A session that is being made is taken back step by step if that fails or is cut short: its processes end, then its files go, then its
//! place. A removal is the same three, asked for.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::SessionState;
use jupyter_bridge::ConnectionFile;
use session_record::Record;
use session_record::journal::Phase;
use session_record::place::outside_directory;
use workspace::BranchFilesMade;

use crate::error::Result;
use crate::pipeline::{Step, Work};
use crate::ports::Placed;
use crate::prepare::Prepared;
use crate::restore::Aim;
use crate::swap::too_early;
use session_record::files::remove_directory;

/// What is known of processes that are being made. After a crash nothing is.
#[derive(Default)]
pub(crate) struct New {
    /// What will run; `None` once it does, and for a branch.
    pub(crate) prepared: Option<Prepared>,
    /// What is different at a restart.
    pub(crate) again: Again,
    /// What a branch is made of.
    pub(crate) source: Option<Source>,
}

/// A restart's part of it.
#[derive(Default)]
pub(crate) struct Again {
    /// How long the old processes have between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
    /// Where the new ones begin; as before if `None`.
    pub(crate) cwd: Option<PathBuf>,
    /// UUIDs of the GPUs that they have.
    pub(crate) gpus: Vec<String>,
}

/// A branch's part of it.
pub(crate) struct Source {
    pub(crate) original: Record,
    /// How the kernel listens inside, if it is one.
    pub(crate) connection: Option<ConnectionFile>,
    pub(crate) aim: Arc<Aim>,
    pub(crate) placed: Placed,
    /// What became of its files.
    pub(crate) files: Option<BranchFilesMade>,
}

impl New {
    pub(crate) fn prepared(&mut self) -> Result<&mut Prepared> {
        self.prepared.as_mut().ok_or_else(|| too_early("what will run"))
    }

    pub(crate) fn source(&mut self) -> Result<&mut Source> {
        self.source.as_mut().ok_or_else(|| too_early("what a branch is made of"))
    }
}

/// The line of a stage that makes a session, or removes one.
pub(crate) fn starting(_: &New) -> Phase {
    Phase::Starting
}

/// Runs the command.
pub(crate) const LAUNCH: Step<New> = Step::shown("launch", |work, new: &mut New| {
    let prepared = new.prepared.take().ok_or_else(|| too_early("what will run"))?;
    work.engine.run_box(work.record, prepared)
})
.undo(end_processes);

/// Leads clients to the kernel, if it is one.
pub(crate) const LEAD_CLIENTS: Step<New> =
    Step::quiet("lead clients to it", |work, _| work.engine.forward(work.record));

/// A kernel is there when it listens.
pub(crate) const WAIT_FOR_THE_KERNEL: Step<New> =
    Step::shown("wait for the kernel", |work, _: &mut New| work.engine.wait_for_kernel(work.record))
        .when(|work, _| work.record.kernel.is_some());

/// A command may be done by now: it ran, whatever its status.
pub(crate) const IT_RUNS: Step<New> = Step::last("write down that it runs", |work, _| {
    work.record.state = SessionState::Running;
    work.engine.save(work.record)?;
    work.engine.running(work.record);
    Ok(())
});

/// Ends the processes of a session and frees what they held on the machine.
pub(crate) fn end_processes(work: &mut Work<'_>, _: &mut New) -> Result<()> {
    work.engine.end_restored(work.record)?;
    work.engine.free_machine(work.record);
    Ok(())
}

/// Removes the copies of files that a branch has. What is left of them is litter, not loss.
pub(crate) fn remove_files(work: &mut Work<'_>, _: &mut New) -> Result<()> {
    let record = &*work.record;
    work.engine.habitat(record).remove_branch(record)?;
    if record.origin.is_some() && record.files_at.starts_with(work.engine.inner.place.state.join("branches"))
    {
        let _litter = workspace::remove_branch_files(&record.files_at);
        let _litter = workspace::remove_branch_files(&outside_directory(&record.files_at));
    }
    Ok(())
}

/// Removes the rest of a session but its history. Litter, too; but without its record nobody knows of it any more.
pub(crate) fn remove_place(work: &mut Work<'_>, _: &mut New) -> Result<()> {
    if let Some(kernel) = &work.record.kernel {
        let _litter = fs::remove_file(&kernel.connection_file);
    }
    let _litter = remove_directory(&work.engine.inner.place.session(&work.record.id));
    work.engine.forget(work.record);
    Ok(())
}
