//! The box of a session: namespaces of its own, made for a command or for a restore, and what of it no image of CRIU's holds.
//!
//! CRIU runs inside the box, with the rights of its user namespace, and saves the tree. Beside the tree a box has file systems in
//! memory and clocks. Both are written next to CRIU's images when everything stands still, and a new box is made with them before
//! CRIU restores into it. The log and the kernel's connection file lie in a directory that is mounted into the box; they are not part
//! of a snapshot.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::{Network, Server};
use base::io_error;
use checkpoint_criu::images::{FileKind, Images};
use lifecycle::ports::{Habitat, LOG, Made, Place, Record, Saving, make_private};
use lifecycle::{LifecycleError, Result, SessionId};
use rustix::process::Signal;
use sandbox::bounded;
use sandbox::process::Identity;
use sandbox::{
    BOX_DIR, BoxSpec, Cgroup, Clocks, Commands, DeviceNode, Forwarder, Gate, Launched, Limits, Pasta,
    Program, ROOT_PID,
};
use workspace::Places;

use super::beside::{self, Beside};
use super::ending::{end_all, remove_group, thaw_group};
use super::room;
use crate::credentials;

/// The box's file systems in memory, as a tar archive.
const TMPFS_FILE: &str = "infinijup-tmpfs.tar";
/// What its clocks showed.
const CLOCKS_FILE: &str = "infinijup-clocks.json";

/// Boxes of this user.
pub(crate) struct OwnBox {
    pub(super) place: Place,
    pub(super) program: Program,
    /// Held while somebody looks whether a box is joined with the machine's loopback ([`super::joined`]), and joins it.
    joining: Mutex<()>,
    /// Those that stand by beside those that live ([`super::beside`]).
    pub(super) beside: Beside,
}

/// For whom a box is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// For the session that lives in it from now on.
    Lives,
    /// For one that stands by, beside that.
    StandsBy,
}

impl OwnBox {
    pub(crate) fn new(place: &Place, program: &Program, standby: bool) -> Self {
        let joining = Mutex::default();
        Self { place: place.clone(), program: program.clone(), joining, beside: Beside::new(standby) }
    }

    pub(super) fn joining(&self) -> MutexGuard<'_, ()> {
        self.joining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the box of a session: with commands, or empty for a restore of `images`.
    pub(super) fn make(
        &self,
        record: &mut Record,
        commands: Option<Commands>,
        devices: Vec<DeviceNode>,
        images: Option<&Path>,
        role: Role,
    ) -> Result<Launched> {
        let cgroup = cgroup(record, role)?;
        let gate = match (&record.kernel, record.network) {
            (Some(kernel), Network::Private) => {
                let gate = Gate {
                    directory: match role {
                        Role::Lives => self.place.gate(&record.id),
                        Role::StandsBy => self.place.standby_gate(&record.id),
                    },
                    ports: kernel.ports.iter().map(|(_, inside)| *inside).collect(),
                };
                make_private(&gate.directory)?;
                Some(gate)
            }
            _ => None,
        };
        let spec = BoxSpec {
            id: record.id.to_string(),
            commands,
            box_dir: self.place.box_dir(&record.id),
            log: LOG.into(),
            workspace: Some((record.files_at.clone(), record.workspace.clone())),
            mapped: record.mapped.iter().map(|(inside, here)| (here.clone(), inside.clone())).collect(),
            network: match record.network {
                Network::Private => sandbox::Network::Private,
                Network::Host => sandbox::Network::Host,
            },
            gate,
            cgroup: cgroup.as_ref(),
            limits: Vec::new(),
            devices,
            clocks: images.map(read_clocks).transpose()?.flatten(),
            ids: record.ids,
        };
        close_network(record);
        let launched = sandbox::launch(&self.program, &spec)?;
        if role == Role::StandsBy {
            // Whoever ended it between these two lines has ended a standby that nobody had yet.
            self.beside.note(launched.holder);
        }
        record.holder = Some(launched.holder);
        record.init = launched.root;
        self.open_way_out(record);
        Ok(launched)
    }

