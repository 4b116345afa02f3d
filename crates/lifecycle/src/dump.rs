//! The moment itself: CRIU freezes the tree and writes it out, and files are captured while it stands still.
//!
//! Two endings. A snapshot lets the tree go on at once ([`Leave::Running`]): it stands still only for as long as memory is
//! copied and files are cloned; hashing and storing come later. A suspend or rollback leaves it stopped
//! ([`Leave::Stopped`]), because nothing that happens after the snapshot may be lost or done twice; it is ended when the
//! snapshot is durable, and goes on if it never becomes so. In neither case do the staged images become the only copy of
//! anyone's work.

use std::path::PathBuf;
use std::time::Duration;

use checkpoint_criu::{DumpOptions, DumpStats, Event, Habitat, Hooks, Leave, MemoryPath};
use preflight::Needs;
use sandbox::process::{self, Identity};
use staging::Staged;
use workspace::{CaptureRequest, FilePolicy, Listing, Pending, Places};

use crate::attach::runner_beside;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::gpu::look::GpuPlan;
use crate::gpu::{GpuTaken, OffGpu};
use crate::journal::{Entry, Phase};
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
        let places = places(record);
        let (criu, kdat) = self.criu()?;
        let Checked { staged, warnings, gpu } = steps.run("preflight", || self.preflight(record, init))?;
        let log_dir = self.inner.place.criu_log(&record.id);
        let (runner, habitat) = match record.holder {
            Some(holder) => self.criu_in_box(holder, kdat, staged.path(), &log_dir),
            None => {
                let (_, notes) = self.criu_for_host()?;
                (runner_beside(&self.inner.program, &record.owner, notes), Habitat::Host)
            }
        };
        let options = DumpOptions {
            tree: init.pid,
            habitat,
            images: staged.path().to_owned(),
            log_dir,
            leave: plan.leave,
            watched: watched(record),
            unix_sockets: false,
            shell_job: record.attached,
            time_limit: self.inner.config.criu_limit,
            runner,
            memory: MemoryPath::Images,
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
            save: || match record.holder {
                Some(holder) => self.save_box(holder, staged.path()),
                None => Ok(()),
            },
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
            let dumped = criu.dump(&options, &mut hooks);
            match hooks.failure.take() {
                Some(failure) => Err(failure),
                None => Ok(dumped?),
            }
        });
        let files = hooks.files;
        match (dumped, files) {
            (Ok(dumped), Some(files)) => {
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
                Ok(Taken { staged, files, stats: dumped.stats, warnings, gpu, off, gpu_failure, gpu_paused })
            }
            (result, _) => {
                let _gone = checkpoint_criu::release(init.pid);
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
            uid: (!record.attached).then_some(record.owner.uid),
            boxed: record.holder.map(|holder| (self.inner.program.clone(), holder)),
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

/// How paths inside the session relate to paths outside.
pub(crate) fn places(record: &Record) -> Places {
    match record.attached {
        false => Places::of_box(&record.workspace, &record.files_at, &record.outside_copies),
        true => Places::of_host(Some(&record.workspace)),
    }
}

/// Where files may be that a session watches.
fn watched(record: &Record) -> Vec<PathBuf> {
    if record.attached { Vec::new() } else { vec![record.workspace.clone()] }
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
