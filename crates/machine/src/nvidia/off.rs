//! Off the GPU, and back in place: the two ends of a dump.
//!
//! Between them the CUDA processes of a tree are CHECKPOINTED: their calls of CUDA wait, the rest of them runs. [`TakenOff`] holds
//! them there. It is consumed by [`OffGpu::ended`] when the tree is ended, which it only is with its state durable; in all
//! other cases they come back by [`OffGpu::bring_back`], or by the drop of the driver's own guard if somebody panics.

use std::time::{Duration, Instant};

use checkpoint_cuda::{Action, Checkpointed, CudaError, Driver, GpuMap, Notes, State, Target, Tree};
use gpu_plan::look::left_behind;
use lifecycle::ports::{GpuJournal, GpuPlan, OffGpu, Steps};
use lifecycle::{LifecycleError, Result};
use sandbox::process::Identity;

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
    since: Instant,
    paused: Duration,
}

impl TakenOff {
    /// Locks and checkpoints the processes of `plan`. On an error all run, or the error is [`LifecycleError::GpuStuck`].
    pub(super) fn take(
        driver: Driver,
        plan: &GpuPlan,
        init: i32,
        journal: &dyn GpuJournal,
        steps: &mut Steps<'_>,
    ) -> Result<Self> {
        let sizes = plan.section.processes.iter().map(|process| process.vram_bytes);
        let target = |(process, vram_bytes): (&Identity, u64)| Target { pid: process.pid, vram_bytes };
        let targets: Vec<Target> = plan.processes.iter().zip(sizes).map(target).collect();
        let pids: Vec<i32> = targets.iter().map(|target| target.pid).collect();
        journal.note_gpu(plan.processes.clone());
        let mut notes = Noted(journal);
        let since = Instant::now();
        let locked = steps.run("lock the GPU", || driver.lock(&targets, &mut notes).map_err(cuda));
        let taken = locked.and_then(|locked| {
            steps.run("checkpoint the GPU", || {
                locked.checkpoint(&mut notes).map_err(|failure| cuda(failure.error))
            })
        });
        let tree = match taken {
            Ok(tree) => tree,
            Err(error) => {
                let error = undone(&driver, &pids, error);
                // Whoever tries again later goes by the journal, also if nobody was touched.
                journal.sync()?;
                return Err(error);
            }
        };
        let mut off = Self { driver, pids, tree: Some(tree), since, paused: Duration::ZERO };
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
                all_run(&self.driver, &self.pids).map_err(|_| error)?;
            }
        } else {
            all_run(&self.driver, &self.pids).map_err(cuda)?;
        }
        self.paused = self.since.elapsed();
        Ok(())
    }

    fn again(&mut self, first: LifecycleError) -> Result<()> {
        if let Some(tree) = self.tree.take() {
            tree.ended();
        }
        let result = all_run(&self.driver, &self.pids);
        self.paused = self.since.elapsed();
        result.map_err(|_| stuck(&self.pids, first))
    }

    fn ended(mut self: Box<Self>) {
        if let Some(tree) = self.tree.take() {
            tree.ended();
        }
    }
}

/// After an error: sees to it that all run, and says so if one does not.
fn undone(driver: &Driver, pids: &[i32], error: LifecycleError) -> LifecycleError {
    // A call that hangs may have its effect at any time from now on: nobody can say what they will be.
    let hangs = !driver.abandoned().is_empty();
    match all_run(driver, pids) {
        Ok(()) if !hangs => error,
        _ => stuck(pids, error),
    }
}

fn stuck(pids: &[i32], error: LifecycleError) -> LifecycleError {
    LifecycleError::GpuStuck { pids: pids.to_vec(), source: Box::new(error) }
}

/// Makes all run, whatever they are. Processes that have ended need nothing.
pub(super) fn all_run(driver: &Driver, pids: &[i32]) -> Result<(), CudaError> {
    for brought in driver.make_running(pids) {
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
