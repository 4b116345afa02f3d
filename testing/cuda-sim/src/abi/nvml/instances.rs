//! MIG: a GPU cut into instances, as the control socket says.
use super::{Handle, manage};
use crate::abi::Out;
use crate::nvml::{Device, Result, Status};

manage! {
    fn nvmlDeviceGetMigMode(device: Handle, current: Out<u32>, pending: Out<u32>) {
        let card = device.card()?;
        // From Ampere's large chips on.
        if card.info.capability == [8, 9] {
            return Err(Status::NOT_SUPPORTED);
        }
        let mode = u32::from(card.mig.is_some());
        current.put(mode)?;
        Ok(pending.put(mode)?)
    }
    fn nvmlDeviceGetMaxMigDeviceCount(device: Handle, count: Out<u32>) {
        Ok(count.put(device.card()?.mig.map_or(0, |instances| instances.max(7)))?)
    }
    fn nvmlDeviceGetMigDeviceHandleByIndex(device: Handle, number: u32, instance: Out<Handle>) {
        let card = device.card()?;
        let instances = card.mig.ok_or(Status::NOT_SUPPORTED)?;
        if number >= instances {
            return Err(Status::NOT_FOUND);
        }
        Ok(instance.put(Handle::of(Device::Instance { gpu: card.info.index, number }))?)
    }
    fn nvmlDeviceIsMigDeviceHandle(device: Handle, is_instance: Out<u32>) {
        Ok(is_instance.put(u32::from(number(device).is_ok()))?)
    }
    fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance: Handle, device: Out<Handle>) {
        number(instance)?;
        Ok(device.put(Handle::of(Device::Gpu(instance.card()?.info.index)))?)
    }
    fn nvmlDeviceGetGpuInstanceId(instance: Handle, id: Out<u32>) { Ok(id.put(number(instance)? + 1)?) }
    fn nvmlDeviceGetComputeInstanceId(instance: Handle, id: Out<u32>) { number(instance)?; Ok(id.put(0)?) }
}

/// Of an instance; a whole GPU is none.
fn number(device: Handle) -> Result<u32> {
    match device.device()? {
        (Device::Instance { number, .. }, _) => Ok(number),
        (Device::Gpu(_), _) => Err(Status::NOT_SUPPORTED),
    }
}
