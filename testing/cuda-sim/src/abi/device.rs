//! Exported functions: the start, the version, devices, and the texts of codes.
use std::ffi::{c_char, c_void};

use super::{Out, Text, export};
use crate::client;
use crate::code::{Code, Result};
use crate::wire::{GpuInfo, MemoryInfo};

export! {
    fn cuInit(flags: u32) {
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        client::init()
    }

    fn cuDriverGetVersion(version: Out<i32>) {
        version.put(client::level().cuda())
    }

    fn cuDeviceGetCount(count: Out<i32>) {
        let devices = client::enter()?.client.tables().devices.len();
        count.put(i32::try_from(devices).unwrap_or(i32::MAX))
    }

    fn cuDeviceGet(device: Out<i32>, ordinal: i32) {
        client::enter()?.client.tables().device(ordinal)?;
        device.put(ordinal)
    }

    fn cuDeviceGetName(name: Out<c_char>, room: i32, device: i32) {
        name.put_text(&gpu(device)?.name, usize::try_from(room).map_err(|_| Code::INVALID_VALUE)?)
    }

    fn cuDeviceGetUuid(uuid: Out<[u8; 16]>, device: i32) {
        uuid.put(gpu(device)?.uuid)
    }

    fn cuDeviceGetUuid_v2(uuid: Out<[u8; 16]>, device: i32) {
        uuid.put(gpu(device)?.uuid)
    }

    fn cuDeviceTotalMem_v2(bytes: Out<u64>, device: i32) {
        bytes.put(gpu(device)?.memory)
    }

    fn cuDeviceGetAttribute(value: Out<i32>, attribute: i32, device: i32) {
        value.put(super::attributes::attribute(&gpu(device)?, attribute)?)
    }

    fn cuDeviceComputeCapability(major: Out<i32>, minor: Out<i32>, device: i32) {
        let [high, low] = gpu(device)?.capability;
        major.put(high.cast_signed())?;
        minor.put(low.cast_signed())
    }

    fn cuDeviceGetPCIBusId(text: Out<c_char>, room: i32, device: i32) {
        let text_of = bus_id(&gpu(device)?);
        text.put_text(&text_of, usize::try_from(room).map_err(|_| Code::INVALID_VALUE)?)
    }

    fn cuDeviceGetByPCIBusId(device: Out<i32>, text: Text) {
        let text = text.get()?;
        let wanted = text.to_str().ok().and_then(parse_bus_id).ok_or(Code::INVALID_VALUE)?;
        let call = client::enter()?;
        let found = call.client.tables().devices.iter().position(|known| known.gpu.pci == wanted);
        device.put(found.and_then(|found| i32::try_from(found).ok()).ok_or(Code::INVALID_DEVICE)?)
    }

    fn cuDeviceCanAccessPeer(can: Out<i32>, device: i32, peer: i32) {
        let (one, other) = (gpu(device)?, gpu(peer)?);
        can.put((device != peer && one.chip == other.chip).into())
    }

    fn cuDeviceGetP2PAttribute(value: Out<i32>, attribute: i32, device: i32, peer: i32) {
        let (one, other) = (gpu(device)?, gpu(peer)?);
        let can = device != peer && one.chip == other.chip;
        // Access, and native atomics over it; the rank is 0 and arrays are not there.
        value.put((matches!(attribute, 2 | 3) && can).into())
    }

    fn cuDeviceGetExecAffinitySupport(supported: Out<i32>, _kind: i32, device: i32) {
        gpu(device)?;
        supported.put(0)
    }

    fn cuGetErrorName(code: i32, text: Out<*const c_char>) {
        let Some(name) = Code(code).name() else {
            text.put(std::ptr::null())?;
            return Err(Code::INVALID_VALUE);
        };
        text.put(name.as_ptr())
    }

    fn cuGetErrorString(code: i32, text: Out<*const c_char>) {
        let Some(sentence) = Code(code).text() else {
            text.put(std::ptr::null())?;
            return Err(Code::INVALID_VALUE);
        };
        text.put(sentence.as_ptr())
    }

    fn cuMemGetInfo_v2(free: Out<u64>, total: Out<u64>) {
        let call = client::enter()?;
        let device = call.context()?.1.device;
        let gpu = call.client.tables().devices.get(device).map(|device| device.gpu.index).ok_or(Code::INVALID_DEVICE)?;
        let info: MemoryInfo = call.core(crate::wire::Core::Info { gpu })?;
        free.put(info.free)?;
        total.put(info.total)
    }

    fn cuProfilerStart() {
        Ok(())
    }

    fn cuProfilerStop() {
        Ok(())
    }

    fn cuGetExportTable(table: Out<*const c_void>, _id: super::In<[u8; 16]>) {
        // The private tables of the real driver: none here, on purpose.
        table.put_if(std::ptr::null());
        Err(Code::NOT_SUPPORTED)
    }
}

/// The GPU of an ordinal.
fn gpu(device: i32) -> Result<GpuInfo> {
    Ok(client::enter()?.client.tables().device(device)?.1.gpu.clone())
}

fn bus_id(gpu: &GpuInfo) -> String {
    let [domain, bus, device] = gpu.pci;
    format!("{domain:04X}:{bus:02X}:{device:02X}.0")
}

/// `[domain]:[bus]:[device].[function]`, `[domain]:[bus]:[device]` or `[bus]:[device].[function]`.
fn parse_bus_id(text: &str) -> Option<[u32; 3]> {
    let (text, function) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts: Vec<u32> = Vec::new();
    for part in text.split(':') {
        parts.push(u32::from_str_radix(part, 16).ok()?);
    }
    match (parts.as_slice(), function) {
        ([domain, bus, device], "0") => Some([*domain, *bus, *device]),
        ([bus, device], "0") => Some([0, *bus, *device]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids() {
        assert_eq!(parse_bus_id("0000:17:00.0"), Some([0, 0x17, 0]));
        assert_eq!(parse_bus_id("17:00.0"), Some([0, 0x17, 0]));
        assert_eq!(parse_bus_id("0000:1f:00"), Some([0, 0x1f, 0]));
        assert_eq!(parse_bus_id("x"), None);
        assert_eq!(parse_bus_id(""), None);
    }
}
