//! Where the processes of a session live.
//!
//! In a box of ours ([`OwnBox`]: user, PID, mount, network and other namespaces) or, adopted while they ran, on the machine itself
//! ([`HostTree`]) or in a container ([`Containers`]). The pipelines ask each of them as a [`lifecycle::ports::Habitat`] and never look which one it is.

mod beside;
mod claims;
mod container;
mod ending;
mod host_tree;
mod joined;
mod own_box;
mod room;
mod same_files;
mod second;
mod suitable;

pub(crate) use container::Containers;
pub(crate) use host_tree::HostTree;
pub(crate) use own_box::OwnBox;
