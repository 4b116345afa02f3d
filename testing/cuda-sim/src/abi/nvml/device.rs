//! One GPU.
use std::ffi::c_char;

use super::types::{Bar1Memory, Memory, MemoryV2, OlderPciInfo, PciInfo, Temperature, Utilization};
use super::{Handle, check_version, manage, put_text};
use crate::abi::{Out, Text};
use crate::nvml::{self, Device, Result, Status, clocks, milliwatts, pci_text, temperature};
use crate::wire::Card;

/// Memory that the driver keeps for itself: listed apart by the second version of the question, and free in neither.
const RESERVED: u64 = 0;

manage! {
    fn nvmlDeviceGetCount(count: Out<u32>) { put_count(count) }
    fn nvmlDeviceGetCount_v2(count: Out<u32>) { put_count(count) }
    fn nvmlDeviceGetHandleByIndex(index: u32, device: Out<Handle>) { Ok(device.put(Handle::of(nvml::device_at(index)?))?) }
    fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: Out<Handle>) { Ok(device.put(Handle::of(nvml::device_at(index)?))?) }
    fn nvmlDeviceGetHandleByUUID(uuid: Text, device: Out<Handle>) { put_named(uuid, device) }
    fn nvmlDeviceGetHandleByPciBusId(bus_id: Text, device: Out<Handle>) { put_named(bus_id, device) }
    fn nvmlDeviceGetHandleByPciBusId_v2(bus_id: Text, device: Out<Handle>) { put_named(bus_id, device) }

    fn nvmlDeviceGetName(device: Handle, name: Out<c_char>, length: u32) {
        let (device, card) = device.device()?;
        let instance = if matches!(device, Device::Instance { .. }) { " MIG 1g.10gb" } else { "" };
        put_text(name, length, &format!("{}{instance}", card.info.name))
    }
    fn nvmlDeviceGetUUID(device: Handle, uuid: Out<c_char>, length: u32) {
        let (device, card) = device.device()?;
        put_text(uuid, length, &device.uuid(&card))
    }
    fn nvmlDeviceGetSerial(device: Handle, serial: Out<c_char>, length: u32) {
        let [a, b, c, d, ..] = device.card()?.info.uuid;
        put_text(serial, length, &format!("165{:010}", u32::from_be_bytes([a, b, c, d])))
    }
    fn nvmlDeviceGetMinorNumber(device: Handle, minor: Out<u32>) { Ok(minor.put(device.card()?.info.index)?) }
    fn nvmlDeviceGetIndex(device: Handle, index: Out<u32>) {
        let wanted = device.card()?.info.index;
        let place = nvml::machine()?.cards.iter().position(|card| card.info.index == wanted);
        Ok(index.put(place.and_then(|place| u32::try_from(place).ok()).ok_or(Status::NOT_FOUND)?)?)
    }
    fn nvmlDeviceGetBoardId(device: Handle, board: Out<u32>) { Ok(board.put(device.card()?.info.pci[1] << 8)?) }
    fn nvmlDeviceGetMultiGpuBoard(device: Handle, multi: Out<u32>) { device.card()?; Ok(multi.put(0)?) }
    fn nvmlDeviceGetBrand(device: Handle, brand: Out<u32>) {
        let geforce = device.card()?.info.name.contains("GeForce");
        // NVML_BRAND_GEFORCE, NVML_BRAND_NVIDIA.
        Ok(brand.put(if geforce { 5 } else { 14 })?)
    }
    fn nvmlDeviceGetArchitecture(device: Handle, architecture: Out<u32>) {
        let number = match device.card()?.info.capability {
            [8, 9] => 8,
            [8, _] => 7,
            [9, _] => 9,
            [10 | 12, _] => 10,
            _ => u32::MAX,
        };
        Ok(architecture.put(number)?)
    }
    fn nvmlDeviceGetCudaComputeCapability(device: Handle, major: Out<u32>, minor: Out<u32>) {
        let [big, small] = device.card()?.info.capability;
        major.put(big)?;
        Ok(minor.put(small)?)
    }
    fn nvmlDeviceGetNumGpuCores(device: Handle, cores: Out<u32>) { Ok(cores.put(device.card()?.info.processors * 128)?) }
    fn nvmlDeviceGetVbiosVersion(device: Handle, version: Out<c_char>, length: u32) {
        device.card()?;
        put_text(version, length, "96.00.74.00.01")
    }

    fn nvmlDeviceGetPciInfo(device: Handle, pci: Out<OlderPciInfo>) { Ok(pci.put(older_pci(&device.card()?))?) }
    fn nvmlDeviceGetPciInfo_v2(device: Handle, pci: Out<OlderPciInfo>) { Ok(pci.put(older_pci(&device.card()?))?) }
    fn nvmlDeviceGetPciInfo_v3(device: Handle, pci: Out<PciInfo>) {
        let card = device.card()?;
        Ok(pci.put(PciInfo { older: older_pci(&card), bus_id: characters(&pci_text(card.info.pci, false)) })?)
    }
    fn nvmlDeviceGetCurrPcieLinkGeneration(device: Handle, generation: Out<u32>) { device.card()?; Ok(generation.put(5)?) }
    fn nvmlDeviceGetMaxPcieLinkGeneration(device: Handle, generation: Out<u32>) { device.card()?; Ok(generation.put(5)?) }
    fn nvmlDeviceGetCurrPcieLinkWidth(device: Handle, width: Out<u32>) { device.card()?; Ok(width.put(16)?) }
    fn nvmlDeviceGetMaxPcieLinkWidth(device: Handle, width: Out<u32>) { device.card()?; Ok(width.put(16)?) }

    fn nvmlDeviceGetMemoryInfo(device: Handle, memory: Out<Memory>) {
        let card = device.card()?;
        let total = card.info.memory;
        Ok(memory.put(Memory { total, free: total.saturating_sub(card.used), used: card.used + RESERVED })?)
    }
    fn nvmlDeviceGetMemoryInfo_v2(device: Handle, memory: Out<MemoryV2>) {
        let card = device.card()?;
        let version = memory.given()?.version;
        check_version::<MemoryV2>(version, 2)?;
        let total = card.info.memory;
        Ok(memory.put(MemoryV2 { version, total, reserved: RESERVED, free: total.saturating_sub(card.used), used: card.used })?)
    }
    fn nvmlDeviceGetBAR1MemoryInfo(device: Handle, memory: Out<Bar1Memory>) {
        let total = device.card()?.info.memory.next_power_of_two();
        Ok(memory.put(Bar1Memory { total, free: total - (1 << 20), used: 1 << 20 })?)
    }
    fn nvmlDeviceGetUtilizationRates(device: Handle, rates: Out<Utilization>) {
        let busy = device.card()?.busy;
        Ok(rates.put(Utilization { gpu: if busy { 100 } else { 0 }, memory: if busy { 50 } else { 0 } })?)
    }
    fn nvmlDeviceGetEncoderUtilization(device: Handle, utilization: Out<u32>, period: Out<u32>) { put_idle(device, utilization, period) }
    fn nvmlDeviceGetDecoderUtilization(device: Handle, utilization: Out<u32>, period: Out<u32>) { put_idle(device, utilization, period) }

    fn nvmlDeviceGetTemperature(device: Handle, sensor: u32, degrees: Out<u32>) {
        let card = device.card()?;
        if sensor == 0 { Ok(degrees.put(temperature(&card))?) } else { Err(Status::INVALID_ARGUMENT) }
    }
    fn nvmlDeviceGetTemperatureV(device: Handle, reading: Out<Temperature>) {
        let card = device.card()?;
        let asked = reading.given()?;
        check_version::<Temperature>(asked.version, 1)?;
        if asked.sensor != 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        Ok(reading.put(Temperature { degrees: temperature(&card).cast_signed(), ..asked })?)
    }
    fn nvmlDeviceGetPowerUsage(device: Handle, power: Out<u32>) { Ok(power.put(milliwatts(&device.card()?).0)?) }
    fn nvmlDeviceGetEnforcedPowerLimit(device: Handle, limit: Out<u32>) { Ok(limit.put(milliwatts(&device.card()?).1)?) }
    fn nvmlDeviceGetPowerManagementLimit(device: Handle, limit: Out<u32>) { Ok(limit.put(milliwatts(&device.card()?).1)?) }
    fn nvmlDeviceGetPowerManagementDefaultLimit(device: Handle, limit: Out<u32>) { Ok(limit.put(milliwatts(&device.card()?).1)?) }
    fn nvmlDeviceGetPerformanceState(device: Handle, state: Out<u32>) { Ok(state.put(if device.card()?.busy { 0 } else { 8 })?) }
    fn nvmlDeviceGetPowerState(device: Handle, state: Out<u32>) { Ok(state.put(if device.card()?.busy { 0 } else { 8 })?) }
    fn nvmlDeviceGetClockInfo(device: Handle, kind: u32, clock: Out<u32>) {
        Ok(clock.put(clocks(&device.card()?, kind).ok_or(Status::INVALID_ARGUMENT)?.0)?)
    }
    fn nvmlDeviceGetMaxClockInfo(device: Handle, kind: u32, clock: Out<u32>) {
        Ok(clock.put(clocks(&device.card()?, kind).ok_or(Status::INVALID_ARGUMENT)?.1)?)
    }

    fn nvmlDeviceGetDisplayMode(device: Handle, mode: Out<u32>) { device.card()?; Ok(mode.put(0)?) }
    fn nvmlDeviceGetDisplayActive(device: Handle, mode: Out<u32>) { device.card()?; Ok(mode.put(0)?) }
    fn nvmlDeviceGetComputeMode(device: Handle, mode: Out<u32>) { device.card()?; Ok(mode.put(0)?) }
    fn nvmlDeviceGetPersistenceMode(device: Handle, mode: Out<u32>) { Ok(mode.put(u32::from(device.card()?.persistence))?) }
    fn nvmlDeviceSetPersistenceMode(device: Handle, mode: u32) {
        let card = device.card()?;
        if mode > 1 { Err(Status::INVALID_ARGUMENT) } else { nvml::set_persistence(card.info.index, mode == 1) }
    }
    fn nvmlDeviceGetAccountingMode(device: Handle, mode: Out<u32>) { device.card()?; Ok(mode.put(0)?) }
    fn nvmlDeviceGetVirtualizationMode(device: Handle, mode: Out<u32>) { device.card()?; Ok(mode.put(0)?) }
}

