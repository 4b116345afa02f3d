//! What the pipelines need of the machine.
//!
//! A pipeline knows the order of things and what is durable when. What it does to the machine goes through these traits, which are given to
//! [`crate::Engine::open`] from outside, as one set ([`Ports`]):
//!
//! * [`Checkpointer`]: a tree's state becomes files, and files a tree.
//! * [`Habitat`]: where processes live.
//! * [`Gpu`]: what they have on GPUs.
//! * [`Examine`]: what the machine can and cannot do.
//!
//! So a container is another habitat, another driver another `Gpu`, and no pipeline changes; and tests can give it a machine that fails,
//! and a daemon that dies, at every request (`crate::trial`).
//!
//! **How to add a habitat.** Implement [`Habitat`] beside the others, in the crate `machine`; add a variant to [`HabitatKind`], which is how a
//! record names it, and a field to [`Ports`]; make it where the others are made. What is not written in a [`Record`] is not known after a
//! crash: whoever makes processes writes into the record which ones, before anything else can fail.
//!
//! **What all of them keep to.** A method returns when what it says is true, not before. It may be called again after a crash, by a daemon
//! that knows nothing but the record and the journal. An error means that nothing has changed, unless the method says otherwise.

mod checkpointer;
mod doctor;
mod error;
mod gpu;
mod habitat;
mod set;

pub use checkpointer::{Checkpointer, DumpWanted, Hold, RestoreWanted, Tree};
pub use doctor::Examine;
pub use error::{EngineError, Means};
pub use gpu::{
    AskDriver, Gpu, GpuHeld, GpuHost, GpuLook, GpuPlan, GpuWanted, Granted, OffGpu, OntoGpu, Placed,
};
pub use habitat::{Habitat, HoldAgain, Made, MadeBranch, Saving};
pub use image_store::{DevicePart, Storing};
pub use set::Ports;

pub use crate::steps::Steps;
pub use base::explain;
pub use session_record::journal::GpuJournal;
pub use session_record::place::{LOG, Place, make as make_private};
pub use session_record::{Adopted, ContainerRecord, HabitatKind, KernelRecord, Record};
