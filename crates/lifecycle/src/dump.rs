//! The moment itself: CRIU freezes the tree and writes it out, and files are captured while it stands still.
//!
//! Two endings. A snapshot lets the tree go on at once ([`Leave::Running`]): it stands still only for as long as memory is
//! copied and files are cloned; hashing and storing come later. A suspend or rollback leaves it stopped
//! ([`Leave::Stopped`]), because nothing that happens after the snapshot may be lost or done twice; it is ended when the
//! snapshot is durable, and goes on if it never becomes so. In neither case do the staged images become the only copy of
//! anyone's work.

use std::path::PathBuf;
use std::time::Duration;

use checkpoint_criu::{DumpStats, Event, Hooks, Leave};
use preflight::Needs;
use sandbox::process::{self, Identity};
use staging::Staged;
use workspace::{CaptureRequest, FilePolicy, Listing, Pending};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::gpu::look::GpuPlan;
use crate::gpu::{GpuTaken, OffGpu};
use crate::journal::{Entry, Phase};
use crate::ports::{DumpWanted, Tree};
use crate::record::Record;
use crate::steps::Steps;

/// What is to be dumped, and how.
pub(crate) struct DumpPlan<'a> {
    pub(crate) record: &'a Record,
    pub(crate) leave: Leave,
    pub(crate) policy: &'a FilePolicy,
    /// Files that are captured whatever the policy says.
    pub(crate) named: &'a [PathBuf],
    /// What the snapshot before knows of files.
    pub(crate) parent: &'a Listing,
}

/// What came of it. The tree runs or is stopped, as asked; nothing is in the store yet.
pub(crate) struct Taken {
    pub(crate) staged: Staged,
    pub(crate) files: Pending,
    pub(crate) stats: DumpStats,
    pub(crate) warnings: Vec<String>,
    /// What it has on GPUs.
    pub(crate) gpu: Option<GpuTaken>,
    /// Processes that are off the GPU, if any were to be taken: brought back already if the tree runs and nothing failed.
    pub(crate) off: Option<OffGpu>,
    /// Why they could not be brought back.
    pub(crate) gpu_failure: Option<LifecycleError>,
    /// How long work on the GPU stood still; `None` if it still does.
    pub(crate) gpu_paused: Option<Duration>,
}

/// What was found out before anything was touched.
struct Checked {
    staged: Staged,
    warnings: Vec<String>,
    gpu: Option<GpuPlan>,
}

impl Engine {
    /// Looks for what would fail, takes the tree off the GPU, freezes, dumps and captures. On an error the tree goes on as if
    /// nothing had been, unless the error is [`LifecycleError::GpuStuck`]: then all but its work on the GPU goes on.
    pub(crate) fn dump(&self, plan: &DumpPlan<'_>, entry: &Entry, steps: &mut Steps<'_>) -> Result<Taken> {
        let record = plan.record;
        let init = record.living_init("be snapshotted")?;
        let habitat = self.habitat(record);
        let places = habitat.places(record);
        self.checkpointer().ready()?;
        let Checked { staged, warnings, gpu } = steps.run("preflight", || self.preflight(record, init))?;
        let log_dir = self.inner.place.criu_log(&record.id);
        let wanted = DumpWanted {
            init,
            images: staged.path(),
            log_dir: &log_dir,
            leave: plan.leave,
            watched: habitat.watched(record),
        };
        let mut hooks = DumpHooks {
            entry,
            capture: |pids: &[i32]| {
                let request = CaptureRequest {
                    user: &record.owner,
                    places: &places,
                    policy: plan.policy,
                    named: plan.named,
                    staging: staged.files(),
                    parent: plan.parent,
                };
                Ok(workspace::begin(&request, pids)?)
            },
            save: || habitat.save(record, staged.path()),
            init,
            files: None,
            failure: None,
        };
        // From here on every way out brings the processes back onto the GPU: `off` is a guard.
        let mut off = match &gpu {
            Some(plan) => Some(OffGpu::take(&self.inner.gpus, plan, init.pid, entry, steps)?),
            None => None,
        };
        let gpu = gpu.map(|plan| GpuTaken::of(&plan, Some(record)));
        let dumped = steps.run("freeze and dump", || {
            let dumped = self.checkpointer().dump(&Tree::of(record), &wanted, &mut hooks);
            match hooks.failure.take() {
                Some(failure) => Err(failure),
                None => dumped,
            }
        });
        let files = hooks.files;
        match (dumped, files) {
            (Ok(stats), Some(files)) => {
                // Before anything is stored: work on the GPU stands still until then.
                let gpu_failure = match &mut off {
                    Some(off) if plan.leave == Leave::Running => off.bring_back(entry, steps).err(),
                    _ => None,
                };
                let gpu_paused = match &off {
                    None => Some(Duration::ZERO),
                    Some(off) if plan.leave == Leave::Running => Some(off.paused()),
                    Some(_) => None,
                };
                Ok(Taken { staged, files, stats, warnings, gpu, off, gpu_failure, gpu_paused })
            }
            (result, _) => {
                self.checkpointer().release(init);
                if let Some(off) = &mut off {
                    off.back_for_good(entry, steps)?;
                }
                Err(result.err().unwrap_or_else(|| {
                    LifecycleError::Bug("CRIU did not say when the processes stood still".to_owned())
                }))
            }
        }
    }

    fn preflight(&self, record: &Record, init: Identity) -> Result<Checked> {
        let place = &self.inner.place;
        let seen = self.inner.gpus.see(init.pid)?;
        let needs = Needs {
            // It is found a place on disk or in memory below, where both are known.
            staging: None,
            store: place.store(),
            uid: (!record.habitat.is_host()).then_some(record.owner.uid),
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
        let gpu = seen.map(|seen| self.inner.gpus.plan(seen)).transpose()?;
        Ok(Checked { staged, warnings, gpu: gpu.filter(|plan| !plan.processes.is_empty()) })
    }
}

/// Listens to CRIU: writes its worker down, and captures files when everything stands still.
struct DumpHooks<'a, C, S> {
    entry: &'a Entry,
    capture: C,
    save: S,
    init: Identity,
    files: Option<Pending>,
    failure: Option<LifecycleError>,
}

impl<C: FnMut(&[i32]) -> Result<Pending>, S: FnMut() -> Result<()>> Hooks for DumpHooks<'_, C, S> {
    fn worker(&mut self, pid: i32, start_time: u64) {
        let worker = Some(Identity { pid, start_time });
        let phase = Phase::Dumping { worker };
        if let Err(error) = self.entry.enter(&phase) {
            self.failure = Some(error);
        }
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        if self.failure.is_some() {
            return Err("the journal cannot be written".to_owned());
        }
        if *event != Event::PostDump {
            return Ok(());
        }
        let tree = process::tree(self.init.pid).map_err(LifecycleError::from);
        let files = tree.and_then(|tree| {
            let pids: Vec<i32> = tree.iter().map(|process| process.pid).collect();
            (self.save)()?;
            (self.capture)(&pids)
        });
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
