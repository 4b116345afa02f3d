//! The layout of our structures, to be compared with `nvml.h`, which is NVIDIA's and not in this repository.
use std::mem::offset_of;

use super::types::{
    Bar1Memory, ConfComputeSettings, ConfComputeState, Memory, MemoryV2, OlderPciInfo, PciInfo, ProcessInfo,
    ProcessInfoV1, ProcessUtilizationSample, Temperature, Utilization,
};

/// C's name of a structure, our size of it, C's name of a field, our offset of it.
pub(crate) fn layouts() -> Vec<(&'static str, usize, &'static str, usize)> {
    vec![
        ("nvmlPciInfo_t", size_of::<PciInfo>(), "busId", offset_of!(PciInfo, bus_id)),
        ("nvmlPciInfo_t", size_of::<PciInfo>(), "pciDeviceId", offset_of!(OlderPciInfo, pci_device_id)),
        ("nvmlMemory_t", size_of::<Memory>(), "used", offset_of!(Memory, used)),
        ("nvmlMemory_v2_t", size_of::<MemoryV2>(), "used", offset_of!(MemoryV2, used)),
        ("nvmlMemory_v2_t", size_of::<MemoryV2>(), "reserved", offset_of!(MemoryV2, reserved)),
        ("nvmlBAR1Memory_t", size_of::<Bar1Memory>(), "bar1Used", offset_of!(Bar1Memory, used)),
        ("nvmlUtilization_t", size_of::<Utilization>(), "memory", offset_of!(Utilization, memory)),
        (
            "nvmlProcessInfo_v1_t",
            size_of::<ProcessInfoV1>(),
            "usedGpuMemory",
            offset_of!(ProcessInfoV1, used_gpu_memory),
        ),
        (
            "nvmlProcessInfo_t",
            size_of::<ProcessInfo>(),
            "computeInstanceId",
            offset_of!(ProcessInfo, compute_instance_id),
        ),
        (
            "nvmlProcessUtilizationSample_t",
            size_of::<ProcessUtilizationSample>(),
            "decUtil",
            offset_of!(ProcessUtilizationSample, dec_util),
        ),
        ("nvmlTemperature_v1_t", size_of::<Temperature>(), "temperature", offset_of!(Temperature, degrees)),
        (
            "nvmlConfComputeSystemState_t",
            size_of::<ConfComputeState>(),
            "devToolsMode",
            offset_of!(ConfComputeState, dev_tools_mode),
        ),
        (
            "nvmlSystemConfComputeSettings_v1_t",
            size_of::<ConfComputeSettings>(),
            "multiGpuMode",
            offset_of!(ConfComputeSettings, multi_gpu_mode),
        ),
    ]
}

#[cfg(test)]
mod tests {
    /// What a compiler said of the header of CUDA 13.4; `tests/nvml_header.rs` asks it again.
    const THEIRS: &[(&str, usize, &str, usize)] = &[
        ("nvmlPciInfo_t", 68, "busId", 36),
        ("nvmlPciInfo_t", 68, "pciDeviceId", 28),
        ("nvmlMemory_t", 24, "used", 16),
        ("nvmlMemory_v2_t", 40, "used", 32),
        ("nvmlMemory_v2_t", 40, "reserved", 16),
        ("nvmlBAR1Memory_t", 24, "bar1Used", 16),
        ("nvmlUtilization_t", 8, "memory", 4),
        ("nvmlProcessInfo_v1_t", 16, "usedGpuMemory", 8),
        ("nvmlProcessInfo_t", 24, "computeInstanceId", 20),
        ("nvmlProcessUtilizationSample_t", 32, "decUtil", 28),
        ("nvmlTemperature_v1_t", 12, "temperature", 8),
        ("nvmlConfComputeSystemState_t", 12, "devToolsMode", 8),
        ("nvmlSystemConfComputeSettings_v1_t", 20, "multiGpuMode", 16),
    ];

    #[test]
    fn structures_are_laid_out_as_in_the_header() {
        assert_eq!(super::layouts(), THEIRS);
    }
}
