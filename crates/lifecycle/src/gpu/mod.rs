//! The GPU's part of every pipeline.
//!
//! Process state and GPU state are taken in two stages, always in this order, and in the reverse order brought back:
//!
//! 1. *look* ([`gpu_plan::look`]): who in the tree uses a GPU, and is there anything that the driver cannot take? Everything that could
//!    refuse is asked here, with nothing touched. A tree that uses no GPU pays for a look into `/proc` and no more.
//! 2. *off the GPU* ([`stage`]): the driver locks all CUDA processes of the tree, then checkpoints all, while the tree runs. Their
//!    device memory is then ordinary memory of theirs, and the descriptors of the devices are closed.
//! 3. CRIU freezes and dumps what are ordinary processes now.
//! 4. *back onto the GPU* ([`stage`], [`onto`]): all are restored, then all are unlocked.
//!
//! A frozen process can never be locked, so nothing may freeze the tree before 2 is done, and CRIU's own CUDA plugin is
//! kept out (it would restore and unlock behind our back).
//!
//! Every lock is a guard (`checkpoint_cuda::Tree`, whose drop undoes it) and a line in the [journal](crate::journal), so neither a
//! panic nor a kill leaves a process locked: see [`recover`]. What the driver will not give back is said in the record
//! (`gpu_trouble`) and tried again by a resume, by the next operation and by the next start.
//!
//! Which GPU takes whose place at a restore is decided by `gpu-plan`, and nobody is promised the same bytes twice.

mod gone;
mod onto;
mod recover;
mod stage;

pub(crate) use gone::Gone;
pub(crate) use gpu_plan::{Gpus, in_manifest, look, used_by};
pub(crate) use onto::{GpuAim, Placed, Wanted, nodes_for};
pub(crate) use recover::explain;
pub(crate) use stage::{GpuTaken, OffGpu};
