//! Whoever makes a container, and makes it again.

use std::path::PathBuf;
use std::process::Child;

use super::containerd::Containerd;
use super::error::Result;
use super::podman::Podman;
use super::restoring::{Restore, descriptors};
use super::runc::Runc;
use super::runc_state::RuncState;
use crate::container::ContainerId;

/// A container, and how its runtime is asked about it. All of them have runc below.
#[derive(Clone, Copy, Debug)]
pub enum Maker<'a> {
    /// runc by itself.
    Runc(Runc<'a>),
    /// containerd.
    Containerd(Containerd<'a>),
    /// podman.
    Podman(Podman<'a>),
}

impl Maker<'_> {
    /// What runc has written down about it while it runs.
    pub fn state(&self) -> Result<RuncState> {
        let (root, id): (PathBuf, &ContainerId) = match self {
            Self::Runc(runc) => (runc.root.to_owned(), runc.id),
            Self::Containerd(containerd) => (containerd.state(), containerd.id),
            Self::Podman(podman) => (podman.state().to_owned(), podman.id),
        };
        RuncState::read(&root, id)
    }

    /// Whether connections can come back closed. Others start CRIU where we have no say; a container of theirs that has connections is
    /// refused at the dump.
    pub fn closes_connections(&self) -> bool {
        matches!(self, Self::Runc(_))
    }

    /// Makes the container from images, and says the number of its first process. `started` is told of a process that does it for us, before that
    /// has done anything.
    pub fn restore(&self, wanted: &Restore<'_>, started: impl FnOnce(&Child)) -> Result<i32> {
        match self {
            Self::Runc(runc) => runc.restore(wanted, started),
            Self::Containerd(containerd) => {
                let pipes = descriptors(wanted.images)?.iter().any(|name| name.starts_with("pipe:"));
                containerd.restore(wanted, pipes)
            }
            Self::Podman(podman) => podman.restore(wanted),
        }
    }

    /// Has the runtime forget the processes of the container, so that it can be made again; with `force` they are ended first. Without, a
    /// container that runs stays. It is no error if there is none.
    pub fn delete(&self, force: bool) -> Result<()> {
        match self {
            Self::Runc(runc) => runc.delete(force),
            Self::Containerd(containerd) => containerd.delete(force),
            Self::Podman(podman) => podman.delete(force),
        }
    }
}
