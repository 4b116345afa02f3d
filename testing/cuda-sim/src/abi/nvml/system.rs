//! The library and the machine.
use std::ffi::c_char;

use super::types::{ConfComputeSettings, ConfComputeState};
use super::{check_version, manage, put_text};
use crate::abi::Out;
use crate::nvml::{self, Status};

manage! {
    fn nvmlInit() { nvml::init() }
    fn nvmlInit_v2() { nvml::init() }
    fn nvmlInitWithFlags(flags: u32) {
        // No GPUs, no attach: both are as good for us as none.
        if flags & !3 == 0 { nvml::init() } else { Err(Status::INVALID_ARGUMENT) }
    }
    fn nvmlShutdown() { nvml::shutdown() }

    fn nvmlSystemGetDriverVersion(version: Out<c_char>, length: u32) {
        put_text(version, length, &nvml::machine()?.driver)
    }
    fn nvmlSystemGetNVMLVersion(version: Out<c_char>, length: u32) {
        let machine = nvml::machine()?;
        put_text(version, length, &format!("{}.{}", machine.cuda / 1000, machine.driver))
    }
    fn nvmlSystemGetCudaDriverVersion(version: Out<i32>) { Ok(version.put(nvml::machine()?.cuda)?) }
    fn nvmlSystemGetCudaDriverVersion_v2(version: Out<i32>) { Ok(version.put(nvml::machine()?.cuda)?) }
    fn nvmlSystemGetProcessName(pid: u32, name: Out<c_char>, length: u32) {
        nvml::initialised()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).map_err(|_| Status::NOT_FOUND)?;
        let first = line.split(|byte| *byte == 0).next().unwrap_or_default();
        // The one text that is cut to fit.
        let room = usize::try_from(length).unwrap_or_default();
        Ok(name.put_text(&String::from_utf8_lossy(first), room)?)
    }
    fn nvmlSystemGetConfComputeState(state: Out<ConfComputeState>) {
        let feature = u32::from(nvml::machine()?.confidential);
        Ok(state.put(ConfComputeState { environment: 2 * feature, feature, dev_tools_mode: 0 })?)
    }
    fn nvmlSystemGetConfComputeSettings(settings: Out<ConfComputeSettings>) {
        let feature = u32::from(nvml::machine()?.confidential);
        let version = settings.given()?.version;
        check_version::<ConfComputeSettings>(version, 1)?;
        let environment = 2 * feature;
        Ok(settings.put(ConfComputeSettings { version, environment, feature, dev_tools_mode: 0, multi_gpu_mode: 0 })?)
    }
}

/// `nvmlErrorString`: works before `nvmlInit`.
// SAFETY: the name is one of the public management interface, which nothing else in our programs defines.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvmlErrorString(status: i32) -> *const c_char {
    Status(status).text().as_ptr()
}
