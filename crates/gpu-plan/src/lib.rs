//! What is to be done with GPUs, decided before anything is touched.
//!
//! A snapshot takes processes off their GPUs, a restore puts them onto GPUs again, which may be others. Both can fail halfway, with
//! somebody's work locked; so everything that can be known beforehand is asked here:
//!
//! * [`look`]: who in a tree uses a GPU, and is there anything that the driver cannot take?
//! * [`wish`]: which GPUs does somebody mean by `0` or `GPU-5a…`?
//! * [`placement`]: which GPU takes whose place at a restore?
//! * [`reserve`]: nobody is promised the same bytes twice.
//!
//! [`Gpus`] is the way to the driver and to what there is. Nothing here locks, moves or restores; whoever does goes by the plan.

#![forbid(unsafe_code)]

mod error;
pub mod look;
pub mod placement;
pub mod reserve;
pub mod wish;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use checkpoint_cuda::{Driver, Limits, Settings};
use gpu_detect::{Host, HostGpu};
use manifest::host::Gpu;

pub use error::{GpuPlanError, Result};
use reserve::Reservations;

/// How long NVML may take to tell what there is.
const HOST_LIMIT: Duration = Duration::from_secs(10);
/// How old the answer may be for a listing.
const FRESH: Duration = Duration::from_secs(1);
/// The worker's program.
const WORKER: &str = "infinijup-gpu";
/// Where device nodes are.
pub const DEV: &str = "/dev";

/// Settings for GPUs. Nothing of it matters on a machine without an NVIDIA driver.
#[derive(Clone, Default, Debug)]
pub struct GpuConfig {
    /// `infinijup-gpu`, if it is not to be looked for.
    pub program: Option<PathBuf>,
    /// NVIDIA's `cuda-checkpoint`, for a driver whose library has no checkpoint calls.
    pub cuda_checkpoint: Option<PathBuf>,
    /// How long a process may take to finish its work on the GPU and be locked.
    pub lock_limit: Option<Duration>,
    /// How long the driver may take to move a process off or onto a GPU, before what its memory adds.
    pub step_limit: Option<Duration>,
}

/// The machine's GPUs and the way to their driver. Nothing is started or loaded before it is needed.
pub struct Gpus {
    config: GpuConfig,
    driver: Mutex<Option<Driver>>,
    seen: Mutex<Option<(Instant, Option<Host>)>>,
    /// Who was promised how much of which.
    pub reservations: Reservations,
}

impl Gpus {
    /// With these settings.
    pub fn new(config: GpuConfig) -> Self {
        Self {
            config,
            driver: Mutex::default(),
            seen: Mutex::default(),
            reservations: Reservations::default(),
        }
    }

    /// Whether there is a driver at all: the one question that is asked on machines without GPUs.
    pub fn present(&self) -> bool {
        Path::new(DEV).join("nvidiactl").exists()
    }

    /// The driver; its worker is started at first use, and again when it could not be before.
    pub fn driver(&self) -> Result<Driver> {
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
    pub fn driver_in_use(&self) -> Option<Driver> {
        self.driver.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What there is now.
    pub fn host(&self) -> Result<Host> {
        Ok(gpu_detect::host(HOST_LIMIT)?)
    }

    /// What there was a moment ago, for listings; `None` where there is nothing or it does not answer.
    pub fn host_lately(&self) -> Option<Host> {
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
        GpuPlanError::NoProgram { looked }
    })
}

/// A GPU in the words of a manifest.
pub fn in_manifest(gpu: &HostGpu) -> Gpu {
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
pub fn used_by(host: &Host, pids: &[i32]) -> Vec<(String, u64)> {
    let uses = |gpu: &HostGpu| {
        gpu.processes
            .iter()
            .filter(|one| i32::try_from(one.pid).is_ok_and(|pid| pids.contains(&pid)))
            .filter_map(|one| one.bytes)
            .fold(0_u64, u64::saturating_add)
    };
    host.gpus.iter().map(|gpu| (gpu.uuid.clone(), uses(gpu))).filter(|(_, bytes)| *bytes > 0).collect()
}
