//! The CRIU of this machine as the pipelines' [`Checkpointer`].
//!
//! In a box it runs inside, with the rights of the box's user namespace. For a tree of the host and for a container it runs beside it, which
//! only root's own daemon can do; a container comes back by its runtime ([`crate::containers_here`]). It is looked for at first use, so that a machine without it can still list sessions and tell what is
//! missing. What it learns about the kernel is kept in a file of this daemon's own, one for each of the two places where it runs.
//!
//! The memory of a session in a box or in a container is copied ahead ([`crate::ahead`]) if that is switched on, CRIU agrees, and the caller says that nothing
//! writes to it behind the kernel's back. Otherwise it goes through CRIU's images. What comes back in a container goes through them in any case: they are for its
//! runtime's CRIU.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use checkpoint_criu::{Criu, DumpOptions, Dumped, Habitat, Hooks, MemoryPath, Plain, RestoreOptions, Runner};
use lifecycle::ports::{
    Checkpointer, DumpWanted, HabitatKind, Place, RestoreWanted, Tree, explain, make_private,
};
use lifecycle::{LifecycleError, Result, SessionId};
use memory_path::{Sample, Task, kernel_lists_pages};
use sandbox::process::Identity;
use sandbox::{Program, ROOT_PID, User, inside, inside_directory};

use crate::ahead::{AheadPath, Courses, Mistrust, Plainly};
use crate::containers_here;
use crate::criu_notes;
use crate::filling::FillAndHold;
use crate::settings::CopyAhead;

/// Pages that are compared at each freeze although they are called clean: of each process. They take a fraction of a millisecond.
const SAMPLE: Sample = Sample::Pages(256);

/// CRIU, and what is known about it.
pub(crate) struct CriuHere {
    /// Where it is, if it is not to be looked for.
    named: Option<PathBuf>,
    time_limit: Duration,
    memory: MemoryWays,
    /// Sessions that are not followed any more.
    mistrust: Mistrust,
    /// Its notes with which it leaves memory to us, in boxes and beside containers, or why there are none.
    changed_notes: OnceLock<Result<PathBuf, String>>,
    changed_beside: OnceLock<Result<PathBuf, String>>,
    program: Program,
    place: Place,
    /// Where it keeps what it learns about the kernel.
    notes: PathBuf,
    found: OnceLock<(Criu, PathBuf)>,
    /// Its notes on the kernel for trees outside of boxes.
    host_notes: OnceLock<PathBuf>,
}

/// How the memory of trees in boxes and containers leaves, and that of those in boxes comes back. Dumps of the host's trees are for others, too, so CRIU
/// makes them alone.
pub(crate) struct MemoryWays {
    /// Whether it is copied ahead.
    pub(crate) copy_ahead: CopyAhead,
    /// Those that are followed.
    pub(crate) following: Arc<Courses>,
    /// How it comes back.
    pub(crate) way_back: Arc<dyn MemoryPath>,
}

impl CriuHere {
    pub(crate) fn new(
        named: Option<PathBuf>,
        time_limit: Duration,
        place: &Place,
        program: &Program,
        memory: MemoryWays,
    ) -> Self {
        Self {
            named,
            time_limit,
            memory,
            mistrust: Mistrust::new(place),
            changed_notes: OnceLock::new(),
            changed_beside: OnceLock::new(),
            program: program.clone(),
            place: place.clone(),
            notes: place.run.join("kdat"),
            found: OnceLock::new(),
            host_notes: OnceLock::new(),
        }
    }

    /// CRIU, and the file that tells it what it once learnt about this kernel.
    fn found(&self) -> Result<&(Criu, PathBuf)> {
        if let Some(found) = self.found.get() {
            return Ok(found);
        }
        let criu = Criu::find(self.named.as_deref())?;
        let notes = criu.learn_kernel(&self.notes, |criu| {
            criu_notes::in_box(&self.program, &self.notes.join("box"), criu)
        })?;
        Ok(self.found.get_or_init(|| (criu, notes)))
    }

    /// CRIU, for those who look at it.
    pub(crate) fn criu(&self) -> Option<&Criu> {
        self.found().ok().map(|(criu, _)| criu)
    }

    /// CRIU for trees outside of boxes, which only root may dump, and its notes on the kernel.
    pub(crate) fn for_host(&self) -> Result<(&Criu, &Path)> {
        if !rustix::process::geteuid().is_root() {
            return Err(LifecycleError::BadRequest {
                detail: "processes outside of a session can be saved only by root's own daemon; start the program with \
                         `infinijup run`, or ask with `sudo infinijup`"
                    .to_owned(),
            });
        }
        let (criu, _) = self.found()?;
        if let Some(notes) = self.host_notes.get() {
            return Ok((criu, notes));
        }
        let directory = self.notes.join("host");
        make_private(&directory)?;
        let notes = criu.learn_kernel(&directory, checkpoint_criu::kernel_notes_of_host)?;
        Ok((criu, self.host_notes.get_or_init(|| notes)))
    }

