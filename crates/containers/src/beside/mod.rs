//! A second container beside one that is there: made by the same runtime, from the specification that the first one has now, with an id, a cgroup
//! and files of its own.
//!
//! Nothing of it comes from a snapshot. What a second container must not share with the first is changed in that specification ([`Second`]), and nothing else:
//!
//! | | runc | containerd | podman |
//! |---|---|---|---|
//! | the specification | a bundle of ours, with a changed copy of `config.json` | a container with a changed copy of the first one's | a clone, by podman |
//! | its own files | a directory that the bundle names as its root | a new snapshot on the layers that the first one is on | a new layer on the same image |
//! | cgroup | beside that of the first one, under its own id | the same | podman's, for its id |
//! | volumes | as they are, or those that somebody names for it | the same | the same |
//! | network | a namespace of its own, if the first one has one of its own | the same | the same; in a network of podman's with an address of its own |
//!
//! Its own files are empty at first: whoever asks for it fills them ([`copy_whole`]) with what the first one has. It is not started either: it is restored, as a
//! container that comes back (`back`). [`Maker::remove`](crate::back::Maker::remove) takes it away again.

mod containerd;
mod copy;
mod podman;
mod runc;
mod second;

pub use copy::{Copied, copy_whole};
pub use second::{Made, Second};
