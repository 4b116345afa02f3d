//! The library's state in a process: how often it was initialised, and nothing else.
use std::path::PathBuf;
use std::sync::Mutex;

use super::{Result, Status, pci_text};
use crate::client::{Pool, directory, lock};
use crate::server::chips::uuid_text;
use crate::wire::{Card, Machine, Nvml, Request};

/// `nvmlInit` counts: the library works until it was shut down as often.
static USERS: Mutex<u32> = Mutex::new(0);

/// A GPU's number as C callers hold it, or that of a MIG instance on it. NULL is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// A GPU, by the server's index.
    Gpu(u32),
    /// An instance on that GPU.
    Instance {
        /// The index of the GPU.
        gpu: u32,
        /// Its number there.
        number: u32,
    },
}

impl Device {
    /// The handle: the GPU in the lower half, the instance in the upper, both from 1.
    #[must_use]
    pub fn handle(self) -> u64 {
        match self {
            Self::Gpu(gpu) => u64::from(gpu) + 1,
            Self::Instance { gpu, number } => (u64::from(number) + 1) << 32 | (u64::from(gpu) + 1),
        }
    }

    /// What a caller's handle means; whatever it is, it is no more than a number.
    #[must_use]
    pub fn from_handle(handle: u64) -> Option<Self> {
        let half = |value: u64| u32::try_from(value & 0xffff_ffff).ok();
        let gpu = half(handle)?.checked_sub(1)?;
        Some(
            half(handle >> 32)?
                .checked_sub(1)
                .map_or(Self::Gpu(gpu), |number| Self::Instance { gpu, number }),
        )
    }

    /// The GPU that it is or lies on.
    #[must_use]
    pub fn gpu(self) -> u32 {
        match self {
            Self::Gpu(gpu) | Self::Instance { gpu, .. } => gpu,
        }
    }

    /// As NVML writes it.
    #[must_use]
    pub fn uuid(self, card: &Card) -> String {
        let gpu = uuid_text(&card.info.uuid);
        match self {
            Self::Gpu(_) => gpu,
            // Of the GPU's own, so that it stays the same.
            Self::Instance { number, .. } => {
                format!("MIG-{}{:04x}", gpu.trim_start_matches("GPU-").get(..32).unwrap_or_default(), number)
            }
        }
    }
}

/// `nvmlInit`.
///
/// # Errors
/// DRIVER_NOT_LOADED without a server or nodes; NO_PERMISSION where the nodes may not be opened.
pub fn init() -> Result<()> {
    match std::fs::File::open(dev().join("nvidiactl")) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(Status::NO_PERMISSION);
        }
        Err(_) => return Err(Status::DRIVER_NOT_LOADED),
        Ok(_) => {}
    }
    ask::<Machine>(Nvml::Machine).map_err(|_| Status::DRIVER_NOT_LOADED)?;
    *lock(&USERS) += 1;
    Ok(())
}

/// `nvmlShutdown`.
///
/// # Errors
/// UNINITIALIZED.
pub fn shutdown() -> Result<()> {
    let mut users = lock(&USERS);
    *users = users.checked_sub(1).ok_or(Status::UNINITIALIZED)?;
    Ok(())
}

/// The machine, with the GPUs that this process may open.
///
/// # Errors
/// UNINITIALIZED, UNKNOWN if the server is gone.
pub fn machine() -> Result<Machine> {
    initialised()?;
    let mut machine: Machine = ask(Nvml::Machine)?;
    machine.cards.retain(|card| {
        let node = dev().join(format!("nvidia{}", card.info.index));
        std::fs::OpenOptions::new().read(true).write(true).open(node).is_ok()
    });
    Ok(machine)
}

/// The GPU behind a handle.
///
/// # Errors
/// INVALID_ARGUMENT for a number that is no handle, GPU_IS_LOST, and those of [`machine`].
pub fn device(handle: u64) -> Result<(Device, Card)> {
    let machine = machine()?;
    let device = Device::from_handle(handle).ok_or(Status::INVALID_ARGUMENT)?;
    let card = machine
        .cards
        .into_iter()
        .find(|card| card.info.index == device.gpu())
        .ok_or(Status::INVALID_ARGUMENT)?;
    let exists = match device {
        Device::Gpu(_) => true,
        Device::Instance { number, .. } => card.mig.is_some_and(|instances| number < instances),
    };
    if !exists {
        return Err(Status::INVALID_ARGUMENT);
    }
    alive(device, card)
}

/// The GPU with that number among those this process sees.
///
/// # Errors
/// INVALID_ARGUMENT if there are fewer, GPU_IS_LOST, and those of [`machine`].
pub fn device_at(index: u32) -> Result<Device> {
    let cards = machine()?.cards;
    let card = usize::try_from(index)
        .ok()
        .and_then(|index| cards.into_iter().nth(index))
        .ok_or(Status::INVALID_ARGUMENT)?;
    alive(Device::Gpu(card.info.index), card).map(|(device, _)| device)
}

/// The GPU or instance with that UUID, or at that PCI address.
///
/// # Errors
/// NOT_FOUND, GPU_IS_LOST, and those of [`machine`].
pub fn with_uuid(name: &str) -> Result<Device> {
    for card in machine()?.cards {
        let gpu = card.info.index;
        let instances = (0..card.mig.unwrap_or_default()).map(|number| Device::Instance { gpu, number });
        let fits = |device: &Device| {
            let is_at = |older| {
                *device == Device::Gpu(gpu) && pci_text(card.info.pci, older).eq_ignore_ascii_case(name)
            };
            device.uuid(&card) == name || is_at(true) || is_at(false)
        };
        if let Some(device) = std::iter::once(Device::Gpu(gpu)).chain(instances).find(fits) {
            return alive(device, card).map(|(device, _)| device);
        }
    }
    Err(Status::NOT_FOUND)
}

/// `nvmlDeviceSetPersistenceMode`.
///
/// # Errors
/// NO_PERMISSION unless root asks.
pub(crate) fn set_persistence(gpu: u32, on: bool) -> Result<()> {
    ask(Nvml::SetPersistence { gpu, on })
}

pub(crate) fn initialised() -> Result<()> {
    if *lock(&USERS) == 0 { Err(Status::UNINITIALIZED) } else { Ok(()) }
}

fn alive(device: Device, card: Card) -> Result<(Device, Card)> {
    if card.lost { Err(Status::GPU_IS_LOST) } else { Ok((device, card)) }
}

fn dev() -> PathBuf {
    std::env::var_os("CUDA_SIM_DEV").map_or_else(|| PathBuf::from("/dev"), PathBuf::from)
}

/// By a channel that is gone afterwards.
fn ask<T: serde::de::DeserializeOwned>(request: Nvml) -> Result<T> {
    Ok(Pool::default().ask(&directory(), &Request::Nvml(request))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_number_is_a_handle_or_not(handle in any::<u64>()) {
            if let Some(device) = Device::from_handle(handle) {
                prop_assert_eq!(device.handle(), handle);
            }
        }
    }

    #[test]
    fn null_is_no_handle() {
        assert_eq!(Device::from_handle(0), None);
        assert_eq!(Device::from_handle(1), Some(Device::Gpu(0)));
        assert_eq!(Device::from_handle(1 << 32), None);
    }
}