    fn open_way_out(&self, record: &mut Record) {
        let Some(holder) = record.holder.filter(|_| record.network == Network::Private && record.outside)
        else {
            return;
        };
        if record.pasta.is_some_and(|pasta| pasta.is_alive()) {
            return;
        }
        // Two of them at once would read each other's.
        let note = self.place.session(&record.id).join(format!("pasta-{}.pid", holder.pid));
        record.pasta = Pasta::start(&self.program, holder, &note).ok().flatten().map(|pasta| pasta.identity);
    }

    /// The log only grows and is not part of a snapshot; but CRIU refuses a file that is shorter than it was.
    pub(super) fn lengthen_log(&self, record: &Record, images: &Path) -> Result<()> {
        let inside = Path::new(BOX_DIR).join(LOG);
        let mut wanted = None;
        for file in Images::open(images)?.files()? {
            if let FileKind::Reg(regular) = &file.kind
                && regular.path() == inside
            {
                wanted = wanted.max(regular.size);
            }
        }
        let path = self.place.log(&record.id);
        Ok(lengthen(&path, wanted.unwrap_or(0)).map_err(io_error("lengthen", &path))?)
    }

    /// Fills the file systems in memory of a new box from `images`.
    pub(super) fn fill(&self, holder: Identity, images: &Path) -> Result<()> {
        let path = images.join(TMPFS_FILE);
        let archive = File::open(&path).map_err(io_error("open", &path))?;
        Ok(sandbox::unpack_tmpfs(&self.program, holder, archive)?)
    }

    /// Numbers that CRIU has not used for the tree are free for new processes, and those below the tree's are CRIU's.
    fn count_on(&self, holder: Identity, images: &Path) -> Result<()> {
        let tree = Images::open(images)?.pstree()?;
        let numbers = tree.iter().flat_map(|process| process.threads.iter().chain([&process.pid]));
        let last = numbers.filter_map(|number| i32::try_from(*number).ok()).max();
        Ok(sandbox::count_from(&self.program, holder, last.unwrap_or(ROOT_PID).max(ROOT_PID))?)
    }
}

impl Habitat for OwnBox {
    fn launch(&self, record: &mut Record, commands: Commands, devices: Vec<DeviceNode>) -> Result<()> {
        self.make(record, Some(commands), devices, None, Role::Lives)?;
        self.join(record);
        Ok(())
    }

    fn make_ready(&self, record: &mut Record, images: &Path, devices: Vec<DeviceNode>) -> Result<()> {
        // Of the processes that are gone. Those that come must be able to say how they end.
        sandbox::forget_exit(&self.place.box_dir(&record.id))?;
        self.lengthen_log(record, images)?;
        let launched = self.make(record, None, devices, Some(images), Role::Lives)?;
        self.fill(launched.holder, images)
    }

    fn can_stand_by(&self, record: &Record) -> bool {
        self.beside.can(record)
    }

    fn room_beside(&self, bytes: Option<u64>) -> bool {
        room::is_there(bytes)
    }

    fn make_beside(&self, record: &mut Record, images: &Path, log_dir: &Path) -> Result<()> {
        self.make_one_beside(record, images, log_dir)
    }

    fn move_in(&self, record: &mut Record, beside: &Record) -> Result<()> {
        self.move_one_in(record, beside)?;
        self.join(record);
        Ok(())
    }

    fn end_beside(&self, beside: &Record) -> Result<()> {
        self.end_one_beside(beside)
    }

    fn end_strays(&self, record: &Record) -> Result<()> {
        self.end_all_strays(record)
    }

    fn check_images(&self, record: &Record, images: &Path) -> Result<()> {
        // What CRIU restores into a box has that box's rights and no more.
        credentials::check(images, record.ids_inside())
    }

    fn before_they_run(&self, record: &Record, images: &Path, _: Made) -> Result<()> {
        self.count_on(holder(record)?, images).or_else(|error| {
            // CRIU would let them run whatever is answered here.
            self.end(record)?;
            Err(error)
        })
    }

    fn restored_root(&self, record: &Record, _: i32) -> Result<Option<Identity>> {
        let root = sandbox::root_of(holder(record)?)?;
        // Not before: a port that the machine has must be free for those that come.
        self.join(record);
        Ok(root)
    }