fn put_count(count: Out<u32>) -> Result<()> {
    let cards = nvml::machine()?.cards.len();
    Ok(count.put(u32::try_from(cards).map_err(|_| Status::UNKNOWN)?)?)
}

fn put_named(name: Text, device: Out<Handle>) -> Result<()> {
    let name = name.get()?;
    let name = name.to_str().map_err(|_| Status::INVALID_ARGUMENT)?;
    Ok(device.put(Handle::of(nvml::with_uuid(name)?))?)
}

fn put_idle(device: Handle, utilization: Out<u32>, period: Out<u32>) -> Result<()> {
    device.card()?;
    utilization.put(0)?;
    Ok(period.put(167_000)?)
}

fn older_pci(card: &Card) -> OlderPciInfo {
    pci_prefix(card.info.pci, card.info.pci_id)
}

pub(super) fn pci_prefix(pci: [u32; 3], pci_device_id: u32) -> OlderPciInfo {
    let [domain, bus, device] = pci;
    // The board of the same vendor.
    let pci_sub_system_id = 0x1839_10de;
    OlderPciInfo {
        bus_id: characters(&pci_text(pci, true)),
        domain,
        bus,
        device,
        pci_device_id,
        pci_sub_system_id,
    }
}

/// A text in an array, with an end.
pub(super) fn characters<const ROOM: usize>(text: &str) -> [c_char; ROOM] {
    let mut out = [0; ROOM];
    for (place, byte) in out.iter_mut().take(ROOM - 1).zip(text.bytes()) {
        *place = byte.cast_signed();
    }
    out
}
