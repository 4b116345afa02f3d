//! NVIDIA's driver and its GPUs.
//!
//! A snapshot of a session that uses no GPU needs nothing of this, so the worst that an item here can be is a warning: what it
//! stops is the snapshot of sessions that do use one. On a machine without a driver there is one item, and it is well.
//!
//! What the driver can do is asked of the driver: the checkpoint calls are looked up in its library, and so are the newer
//! ones among them. The version numbers are shown beside that, because they are what people can change.

use std::path::{Path, PathBuf};

use base::proc::MachineMemory;
use checkpoint_cuda::{Backend, Capabilities};
use gpu_detect::{DetectError, Host, HostGpu};
use sandbox::DeviceNode;

use crate::{Finding, Machine};

/// The first driver with checkpoint calls in its library (CUDA 12.8), and the first that restores onto other GPUs.
const NEEDED_DRIVER: u32 = 570;
const NEEDED_CUDA: u32 = 12_080;
const REMAP_DRIVER: u32 = 580;
/// The first CRIU that was made with GPUs in mind.
const NEEDED_CRIU: (i32, i32, i32) = (4, 0, 0);
const NEWER_DRIVER: &str = "install NVIDIA's driver 570 or newer (580 to restore onto other GPUs)";
/// Where distributions put CRIU's plugins.
const PLUGIN_PLACES: [&str; 5] = [
    "/usr/lib/criu",
    "/usr/lib/x86_64-linux-gnu/criu",
    "/usr/lib64/criu",
    "/usr/libexec/criu",
    "/usr/local/lib/criu",
];

/// What there is to judge, as it was found.
#[derive(Debug)]
pub struct Seen {
    /// Nodes of the driver in `/dev`.
    pub nodes: Vec<DeviceNode>,
    /// Whether the kernel has the driver's module, as `/proc/driver/nvidia` shows it.
    pub module: bool,
    /// NVML's answer.
    pub host: Result<Host, DetectError>,
    /// What the driver can do, or why that cannot be told; not asked where there is no driver.
    pub driver: Option<Result<Capabilities, String>>,
    /// The machine's memory.
    pub memory: u64,
    /// Whether the multi-process service's daemon is there.
    pub mps: bool,
}

impl Seen {
    /// Looks at this machine. `driver` starts a worker, so it is asked only where there is a driver.
    pub fn of_this_machine(
        host: Result<Host, DetectError>,
        driver: impl FnOnce() -> Result<Capabilities, String>,
    ) -> Self {
        let mut seen = Self {
            nodes: sandbox::host_nodes(Path::new("/dev")),
            module: Path::new("/proc/driver/nvidia/version").exists(),
            host,
            driver: None,
            memory: MachineMemory::read().ok().and_then(|memory| memory.total).unwrap_or(0),
            mps: mps_directory().join("control").exists(),
        };
        if seen.is_there() {
            seen.driver = Some(driver());
        }
        seen
    }

    /// Whether there is anything of a driver.
    fn is_there(&self) -> bool {
        self.module || !self.nodes.is_empty() || !matches!(self.host, Err(DetectError::NoDriver { .. }))
    }

    fn gpus(&self) -> &[HostGpu] {
        self.host.as_ref().map_or(&[], |host| host.gpus.as_slice())
    }
}

fn mps_directory() -> PathBuf {
    std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").map_or_else(|| PathBuf::from("/tmp/nvidia-mps"), Into::into)
}

pub(crate) fn look(machine: &Machine<'_>) -> Vec<Finding> {
    let Some(seen) = &machine.gpu else { return Vec::new() };
    if !seen.is_there() {
        return vec![Finding::ok("gpu", "no NVIDIA driver here; sessions without GPU work")];
    }
    let version = machine.criu.and_then(|criu| criu.version().ok());
    let plugin = machine.criu.and_then(|criu| plugin(criu.path()));
    let mut findings = vec![
        nvml(seen),
        driver(seen),
        cuda(seen),
        nodes(seen),
        checkpoint(seen),
        remap(seen),
        custom_storage(seen),
        criu(version, plugin.as_deref()),
    ];
    if !seen.gpus().is_empty() {
        findings.extend([persistence(seen), mig(seen), mps(seen), memory(seen)]);
    }
    findings
}

