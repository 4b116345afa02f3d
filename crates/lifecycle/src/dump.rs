//! The moment itself: CRIU freezes the tree and writes it out, and files are captured while it stands still.
//!
//! Two endings. A snapshot lets the tree go on at once ([`Leave::Running`]): it stands still only for as long as memory is
//! copied and files are cloned; hashing and storing come later. A suspend or rollback leaves it stopped
//! ([`Leave::Stopped`]), because nothing that happens after the snapshot may be lost or done twice; it is ended when the
//! snapshot is durable, and goes on if it never becomes so. In neither case do the staged images become the only copy of
//! anyone's work.
//!
//! Work on the GPU is taken off it before, while the tree still runs, and comes back after.
//!
//! Memory is copied before the tree stands still where that can be done. If what comes of it is in doubt, it is thrown away, and
//! the tree is dumped once more, plainly. A session that was given GPUs is always dumped plainly: a device writes to memory without a
//! trace in any page table.

use std::collections::BTreeMap;
use std::time::Duration;

use checkpoint_criu::{CriuError, Dumped, Event, Hooks, Leave, MapId};
use image_store::Storing;
use policy::plan::Spared;
use preflight::Needs;
use sandbox::process::{self, Identity};
use session_record::Record;
use session_record::journal::{Entry, Phase};
use session_record::words::skipped;
use staging::Staged;
use workspace::{CaptureRequest, Pending};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::pipeline::{Step, Work};
use crate::ports::{DumpWanted, Tree};
use crate::swap::{Checked, StoppedTree, Swap, Taken, Taking};

/// The line of a stage with these steps.
pub(crate) fn dumping(_: &Swap) -> Phase {
    Phase::Dumping { worker: None }
}

/// Lets a container go that somebody holds still, if that is wanted. After a crash it runs: nobody knows who it was.
pub(crate) const LET_GO: Step<Swap> = Step::quiet("let go what is held", |work, swap: &mut Swap| {
    let taking = swap.taking()?;
    let asked = taking.why.request.thaw;
    taking.hold_again = work.engine.habitat(work.record).let_go(work.record, asked)?;
    Ok(())
})
.undo(hold_again);

/// Holds it again.
pub(crate) const HOLD_AGAIN: Step<Swap> =
    Step::quiet("hold it again", hold_again).when(|_, swap| !is_off_the_gpu(swap));

fn hold_again(work: &mut Work<'_>, swap: &mut Swap) -> Result<()> {
    if let Some(hold) = swap.taking.as_mut().and_then(|taking| taking.hold_again.take()) {
        work.steps.warn(hold());
    }
    Ok(())
}

/// Looks for what would fail.
pub(crate) const PREFLIGHT: Step<Swap> = Step::shown("preflight", |work, swap| {
    let init = work.record.living_init("be snapshotted")?;
    work.engine.checkpointer().ready()?;
    swap.taking()?.checked = Some(work.engine.preflight(work.record, init)?);
    Ok(())
});

/// Takes what is on GPUs off them.
pub(crate) const OFF_THE_GPU: Step<Swap> =
    Step::parts("off the GPU", &["lock the GPU", "checkpoint the GPU"], off_the_gpu).undo(back_for_good);

/// Writes the tree out, and captures files while it stands still.
pub(crate) const FREEZE_AND_DUMP: Step<Swap> = Step::shown("freeze and dump", freeze_and_dump).undo(go_on);

/// Brings back what was taken off the GPU, for a tree that runs. That it failed is written down and no error: the state is whole, in
/// their memory and in the images, and has to be kept before anything else.
pub(crate) const BACK_ONTO_THE_GPU: Step<Swap> =
    Step::parts("back onto the GPU", &["restore the GPU", "unlock the GPU"], |work, swap| {
        let taking = swap.taking()?;
        let Some(off) = &mut taking.off else { return Ok(()) };
        let (entry, steps) = work.noted()?;
        let result = off.bring_back(entry, steps);
        if let Some(taken) = &mut taking.taken {
            taken.gpu_paused = Some(off.paused());
        }
        match result {
            Ok(()) => taking.off = None,
            Err(failure) => taking.gpu_failure = Some(failure),
        }
        Ok(())
    });

/// The second attempt at it, when the state is durable. If it fails, too, the session goes to sleep.
pub(crate) const ONCE_MORE: Step<Swap> = Step::quiet("back onto the GPU once more", |_, swap: &mut Swap| {
    let taking = swap.taking()?;
    if let (Some(failure), Some(off)) = (taking.gpu_failure.take(), &mut taking.off) {
        match off.again(failure) {
            Ok(()) => taking.off = None,
            Err(failure) => taking.gpu_failure = Some(failure),
        }
    }
    Ok(())
})
.when(|_, swap| is_off_the_gpu(swap));

