//! NVML, opened at run time.
//!
//! Two things decide the shape of this file. NVML can block for ever in the kernel when a GPU has fallen off the bus, and a
//! thread that is stuck there cannot be ended: it is left behind, and while one is, no second one is sent after it. And a
//! driver that answers nine questions of ten still gives a useful picture: only the driver's version and the number of GPUs
//! are needed, everything else that fails is a line of [`Host::trouble`].

use std::time::Duration;

use crate::error::Result;
use crate::host::Host;

#[cfg(not(target_os = "linux"))]
pub(crate) fn host(_limit: Duration) -> Result<Host> {
    Err(crate::error::DetectError::NotSupported { system: std::env::consts::OS })
}

#[cfg(target_os = "linux")]
pub(crate) fn host(limit: Duration) -> Result<Host> {
    linux::host(limit)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fmt::Display;
    use std::panic::{self, AssertUnwindSafe};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use nvml_wrapper::enums::device::UsedGpuMemory;
    use nvml_wrapper::error::NvmlError;
    use nvml_wrapper::struct_wrappers::device::ProcessInfo;
    use nvml_wrapper::{Device, Nvml};

    use crate::error::{DetectError, Result};
    use crate::host::{GpuUse, Host, HostGpu};

    /// More than any GPU has; a link that is not there ends the walk.
    const MOST_LINKS: u32 = 18;

    /// Questions that nobody waits for any more.
    static LEFT_BEHIND: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn host(limit: Duration) -> Result<Host> {
        within(limit, &LEFT_BEHIND, ask)
    }

    /// Runs `question` in a thread of its own and waits for at most `limit`.
    pub(super) fn within<T: Send + 'static>(
        limit: Duration,
        left_behind: &'static AtomicUsize,
        question: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if left_behind.load(Ordering::SeqCst) > 0 {
            return Err(DetectError::Hung { limit });
        }
        // A channel without room: an answer that nobody took is noticed by its sender, who then counts itself back in.
        let (to_us, answer) = mpsc::sync_channel(0);
        let asked = thread::Builder::new().name("nvml".to_owned()).spawn(move || {
            let answer = panic::catch_unwind(AssertUnwindSafe(question))
                .unwrap_or_else(|_| Err(refused("nvmlInit")("our reader of NVML failed")));
            if to_us.send(answer).is_err() {
                left_behind.fetch_sub(1, Ordering::SeqCst);
            }
        });
        asked.map_err(DetectError::io("start a thread for", "libnvidia-ml.so.1"))?;
        match answer.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                left_behind.fetch_add(1, Ordering::SeqCst);
                Err(DetectError::Hung { limit })
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                Err(refused("nvmlInit")("our reader of NVML failed"))
            }
        }
    }

    fn refused<E: Display>(call: &'static str) -> impl FnOnce(E) -> DetectError {
        move |error| DetectError::Nvml { call, detail: error.to_string() }
    }

    fn ask() -> Result<Host> {
        let nvml = Nvml::init().map_err(|error| match error {
            NvmlError::LibloadingError(_) => {
                DetectError::NoDriver { detail: "libnvidia-ml.so.1 cannot be loaded".to_owned() }
            }
            NvmlError::DriverNotLoaded => {
                DetectError::NoDriver { detail: "its kernel module is not loaded".to_owned() }
            }
            error => refused("nvmlInit")(error),
        })?;
        let driver_version = nvml.sys_driver_version().map_err(refused("nvmlSystemGetDriverVersion"))?;
        let count = nvml.device_count().map_err(refused("nvmlDeviceGetCount"))?;
        let mut host = Host { driver_version, ..Host::default() };
        match nvml.sys_cuda_driver_version() {
            Ok(version) => host.cuda_version = u32::try_from(version).unwrap_or_default(),
            Err(error) => host.trouble.push(format!("the driver does not say its CUDA version: {error}")),
        }
        for index in 0..count {
            match nvml.device_by_index(index).and_then(|device| gpu(&device, index)) {
                Ok(gpu) => host.gpus.push(gpu),
                Err(error) => host.trouble.push(format!("GPU {index} does not answer: {error}")),
            }
        }
        name_peers(&mut host.gpus);
        Ok(host)
    }

    /// What must be known of a GPU for it to be of use; the rest is known or not.
    fn gpu(device: &Device<'_>, index: u32) -> Result<HostGpu, NvmlError> {
        let pci = device.pci_info()?;
        let memory = device.memory_info()?;
        let capability = device.cuda_compute_capability();
        let (processes, mps) = processes(device);
        Ok(HostGpu {
            index,
            minor: device.minor_number()?,
            uuid: device.uuid()?,
            pci_id: format!("{:04x}:{:04x}", pci.pci_device_id & 0xffff, pci.pci_device_id >> 16),
            bus_id: pci.bus_id,
            name: device.name()?,
            memory_bytes: memory.total,
            free_bytes: memory.free,
            compute_capability: capability.map(|of| format!("{}.{}", of.major, of.minor)).unwrap_or_default(),
            nvlink_peers: links(device),
            mig: instances(device),
            persistence: device.is_in_persistent_mode().ok(),
            confidential: device.is_cc_enabled().ok(),
            mps,
            utilisation: device.utilization_rates().ok().map(|rates| rates.gpu),
            processes,
        })
    }

    /// Bus ids at the other ends of the links that are up.
    fn links(device: &Device<'_>) -> Vec<String> {
        let mut peers = Vec::new();
        for link in 0..MOST_LINKS {
            let link = device.link_wrapper_for(link);
            match link.is_active() {
                Ok(true) => peers.extend(link.remote_pci_info().ok().map(|pci| pci.bus_id)),
                Ok(false) => {}
                Err(_) => break,
            }
        }
        peers.sort();
        peers.dedup();
        peers
    }

    /// UUIDs are what the rest of the program speaks; a switch has none and keeps its bus id.
    fn name_peers(gpus: &mut [HostGpu]) {
        let names: Vec<(String, String)> =
            gpus.iter().map(|gpu| (gpu.bus_id.clone(), gpu.uuid.clone())).collect();
        for peer in gpus.iter_mut().flat_map(|gpu| &mut gpu.nvlink_peers) {
            if let Some((_, uuid)) = names.iter().find(|(bus_id, _)| bus_id.eq_ignore_ascii_case(peer)) {
                peer.clone_from(uuid);
            }
        }
    }

    fn instances(device: &Device<'_>) -> Option<Vec<String>> {
        device.mig_mode().ok().filter(|mode| mode.current != 0)?;
        let places = device.mig_device_count().unwrap_or_default();
        let uuid = |place| device.mig_device_by_index(place).and_then(|instance| instance.uuid()).ok();
        Some((0..places).filter_map(uuid).collect())
    }

    /// A process that computes and draws is in two lists with the same number of bytes.
    fn processes(device: &Device<'_>) -> (Vec<GpuUse>, bool) {
        let mut uses: Vec<GpuUse> = Vec::new();
        let mut add = |list: Result<Vec<ProcessInfo>, NvmlError>, mps: bool, graphics: bool| {
            let list = list.unwrap_or_default();
            for process in &list {
                let bytes = match process.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                };
                if let Some(known) = uses.iter_mut().find(|known| known.pid == process.pid) {
                    known.bytes = known.bytes.max(bytes);
                    known.mps |= mps;
                    known.graphics |= graphics;
                } else {
                    uses.push(GpuUse { pid: process.pid, bytes, mps, graphics });
                }
            }
            !list.is_empty()
        };
        add(device.running_compute_processes(), false, false);
        add(device.running_graphics_processes(), false, true);
        let mps = add(device.mps_running_compute_processes(), true, false);
        uses.sort_by_key(|process| process.pid);
        (uses, mps)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_question_that_hangs_is_left_behind_and_not_sent_again() {
            static LEFT: AtomicUsize = AtomicUsize::new(0);
            let limit = Duration::from_millis(20);
            let (release, held) = mpsc::channel::<()>();
            let hung = within(limit, &LEFT, move || {
                let _ = held.recv();
                Ok(1)
            });
            assert_eq!(hung.unwrap_err().code(), "IJ-P004");
            let second = within(Duration::from_secs(60), &LEFT, || Ok(2));
            assert_eq!(second.unwrap_err().code(), "IJ-P004");
            drop(release);
            let deadline = std::time::Instant::now() + Duration::from_secs(60);
            while LEFT.load(Ordering::SeqCst) > 0 {
                assert!(std::time::Instant::now() < deadline, "the question never came back");
                thread::yield_now();
            }
            assert_eq!(within(Duration::from_secs(60), &LEFT, || Ok(3)).unwrap(), 3);
        }

        #[test]
        fn a_question_that_breaks_is_an_answer() {
            static LEFT: AtomicUsize = AtomicUsize::new(0);
            let broken = within::<()>(Duration::from_secs(60), &LEFT, || {
                panic::resume_unwind(Box::new("in a reader of NVML"));
            });
            assert_eq!(broken.unwrap_err().code(), "IJ-P003");
            assert_eq!(LEFT.load(Ordering::SeqCst), 0);
        }
    }
}
