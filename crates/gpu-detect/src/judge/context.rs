//! The plain things: a context, its managed memory, and descriptors without one.

use std::collections::BTreeMap;

use super::{Case, Draft, is};
use crate::object::Object;
use crate::report::{Confidence, Finding, Kind};
use crate::seen::Seen;

pub(super) fn all(case: &Case<'_>) -> Vec<Finding> {
    let inherited = inherited(case);
    let monitoring = if inherited.is_none() { monitoring(case) } else { None };
    let context = if inherited.is_none() && monitoring.is_none() { context(case) } else { None };
    [context, inherited, monitoring, uvm(case), managed(case)].into_iter().flatten().collect()
}

/// A CUDA context. Mapped device files prove one: NVML and plain `cuInit` open them, only a context maps them.
fn context(case: &Case<'_>) -> Option<Finding> {
    let seen = case.seen;
    let mut draft = Draft::of(Kind::Context);
    let is_context = |object| matches!(object, Object::Control | Object::Gpu(_));
    let mapped: Vec<_> = seen.mappings.iter().filter(|mapping| is_context(mapping.object)).collect();
    if let Some(first) = mapped.first() {
        let count = mapped.len();
        draft
            .add(Confidence::Certain, format!("{count} mappings of GPU devices, the first {}", first.line()));
    }
    for gpu in &case.gpus {
        let using = gpu.processes.iter().find(|using| is(using.pid, seen.pid) && !using.graphics);
        if let Some(bytes) = using.and_then(|using| using.bytes).filter(|bytes| *bytes > 0) {
            let (index, mib) = (gpu.index, bytes >> 20);
            draft.add(Confidence::Certain, format!("NVML counts {mib} MiB of GPU {index} as its own"));
        }
    }
    if seen.device_files().next().is_some() {
        // Without the library it is somebody else's context, or none.
        let library = seen.maps(Object::CudaLibrary);
        let sure = if library { Confidence::Likely } else { Confidence::Possible };
        draft.add(sure, format!("open: {}", open_devices(seen)));
    }
    // A library that is mapped, and nothing else, is a program that could use a GPU and does not, or one whose state the driver
    // has already taken.
    draft.confidence?;
    if let Some(library) = seen.mappings.iter().find(|mapping| mapping.object == Object::CudaLibrary) {
        draft.add(Confidence::Possible, format!("mapped: {}", library.path));
    }
    if let Some(thread) = seen.driver_thread() {
        draft.add(Confidence::Likely, format!("a thread of the driver's: {thread}"));
    }
    for socket in seen.sockets.iter().filter(|name| name.starts_with("@cuda-uvmfd-")) {
        draft.add(Confidence::Likely, format!("a socket of the driver's: {socket}"));
    }
    draft.done(None)
}

fn open_devices(seen: &Seen) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for file in seen.device_files() {
        *counts.entry(&file.path).or_default() += 1;
    }
    let shown: Vec<String> = counts.iter().map(|(path, count)| format!("{path} ×{count}")).collect();
    shown.join(", ")
}

/// Descriptors that came by `fork`.
///
/// `fork` copies descriptors and mappings but no threads, and a context cannot be used on the other side. The driver's
/// threads are what tells the two apart: a process with a context always has some. After `exec` not even the library is left.
fn inherited(case: &Case<'_>) -> Option<Finding> {
    let seen = case.seen;
    let first = seen.device_files().next().map(|_| open_devices(seen));
    let held = first.or_else(|| seen.device_mappings().next().map(|mapping| mapping.line()))?;
    let counted = case.gpus.iter().any(|gpu| gpu.processes.iter().any(|using| is(using.pid, seen.pid)));
    let has_library = seen.mappings.iter().any(|mapping| mapping.object.is_library());
    let mut draft = Draft::of(Kind::InheritedDescriptors);
    draft.blocks = true;
    if !has_library && !counted {
        let from_parent = case.parent.is_some_and(|parent| shares_devices(seen, parent));
        let sure = if from_parent { Confidence::Certain } else { Confidence::Likely };
        draft.add(sure, format!("it holds {held}, but has mapped no library of the driver"));
        if let Some(parent) = case.parent.filter(|_| from_parent) {
            draft
                .add(sure, format!("its parent {} ({}) holds the same descriptors", parent.pid, parent.comm));
        }
    } else if let Some(parent) = case.parent
        && seen.maps(Object::CudaLibrary)
        && parent.maps(Object::CudaLibrary)
        && seen.driver_thread().is_none()
        && !counted
    {
        let alone = seen.threads.len() <= 1 && parent.threads.len() > 1;
        let sure = match parent.driver_thread() {
            Some(_) if shares_devices(seen, parent) => Confidence::Certain,
            Some(_) => Confidence::Likely,
            None if alone && shares_devices(seen, parent) => Confidence::Likely,
            None => return None,
        };
        draft.add(sure, format!("it holds {held}, but has none of the driver's threads"));
        draft.add(sure, format!("its parent {} ({}) has the context", parent.pid, parent.comm));
    }
    draft.done(Some(
        "start worker processes by `spawn` or `forkserver` instead of `fork` \
         (multiprocessing.set_start_method(\"spawn\"); DataLoader(multiprocessing_context=\"spawn\")), before CUDA is first used, \
         or end the child",
    ))
}

