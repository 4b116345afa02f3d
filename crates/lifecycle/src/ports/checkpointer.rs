//! How the state of a process tree becomes files, and files a tree.

use std::path::{Path, PathBuf};

use checkpoint_criu::{Dumped, Hooks, Leave};
use sandbox::User;
use sandbox::process::Identity;

use crate::error::Result;
use crate::ports::HabitatKind;
use crate::record::Record;

/// Writes the state of process trees to files, and makes processes of such files.
pub trait Checkpointer: Send + Sync {
    /// An error says why nothing can be dumped or restored here.
    fn ready(&self) -> Result<()>;

    /// Its version, which a snapshot names; `None` if there is none.
    fn version(&self) -> Option<String>;

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
pub struct Tree<'a> {
    /// Where it lives.
    pub kind: HabitatKind,
    /// The box, if it lives in one.
    pub holder: Option<Identity>,
    /// Whose it is.
    pub owner: &'a User,
}

impl<'a> Tree<'a> {
    pub(crate) fn of(record: &'a Record) -> Self {
        Self { kind: record.habitat, holder: record.holder, owner: &record.owner }
    }
}

/// A dump.
#[derive(Debug)]
pub struct DumpWanted<'a> {
    /// The first process of the tree, as the machine numbers it.
    pub init: Identity,
    /// An empty directory for the images.
    pub images: &'a Path,
    /// Where the log goes.
    pub log_dir: &'a Path,
    /// What becomes of the tree.
    pub leave: Leave,
    /// Where files may be that the tree watches.
    pub watched: Vec<PathBuf>,
}

/// A restore.
#[derive(Debug)]
pub struct RestoreWanted<'a> {
    /// The images.
    pub images: &'a Path,
    /// Where the log goes.
    pub log_dir: &'a Path,
    /// Whether file locks are taken again. Not for a branch, whose original has them.
    pub file_locks: bool,
}
