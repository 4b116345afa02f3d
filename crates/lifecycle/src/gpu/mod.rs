//! The GPU's part of every pipeline: what is asked of the port ([`crate::ports::Gpu`]), and what becomes of a session whose work is off the GPU.
//!
//! What the driver will not give back is said in the record (`gpu_trouble`) and tried again by a resume, by the next operation, by the
//! next start, and as soon as it may work again if something is in the way that can pass.

mod onto;
mod recover;

pub(crate) use onto::Wanted;