/// Whether the driver would not bring back what was taken off the GPU.
pub(crate) fn is_off_the_gpu(swap: &Swap) -> bool {
    swap.taking.as_ref().is_some_and(|taking| taking.gpu_failure.is_some())
}

fn off_the_gpu(work: &mut Work<'_>, swap: &mut Swap) -> Result<()> {
    let init = work.record.living_init("be snapshotted")?;
    let (engine, taking) = (work.engine, swap.taking()?);
    if let Some(plan) = taking.checked.as_ref().and_then(|checked| checked.gpu.as_ref()) {
        let beside = engine.beside(work.record, plan)?;
        let (entry, steps) = work.noted()?;
        taking.off = Some(engine.gpu().take_off(plan, init.pid, beside.as_ref(), entry, steps)?);
        taking.beside = beside.filter(Storing::came);
    }
    Ok(())
}

/// What is off the GPU, or may be, comes back.
fn back_for_good(work: &mut Work<'_>, swap: &mut Swap) -> Result<()> {
    let (engine, id) = (work.engine, work.record.id.clone());
    let (entry, steps) = work.noted()?;
    match swap.taking.as_mut().and_then(|taking| taking.off.take()) {
        Some(mut off) => off.back_for_good(entry, steps)?,
        None => engine
            .back_from_notes(&id, &entry.notes())
            .map_err(|error| LifecycleError::GpuStuck { pids: Vec::new(), source: Box::new(error) })?,
    }
    match work.record.gpu_trouble.take() {
        Some(_) => engine.save(work.record),
        None => Ok(()),
    }
}

/// A tree that may be stopped goes on.
fn go_on(work: &mut Work<'_>, swap: &mut Swap) -> Result<()> {
    work.engine.let_go_on(work.record);
    if let Some(stopped) = swap.taking.as_mut().and_then(|taking| taking.stopped.take()) {
        stopped.let_go();
    }
    Ok(())
}

fn freeze_and_dump(work: &mut Work<'_>, swap: &mut Swap) -> Result<()> {
    let (engine, record, taking) = (work.engine, &*work.record, swap.taking()?);
    let init = record.living_init("be snapshotted")?;
    let Some(Checked { mut staged, mut warnings, gpu }) = taking.checked.take() else {
        return Err(LifecycleError::Bug("a dump came before its preflight".to_owned()));
    };
    let stored = match taking.off.is_some() || gpu.is_some() || !record.gpus.is_empty() {
        true => None,
        false => Some(engine.stored_memory(record)?),
    };
    let entry = work.entry()?;
    let mut dumped = dump_once(engine, record, entry, taking, &staged, stored.as_ref());
    if let Err(LifecycleError::Criu(CriuError::Memory { reason, .. })) = &dumped {
        warnings.push(format!("it stood still while all of its memory was copied: {reason}"));
        staged.begin_anew()?;
        dumped = dump_once(engine, record, entry, taking, &staged, None);
    }
    let (dumped, files) = dumped?;
    if taking.leave == Leave::Stopped {
        taking.stopped = Some(StoppedTree::new(&engine.inner.ports.checkpointer, init));
    }
    let gpu_paused = taking.off.is_none().then_some(Duration::ZERO);
    taking.taken = Some(Taken { staged, files, dumped, warnings, gpu, gpu_paused });
    Ok(())
}

/// One attempt at it, into an empty stage.
fn dump_once(
    engine: &Engine,
    record: &Record,
    entry: &Entry,
    taking: &Taking,
    staged: &Staged,
    stored: Option<&BTreeMap<u32, MapId>>,
) -> Result<(Dumped, Pending)> {
    let init = record.living_init("be snapshotted")?;
    let habitat = engine.habitat(record);
    let places = habitat.places(record);
    let log_dir = engine.inner.place.criu_log(&record.id);
    let wanted = DumpWanted {
        init,
        images: staged.path(),
        log_dir: &log_dir,
        leave: taking.leave,
        watched: habitat.watched(record),
        stored,
    };
    let request = CaptureRequest {
        user: &record.owner,
        places: &places,
        policy: &taking.policy,
        named: &taking.named,
        staging: staged.files(),
        parent: &taking.parent,
    };
    let (mut ahead, mut saving) = (workspace::ahead(&request)?, habitat.saving(record)?);
    let mut hooks = DumpHooks {
        entry,
        capture: |pids: &[i32]| Ok(workspace::begin(&request, ahead.take(), pids)?),
        save: || saving(staged.path()),
        engine,
        record,
        init,
        files: None,
        failure: None,
    };
    let dumped = engine.checkpointer().dump(&Tree::of(record), &wanted, &mut hooks);
    let (files, failure) = (hooks.files, hooks.failure);
    let dumped = failure.map_or(dumped, Err)?;
    let files = files
        .ok_or_else(|| LifecycleError::Bug("CRIU did not say when the processes stood still".to_owned()))?;
    Ok((dumped, files))
}

