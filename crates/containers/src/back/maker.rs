//! Whoever makes a container, and makes it again.

use std::path::PathBuf;
use std::process::Child;

use super::claimed::Claimed;
use super::containerd::Containerd;
use super::crun::Crun;
use super::error::Result;
use super::podman::Podman;
use super::restoring::{Restore, descriptors};
use super::runc::Runc;
use super::runc_state::RuncState;
use super::strays::end_strays;
use super::stuck::{Restored, watched};
use crate::beside::{Made, Second};
use crate::container::ContainerId;
use crate::specification::Specification;

/// A container, and how its runtime is asked about it. containerd and podman have runc below.
#[derive(Clone, Copy, Debug)]
pub enum Maker<'a> {
    /// runc by itself.
    Runc(Runc<'a>),
    /// crun by itself.
    Crun(Crun<'a>),
    /// containerd.
    Containerd(Containerd<'a>),
    /// podman.
    Podman(Podman<'a>),
}

impl Maker<'_> {
    /// What runc or crun has written down about it while it runs; an error if it could not be made again.
    pub fn state(&self) -> Result<RuncState> {
        match self {
            Self::Crun(crun) => crun.state(),
            _ => RuncState::read(&self.states(), self.id()),
        }
    }

    /// Where whoever makes it keeps the states of its containers.
    fn states(&self) -> PathBuf {
        match self {
            Self::Runc(runc) => runc.root.to_owned(),
            Self::Crun(crun) => crun.root.to_owned(),
            Self::Containerd(containerd) => containerd.state(),
            Self::Podman(podman) => podman.state().to_owned(),
        }
    }

    fn id(&self) -> &ContainerId {
        match self {
            Self::Runc(runc) => runc.id,
            Self::Crun(crun) => crun.id,
            Self::Containerd(containerd) => containerd.id,
            Self::Podman(podman) => podman.id,
        }
    }

    /// Whether connections can come back closed. Others start CRIU where we have no say; a container of theirs that has connections is
    /// refused at the dump.
    pub fn closes_connections(&self) -> bool {
        matches!(self, Self::Runc(_) | Self::Crun(_))
    }

    /// Whether cgroups that were made within the container's own come back with it.
    pub fn keeps_cgroups_below(&self) -> bool {
        !matches!(self, Self::Crun(_))
    }

    /// Refuses images that the runtime would not restore, though the specification allows them.
    pub fn accepts(&self, claimed: &Claimed) -> Result<()> {
        match self {
            Self::Crun(crun) => crun.accepts(claimed),
            _ => Ok(()),
        }
    }

    /// Refuses a specification by which the container would come back to another place than the images name.
    pub fn goes_back_into(&self, then: &Specification, now: &Specification) -> Result<()> {
        match self {
            Self::Crun(crun) => crun.goes_back_into(then, now),
            _ => Ok(()),
        }
    }

    /// Has the runtime keep what it would forget of a container that ends, and that it comes back with. Its first process still runs.
    pub fn about_to_end(&self, init: i32) -> Result<()> {
        match self {
            Self::Podman(podman) => podman.keep_addresses(init),
            Self::Runc(_) | Self::Crun(_) | Self::Containerd(_) => Ok(()),
        }
    }

    /// Makes the container from images, and says the number of its first process. `started` is told of a process that does it for us, before that
    /// has done anything.
    pub fn restore(&self, wanted: &Restore<'_>, started: impl FnOnce(&Child)) -> Result<i32> {
        watched(Restored { root: &self.states(), id: self.id() }, |which| match self {
            Self::Runc(runc) => runc.restore(wanted, |child| {
                // Our own programs in its place become it.
                if let Ok(pid) = i32::try_from(child.id()) {
                    let _once = which.set(pid);
                }
                started(child);
            }),
            Self::Crun(crun) => crun.restore(wanted, started),
            Self::Containerd(containerd) => {
                let pipes = descriptors(wanted.images)?.iter().any(|name| name.starts_with("pipe:"));
                containerd.restore(wanted, pipes)
            }
            Self::Podman(podman) => podman.restore(wanted),
        })
    }

    /// Ends all processes that a restore of the container has left which was cut short, and whoever still makes some, and waits until they are gone.
    /// `false` if some are still there. The container does not run.
    pub fn end_strays(&self, specification: &Specification) -> bool {
        end_strays(specification, Restored { root: &self.states(), id: self.id() })
    }

    /// Makes a second container beside this one, which is not started.
    pub fn beside(&self, second: &Second<'_>) -> Result<Made> {
        match self {
            Self::Runc(runc) => runc.beside(second),
            Self::Crun(crun) => Err(crun.refused("crun would put a second one into the cgroup of the first")),
            Self::Containerd(containerd) => containerd.beside(second),
            Self::Podman(podman) => podman.beside(second),
        }
    }

    /// Removes a container that was made beside another, with its layer; with `force` its processes are ended first. Without, one that runs
    /// stays. It is no error if there is none. What lies in directories of ours is not the runtime's.
    pub fn remove(&self, force: bool) -> Result<()> {
        match self {
            Self::Runc(runc) => runc.delete(force),
            Self::Crun(crun) => crun.delete(force),
            Self::Containerd(containerd) => {
                containerd.delete(force)?;
                containerd.remove_container()
            }
            Self::Podman(podman) => podman.remove_container(force),
        }
    }

    /// Has the runtime forget the processes of the container, so that it can be made again; with `force` they are ended first. Without, a
    /// container that runs stays. It is no error if there is none.
    pub fn delete(&self, force: bool) -> Result<()> {
        match self {
            Self::Runc(runc) => runc.delete(force),
            Self::Crun(crun) => crun.delete(force),
            Self::Containerd(containerd) => containerd.delete(force),
            Self::Podman(podman) => podman.delete(force),
        }
    }
}