/// Whether a device descriptor of the child has the same number in the parent and leads to the same device.
fn shares_devices(child: &Seen, parent: &Seen) -> bool {
    child.device_files().any(|file| parent.device_files().any(|of_parent| of_parent == file))
        || child.device_mappings().any(|mapping| parent.mappings.contains(mapping))
}

/// Devices held by NVML or another library of the driver, with CUDA nowhere near.
fn monitoring(case: &Case<'_>) -> Option<Finding> {
    let seen = case.seen;
    let library = seen.mappings.iter().find(|mapping| mapping.object.is_library())?;
    let computes = seen.maps(Object::CudaLibrary) || seen.maps(Object::GraphicsLibrary);
    if computes || seen.device_files().next().is_none() {
        return None;
    }
    let mut draft = Draft::of(Kind::Monitoring);
    draft.blocks = true;
    draft.add(Confidence::Likely, format!("open: {}", open_devices(seen)));
    draft.add(Confidence::Likely, format!("mapped: {}, and no libcuda", library.path));
    draft.done(Some(
        "end NVML (nvmlShutdown, pynvml.nvmlShutdown()) or the monitoring process before the snapshot",
    ))
}

/// Mappings of `/dev/nvidia-uvm`, whatever they are. A descriptor of it says nothing: every context has one.
fn uvm(case: &Case<'_>) -> Option<Finding> {
    let mapped: Vec<_> = case.seen.mappings.iter().filter(|mapping| mapping.object == Object::Uvm).collect();
    let mut draft = Draft::of(Kind::Uvm);
    let lines: Vec<String> = mapped.iter().map(|mapping| mapping.line()).collect();
    draft.add_some(Confidence::Certain, &lines);
    draft.done(None)
}

/// Managed memory.
///
/// Plain allocations have no mapping at all: the driver makes them by calls on the descriptor. A mapping of `/dev/nvidia-uvm`
/// has its own address as offset and is managed memory, a semaphore pool or memory of a peer device; with confidential
/// computing the driver makes managed ranges of its own for every process.
fn managed(case: &Case<'_>) -> Option<Finding> {
    let ranges: Vec<_> = case
        .seen
        .mappings
        .iter()
        .filter(|mapping| mapping.object == Object::Uvm && mapping.offset == mapping.start)
        .collect();
    if ranges.is_empty() {
        return None;
    }
    let kib: u64 = ranges.iter().map(|mapping| (mapping.end - mapping.start) >> 10).sum();
    let confidential = case.gpus.iter().any(|gpu| gpu.confidential == Some(true));
    let sure = if confidential { Confidence::Possible } else { Confidence::Likely };
    let mut draft = Draft::of(Kind::Managed);
    draft.blocks = true;
    let count = ranges.len();
    draft.add(
        sure,
        format!("{count} mappings of /dev/nvidia-uvm ({kib} KiB) have their own address as offset, as managed memory has"),
    );
    if confidential {
        draft.add(sure, "the GPU is in confidential mode, where the driver makes such mappings for itself");
    }
    draft.done(Some(
        "allocate without cudaMallocManaged: no paged optimizers (bitsandbytes: AdamW8bit instead of PagedAdamW8bit), no managed \
         allocator (CuPy: the default memory pool; RAPIDS: rmm without managed_memory; Numba: device_array instead of managed_array)",
    ))
}
