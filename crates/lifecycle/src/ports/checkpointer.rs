//! How the state of a process tree becomes files, and files a tree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(doc)]
use checkpoint_criu::CriuError;
use checkpoint_criu::{Dumped, Hooks, Leave, MapId, Missing};
use sandbox::User;
use sandbox::process::Identity;
use session_record::{ContainerRecord, HabitatKind, Record, SessionId};

use crate::error::Result;

/// Writes the state of process trees to files, and makes processes of such files.
pub trait Checkpointer: Send + Sync {
    /// An error says why nothing can be dumped or restored here.
    fn ready(&self) -> Result<()>;

    /// Its version, which a snapshot names; `None` if there is none.
    fn version(&self) -> Option<String>;

    /// An error says why trees of the host cannot be dumped or restored by this daemon.
    fn can_serve_host(&self) -> Result<()>;

    /// Whether most of a tree's memory is copied while it runs, unless a device may write to it.
    fn copies_ahead(&self, tree: &Tree<'_>) -> bool;

    /// Freezes a tree and writes it out. At [`checkpoint_criu::Event::PostDump`] everything stands still. On an error the tree
    /// runs on. One that says that memory could not take its way ([`checkpoint_criu::CriuError::Memory`]) asks for another attempt, with
    /// [`DumpWanted::stored`] as `None`.
    fn dump(&self, tree: &Tree<'_>, wanted: &DumpWanted<'_>, hooks: &mut dyn Hooks) -> Result<Dumped>;

    /// Whether it can bring back pages that are not in the images ([`RestoreWanted::missing`]), for trees that live there.
    fn can_fill(&self, kind: HabitatKind) -> bool;

    /// Makes the processes, and says the number of the first one as CRIU sees it. On an error none of them has run, unless it is
    /// [`CriuError::Stopped`]; but some may be there.
    fn restore(&self, tree: &Tree<'_>, wanted: &RestoreWanted<'_>, hooks: &mut dyn Hooks) -> Result<i32>;

    /// Lets a tree go on that a dump has left stopped, or may have.
    fn release(&self, init: Identity);
}

/// Whose tree it is, and where it lives.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a> {
    /// Its session, if it has one.
    pub session: Option<&'a SessionId>,
    /// Where it lives.
    pub kind: HabitatKind,
    /// The box, if it lives in one.
    pub holder: Option<Identity>,
    /// The container, if it is one.
    pub container: Option<&'a ContainerRecord>,
    /// Whose it is.
    pub owner: &'a User,
}

impl<'a> Tree<'a> {
    pub(crate) fn of(record: &'a Record) -> Self {
        let (session, container) = (Some(&record.id), record.container.as_ref());
        Self { session, kind: record.habitat, holder: record.holder, container, owner: &record.owner }
    }

    /// Of the host, without a session.
    pub(crate) fn of_host(owner: &'a User) -> Self {
        Self { session: None, kind: HabitatKind::HostTree, holder: None, container: None, owner }
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
    /// What the newest snapshot has of the memory of the tree's processes, by their numbers in its images. `None` if memory must not be copied
    /// before the tree stands still: a device may write to it behind the kernel's back.
    pub stored: Option<&'a BTreeMap<u32, MapId>>,
}

/// A restore.
pub struct RestoreWanted<'a> {
    /// The images.
    pub images: &'a Path,
    /// The pages that are not in them.
    pub missing: Option<Arc<dyn Missing>>,
    /// Whether no device will write to their memory, so that all writes can be followed from the first instruction on.
    pub follow: bool,
    /// Where the log goes.
    pub log_dir: &'a Path,
    /// Whether file locks are taken again. Not for a branch, whose original has them.
    pub file_locks: bool,
    /// Asked when all processes are whole and stand still, with the number of the first. They wait for as long as it takes to answer, and are gone if this daemon ends
    /// meanwhile; with `false` none of them ever runs, and the restore is an error.
    pub hold: Option<Hold>,
}

/// Says whether processes that stand by are to go.
pub type Hold = Arc<dyn Fn(i32) -> bool + Send + Sync>;