impl Engine {
    /// A tree that may be stopped goes on.
    pub(crate) fn let_go_on(&self, record: &Record) {
        if let Some(init) = record.init
            && init.is_alive()
        {
            self.checkpointer().release(init);
        }
        self.habitat(record).thaw(&record.id);
    }

    /// What the newest snapshot has of the memory of the session's processes.
    fn stored_memory(&self, record: &Record) -> Result<BTreeMap<u32, MapId>> {
        let Some(head) = record.head_id()? else { return Ok(BTreeMap::new()) };
        let (_, snapshot) = self.inner.store.open()?.load(&head)?;
        Ok(image_store::stored_memory(&snapshot)?)
    }

    fn preflight(&self, record: &Record, init: Identity) -> Result<Checked> {
        let place = &self.inner.place;
        let seen = self.gpu().look(init.pid)?;
        let needs = Needs {
            // It is found a place on disk or in memory below, where both are known.
            staging: None,
            store: place.store(),
            uid: (!record.habitat.is_adopted()).then_some(record.owner.uid),
            boxed: self.habitat(record).look_inside(record),
            on_gpu: seen.as_ref().map(|seen| seen.on_gpu.clone()).unwrap_or_default(),
            vram_bytes: seen.as_ref().map_or(0, |seen| seen.vram_bytes),
        };
        let mut found = preflight::look(init.pid, &needs)?;
        if let Some(seen) = &seen {
            found.refusals.extend(seen.refusals.iter().cloned());
            found.warnings.extend(seen.warnings.iter().cloned());
        }
        let memory_bytes = found.memory_bytes;
        let warnings = found.verdict()?;
        preflight::store_has_room(&needs.store)?;
        let staged = self.inner.stages.stage_beside(memory_bytes, needs.vram_bytes)?;
        let plan = seen.map(|seen| (seen.plan)()).transpose()?.flatten();
        // A box that was given some GPUs shows its processes no others.
        let boxed = !record.habitat.is_adopted() && !record.gpus.is_empty();
        let gpu = plan.map(|plan| if boxed { plan.seen_with(&record.gpus) } else { plan });
        Ok(Checked { staged, warnings, gpu })
    }
}

/// Listens to CRIU: writes its worker down, and captures files when everything stands still.
struct DumpHooks<'a, C, S> {
    entry: &'a Entry,
    capture: C,
    save: S,
    engine: &'a Engine,
    record: &'a Record,
    init: Identity,
    files: Option<Pending>,
    failure: Option<LifecycleError>,
}

impl<C, S> Hooks for DumpHooks<'_, C, S>
where
    C: FnMut(&[i32]) -> Result<Pending>,
    S: FnMut() -> Result<()> + Send,
{
    fn worker(&mut self, pid: i32, start_time: u64) {
        let worker = Some(Identity { pid, start_time });
        let phase = Phase::Dumping { worker };
        if let Err(error) = self.entry.enter(&phase) {
            self.failure = Some(error.into());
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        if self.failure.is_some() {
            return Err("the journal cannot be written".to_owned());
        }
        if *event == Event::PreDump && !self.engine.inner.locks.may_stand(&self.record.id) {
            self.failure = Some(LifecycleError::Skipped(skipped(self.record.head.clone(), Spared::GivenUp)));
            return Err("somebody needs the session".to_owned());
        }
        if *event != Event::PostDump {
            return Ok(());
        }
        let (init, save, capture) = (self.init, &mut self.save, &mut self.capture);
        // Everything waits for both.
        let (saved, files) = std::thread::scope(|scope| {
            let saved = scope.spawn(save);
            let tree = process::tree(init.pid).map_err(LifecycleError::from);
            let pids = tree.map(|tree| tree.iter().map(|process| process.pid).collect::<Vec<_>>());
            let files = pids.and_then(|pids| capture(&pids));
            (saved.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), files)
        });
        let files = saved.and(files);
        match files {
            Ok(files) => {
                self.files = Some(files);
                Ok(())
            }
            Err(error) => {
                let text = error.to_string();
                self.failure = Some(error);
                Err(text)
            }
        }
    }
}
