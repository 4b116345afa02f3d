//! Structures of `nvml.h`, as versions 11 to 13 have them. A test compares their layout with the header where it is at hand.
use std::ffi::c_char;

/// Of `nvmlDeviceGetPciInfo` and `_v2`: what all versions of the structure begin with. They are 52 bytes long.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct OlderPciInfo {
    pub(super) bus_id: [c_char; 16],
    pub(super) domain: u32,
    pub(super) bus: u32,
    pub(super) device: u32,
    pub(super) pci_device_id: u32,
    pub(super) pci_sub_system_id: u32,
}

/// `nvmlPciInfo_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct PciInfo {
    pub(super) older: OlderPciInfo,
    pub(super) bus_id: [c_char; 32],
}

/// `nvmlMemory_t`.
#[repr(C)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) used: u64,
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MemoryV2 {
    pub(super) version: u32,
    pub(super) total: u64,
    pub(super) reserved: u64,
    pub(super) free: u64,
    pub(super) used: u64,
}

/// `nvmlBAR1Memory_t`.
#[repr(C)]
pub(super) struct Bar1Memory {
    pub(super) total: u64,
    pub(super) free: u64,
    pub(super) used: u64,
}

/// `nvmlUtilization_t`.
#[repr(C)]
pub(super) struct Utilization {
    pub(super) gpu: u32,
    pub(super) memory: u32,
}

/// `nvmlProcessInfo_v1_t`.
#[repr(C)]
pub(super) struct ProcessInfoV1 {
    pub(super) pid: u32,
    pub(super) used_gpu_memory: u64,
}

/// `nvmlProcessInfo_v2_t`, which the third versions of the functions have too.
#[repr(C)]
pub(super) struct ProcessInfo {
    pub(super) pid: u32,
    pub(super) used_gpu_memory: u64,
    pub(super) gpu_instance_id: u32,
    pub(super) compute_instance_id: u32,
}

/// `nvmlProcessUtilizationSample_t`.
#[repr(C)]
pub(super) struct ProcessUtilizationSample {
    pub(super) pid: u32,
    pub(super) time_stamp: u64,
    pub(super) sm_util: u32,
    pub(super) mem_util: u32,
    pub(super) enc_util: u32,
    pub(super) dec_util: u32,
}

/// `nvmlTemperature_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Temperature {
    pub(super) version: u32,
    pub(super) sensor: u32,
    pub(super) degrees: i32,
}

/// `nvmlConfComputeSystemState_t`.
#[repr(C)]
pub(super) struct ConfComputeState {
    pub(super) environment: u32,
    pub(super) feature: u32,
    pub(super) dev_tools_mode: u32,
}

/// `nvmlSystemConfComputeSettings_v1_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ConfComputeSettings {
    pub(super) version: u32,
    pub(super) environment: u32,
    pub(super) feature: u32,
    pub(super) dev_tools_mode: u32,
    pub(super) multi_gpu_mode: u32,
}
