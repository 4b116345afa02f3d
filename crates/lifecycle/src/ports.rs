//! What the pipelines need of the machine, and who does it.
//!
//! A pipeline knows the order of things and what is durable when. How a tree's state becomes files is a [`Checkpointer`]'s
//! business, where its processes live a [`Habitat`]'s. Both are given to the engine from outside, so that a container is
//! another habitat and no pipeline changes; and so that tests can give it a machine that fails, and a daemon that dies, at
//! every request (`crate::trial`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use checkpoint_criu::{Criu, Dumped, Hooks, Leave};
use sandbox::User;
use sandbox::process::Identity;

use crate::error::Result;
use crate::habitat::{Habitat, HabitatKind};
use crate::record::Record;

/// Everything that is done to the machine.
pub(crate) struct Ports {
    pub(crate) checkpointer: Arc<dyn Checkpointer>,
    pub(crate) own_box: Arc<dyn Habitat>,
    pub(crate) host_tree: Arc<dyn Habitat>,
}

impl Ports {
    /// Where a session's processes live.
    pub(crate) fn habitat(&self, kind: HabitatKind) -> &dyn Habitat {
        match kind {
            HabitatKind::OwnBox => self.own_box.as_ref(),
            HabitatKind::HostTree => self.host_tree.as_ref(),
        }
    }
}

/// Writes the state of process trees to files, and makes processes of such files.
pub(crate) trait Checkpointer: Send + Sync {
    /// An error says why nothing can be dumped or restored here.
    fn ready(&self) -> Result<()>;

    /// CRIU itself, for those who look at it.
    fn criu(&self) -> Option<&Criu>;

    /// An error says why trees of the host cannot be dumped or restored by this daemon.
    fn can_serve_host(&self) -> Result<()>;

    /// Freezes a tree and writes it out. At [`checkpoint_criu::Event::PostDump`] everything stands still. On an error the tree
    /// runs on.
    fn dump(&self, tree: &Tree<'_>, wanted: &DumpWanted<'_>, hooks: &mut dyn Hooks) -> Result<Dumped>;

    /// Makes the processes, and says the number of the first one as CRIU sees it.
    fn restore(&self, tree: &Tree<'_>, wanted: &RestoreWanted<'_>, hooks: &mut dyn Hooks) -> Result<i32>;

    /// Lets a tree go on that a dump has left stopped, or may have.
    fn release(&self, init: Identity);
}

/// Whose tree it is, and where it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree<'a> {
    pub(crate) kind: HabitatKind,
    /// The box, if it lives in one.
    pub(crate) holder: Option<Identity>,
    pub(crate) owner: &'a User,
}

impl<'a> Tree<'a> {
    pub(crate) fn of(record: &'a Record) -> Self {
        Self { kind: record.habitat, holder: record.holder, owner: &record.owner }
    }
}

/// A dump.
#[derive(Debug)]
pub(crate) struct DumpWanted<'a> {
    /// The first process of the tree, as the machine numbers it.
    pub(crate) init: Identity,
    /// An empty directory for the images.
    pub(crate) images: &'a Path,
    pub(crate) log_dir: &'a Path,
    /// What becomes of the tree.
    pub(crate) leave: Leave,
    /// Where files may be that the tree watches.
    pub(crate) watched: Vec<PathBuf>,
}

/// A restore.
#[derive(Debug)]
pub(crate) struct RestoreWanted<'a> {
    pub(crate) images: &'a Path,
    pub(crate) log_dir: &'a Path,
    /// Whether file locks are taken again. Not for a branch, whose original has them.
    pub(crate) file_locks: bool,
}