    /// The notes with which CRIU leaves memory to us where trees of this sort live; an error says why it is not asked to.
    pub(crate) fn notes_for_copying_ahead(&self, kind: HabitatKind) -> Result<&Path, String> {
        if self.memory.copy_ahead == CopyAhead::Off {
            return Err("it is switched off".to_owned());
        }
        kernel_lists_pages().map_err(|error| explain(&error))?;
        let (learnt, name) = match kind {
            HabitatKind::OwnBox => (&self.changed_notes, "ahead"),
            HabitatKind::Container => (&self.changed_beside, "ahead-beside"),
            HabitatKind::HostTree => return Err("its dumps are for others, too".to_owned()),
        };
        let learn = || -> Result<PathBuf> {
            let directory = self.notes.join(name);
            make_private(&directory)?;
            Ok(if kind == HabitatKind::Container {
                let (criu, notes) = self.for_host()?;
                criu.learn_kernel(&directory, |criu| {
                    criu_notes::changed_beside(&self.program, &directory, criu, notes)
                })?
            } else {
                let (criu, notes) = self.found()?;
                let scratch = directory.join("box");
                criu.learn_kernel(&directory, |criu| {
                    criu_notes::changed(&self.program, &scratch, criu, notes)
                })?
            })
        };
        let learnt = learnt.get_or_init(|| learn().map_err(|error| explain(&error)));
        learnt.as_deref().map_err(Clone::clone)
    }

    /// How CRIU is run for a tree, and how it sees things there; in a box or beside a container with these notes, or with its own.
    fn runner(
        &self,
        tree: &Tree<'_>,
        images: &Path,
        log_dir: &Path,
        notes: Option<&Path>,
    ) -> Result<(Runner, Habitat)> {
        match (tree.kind, tree.holder) {
            (HabitatKind::OwnBox, Some(holder)) => {
                let notes = notes.map_or_else(|| self.found().map(|(_, notes)| notes.as_path()), Ok)?;
                let words = inside(&self.program, holder, Some(notes), &[images, log_dir]);
                let habitat = Habitat::Box {
                    images: inside_directory(0),
                    log_dir: inside_directory(1),
                    root: ROOT_PID,
                };
                Ok((Runner(words), habitat))
            }
            (HabitatKind::OwnBox, None) => {
                Err(LifecycleError::Bug("a session in a box has no box to run CRIU in".to_owned()))
            }
            (HabitatKind::HostTree | HabitatKind::Container, _) => {
                let (_, own) = self.for_host()?;
                let runner = match notes {
                    Some(changed) => Runner(sandbox::own_notes_runner(&self.program, changed, own)),
                    None => self.beside(tree.owner, own),
                };
                Ok((runner, Habitat::Host))
            }
        }
    }

    /// The session of a tree that may be followed, and the notes for that.
    fn may_follow<'a>(&self, tree: &Tree<'a>) -> Result<(&'a SessionId, &Path), Plainly> {
        let session = tree.session.filter(|_| tree.kind != HabitatKind::HostTree).ok_or(Plainly::Device)?;
        if self.mistrust.of(session).is_some() {
            return Err(Plainly::Mistrusted);
        }
        Ok((session, self.notes_for_copying_ahead(tree.kind).map_err(|_| Plainly::NotHere)?))
    }

    /// The sessions that are not followed any more, and why.
    pub(crate) fn not_followed(&self) -> BTreeMap<String, String> {
        self.mistrust.all()
    }

    /// The way out for a tree's memory, and the notes that CRIU needs for it, if they are not its own.
    fn way_out(&self, tree: &Tree<'_>, wanted: &DumpWanted<'_>) -> (Arc<dyn MemoryPath>, Option<&Path>) {
        let plain = || -> (Arc<dyn MemoryPath>, Option<&Path>) { (Arc::new(Plain), None) };
        let has_device = || tree.kind == HabitatKind::Container && containers_here::has_device(wanted.init);
        let stored = wanted.stored.filter(|_| !has_device()).ok_or(Plainly::Device);
        let (stored, (session, notes)) = match stored.and_then(|stored| Ok((stored, self.may_follow(tree)?)))
        {
            Ok(followed) => followed,
            Err(why) => {
                // What CRIU, and perhaps a device, do to it now is not followed.
                self.memory.following.forget(wanted.init, why);
                return plain();
            }
        };
        let task = |pid: &u32| i32::try_from(*pid).ok().map(Task);
        let way = AheadPath {
            courses: Arc::clone(&self.memory.following),
            mistrust: self.mistrust.clone(),
            session: session.clone(),
            root: wanted.init,
            stored: stored.iter().filter_map(|(pid, map)| Some((task(pid)?, *map))).collect(),
            sample: if self.memory.copy_ahead == CopyAhead::Checked { Sample::All } else { SAMPLE },
        };
        (Arc::new(way), Some(notes))
    }

    /// How CRIU is run for a tree without a box: in the tree's own mount namespace, or all mounts of the machine would be dumped
    /// with it. Root's own trees need no runner.
    fn beside(&self, owner: &User, notes: &Path) -> Runner {
        if owner.uid == 0 {
            Runner::default()
        } else {
            Runner(sandbox::real_ids_runner(&self.program, owner, notes))
        }
    }
}