fn nvml(seen: &Seen) -> Finding {
    let item = "gpu nvml";
    match &seen.host {
        Ok(host) if !host.trouble.is_empty() => Finding::warn(
            item,
            host.trouble.join("; "),
            "a GPU may have fallen off the bus: look for `Xid` in `dmesg`, and compare with `nvidia-smi`",
        ),
        Ok(host) if host.gpus.is_empty() => {
            Finding::warn(item, "answers, and has no GPU", "see `nvidia-smi -L` and `lspci | grep NVIDIA`")
        }
        Ok(host) => {
            let gpus: Vec<String> = host
                .gpus
                .iter()
                .map(|gpu| {
                    format!("{} {} with {} ({})", gpu.index, gpu.name, size(gpu.memory_bytes), gpu.uuid)
                })
                .collect();
            Finding::ok(item, format!("answers: {}", gpus.join(", ")))
        }
        Err(error) => Finding::warn(
            item,
            error.to_string(),
            error.hint().unwrap_or_else(|| "see that `nvidia-smi` works".to_owned()),
        ),
    }
}

fn driver(seen: &Seen) -> Finding {
    let item = "gpu driver";
    let Ok(host) = &seen.host else {
        return Finding::warn(
            item,
            "there is one, but it does not say which",
            "see that `nvidia-smi` works; after an update of the driver the machine must be restarted",
        );
    };
    let version = &host.driver_version;
    match branch(version) {
        Some(number) if number >= NEEDED_DRIVER => {
            Finding::ok(item, format!("{version} (needed: {NEEDED_DRIVER})"))
        }
        Some(_) => Finding::warn(
            item,
            format!(
                "{version} is older than {NEEDED_DRIVER}: processes that use the GPU cannot be snapshotted"
            ),
            NEWER_DRIVER,
        ),
        None => Finding::warn(item, format!("`{version}` is no version of a driver"), NEWER_DRIVER),
    }
}

/// 580 of `580.95.05`.
fn branch(version: &str) -> Option<u32> {
    version.split('.').next()?.parse().ok()
}

fn cuda(seen: &Seen) -> Finding {
    let item = "gpu cuda";
    let by_driver = match &seen.driver {
        Some(Ok(capabilities)) => capabilities.cuda_version,
        _ => 0,
    };
    let version = match (&seen.host, by_driver) {
        (_, version) if version > 0 => version,
        (Ok(host), _) => host.cuda_version,
        (Err(_), _) => return Finding::warn(item, "the driver does not say", NEWER_DRIVER),
    };
    let shown = format!("{}.{}", version / 1000, version % 1000 / 10);
    if version >= NEEDED_CUDA {
        return Finding::ok(item, format!("the driver speaks CUDA {shown} (needed: 12.8)"));
    }
    Finding::warn(item, format!("the driver speaks CUDA {shown}, which is older than 12.8"), NEWER_DRIVER)
}

fn nodes(seen: &Seen) -> Finding {
    let item = "gpu device nodes";
    let gpus = seen.gpus().iter().map(|gpu| format!("nvidia{}", gpu.minor));
    let wanted: Vec<String> =
        ["nvidiactl", "nvidia-uvm"].map(str::to_owned).into_iter().chain(gpus).collect();
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|name| !seen.nodes.iter().any(|node| node.name == **name))
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Finding::ok(item, format!("there: {}", wanted.join(", ")));
    }
    Finding::warn(
        item,
        format!("missing in /dev: {}", missing.join(", ")),
        "run `nvidia-modprobe -c 0 -u` (or `nvidia-smi` once) at every boot, before the daemon starts",
    )
}

/// Whether a process can be taken off a GPU, found by looking the calls up.
fn checkpoint(seen: &Seen) -> Finding {
    let item = "gpu checkpoint";
    match &seen.driver {
        Some(Ok(capabilities)) => match capabilities.backend {
            Backend::Api => Finding::ok(item, "the calls are in the driver's library"),
            Backend::Tool => Finding::warn(
                item,
                "the driver's library has no checkpoint calls; the program cuda-checkpoint is used, which is slower",
                NEWER_DRIVER,
            ),
        },
        Some(Err(error)) => Finding::warn(
            item,
            format!("processes that use the GPU cannot be snapshotted: {error}"),
            "install NVIDIA's driver 570 or newer, or its program cuda-checkpoint (INFINIJUP_CUDA_CHECKPOINT), and infinijup-gpu \
             beside infinijupd",
        ),
        None => Finding::warn(item, "the driver was not asked", NEWER_DRIVER),
    }
}

fn remap(seen: &Seen) -> Finding {
    let item = "gpu remap";
    if matches!(&seen.driver, Some(Ok(capabilities)) if capabilities.pairs) {
        return Finding::ok(item, "sessions can be restored onto other GPUs of the same kind");
    }
    Finding::warn(
        item,
        "sessions can be restored onto the GPUs that they were on and no others",
        format!("install NVIDIA's driver {REMAP_DRIVER} or newer"),
    )
}