    fn saving<'a>(&'a self, record: &'a Record) -> Result<Saving<'a>> {
        let holder = holder(record)?;
        Ok(Box::new(move |images| {
            let path = images.join(TMPFS_FILE);
            let archive = File::create_new(&path).map_err(io_error("create", &path))?;
            sandbox::pack_tmpfs(&self.program, holder, archive)?;
            // Staged like CRIU's own images, which nobody waits for to reach the disk.
            let path = images.join(CLOCKS_FILE);
            let clocks = serde_json::to_vec_pretty(&sandbox::clocks_of(holder)?)
                .map_err(|error| LifecycleError::Bug(format!("clocks cannot be written: {error}")))?;
            Ok(fs::write(&path, clocks).map_err(io_error("write", &path))?)
        }))
    }

    fn places(&self, record: &Record) -> Places {
        let places = Places::of_box(&record.workspace, &record.files_at, &record.outside_copies);
        Places { mapped: record.mapped.clone(), ..places }.without(&self.place.state)
    }

    fn watched(&self, record: &Record) -> Vec<PathBuf> {
        vec![record.workspace.clone()]
    }

    fn look_inside(&self, record: &Record) -> Option<(Program, Identity)> {
        record.holder.map(|holder| (self.program.clone(), holder))
    }

    fn why_no_branch(&self, record: &Record) -> Option<&'static str> {
        (record.network == Network::Host).then_some(
            "it uses the machine's network, where two of it cannot listen on the same ports; start it with --network private",
        )
    }

    fn why_no_restart(&self) -> Option<&'static str> {
        None
    }

    fn open_network(&self, record: &mut Record) {
        self.open_way_out(record);
        self.join_again(record);
    }

    fn servers(&self, record: &Record) -> Result<Vec<Server>> {
        self.servers_of(record)
    }

    fn forward(&self, id: &SessionId, ports: &[u16]) -> Result<Identity> {
        Ok(Forwarder::start(&self.program, &self.place.gate(id), ports)?.identity)
    }

    fn exec(
        &self,
        record: &Record,
        command: &[OsString],
        env: &[(OsString, OsString)],
        action: &'static str,
    ) -> Result<Output> {
        let holder = record.living_holder(action)?;
        Ok(sandbox::exec_in(&self.program, holder, command, &record.cwd, env)?)
    }

    fn signal(&self, init: Identity, signal: Signal, group: bool) -> Result<()> {
        Ok(sandbox::signal_main(init, true, signal, group)?)
    }

    fn thaw(&self, id: &SessionId) {
        thaw_group(id);
    }

    fn end(&self, record: &Record) -> Result<()> {
        // Those that were written down, and what a start or restore that was cut short had made; but not what stands by.
        let others = self.beside.others(sandbox::holders_of(&self.place.box_dir(&record.id))?);
        let doomed: Vec<Identity> = record.init.into_iter().chain(record.holder).chain(others).collect();
        end_all(&record.id, &doomed)
    }

    fn free(&self, record: &Record) {
        if let Some(identity) = record.forwarder {
            Forwarder { identity, ports: Vec::new() }.stop();
        }
        if let Some(identity) = record.pasta {
            Pasta { identity }.stop();
        }
        let _litter = fs::remove_dir_all(self.place.gate(&record.id));
        let _litter = remove_group(&record.id);
    }

    fn sweep(&self, id: &SessionId) -> Result<()> {
        end_all(id, &sandbox::holders_of(&self.place.box_dir(id))?)?;
        remove_group(id)
    }
}

fn holder(record: &Record) -> Result<Identity> {
    record.holder.ok_or_else(|| LifecycleError::Bug(format!("session {} has no box", record.id)))
}

/// The session's cgroup, made if it is not there; `None` where the user may make none.
fn cgroup(record: &Record, role: Role) -> Result<Option<Cgroup>> {
    let limits = Limits { memory: record.memory_limit, pids: record.pids_limit };
    let group = match role {
        Role::Lives => Cgroup::create(record.id.as_str(), limits)?,
        Role::StandsBy => Cgroup::create(&beside::group_of(&record.id), limits)?,
    };
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

/// Ends the way out of a box that is gone. Its network went with it.
pub(super) fn close_network(record: &mut Record) {
    if let Some(identity) = record.pasta.take() {
        Pasta { identity }.stop();
    }
}

fn lengthen(path: &Path, wanted: u64) -> std::io::Result<()> {
    let log = bounded::open_to_append(path)?;
    if log.metadata()?.len() < wanted { log.set_len(wanted) } else { Ok(()) }
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
