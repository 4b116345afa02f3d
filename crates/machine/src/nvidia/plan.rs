//! Who is to be taken off GPUs, in the words of the pipelines.

use std::sync::Arc;

use gpu_plan::look::{GpuPlan as Found, OnGpu};
use gpu_plan::{Gpus, in_manifest};
use lifecycle::Result;
use lifecycle::ports::{GpuHost, GpuLook, GpuPlan};
use manifest::snapshot::{DeviceMemory, GpuProcess, GpuSection};

use super::error::planning;

/// The manifest's word for how it was taken.
const STRATEGY: &str = "driver";

/// What `/proc` and NVML say of a tree, and how the driver is asked.
pub(super) fn look(gpus: &Arc<Gpus>, init: i32) -> Result<Option<GpuLook>> {
    let Some(seen) = gpus.see(init).map_err(planning)? else { return Ok(None) };
    let gpus = Arc::clone(gpus);
    Ok(Some(GpuLook {
        refusals: seen.refusals.clone(),
        warnings: seen.warnings.clone(),
        on_gpu: seen.on_gpu.clone(),
        vram_bytes: seen.vram_bytes,
        plan: Box::new(move || {
            let found = gpus.plan(seen).map_err(planning)?;
            let beside = gpus.driver().map_err(planning)?.capabilities().custom_storage;
            Ok((!found.processes.is_empty()).then(|| plan(&found, beside)))
        }),
    }))
}

fn plan(found: &Found, beside: bool) -> GpuPlan {
    GpuPlan {
        processes: found.processes.iter().map(|process| process.identity).collect(),
        section: GpuSection { processes: found.processes.iter().map(process).collect() },
        host: GpuHost {
            gpus: found.host.gpus.iter().map(in_manifest).collect(),
            driver_version: found.host.driver_version.clone(),
        },
        beside,
    }
}

fn process(process: &OnGpu) -> GpuProcess {
    GpuProcess {
        pid: process.inside,
        devices: process.devices.keys().cloned().collect(),
        strategy: STRATEGY.to_owned(),
        vram_bytes: process.bytes(),
        by_device: process
            .devices
            .iter()
            .map(|(device, bytes)| DeviceMemory { device: device.clone(), bytes: *bytes })
            .collect(),
    }
}