fn custom_storage(seen: &Seen) -> Finding {
    let item = "gpu custom storage";
    if matches!(&seen.driver, Some(Ok(capabilities)) if capabilities.custom_storage) {
        return Finding::ok(
            item,
            "the driver can copy GPU memory elsewhere than into the process (CUDA 13.4)",
        );
    }
    Finding::ok(
        item,
        "not in this driver (CUDA 13.4 has it): GPU memory passes through the process's own memory",
    )
}

/// CRIU has a CUDA plugin of its own, which would restore and unlock behind our back; it is never loaded.
fn criu(version: Option<(i32, i32, i32)>, plugin: Option<&Path>) -> Finding {
    let item = "gpu criu";
    let Some((major, minor, sub)) = version else {
        return Finding::warn(item, "there is no CRIU to ask", "see the item `criu`");
    };
    if (major, minor, sub) < NEEDED_CRIU {
        return Finding::warn(
            item,
            format!("{major}.{minor}.{sub} is older than 4.0"),
            "install CRIU 4.2 (`pip install \"infinijup[criu]\"` brings one along)",
        );
    }
    let plugin = plugin
        .map_or_else(|| "is not installed".to_owned(), |path| format!("at {} is kept out", path.display()));
    Finding::ok(item, format!("{major}.{minor}.{sub} (needed: 4.0); its CUDA plugin {plugin}"))
}

/// CRIU's CUDA plugin, if it is installed.
fn plugin(criu: &Path) -> Option<PathBuf> {
    let own = criu.parent().and_then(Path::parent).map(|prefix| prefix.join("lib/criu"));
    let places = PLUGIN_PLACES.iter().map(PathBuf::from).chain(own);
    places.map(|place| place.join("cuda_plugin.so")).find(|path| path.is_file())
}

fn persistence(seen: &Seen) -> Finding {
    let item = "gpu persistence";
    let without = those(seen, |gpu| gpu.persistence != Some(true));
    if without.is_empty() {
        return Finding::ok(item, "on for every GPU");
    }
    Finding::warn(
        item,
        format!(
            "off, or not told by the driver, for {without}: a restore after a pause finds the driver unloaded"
        ),
        "start nvidia-persistenced, or run `nvidia-smi -pm 1` at every boot",
    )
}

fn mig(seen: &Seen) -> Finding {
    let with = those(seen, |gpu| gpu.mig.is_some());
    if with.is_empty() {
        return Finding::ok("gpu mig", "off");
    }
    Finding::warn(
        "gpu mig",
        format!(
            "on for {with}: the driver's checkpoint does not do partitions, so sessions that use one are refused"
        ),
        "switch it off with `nvidia-smi -i GPU -mig 0`, or start sessions with `--gpus` on others",
    )
}

fn mps(seen: &Seen) -> Finding {
    let through = those(seen, |gpu| gpu.mps);
    if through.is_empty() && !seen.mps {
        return Finding::ok("gpu mps", "off");
    }
    let which =
        if through.is_empty() { "its daemon is there".to_owned() } else { format!("in use on {through}") };
    Finding::warn(
        "gpu mps",
        format!("{which}: processes that go through it cannot be snapshotted"),
        "stop it with `echo quit | nvidia-cuda-mps-control`, or unset CUDA_MPS_PIPE_DIRECTORY in sessions",
    )
}

/// A checkpoint moves GPU memory into the process's own.
fn memory(seen: &Seen) -> Finding {
    let item = "gpu host memory";
    let all = seen.gpus().iter().fold(0_u64, |sum, gpu| sum.saturating_add(gpu.memory_bytes));
    let evidence = format!("{} of memory for {} on GPUs", size(seen.memory), size(all));
    if seen.memory >= all {
        return Finding::ok(item, evidence);
    }
    Finding::warn(
        item,
        format!("{evidence}: full GPUs cannot all be checkpointed at a time"),
        "add memory; a snapshot that would not fit is refused before anything is touched",
    )
}

/// The indices of GPUs that something is so of.
fn those(seen: &Seen, is_so: impl Fn(&HostGpu) -> bool) -> String {
    let found = seen.gpus().iter().filter(|gpu| is_so(gpu)).map(|gpu| gpu.index.to_string());
    let found: Vec<String> = found.collect();
    match found.as_slice() {
        [] => String::new(),
        [one] => format!("GPU {one}"),
        several => format!("GPUs {}", several.join(", ")),
    }
}

fn size(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests;
