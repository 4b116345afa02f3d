//! The box of a session: made for a command or for a restore, and what of it no image of CRIU's holds.
//!
//! CRIU runs inside the box, with the rights of its user namespace, and saves the tree. Beside the tree a box has file systems in memory
//! and clocks. Both are written next to CRIU's images when everything stands still, and a new box is made with them before CRIU
//! restores into it.

use std::fs::{self, File};
use std::path::Path;

use checkpoint_criu::images::Images;
use checkpoint_criu::{CriuError, Habitat, Runner};
use sandbox::process::Identity;
use sandbox::{
    BoxSpec, Cgroup, Clocks, Commands, DeviceNode, Gate, Launched, Limits, Pasta, ROOT_PID, inside,
    inside_directory,
};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result, io_error};
use crate::place::{LOG, make};
use crate::record::{Network, Record, json};

/// The box's file systems in memory, as a tar archive.
const TMPFS_FILE: &str = "infinijup-tmpfs.tar";
/// What its clocks showed.
const CLOCKS_FILE: &str = "infinijup-clocks.json";

impl Engine {
    /// Makes the box of a session: with commands, or empty for a restore of `images`.
    pub(crate) fn make_box(
        &self,
        record: &mut Record,
        commands: Option<Commands>,
        devices: Vec<DeviceNode>,
        images: Option<&Path>,
    ) -> Result<Launched> {
        let place = &self.inner.place;
        let cgroup = self.cgroup(record)?;
        let gate = match (&record.kernel, record.network) {
            (Some(kernel), Network::Private) => {
                let gate = Gate {
                    directory: place.gate(&record.id),
                    ports: kernel.ports.iter().map(|(_, inside)| *inside).collect(),
                };
                make(&gate.directory)?;
                Some(gate)
            }
            _ => None,
        };
        let spec = BoxSpec {
            id: record.id.to_string(),
            commands,
            box_dir: place.box_dir(&record.id),
            log: LOG.into(),
            workspace: Some((record.files_at.clone(), record.workspace.clone())),
            network: match record.network {
                Network::Private => sandbox::Network::Private,
                Network::Host => sandbox::Network::Host,
            },
            gate,
            cgroup: cgroup.as_ref(),
            limits: Vec::new(),
            devices,
            clocks: images.map(read_clocks).transpose()?.flatten(),
        };
        let launched = sandbox::launch(&self.inner.program, &spec)?;
        record.holder = Some(launched.holder);
        record.init = launched.root;
        self.open_network(record);
        Ok(launched)
    }

    /// The session's cgroup, made if it is not there; `None` where the user may make none.
    pub(crate) fn cgroup(&self, record: &Record) -> Result<Option<Cgroup>> {
        let limits = Limits { memory: record.memory_limit, pids: record.pids_limit };
        let group = Cgroup::create(record.id.as_str(), limits)?;
        if let Some(wanted) = group.not_in_force(limits) {
            return Err(LifecycleError::BadRequest {
                detail: format!(
                    "a limit of {wanted} needs a control group of your own, and none is delegated to you here; start the \
                     daemon as a systemd user service with Delegate=yes, or leave the limit out"
                ),
            });
        }
        Ok(Some(group).filter(|group| !group.paths().is_empty()))
    }

    /// The way out of the session's network, opened if it is wanted and not there.
    ///
    /// A machine without a network, or with a pasta that fails, has none: that must cost nobody a session, least of all in the
    /// middle of a restore. It is tried again with each new box and at each start of the daemon.
    pub(crate) fn open_network(&self, record: &mut Record) {
        let Some(holder) = record.holder.filter(|_| record.network == Network::Private && record.outside)
        else {
            return;
        };
        if record.pasta.is_some_and(|pasta| pasta.is_alive()) {
            return;
        }
        let note = self.inner.place.session(&record.id).join("pasta.pid");
        record.pasta = Pasta::start(holder, &note).ok().flatten().map(|pasta| pasta.identity);
    }

    /// Ends the way out, whose network is gone or will be.
    pub(crate) fn close_network(&self, record: &mut Record) {
        if let Some(identity) = record.pasta.take() {
            Pasta { identity }.stop();
        }
    }

    /// How CRIU is run for the tree of this box, and how it sees things there.
    pub(crate) fn criu_in_box(
        &self,
        holder: Identity,
        kdat: &Path,
        images: &Path,
        log_dir: &Path,
    ) -> (Runner, Habitat) {
        let words = inside(&self.inner.program, holder, Some(kdat), &[images, log_dir]);
        let habitat =
            Habitat::Box { images: inside_directory(0), log_dir: inside_directory(1), root: ROOT_PID };
        (Runner(words), habitat)
    }

    /// Writes what the box has beside its tree to `images`. Everything stands still.
    pub(crate) fn save_box(&self, holder: Identity, images: &Path) -> Result<()> {
        let path = images.join(TMPFS_FILE);
        let archive = File::create_new(&path).map_err(io_error("create", &path))?;
        sandbox::pack_tmpfs(&self.inner.program, holder, archive)?;
        // Staged like CRIU's own images, which nobody waits for to reach the disk.
        let path = images.join(CLOCKS_FILE);
        let clocks = json(&path, &sandbox::clocks_of(holder)?)?;
        fs::write(&path, clocks).map_err(io_error("write", &path))
    }

    /// Fills the file systems in memory of a new box from `images`.
    pub(crate) fn fill_box(&self, holder: Identity, images: &Path) -> Result<()> {
        let path = images.join(TMPFS_FILE);
        let archive = File::open(&path).map_err(io_error("open", &path))?;
        Ok(sandbox::unpack_tmpfs(&self.inner.program, holder, archive)?)
    }

    /// Numbers that CRIU has not used for the tree are free for new processes, and those below the tree's are CRIU's.
    pub(crate) fn count_on(&self, holder: Identity, images: &Path) -> Result<()> {
        let tree = Images::open(images)?.pstree()?;
        let numbers = tree.iter().flat_map(|process| process.threads.iter().chain([&process.pid]));
        let last = numbers.filter_map(|number| i32::try_from(*number).ok()).max();
        Ok(sandbox::count_from(&self.inner.program, holder, last.unwrap_or(ROOT_PID).max(ROOT_PID))?)
    }

    /// What CRIU notes about the kernel when it runs in a box: one is made for it.
    pub(crate) fn kernel_notes(&self, criu: &Path) -> Result<Vec<u8>, CriuError> {
        let failed = |detail: String| CriuError::Kernel { detail };
        let scratch = self.inner.place.run.join("kdat").join("box");
        make(&scratch).map_err(|error| failed(error.to_string()))?;
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
        let launched =
            sandbox::launch(&self.inner.program, &spec).map_err(|error| failed(with_causes(&error)))?;
        let run = |words: &[&str]| {
            let mut runner = inside(&self.inner.program, launched.holder, None, &[]).into_iter();
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

fn with_causes(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// What the clocks showed when `images` were made.
fn read_clocks(images: &Path) -> Result<Option<Clocks>> {
    let path = images.join(CLOCKS_FILE);
    let text = fs::read(&path).map_err(io_error("read", &path))?;
    serde_json::from_slice(&text).map(Some).map_err(|error| LifecycleError::BadSnapshot {
        commit: format!("in `{}`", images.display()),
        detail: format!("its clocks: {error}"),
    })
}
