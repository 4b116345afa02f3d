//! What the machine of a trial does not have.

use doctor::Finding;
use manifest::snapshot::GpuSection;
use sandbox::User;
use sandbox::process::Identity;

use crate::error::{LifecycleError, Result};
use crate::ports::{
    Examine, Gpu, GpuHeld, GpuHost, GpuJournal, GpuLook, GpuPlan, GpuWanted, Granted, OffGpu, Placed,
};
use crate::record::GpuWish;
use crate::steps::Steps;

/// No GPUs, and nobody to look at anything.
pub(super) struct Nothing;

impl Gpu for Nothing {
    fn host(&self) -> Result<GpuHost> {
        Ok(GpuHost::default())
    }

    fn held_by(&self, _: i32) -> Option<u64> {
        None
    }

    fn grant(&self, _: &GpuWish, _: &User) -> Result<Granted> {
        Ok(Granted::default())
    }

    fn look(&self, _: i32) -> Result<Option<GpuLook>> {
        Ok(None)
    }

    fn take_off(
        &self,
        _: &GpuPlan,
        _: i32,
        _: &dyn GpuJournal,
        _: &mut Steps<'_>,
    ) -> Result<Box<dyn OffGpu>> {
        Err(none())
    }

    fn place(&self, _: &GpuHeld, _: &GpuWanted<'_>) -> Result<Placed> {
        Err(none())
    }

    fn place_as_before(&self, _: GpuSection) -> Result<Placed> {
        Err(none())
    }

    fn wait_for_worker(&self, _: Identity) {}

    fn bring_back(&self, _: &[Identity]) -> Result<()> {
        Ok(())
    }

    fn bring_back_tree(&self, _: Identity) -> Result<()> {
        Ok(())
    }

    fn must_wait(&self, _: &[Identity]) -> bool {
        false
    }
}

fn none() -> LifecycleError {
    LifecycleError::BadRequest { detail: "there is no GPU in a trial".to_owned() }
}

impl Examine for Nothing {
    fn examine(&self, _: &mut dyn FnMut() -> Result<String, String>) -> Vec<Finding> {
        Vec::new()
    }
}
