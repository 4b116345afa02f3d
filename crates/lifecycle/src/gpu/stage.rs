//! Off the GPU, and back in place: the two ends of a dump.
//!
//! Between them the CUDA processes of a tree are CHECKPOINTED: their calls of CUDA wait, the rest of them runs. [`OffGpu`] holds
//! them there. It is consumed by [`OffGpu::ended`] when the tree is ended, which it only is with its state durable; in all
//! other cases they come back by [`OffGpu::bring_back`], or by its drop if somebody panics.

use std::time::{Duration, Instant};

use checkpoint_cuda::{Action, Checkpointed, CudaError, Driver, GpuMap, Notes, State, Tree};
use gpu_detect::Host;
use gpu_plan::look::{GpuPlan, OnGpu, left_behind};
use gpu_plan::{Gpus, in_manifest};
use manifest::host::Gpu;
use manifest::snapshot::{DeviceMemory, GpuProcess, GpuSection};
use sandbox::process::Identity;

use crate::error::{LifecycleError, Result};
use crate::journal::Entry;
use crate::record::Record;
use crate::steps::Steps;

/// The manifest's word for how it was taken.
const STRATEGY: &str = "driver";

/// What a snapshot says of GPUs.
#[derive(Clone, Debug)]
pub(crate) struct GpuTaken {
    pub(crate) section: GpuSection,
    /// The GPUs that the processes could see.
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) driver_version: String,
    pub(crate) vram_bytes: u64,
}

impl GpuTaken {
    pub(crate) fn of(plan: &GpuPlan, record: Option<&Record>) -> Self {
        let process = |process: &OnGpu| GpuProcess {
            pid: process.inside,
            devices: process.devices.keys().cloned().collect(),
            strategy: STRATEGY.to_owned(),
            vram_bytes: process.bytes(),
            by_device: process
                .devices
                .iter()
                .map(|(device, bytes)| DeviceMemory { device: device.clone(), bytes: *bytes })
                .collect(),
        };
        Self {
            section: GpuSection { processes: plan.processes.iter().map(process).collect() },
            gpus: visible(&plan.host, record, &plan.processes),
            driver_version: plan.host.driver_version.clone(),
            vram_bytes: plan.vram_bytes(),
        }
    }
}

/// The GPUs that the processes could see: those with nodes inside of the box, or all where there is none.
fn visible(host: &Host, record: Option<&Record>, processes: &[OnGpu]) -> Vec<Gpu> {
    let granted = record.filter(|record| !record.habitat.is_host() && !record.gpus.is_empty());
    let sees = |uuid: &String| {
        granted.is_none_or(|record| record.gpus.contains(uuid))
            || processes.iter().any(|process| process.devices.contains_key(uuid))
    };
    host.gpus.iter().filter(|gpu| sees(&gpu.uuid)).map(in_manifest).collect()
}

/// Writes to the journal what is about to be done to the GPU.
pub(crate) struct Noted<'a>(pub(crate) &'a Entry);

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
pub(crate) struct OffGpu {
    driver: Driver,
    pids: Vec<i32>,
    /// `None` once they are back, or when only their states can tell what they are.
    tree: Option<Tree<Checkpointed>>,
    since: Instant,
    paused: Duration,
}

impl OffGpu {
    /// Locks and checkpoints the processes of `plan`. On an error all run, or the error is [`LifecycleError::GpuStuck`].
    pub(crate) fn take(
        gpus: &Gpus,
        plan: &GpuPlan,
        init: i32,
        entry: &Entry,
        steps: &mut Steps<'_>,
    ) -> Result<Self> {
        let driver = gpus.driver()?;
        let targets = plan.targets();
        let pids: Vec<i32> = targets.iter().map(|target| target.pid).collect();
        entry.note_gpu(plan.processes.iter().map(|process| process.identity).collect());
        let mut notes = Noted(entry);
        let since = Instant::now();
        let locked = steps.run("lock the GPU", || Ok(driver.lock(&targets, &mut notes)?));
        let taken = locked.and_then(|locked| {
            steps.run("checkpoint the GPU", || {
                locked.checkpoint(&mut notes).map_err(|failure| LifecycleError::from(failure.error))
            })
        });
        let tree = match taken {
            Ok(tree) => tree,
            Err(error) => return Err(all_run(&driver, &pids, error)),
        };
        let mut off = Self { driver, pids, tree: Some(tree), since, paused: Duration::ZERO };
        let left = match left_behind(init) {
            Ok(None) => return Ok(off),
            Ok(Some(evidence)) => LifecycleError::LeftOnGpu { evidence },
            Err(error) => error.into(),
        };
        match off.back_for_good(entry, steps) {
            Ok(()) => Err(left),
            Err(error) => Err(error),
        }
    }

    /// How long work on the GPU stood still.
    pub(crate) fn paused(&self) -> Duration {
        self.paused
    }

    /// Brings them back in place. If that fails, they are as they were, and it may be tried again.
    pub(crate) fn bring_back(&mut self, entry: &Entry, steps: &mut Steps<'_>) -> Result<()> {
        if let Some(tree) = self.tree.take() {
            let mut kept = None;
            let restored = steps.run("restore the GPU", || {
                tree.restore(&GpuMap::identity(), &mut Noted(entry)).map_err(|(tree, error)| {
                    kept = Some(tree);
                    error.into()
                })
            });
            self.tree = kept;
            let locked = restored?;
            let unlocked = steps.run("unlock the GPU", || Ok(locked.unlock()?));
            if let Err(error) = unlocked {
                // Whatever it said: what counts is what they are.
                still(&self.driver, &self.pids).map_err(|_| error)?;
            }
        } else {
            still(&self.driver, &self.pids)?;
        }
        self.paused = self.since.elapsed();
        Ok(())
    }

    /// Brings them back, and again from whatever state they are in if that fails. What cannot be brought back stays off, and
    /// the error is [`LifecycleError::GpuStuck`].
    pub(crate) fn back_for_good(&mut self, entry: &Entry, steps: &mut Steps<'_>) -> Result<()> {
        let Err(first) = self.bring_back(entry, steps) else { return Ok(()) };
        self.again(first)
    }

    /// The second attempt, after the first has failed.
    pub(crate) fn again(&mut self, first: LifecycleError) -> Result<()> {
        if let Some(tree) = self.tree.take() {
            tree.ended();
        }
        let result = still(&self.driver, &self.pids);
        self.paused = self.since.elapsed();
        result.map_err(|_| stuck(&self.pids, first))
    }

    /// The processes are ended as they are.
    pub(crate) fn ended(mut self) {
        if let Some(tree) = self.tree.take() {
            tree.ended();
        }
    }
}

/// After an error: sees to it that all run, and says so if one does not.
fn all_run(driver: &Driver, pids: &[i32], error: LifecycleError) -> LifecycleError {
    // A call that hangs may have its effect at any time from now on: nobody can say what they will be.
    let hangs = !driver.abandoned().is_empty();
    match still(driver, pids) {
        Ok(()) if !hangs => error,
        _ => stuck(pids, error),
    }
}

fn stuck(pids: &[i32], error: LifecycleError) -> LifecycleError {
    LifecycleError::GpuStuck { pids: pids.to_vec(), source: Box::new(error) }
}

/// Makes all run, whatever they are. Processes that have ended need nothing.
pub(crate) fn still(driver: &Driver, pids: &[i32]) -> Result<(), CudaError> {
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
