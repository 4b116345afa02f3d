//! Processes and files become what a snapshot says: the last stage of a rollback, and all of a resume.
//!
//! The session has no processes when it begins, and the state that it had is durable. So whatever fails, it is taken back and the
//! session is put back to that state, by the same stage; if that fails, too, the session sleeps there. A crash only means that all of it
//! is done again, from the first step.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use api::SessionState;
use cas_core::ObjectId;
use history::{KeptFor, UserStore};
use session_record::{Record, keep_files};
use workspace::{AtWork, Listing, PutBack};

use crate::effects::happened;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::gpu::Wanted;
use crate::pipeline::{Stage, Step, WayOut, Work};
use crate::steps::{NoWatch, Steps};
use crate::swap::{Safe, Swap};

/// The stage.
pub(crate) const RESTORING: Stage<Swap> = Stage::new(
    "restoring",
    Swap::restoring,
    WayOut::OnOr(go_to_safe),
    &[
        Step::parts("end what is left", &["end the old processes"], end_what_is_left),
        Step::parts("aim", &["lay out images", "check images"], aim)
            .when(|_, swap| swap.going.as_ref().is_some_and(|going| going.ready.is_none())),
        Step::shown("put files back", put_files_back)
            .when(|_, swap| swap.going.as_ref().is_some_and(|going| going.files)),
        Step::shown("restore", |work, swap: &mut Swap| {
            let (aim, placed) = swap.going()?.ready()?;
            work.engine.restore_aimed(work.record, aim, true, placed, &mut work.steps)
        })
        .undo(|work, _| work.engine.end_restored(work.record)),
        Step::parts("onto the GPU", &["restore the GPU", "unlock the GPU"], |work, swap| {
            let init = work.record.init;
            let (_, placed) = swap.going()?.ready()?;
            let (entry, steps) = work.noted()?;
            init.map_or(Ok(()), |init| placed.put(init, entry, steps))
        }),
        Step::quiet("lead clients to it", |work, _| work.engine.forward(work.record)),
        Step::quiet("commit the way back", |work, swap| {
            let head = work.engine.write_rollback(work.record, swap.going()?.commit, swap.safe()?.commit)?;
            swap.going()?.head = Some(head);
            Ok(())
        }),
        Step::last("write down that it runs", |work, swap| {
            let going = swap.going()?;
            let (_, placed) = going.ready()?;
            let record = &mut *work.record;
            record.head = going.head.map(|head| head.to_string());
            placed.grant_to(record);
            record.state = SessionState::Running;
            record.exit = None;
            work.engine.save(record)?;
            work.engine.running(record);
            Ok(())
        }),
    ],
);

/// Also what an attempt that was cut short has made.
fn end_what_is_left(work: &mut Work<'_>, swap: &mut Swap) -> Result<()> {
    let Work { engine, record, steps, .. } = work;
    record.head = Some(swap.safe()?.commit.to_string());
    match record.init {
        Some(_) => steps.run("end the old processes", || engine.end_tree(record))?,
        None => engine.end_tree(record)?,
    }
    record.init = None;
    Ok(())
}

/// Nobody has aimed yet: after a crash, and on the way to a safe place. No check may stand in its way that is not about whether it can
/// be done.
fn aim(work: &mut Work<'_>, swap: &mut Swap) -> Result<()> {
    let Work { engine, record, steps, .. } = work;
    let going = swap.going()?;
    let aim = engine.aim(record, &engine.inner.store.open()?, going.commit, 1, true, steps)?;
    let placed = engine.place_gpus(record, &aim.commit.short(), aim.gpu.as_ref(), Wanted::default())?;
    going.ready = Some((aim, placed));
    Ok(())
}

fn put_files_back(work: &mut Work<'_>, swap: &mut Swap) -> Result<()> {
    let (engine, store) = (work.engine, work.engine.inner.store.open()?);
    let kept = match swap.safe()? {
        Safe { files: Some(files), .. } => Arc::clone(files),
        Safe { commit, .. } => engine.inner.listings.at(&store, *commit)?,
    };
    let going = swap.going()?;
    let (aim, _) = going.ready()?;
    for (path, reason) in engine.put_files_back(work.record, &store, &aim.files, &kept, &going.spared)? {
        work.steps.warn(format!("`{}` was left as it is: {reason}", path.display()));
    }
    Ok(())
}

/// After an error, and with nothing of the restore left: the session becomes again what it was, or sleeps there.
fn go_to_safe(work: &mut Work<'_>, swap: &mut Swap, error: LifecycleError) -> Result<LifecycleError> {
    let safe = swap.safe()?.commit;
    let going = swap.going()?;
    let (session, commit, source) = (work.record.name.clone(), going.commit.short(), Box::new(error));
    // Dropping it frees the place that it was promised on GPUs.
    going.ready = None;
    work.record.head = Some(safe.to_string());
    if going.commit == safe {
        work.engine.set_down(work.record, SessionState::Suspended)?;
        return Ok(LifecycleError::LeftSuspended { session, commit, safe: safe.short(), back: None, source });
    }
    going.commit = safe;
    let told = std::mem::replace(&mut work.steps, Steps::new(&NoWatch));
    let back = work.run(&[RESTORING], swap);
    work.steps = told;
    match back {
        Ok(()) => {
            // It is the one that is being answered with this error.
            work.engine.renew_kernel(work.record, None);
            Ok(LifecycleError::PutBack { session, commit, source })
        }
        Err(LifecycleError::LeftSuspended { safe, source: second, .. }) => {
            let back = Some(base::explain(&*second));
            Ok(LifecycleError::LeftSuspended { session, commit, safe, back, source })
        }
        Err(error) => Err(error),
    }
}

impl Engine {
    /// Makes the files what `to` says. What would be overwritten and is in no snapshot yet is kept first. Returns what was
    /// left as it is, and why.
    fn put_files_back(
        &self,
        record: &Record,
        store: &UserStore,
        to: &Listing,
        kept: &Listing,
        spared: &BTreeSet<PathBuf>,
    ) -> Result<Vec<(PathBuf, String)>> {
        let places = self.habitat(record).places(record);
        let put_back = PutBack {
            store: store.store(),
            user: &record.owner,
            places: &places,
            policy: &record.policy_back(to, &places),
            to,
            head: None,
            running: false,
            open: &[],
            at_work: &AtWork::unknown(),
            force: false,
            spared,
        };
        let uncovered = put_back.uncovered(kept)?;
        if uncovered.is_empty() {
            return Ok(put_back.run(kept)?.kept);
        }
        let stages = &self.inner.stages;
        let (_, mut all) = keep_files(record, &places, store, stages, &uncovered, KeptFor::Replaced)?;
        all.merge(kept.clone());
        Ok(put_back.run(&all)?.kept)
    }

    /// The commit that says that the session went back. Its state is that of the target: nothing is stored twice.
    fn write_rollback(&self, record: &Record, to: ObjectId, safe: ObjectId) -> Result<ObjectId> {
        if to == safe {
            return Ok(to);
        }
        let store = self.inner.store.open()?;
        if let Some(head) = store.head(&record.thread)?
            && store.commit_of(&head)?.parents == [safe, to]
        {
            // It was written, and then the daemon was killed.
            return Ok(head);
        }
        let on = (record.id.as_str(), record.thread.as_str());
        let (commit, _) = store.commit_rollback(on, &safe, &to, &record.owner, Some(&self.inner.sealer))?;
        happened("the way back is committed");
        Ok(commit)
    }
}
