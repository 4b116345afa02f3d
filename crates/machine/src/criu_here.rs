//! The CRIU of this machine as the pipelines' [`Checkpointer`].
//!
//! In a box it runs inside, with the rights of the box's user namespace. For a tree of the host it runs beside it, which only root's
//! own daemon can do. It is looked for at first use, so that a machine without it can still list sessions and tell what is
//! missing. What it learns about the kernel is kept in a file of this daemon's own, one for each of the two places where it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use checkpoint_criu::{
    Criu, CriuError, DumpOptions, Dumped, Habitat, Hooks, MemoryPath, Plain, RestoreOptions, Runner,
};
use lifecycle::ports::{
    Checkpointer, DumpWanted, HabitatKind, LOG, Place, RestoreWanted, Tree, explain, make_private,
};
use lifecycle::{LifecycleError, Result};
use sandbox::process::Identity;
use sandbox::{BoxSpec, Program, ROOT_PID, User, inside, inside_directory};

/// CRIU, and what is known about it.
pub(crate) struct CriuHere {
    /// Where it is, if it is not to be looked for.
    named: Option<PathBuf>,
    time_limit: Duration,
    /// How the memory of trees in boxes goes and comes. Dumps of the host's trees are for others, too, so CRIU makes them alone.
    memory: Arc<dyn MemoryPath>,
    program: Program,
    /// Where it keeps what it learns about the kernel.
    notes: PathBuf,
    found: OnceLock<(Criu, PathBuf)>,
    /// Its notes on the kernel for trees outside of boxes.
    host_notes: OnceLock<PathBuf>,
}

impl CriuHere {
    pub(crate) fn new(
        named: Option<PathBuf>,
        time_limit: Duration,
        place: &Place,
        program: &Program,
    ) -> Self {
        Self {
            named,
            time_limit,
            memory: Arc::new(Plain),
            program: program.clone(),
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
        let notes = criu.learn_kernel(&self.notes, |criu| self.notes_in_box(criu))?;
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

    /// How CRIU is run for a tree, and how it sees things there.
    fn runner(&self, tree: &Tree<'_>, images: &Path, log_dir: &Path) -> Result<(Runner, Habitat)> {
        match (tree.kind, tree.holder) {
            (HabitatKind::OwnBox, Some(holder)) => {
                let (_, notes) = self.found()?;
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
            (HabitatKind::HostTree, _) => {
                let (_, notes) = self.for_host()?;
                Ok((self.beside(tree.owner, notes), Habitat::Host))
            }
        }
    }

    /// The way for a tree's memory.
    fn memory_of(&self, tree: &Tree<'_>) -> Arc<dyn MemoryPath> {
        match tree.kind {
            HabitatKind::OwnBox => Arc::clone(&self.memory),
            HabitatKind::HostTree => Arc::new(Plain),
        }
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

    /// What CRIU notes about the kernel when it runs in a box: one is made for it.
    fn notes_in_box(&self, criu: &Path) -> Result<Vec<u8>, CriuError> {
        let failed = |detail: String| CriuError::Kernel { detail };
        let scratch = self.notes.join("box");
        make_private(&scratch).map_err(|error| failed(error.to_string()))?;
        let spec = BoxSpec {
            id: "kernel".to_owned(),
            commands: None,
            box_dir: scratch.clone(),
            log: LOG.into(),
            workspace: None,
            network: sandbox::Network::Private,
            gate: None,
            cgroup: None,
            limits: Vec::new(),
            devices: Vec::new(),
            clocks: None,
        };
        let launched = sandbox::launch(&self.program, &spec).map_err(|error| failed(explain(&error)))?;
        let run = |words: &[&str]| {
            let mut runner = inside(&self.program, launched.holder, None, &[]).into_iter();
            let mut command = std::process::Command::new(runner.next().unwrap_or_default());
            command.args(runner).args(words).stdin(std::process::Stdio::null()).output()
        };
        // What it thinks of the machine does not matter here.
        let checked = run(&[&criu.to_string_lossy(), "--no-default-config", "--unprivileged", "check"]);
        let notes = checked.and_then(|_| run(&["cat", "/run/criu.kdat"]));
        let _gone = launched.holder.signal(sandbox::Signal::KILL);
        let _litter = fs::remove_dir_all(&scratch);
        let notes = notes.map_err(|error| failed(error.to_string()))?;
        if notes.status.success() {
            Ok(notes.stdout)
        } else {
            Err(failed("criu did not write it".to_owned()))
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

    fn dump(&self, tree: &Tree<'_>, wanted: &DumpWanted<'_>, hooks: &mut dyn Hooks) -> Result<Dumped> {
        let (runner, habitat) = self.runner(tree, wanted.images, wanted.log_dir)?;
        let options = DumpOptions {
            tree: wanted.init.pid,
            habitat,
            images: wanted.images.to_owned(),
            log_dir: wanted.log_dir.to_owned(),
            leave: wanted.leave,
            watched: wanted.watched.clone(),
            unix_sockets: false,
            shell_job: tree.kind == HabitatKind::HostTree,
            time_limit: self.time_limit,
            runner,
            memory: self.memory_of(tree),
        };
        Ok(self.found()?.0.dump(&options, hooks)?)
    }

    fn restore(&self, tree: &Tree<'_>, wanted: &RestoreWanted<'_>, hooks: &mut dyn Hooks) -> Result<i32> {
        let (runner, habitat) = self.runner(tree, wanted.images, wanted.log_dir)?;
        let options = RestoreOptions {
            images: wanted.images.to_owned(),
            log_dir: wanted.log_dir.to_owned(),
            habitat,
            file_locks: wanted.file_locks,
            unix_sockets: false,
            shell_job: tree.kind == HabitatKind::HostTree,
            time_limit: self.time_limit,
            runner,
            memory: self.memory_of(tree),
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
