//! Containers as they are: found, described in one type, and looked at before anything is done to them.
//!
//! [`Places`] says whom to ask (sockets of containerd, state directories of runc and crun, podman), [`Query`] what was asked for (an id, a
//! name, a pod, a process), and [`find()`] gives the one [`Container`] that fits. [`examine()`] looks at it as it runs: who holds it still,
//! what it has on GPUs, and what of its mounts, filters and layers a snapshot has to know. Nothing is changed by any of it.
//! A second one beside it is made in [`beside`]. What is done to a container is in [`back`]: how it is saved so that its runtime can make it again, and how it is asked to. And one that
//! somebody holds still is let go for a while, if its user asks for that ([`thaw()`]).
//!
//! What a runtime says about a container is believed as far as it goes about the runtime; what comes from inside of it, file names and
//! numbers of processes too, is the word of somebody else's program. All of it is bounded in size, and every question in time.
#![forbid(unsafe_code)]

pub mod back;
pub mod beside;
mod command;
pub mod container;
pub mod devices;
pub mod error;
pub mod examine;
mod find;
pub mod finding;
mod gpus;
pub mod held;
mod layers;
mod member;
mod places;
mod processes;
mod query;
mod runtimes;
#[cfg(test)]
mod sample;
mod seccomp;
pub mod specification;
mod thaw;
mod volumes;

pub use container::{Container, ContainerId, Image, Kind, Pod, RootFilesystem, Runtime, Status};
pub use error::{Class, ContainerError, Result};
pub use examine::{Examination, examine};
pub use find::find;
pub use finding::{Finding, Topic, Weight};
pub use held::{By, Held};
pub use places::{Narrowed, Places};
pub use query::Query;
pub use specification::{Specification, SpecifiedDevice, SpecifiedMount, SpecifiedNamespace};
pub use thaw::{Thawed, check_free, thaw};
pub use volumes::Volumes;