impl Checkpointer for CriuHere {
    fn ready(&self) -> Result<()> {
        self.found().map(drop)
    }

    fn version(&self) -> Option<String> {
        let (major, minor, sub) = self.criu()?.version().ok()?;
        Some(format!("{major}.{minor}.{sub}"))
    }

    fn can_serve_host(&self) -> Result<()> {
        self.for_host().map(drop)
    }

    fn can_fill(&self, kind: HabitatKind) -> bool {
        kind == HabitatKind::OwnBox
    }

    fn copies_ahead(&self, tree: &Tree<'_>) -> bool {
        self.may_follow(tree).is_ok()
    }

    fn dump(&self, tree: &Tree<'_>, wanted: &DumpWanted<'_>, hooks: &mut dyn Hooks) -> Result<Dumped> {
        let (memory, notes) = self.way_out(tree, wanted);
        let (runner, habitat) = self.runner(tree, wanted.images, wanted.log_dir, notes)?;
        let options = DumpOptions {
            tree: wanted.init.pid,
            habitat,
            container: tree.container.map(containers_here::surroundings).transpose()?,
            images: wanted.images.to_owned(),
            log_dir: wanted.log_dir.to_owned(),
            leave: wanted.leave,
            watched: wanted.watched.clone(),
            unix_sockets: false,
            shell_job: tree.kind == HabitatKind::HostTree,
            time_limit: self.time_limit,
            runner,
            memory,
        };
        Ok(self.found()?.0.dump(&options, hooks)?)
    }

    fn restore(&self, tree: &Tree<'_>, wanted: &RestoreWanted<'_>, hooks: &mut dyn Hooks) -> Result<i32> {
        if let (Some(container), Some(session)) = (tree.container, tree.session) {
            let (criu, _) = self.for_host()?;
            return containers_here::restore(
                container,
                wanted,
                criu.path(),
                &self.place,
                session,
                self.time_limit,
            );
        }
        let (runner, habitat) = self.runner(tree, wanted.images, wanted.log_dir, None)?;
        let options = RestoreOptions {
            images: wanted.images.to_owned(),
            log_dir: wanted.log_dir.to_owned(),
            habitat,
            file_locks: wanted.file_locks,
            unix_sockets: false,
            shell_job: tree.kind == HabitatKind::HostTree,
            time_limit: self.time_limit,
            runner,
            memory: match (tree.kind, &wanted.hold) {
                (HabitatKind::OwnBox, Some(hold)) => Arc::new(FillAndHold {
                    hold: Arc::clone(hold),
                    courses: Arc::clone(&self.memory.following),
                }),
                (HabitatKind::OwnBox, None) => Arc::clone(&self.memory.way_back),
                (HabitatKind::HostTree | HabitatKind::Container, _) => Arc::new(Plain),
            },
            missing: wanted.missing.clone(),
            follow: wanted.follow && self.may_follow(tree).is_ok(),
        };
        let restored = self.found()?.0.restore(&options, hooks)?;
        if let Some(unfilled) = restored.unfilled {
            let root = match tree.holder {
                Some(holder) => sandbox::root_of(holder)?.map(|root| root.pid),
                None => Some(restored.pid),
            };
            let gone = || LifecycleError::Bug("a restored tree was gone before it ran".to_owned());
            unfilled.fill(root.ok_or_else(gone)?)?;
        }
        Ok(restored.pid)
    }

    fn release(&self, init: Identity) {
        // One that is gone already needs no release.
        let _gone = checkpoint_criu::release(init.pid);
    }
}
