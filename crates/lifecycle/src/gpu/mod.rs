//! The GPU's part of every pipeline.
//!
//! Process state and GPU state are taken in two stages, always in this order, and in the reverse order brought back:
//!
//! 1. *look* ([`look`]): who in the tree uses a GPU, and is there anything that the driver cannot take? Everything that could
//!    refuse is asked here, with nothing touched. A tree that uses no GPU pays for a look into `/proc` and no more.
//! 2. *off the GPU* ([`stage`]): the driver locks all CUDA processes of the tree, then checkpoints all, while the tree runs. Their
//!    device memory is then ordinary memory of theirs, and the descriptors of the devices are closed.
//! 3. CRIU freezes and dumps what are ordinary processes now.
//! 4. *back onto the GPU* ([`stage`], [`onto`]): all are restored, then all are unlocked.
//!
//! A frozen process can never be locked, so nothing may freeze the tree before 2 is done, and CRIU's own CUDA plugin is
//! kept out (it would restore and unlock behind our back).
//!
//! Every lock is a guard (`checkpoint_cuda::Tree`, whose drop undoes it) and a line in the [journal](crate::journal), so neither a
//! panic nor a kill leaves a process locked: see [`recover`]. What the driver will not give back is said in the record
//! (`gpu_trouble`) and tried again by a resume, by the next operation and by the next start.
//!
//! Which GPU takes whose place at a restore is decided by [`placement`], and nobody is promised the same bytes twice
//! ([`reserve`]).

pub(crate) mod look;
mod onto;
mod placement;
mod recover;
mod reserve;
mod stage;
mod wish;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use checkpoint_cuda::{Driver, Limits, Settings};
use gpu_detect::{Host, HostGpu};
use manifest::host::Gpu;

use crate::config::GpuConfig;
use crate::error::{LifecycleError, Result};

pub(crate) use onto::{GpuAim, Placed, Wanted, nodes_for};
pub(crate) use recover::{Gone, explain};
pub(crate) use reserve::Reservations;
pub(crate) use stage::{GpuTaken, OffGpu};

/// How long NVML may take to tell what there is.
const HOST_LIMIT: Duration = Duration::from_secs(10);
/// How old the answer may be for a listing.
const FRESH: Duration = Duration::from_secs(1);
/// The worker's program.
const WORKER: &str = "infinijup-gpu";
/// Where device nodes are.
const DEV: &str = "/dev";

/// The machine's GPUs and the way to their driver. Nothing is started or loaded before it is needed.
pub(crate) struct Gpus {
    config: GpuConfig,
    driver: Mutex<Option<Driver>>,
    seen: Mutex<Option<(Instant, Option<Host>)>>,
    pub(crate) reservations: Reservations,
}

impl Gpus {
    pub(crate) fn new(config: GpuConfig) -> Self {
        Self {
            config,
            driver: Mutex::default(),
            seen: Mutex::default(),
            reservations: Reservations::default(),
        }
    }

    /// Whether there is a driver at all: the one question that is asked on machines without GPUs.
    pub(crate) fn present(&self) -> bool {
        Path::new(DEV).join("nvidiactl").exists()
    }

    /// The driver; its worker is started at first use, and again when it could not be before.
    pub(crate) fn driver(&self) -> Result<Driver> {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = &*driver {
            return Ok(driver.clone());
        }
        let mut limits = Limits::default();
        limits.lock = self.config.lock_limit.unwrap_or(limits.lock);
        if let Some(limit) = self.config.step_limit {
            limits.step = limit;
            limits.unlock = limits.unlock.min(limit);
        }
        let opened = Driver::open(Settings {
            worker: worker_program(self.config.program.as_deref())?,
            library: None,
            tool: self.config.cuda_checkpoint.clone(),
            limits,
        })?;
        Ok(driver.insert(opened).clone())
    }

    /// The driver, if it has been needed before.
    pub(crate) fn driver_in_use(&self) -> Option<Driver> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What there is now.
    pub(crate) fn host(&self) -> Result<Host> {
        Ok(gpu_detect::host(HOST_LIMIT)?)
    }

    /// What there was a moment ago, for listings; `None` where there is nothing or it does not answer.
    pub(crate) fn host_lately(&self) -> Option<Host> {
        if !self.present() {
            return None;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, host)) = &*seen
            && when.elapsed() < FRESH
        {
            return host.clone();
        }
        let host = self.host().ok();
        *seen = Some((Instant::now(), host.clone()));
        host
    }
}

/// `infinijup-gpu`: the one that is named, else beside the running program, else where packages put it.
fn worker_program(explicit: Option<&Path>) -> Result<PathBuf> {
    if let Some(path) = explicit {
        return Ok(path.to_owned());
    }
    let mut places: Vec<PathBuf> = Vec::new();
    if let Ok(here) = std::env::current_exe() {
        // A test runs from target/debug/deps and finds the program one level higher.
        places.extend(here.ancestors().skip(1).take(2).map(|directory| directory.join(WORKER)));
    }
    places.push(Path::new("/usr/lib/infinijup").join(WORKER));
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|path| format!("`{}`", path.display())).collect();
        LifecycleError::NoGpuProgram { looked }
    })
}

/// A GPU in the words of a manifest.
pub(crate) fn in_manifest(gpu: &HostGpu) -> Gpu {
    Gpu {
        uuid: gpu.uuid.clone(),
        pci_id: gpu.pci_id.clone(),
        bus_id: gpu.bus_id.clone(),
        name: gpu.name.clone(),
        memory_bytes: gpu.memory_bytes,
        nvlink_peers: gpu.nvlink_peers.iter().cloned().collect(),
        mig: gpu.mig.clone(),
        compute_capability: gpu.compute_capability.clone(),
    }
}

/// How much of each GPU these processes use, by NVML's word.
pub(crate) fn used_by(host: &Host, pids: &[i32]) -> Vec<(String, u64)> {
    let uses = |gpu: &HostGpu| {
        gpu.processes
            .iter()
            .filter(|one| i32::try_from(one.pid).is_ok_and(|pid| pids.contains(&pid)))
            .filter_map(|one| one.bytes)
            .fold(0_u64, u64::saturating_add)
    };
    host.gpus.iter().map(|gpu| (gpu.uuid.clone(), uses(gpu))).filter(|(_, bytes)| *bytes > 0).collect()
}
