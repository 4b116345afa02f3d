//! The moment itself: CRIU freezes the tree and writes it out, and files are captured while it stands still.
//!
//! Two endings. A snapshot lets the tree go on at once ([`Leave::Running`]): it stands still only for as long as memory is
//! copied and files are cloned; hashing and storing come later. A suspend or rollback leaves it stopped
//! ([`Leave::Stopped`]), because nothing that happens after the snapshot may be lost or done twice; it is ended when the
//! snapshot is durable, and goes on if it never becomes so. In neither case do the staged images become the only copy of
//! anyone's work.

use std::path::PathBuf;
use std::time::Duration;

use checkpoint_criu::{
    DumpOptions, DumpStats, Event, ExternalMount, ExternalNetwork, Hooks, Leave, MemoryPath, Runner,
};
use sandbox::process::{self, Identity};

use crate::attach::runner_beside;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::gpu::look::GpuPlan;
use crate::gpu::{GpuTaken, OffGpu};
use crate::journal::{Entry, Phase};
use crate::preflight::{self, Needs};
use crate::record::{Network, Record};
use crate::request::FilePolicy;
use crate::staging::Staged;
use crate::steps::Steps;
use crate::workspace::{self, CaptureRequest, Listing, Pending, Places};

/// CRIU's name for the session's network.
pub(crate) const NETWORK_KEY: &str = "net";

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
        let options = DumpOptions {
            tree: init.pid,
            images: staged.path().to_owned(),
            log_dir: self.inner.place.criu_log(&record.id),
            leave: plan.leave,
            mounts: record
                .mounts
                .iter()
                .map(|mount| ExternalMount { key: mount.key.clone(), path: mount.inside.clone() })
                .collect(),
            network: external_network(record, init)?,
            unix_sockets: false,
            shell_job: record.attached,
            time_limit: self.inner.config.criu_limit,
            // Not in the session's cgroup: what CRIU writes to a tmpfs would be charged to the session.
            runner: match record.attached {
                true => runner_beside(&self.inner.program, &record.owner, kdat),
                false => Runner(sandbox::real_ids_runner(&self.inner.program, &record.owner, kdat, None)),
            },
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
                workspace::begin(&request, pids)
            },
            init,
            files: None,
            failure: None,
        };
        // From here on every way out brings the processes back onto the GPU: `off` is a guard.
        let mut off = match &gpu {
            Some(plan) => Some(self.inner.gpus.take_off(plan, init.pid, entry, steps)?),
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
            staging: place.state.join("staging"),
            store: place.user(record.owner.uid),
            staging_in_memory: false,
            uid: (!record.attached).then_some(record.owner.uid),
            known_mounts: record.mounts.iter().map(|mount| mount.inside.clone()).collect(),
            boxed: !record.attached,
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
        let staged = self.inner.stages.stage_beside(memory_bytes, needs.vram_bytes)?;
        let gpu = seen.map(|seen| self.inner.gpus.plan(seen)).transpose()?;
        Ok(Checked { staged, warnings, gpu: gpu.filter(|plan| !plan.processes.is_empty()) })
    }
}

/// How paths inside the session relate to paths outside.
pub(crate) fn places(record: &Record) -> Places {
    match record.mount("workspace") {
        Some(mount) => Places::of_box(&mount.inside, &mount.source, &record.outside_copies),
        None => Places::of_host(Some(&record.workspace)),
    }
}

fn external_network(record: &Record, init: Identity) -> Result<Option<ExternalNetwork>> {
    if record.attached || record.network == Network::Host {
        return Ok(None);
    }
    let inode = process::namespace_inode(init.pid, "net")?;
    Ok(Some(ExternalNetwork { key: NETWORK_KEY.to_owned(), inode }))
}

/// Listens to CRIU: writes its worker down, and captures files when everything stands still.
struct DumpHooks<'a, C> {
    entry: &'a Entry,
    capture: C,
    init: Identity,
    files: Option<Pending>,
    failure: Option<LifecycleError>,
}

impl<C: FnMut(&[i32]) -> Result<Pending>> Hooks for DumpHooks<'_, C> {
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
