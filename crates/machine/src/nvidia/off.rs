//! Off the GPU, and back in place: the two ends of a dump.
//!
//! Between them the CUDA processes of a tree are CHECKPOINTED: their calls of CUDA wait, the rest of them runs. [`TakenOff`] holds
//! them there. It is consumed by [`OffGpu::ended`] when the tree is ended, which it only is with its state durable; in all
//! other cases they come back by [`OffGpu::bring_back`], or by the drop of the driver's own guard if somebody panics.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use checkpoint_cuda::{
    Action, Checkpointed, CudaError, Driver, Failure, GpuMap, LockOptions, Notes, State, Target, Tree,
};
use gpu_plan::look::left_behind;
use lifecycle::ports::{GpuJournal, GpuPlan, OffGpu, Steps, Storing, explain};
use lifecycle::{LifecycleError, Result};
use sandbox::process::Identity;

use super::beside;
use super::error::{cuda, planning};

/// Writes to the journal what is about to be done to the GPU.
pub(super) struct Noted<'a>(pub(super) &'a dyn GpuJournal);

impl Notes for Noted<'_> {
    fn worker(&mut self, pid: i32, start_time: u64) -> Result<(), String> {
        self.0.note_gpu_worker(Identity { pid, start_time });
        Ok(())
    }

    fn about_to(&mut self, _: Action, _: i32) -> Result<(), String> {
        // All processes were noted before the first of them is touched: this writes once, unless the worker changes.
        self.0.sync().map_err(|error| error.to_string())
    }
}

/// CUDA processes of a tree that are off the GPU.
pub(super) struct TakenOff {
    driver: Driver,
    pids: Vec<i32>,
    /// `None` once they are back, or when only their states can tell what they are.
    tree: Option<Tree<Checkpointed>>,
    /// Where their device memory is, if it is not in their own. Removed when nobody needs it.
    beside: Option<PathBuf>,
    since: Instant,
    paused: Duration,
}

impl TakenOff {
    /// Locks and checkpoints the processes of `plan`. On an error all run, or the error is [`LifecycleError::GpuStuck`].
    ///
    /// Device memory goes to `beside`. If it cannot, for whatever reason, they run again, and it goes into the processes as with any
    /// driver, if there is room for it.
    pub(super) fn take(
        driver: Driver,
        plan: &GpuPlan,
        init: i32,
        beside: Option<&Storing>,
        journal: &dyn GpuJournal,
        steps: &mut Steps<'_>,
    ) -> Result<Self> {
        let sizes = plan.section.processes.iter().map(|process| process.vram_bytes);
        let target = |(process, vram_bytes): (&Identity, u64)| Target { pid: process.pid, vram_bytes };
        let targets: Vec<Target> = plan.processes.iter().zip(sizes).map(target).collect();
        let pids: Vec<i32> = targets.iter().map(|target| target.pid).collect();
        journal.note_gpu(plan.processes.clone());
        let since = Instant::now();
        let mut beside = beside;
        let tree = loop {
            let (taken_off, error) = match take_once(&driver, plan, &targets, beside, journal, steps) {
                Ok(tree) => break tree,
                Err(failure) => failure,
            };
            let why = explain(&error);
            let error = undone(&driver, &pids, error);
            // Whoever tries again later goes by the journal, also if nobody was touched.
            journal.sync()?;
            match beside.take() {
                Some(storing) if taken_off && !matches!(error, LifecycleError::GpuStuck { .. }) => {
                    beside::clear(storing.directory(), plan);
                    steps.warn(format!("device memory went through its processes: {why}"));
                }
                _ => return Err(error),
            }
        };
        let beside = beside.map(|storing| storing.directory().to_owned());
        let mut off = Self { driver, pids, tree: Some(tree), beside, since, paused: Duration::ZERO };
        let left = match left_behind(init) {
            Ok(None) => return Ok(off),
            Ok(Some(evidence)) => LifecycleError::LeftOnGpu { evidence },
            Err(error) => planning(error),
        };
        match off.back_for_good(journal, steps) {
            Ok(()) => Err(left),
            Err(error) => Err(error),
        }
    }
}

