//! What several processes share: CUDA IPC, NCCL, MPS.

use super::{Case, Draft, is};
use crate::object::Object;
use crate::report::{Confidence, Finding, Kind};

/// Each switches off a transport that shares device memory between processes.
const NCCL_WITHOUT_SHARING: &[(&str, &str)] =
    &[("NCCL_P2P_DISABLE", "1"), ("NCCL_SHM_DISABLE", "1"), ("NCCL_NVLS_ENABLE", "0")];

pub(super) fn all(case: &Case<'_>) -> Vec<Finding> {
    [ipc(case), nccl(case), mps(case)].into_iter().flatten().collect()
}

/// Memory handles passed between processes.
fn ipc(case: &Case<'_>) -> Option<Finding> {
    let mut draft = Draft::of(Kind::Ipc);
    let shared = case.lines(|object| object == Object::CudaShared);
    draft.add_some(Confidence::Likely, &shared);
    draft.blocks = !shared.is_empty();
    let torch = case.lines(|object| object == Object::TorchShared);
    if case.any(Object::is_device) && !torch.is_empty() {
        draft.add_some(Confidence::Possible, &torch);
        draft.add(Confidence::Possible, "torch shares tensors in such files; those of the CPU, too");
    }
    draft.done(Some(
        "do not pass CUDA tensors between processes (send them by way of the CPU), and end the processes that received some; \
         vLLM: --disable-custom-all-reduce",
    ))
}

/// Collective communication. That the library is mapped says nothing: torch always maps it.
fn nccl(case: &Case<'_>) -> Option<Finding> {
    let seen = case.seen;
    let mut draft = Draft::of(Kind::Nccl);
    let shared = case.lines(|object| object == Object::NcclShared);
    draft.add_some(Confidence::Certain, &shared);
    let threads: Vec<String> = seen
        .threads
        .iter()
        .filter(|name| name.starts_with("NCCL ") || name.starts_with("nccl"))
        .map(|name| format!("thread {name}"))
        .collect();
    draft.add_some(Confidence::Likely, &threads);
    let sockets: Vec<String> = seen
        .sockets
        .iter()
        .filter(|name| name.contains("nccl-socket"))
        .map(|name| format!("socket {name}"))
        .collect();
    draft.add_some(Confidence::Likely, &sockets);
    let active = draft.confidence.is_some();
    let variables: Vec<String> = seen
        .environment
        .iter()
        .filter(|(name, _)| name.starts_with("NCCL_"))
        .map(|(name, value)| format!("{name}={value} in its environment"))
        .collect();
    draft.add_some(Confidence::Possible, &variables);
    let without_sharing =
        NCCL_WITHOUT_SHARING.iter().all(|(name, value)| seen.variable(name) == Some(*value));
    draft.blocks = active && !without_sharing;
    if active && without_sharing {
        draft.add(Confidence::Possible, "its transports that share device memory are switched off");
    }
    let way_out = "start the processes with NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_NVLS_ENABLE=0 (slower between GPUs of one \
         machine), or end the group before the snapshot (torch.distributed.destroy_process_group())";
    draft.done(Some(way_out).filter(|_| !without_sharing))
}

/// The multi-process service, where contexts of several processes live in one server.
fn mps(case: &Case<'_>) -> Option<Finding> {
    let seen = case.seen;
    let mut draft = Draft::of(Kind::Mps);
    if seen.comm.starts_with("nvidia-cuda-mps") {
        draft.add(Confidence::Certain, format!("it is the service itself ({})", seen.comm));
    }
    draft.add_some(Confidence::Certain, &case.lines(|object| object == Object::MpsShared));
    for gpu in &case.gpus {
        if gpu.processes.iter().any(|using| using.mps && is(using.pid, seen.pid)) {
            draft.add(
                Confidence::Certain,
                format!("NVML counts it as a client of the service on GPU {}", gpu.index),
            );
        }
    }
    let directory = seen.service_directory();
    let serving = seen.services.first();
    if let Some(directory) = directory {
        let sure = if serving.is_some() { Confidence::Likely } else { Confidence::Possible };
        draft.add(sure, format!("CUDA_MPS_PIPE_DIRECTORY={directory} in its environment"));
    }
    if let Some(socket) = serving {
        draft.add(Confidence::Possible, format!("the service listens on {socket}"));
    }
    draft.blocks = draft.confidence >= Some(Confidence::Likely);
    draft.done(Some(
        "run it without the service: leave CUDA_MPS_PIPE_DIRECTORY unset and stop the service \
         (echo quit | nvidia-cuda-mps-control), or point the variable at an empty directory",
    ))
}
