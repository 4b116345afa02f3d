//! NVIDIA's GPUs as the pipelines' [`Gpu`].
//!
//! What there is comes from `gpu-detect`, the plan from `gpu-plan`, and the driver is called by `checkpoint-cuda`, in a worker process of its
//! own. CRIU's own CUDA plugin is kept out: it would restore and unlock behind our back.
//!
//! Which GPU takes whose place at a restore is decided by `gpu-plan`, and nobody is promised the same bytes twice.

mod beside;
mod error;
mod gone;
mod off;
mod onto;
mod plan;

use std::path::Path;
use std::sync::Arc;

use checkpoint_cuda::Capabilities;
use gpu_plan::{GpuConfig, Gpus, in_manifest, used_by};
use lifecycle::ports::{
    Gpu, GpuHeld, GpuHost, GpuJournal, GpuLook, GpuPlan, GpuWanted, Granted, OffGpu, Placed, Steps, Storing,
};
use lifecycle::{GpuWish, Result};
use manifest::snapshot::GpuSection;
use sandbox::User;
use sandbox::process::Identity;

use error::{cuda, planning};
use gone::Gone;
use off::{TakenOff, all_run};
use onto::pids_of;

/// The machine's GPUs.
pub(crate) struct Nvidia {
    gpus: Arc<Gpus>,
    /// Workers of earlier daemons that hang in the driver.
    gone: Gone,
}

impl Nvidia {
    pub(crate) fn new(config: GpuConfig) -> Self {
        Self { gpus: Arc::new(Gpus::new(config)), gone: Gone::default() }
    }

    /// What the driver can do.
    pub(crate) fn capabilities(&self) -> Result<Capabilities> {
        Ok(self.gpus.driver().map_err(planning)?.capabilities())
    }
}

impl Gpu for Nvidia {
    fn host(&self) -> Result<GpuHost> {
        let host = self.gpus.host().map_err(planning)?;
        Ok(GpuHost { gpus: host.gpus.iter().map(in_manifest).collect(), driver_version: host.driver_version })
    }

    fn held_by(&self, init: i32) -> Option<u64> {
        let host = self.gpus.host_lately()?;
        let pids = pids_of(init).ok()?;
        Some(used_by(&host, &pids).iter().fold(0_u64, |all, (_, bytes)| all.saturating_add(*bytes)))
    }

    fn grant(&self, wish: &GpuWish, user: &User) -> Result<Granted> {
        onto::grant(&self.gpus, wish, user)
    }

    fn look(&self, init: i32) -> Result<Option<GpuLook>> {
        plan::look(&self.gpus, init)
    }

    fn take_off(
        &self,
        plan: &GpuPlan,
        init: i32,
        beside: Option<&Storing>,
        journal: &dyn GpuJournal,
        steps: &mut Steps<'_>,
    ) -> Result<Box<dyn OffGpu>> {
        let driver = self.gpus.driver().map_err(planning)?;
        Ok(Box::new(TakenOff::take(driver, plan, init, beside, journal, steps)?))
    }

    fn place(&self, held: &GpuHeld, wanted: &GpuWanted<'_>) -> Result<Placed> {
        onto::place(&self.gpus, held, wanted)
    }

    fn place_as_before(&self, section: GpuSection) -> Result<Placed> {
        onto::place_as_before(&self.gpus, section)
    }

    fn wait_for_worker(&self, worker: Identity) {
        self.gone.wait(worker);
    }

    fn bring_back(&self, processes: &[Identity], beside: &Path) -> Result<()> {
        let pids: Vec<i32> = processes.iter().filter(|one| one.is_alive()).map(|one| one.pid).collect();
        if !pids.is_empty() {
            let driver = self.gpus.driver().map_err(planning)?;
            all_run(&driver, &pids, Some(beside)).map_err(cuda)?;
        }
        beside::remove(beside);
        Ok(())
    }

    fn bring_back_tree(&self, init: Identity, beside: &Path) -> Result<()> {
        if !self.gpus.present() {
            return Ok(());
        }
        let driver = self.gpus.driver().map_err(planning)?;
        let found = driver.find(&pids_of(init.pid)?).map_err(cuda)?;
        let found: Vec<i32> = found.iter().map(|process| process.pid).collect();
        all_run(&driver, &found, Some(beside)).map_err(cuda)?;
        beside::remove(beside);
        Ok(())
    }

    fn must_wait(&self, processes: &[Identity]) -> bool {
        let Some(driver) = self.gpus.driver_in_use() else { return false };
        let stands_still = |one: &Identity| one.is_alive() && driver.stands_still(one.pid);
        !driver.abandoned().is_empty() || processes.iter().any(stands_still)
    }
}