/// One attempt. On an error the driver's own guard has brought them back, as far as it could; with it goes whether they were locked
/// already.
fn take_once(
    driver: &Driver,
    plan: &GpuPlan,
    targets: &[Target],
    beside: Option<&Storing>,
    journal: &dyn GpuJournal,
    steps: &mut Steps<'_>,
) -> Result<Tree<Checkpointed>, (bool, LifecycleError)> {
    let mut notes = Noted(journal);
    if let Some(storing) = beside {
        beside::clear(storing.directory(), plan);
    }
    let options = LockOptions { room: beside.is_none(), ..LockOptions::default() };
    let lock = || driver.lock_with(targets, &options, &mut notes).map_err(cuda);
    let locked = steps.run("lock the GPU", lock).map_err(|error| (false, error))?;
    let failed = |failure: Failure| cuda(failure.error);
    let taken = steps.run("checkpoint the GPU", || match beside {
        None => locked.checkpoint(&mut notes).map_err(failed),
        Some(storing) => beside::follow(storing, plan, || {
            locked.checkpoint_to(storing.directory(), &mut notes).map_err(failed)
        }),
    });
    taken.map_err(|error| (true, error))
}

impl OffGpu for TakenOff {
    fn paused(&self) -> Duration {
        self.paused
    }

    fn bring_back(&mut self, journal: &dyn GpuJournal, steps: &mut Steps<'_>) -> Result<()> {
        if let Some(tree) = self.tree.take() {
            let mut kept = None;
            let restored = steps.run("restore the GPU", || {
                tree.restore(&GpuMap::identity(), &mut Noted(journal)).map_err(|(tree, error)| {
                    kept = Some(tree);
                    cuda(error)
                })
            });
            self.tree = kept;
            let locked = restored?;
            let unlocked = steps.run("unlock the GPU", || locked.unlock().map_err(cuda));
            if let Err(error) = unlocked {
                // Whatever it said: what counts is what they are.
                all_run(&self.driver, &self.pids, self.beside.as_deref()).map_err(|_| error)?;
            }
        } else {
            all_run(&self.driver, &self.pids, self.beside.as_deref()).map_err(cuda)?;
        }
        self.paused = self.since.elapsed();
        self.forget_files();
        Ok(())
    }

    fn again(&mut self, first: LifecycleError) -> Result<()> {
        if let Some(tree) = self.tree.take() {
            tree.ended();
        }
        let result = all_run(&self.driver, &self.pids, self.beside.as_deref());
        self.paused = self.since.elapsed();
        result.map_err(|_| stuck(&self.pids, first))?;
        self.forget_files();
        Ok(())
    }

    fn ended(mut self: Box<Self>) {
        if let Some(tree) = self.tree.take() {
            tree.ended();
        }
        self.forget_files();
    }
}

impl TakenOff {
    /// They have their memory back, or need none any more.
    fn forget_files(&mut self) {
        if let Some(directory) = self.beside.take() {
            beside::remove(&directory);
        }
    }
}

/// After an error: sees to it that all run, and says so if one does not.
fn undone(driver: &Driver, pids: &[i32], error: LifecycleError) -> LifecycleError {
    // A call that hangs may have its effect at any time from now on: nobody can say what they will be.
    let hangs = !driver.abandoned().is_empty();
    match all_run(driver, pids, None) {
        Ok(()) if !hangs => error,
        _ => stuck(pids, error),
    }
}

fn stuck(pids: &[i32], error: LifecycleError) -> LifecycleError {
    LifecycleError::GpuStuck { pids: pids.to_vec(), source: Box::new(error) }
}

/// Makes all run, whatever they are. Processes that have ended need nothing.
pub(super) fn all_run(driver: &Driver, pids: &[i32], beside: Option<&Path>) -> Result<(), CudaError> {
    for brought in driver.make_running_from(pids, beside) {
        if brought.now == Some(State::Running) {
            continue;
        }
        match brought.error {
            None | Some(CudaError::Ended { .. }) => {}
            Some(error) => return Err(error),
        }
    }
    Ok(())
}
