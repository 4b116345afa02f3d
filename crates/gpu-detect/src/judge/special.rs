//! What few processes have: slices of GPUs, other drivers beside NVIDIA's, PCI windows, graphics.

use super::{Case, Draft, is};
use crate::object::Object;
use crate::report::{Confidence, Finding, Kind};

pub(super) fn all(case: &Case<'_>) -> Vec<Finding> {
    [mig(case), gdrcopy(case), rdma(case), bar(case), graphics(case)].into_iter().flatten().collect()
}

/// A slice of a partitioned GPU. The first two capabilities are for those who partition it, not for those who compute.
fn mig(case: &Case<'_>) -> Option<Finding> {
    let mut draft = Draft::of(Kind::Mig);
    draft.add_some(
        Confidence::Certain,
        &case.lines(|object| matches!(object, Object::Capability(number) if number > 2)),
    );
    for gpu in case.gpus.iter().filter(|gpu| gpu.mig.is_some()) {
        draft.add(Confidence::Likely, format!("GPU {} is partitioned into instances", gpu.index));
    }
    for name in ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"] {
        if let Some(value) = case.seen.variable(name).filter(|value| value.contains("MIG-")) {
            draft.add(Confidence::Likely, format!("{name}={value} in its environment"));
        }
    }
    draft.blocks = true;
    draft.done(Some("give it a whole GPU: the driver cannot checkpoint on an instance of one"))
}

/// Descriptors of another driver, which CRIU cannot dump and NVIDIA's does not close.
fn gdrcopy(case: &Case<'_>) -> Option<Finding> {
    let mut draft = Draft::of(Kind::Gdrcopy);
    draft.add_some(Confidence::Certain, &case.lines(|object| object == Object::Gdrdrv));
    draft.blocks = true;
    draft.done(Some("start it with FI_HMEM_CUDA_USE_GDRCOPY=0 (libfabric) and NCCL_NET_PLUGIN=none, UCX_TLS=^gdr_copy (UCX)"))
}

/// Network cards that may read device memory. Only beside a GPU: elsewhere it is not this crate's business.
fn rdma(case: &Case<'_>) -> Option<Finding> {
    let mut draft = Draft::of(Kind::Rdma);
    if case.any(Object::is_device) {
        draft.add_some(Confidence::Certain, &case.lines(|object| object == Object::Verbs));
    }
    draft.blocks = true;
    draft.done(Some("start it with NCCL_IB_DISABLE=1 and NCCL_NET_PLUGIN=none"))
}

/// A PCI window that the process has mapped by itself. Small write-only mappings of `/dev/nvidiaN` are doorbells, which every
/// context has; they are no findings.
fn bar(case: &Case<'_>) -> Option<Finding> {
    let mut draft = Draft::of(Kind::BarMapping);
    for mapping in case.seen.mappings.iter().filter(|mapping| mapping.object == Object::PciWindow) {
        let known =
            case.host.map(|host| host.gpus.iter().any(|gpu| is_window_of(&mapping.path, &gpu.bus_id)));
        let sure = match known {
            Some(true) => Confidence::Certain,
            // Of a network card or a disk.
            Some(false) => continue,
            None => Confidence::Possible,
        };
        draft.add(sure, mapping.line());
        draft.blocks |= sure == Confidence::Certain || case.any(Object::is_device);
    }
    draft.done(Some(
        "end the program that maps the GPU's PCI window: no snapshot can bring such a mapping back",
    ))
}

/// `…/0000:3b:00.0/resource1` is of the GPU with the bus id `00000000:3B:00.0`: NVML writes the domain with eight digits.
fn is_window_of(path: &str, bus_id: &str) -> bool {
    let slot = path.rsplit('/').nth(1).unwrap_or_default();
    let shorten = |id: &str| id.trim_start_matches('0').to_ascii_lowercase();
    !slot.is_empty() && shorten(slot) == shorten(bus_id)
}

/// Drawing. The driver keeps what OpenGL and Vulkan have out of its checkpoints.
fn graphics(case: &Case<'_>) -> Option<Finding> {
    let seen = case.seen;
    let mut draft = Draft::of(Kind::Graphics);
    for gpu in &case.gpus {
        if gpu.processes.iter().any(|using| using.graphics && is(using.pid, seen.pid)) {
            draft.add(Confidence::Certain, format!("NVML counts it as drawing on GPU {}", gpu.index));
        }
    }
    draft.add_some(
        Confidence::Likely,
        &case.lines(|object| matches!(object, Object::GraphicsMemory | Object::Modeset)),
    );
    draft.blocks = draft.confidence.is_some();
    if case.any(Object::is_device)
        && let Some(library) = seen.mappings.iter().find(|mapping| mapping.object == Object::GraphicsLibrary)
    {
        draft.add(Confidence::Possible, format!("mapped: {}", library.path));
    }
    draft
        .done(Some("draw in a process of its own, or on the CPU (LIBGL_ALWAYS_SOFTWARE=1, MUJOCO_GL=osmesa)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_belongs_to_one_gpu() {
        let path = "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0/resource1_wc";
        assert!(is_window_of(path, "00000000:3B:00.0"));
        assert!(!is_window_of(path, "00000000:5E:00.0"));
        assert!(!is_window_of("resource1", ""));
    }
}
