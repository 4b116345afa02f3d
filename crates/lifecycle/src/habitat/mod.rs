//! Where the processes of a session live.
//!
//! Today in a box of ours ([`OwnBox`]: user, PID, mount, network and other namespaces) or, adopted while they ran, on the machine
//! itself ([`HostTree`]). A [`Habitat`] answers for everything that differs: how processes get there, what they have beside their
//! memory, how their paths relate to ours, whether a second one can live next to the first, and how all of it ends. The pipelines ask
//! it and never look which one it is.
//!
//! A container would be a third one: a variant of [`HabitatKind`], a file beside those two, and a field of [`crate::ports::Ports`].

mod ending;
mod host_tree;
mod kind;
mod own_box;
mod port;

pub(crate) use host_tree::HostTree;
pub(crate) use kind::HabitatKind;
pub(crate) use own_box::OwnBox;
pub(crate) use port::{Habitat, Made};
