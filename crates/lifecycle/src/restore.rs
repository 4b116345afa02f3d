//! Processes out of images: what a rollback, a resume and a branch have in common.
//!
//! The order is always the same. Images are found or laid out, everything about them is checked ([`Engine::aim`]) while
//! whatever runs still runs; only then does the caller end the old tree, put files back and call
//! [`Engine::restore_processes`].

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use cas_core::ObjectId;
use checkpoint_criu::images::{FileKind, Images, rewrite};
use checkpoint_criu::{Event, Habitat, Hooks, RestoreOptions};
use history::{UserStore, Using};
use manifest::host::{Verdict, compare};
use manifest::snapshot::HostSection;
use manifest::{Commit, Snapshot};
use sandbox::BOX_DIR;
use sandbox::bounded;
use sandbox::process::Identity;
use staging::{PlainImages, Staged};
use workspace::Listing;

use crate::attach::runner_beside;
use crate::credentials;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result, io_error};
use crate::gpu::{GpuAim, Placed, in_manifest};
use crate::journal::Entry;
use crate::place::LOG;
use crate::record::Record;
use crate::steps::{StepProgress, Steps, Watch};

/// How long the ids of processes that have ended may take to be free.
const PIDS_LIMIT: Duration = Duration::from_secs(10);

/// A state to go to: found, laid out, checked.
pub(crate) struct Aim {
    pub(crate) commit: ObjectId,
    pub(crate) files: Listing,
    pub(crate) images: PlainImages,
    /// What it has on GPUs.
    pub(crate) gpu: Option<GpuAim>,
    /// What the images are kept under.
    pub(crate) key: String,
    /// It cannot be forgotten meanwhile.
    _using: Using,
}

impl Engine {
    /// Finds a snapshot and sees whether it may and can be restored into this session.
    pub(crate) fn aim(
        &self,
        record: &Record,
        store: &UserStore,
        commit: ObjectId,
        force: bool,
        steps: &mut Steps<'_>,
    ) -> Result<Aim> {
        let using = store.using(commit)?;
        let (head, snapshot) = store.load(&commit)?;
        // Made elsewhere, it is a foreign program: its owner may want it all the same, but nobody gives it to root's daemon.
        if !force || self.inner.user.uid == 0 {
            self.inner.sealer.check(&commit.to_string())?;
        }
        let gpu = GpuAim::of(&snapshot)?;
        self.check_host(&commit, &snapshot, force)?;
        let watch = steps.watch();
        let images =
            steps.run("lay out images", || self.images_of(store, &head, &commit, &snapshot, watch))?;
        if record.attached {
            // What CRIU restores into a box has that box's rights; out here it has root's.
            steps.run("check images", || Ok(image_trust::check_images(images.path(), &record.owner)?))?;
        } else {
            credentials::check(images.path(), &record.owner)?;
        }
        let files = Listing::of_snapshot(store.store(), &snapshot)?;
        Ok(Aim { commit, files, images, gpu, key: head.snapshot.to_string(), _using: using })
    }

    /// Plain images: those that are still there from the dump, or laid out from the store.
    fn images_of(
        &self,
        store: &UserStore,
        head: &Commit,
        commit: &ObjectId,
        snapshot: &Snapshot,
        watch: &dyn Watch,
    ) -> Result<PlainImages> {
        let key = head.snapshot.to_string();
        if let Some(images) = self.inner.stages.cached(&key) {
            return Ok(PlainImages::Kept(images));
        }
        let staged = self.inner.stages.stage(snapshot.bytes())?;
        let progress = StepProgress::new(watch, "lay out images");
        image_store::lay_out(store.store(), &commit.short(), snapshot, staged.path(), &progress)?;
        Ok(self.inner.stages.keep(staged, &key))
    }

    /// Compares machines. What is said against the GPUs alone can be overridden: the driver has the last word on them, and
    /// when it says no, the session goes back to where it was.
    fn check_host(&self, commit: &ObjectId, snapshot: &Snapshot, force: bool) -> Result<()> {
        let Some(taken) = snapshot.get::<HostSection>()? else {
            return Err(LifecycleError::BadSnapshot {
                commit: commit.short(),
                detail: "it does not say which machine it was taken on".to_owned(),
            });
        };
        let mut here = self.fingerprint(None)?;
        if !taken.fingerprint.gpus.is_empty() {
            let host = self.inner.gpus.host()?;
            here.gpus = host.gpus.iter().map(in_manifest).collect();
            here.driver_version = Some(host.driver_version);
        }
        let of_gpus = |code: &str| code.starts_with("gpu-") || code.starts_with("driver-");
        match compare(&taken.fingerprint, &here) {
            Verdict::Incompatible(reasons) if force && reasons.iter().all(|reason| of_gpus(reason.code)) => {
                Ok(())
            }
            Verdict::Incompatible(reasons) => Err(LifecycleError::Incompatible {
                commit: commit.short(),
                reasons: reasons.into_iter().map(|reason| reason.sentence).collect(),
            }),
            Verdict::Same | Verdict::Compatible(_) => Ok(()),
        }
    }

    /// Makes the processes. On an error none of them is left.
    pub(crate) fn restore_processes(
        &self,
        record: &mut Record,
        images: &Path,
        file_locks: bool,
        placed: &Placed,
        entry: &Entry,
        steps: &mut Steps<'_>,
    ) -> Result<()> {
        let restored = steps.run("restore", || self.restore_tree(record, images, file_locks, placed));
        let result = restored.and_then(|init| {
            record.init = Some(init);
            self.put_onto_gpus(init, placed, entry, steps)
        });
        match result {
            Ok(()) => {
                record.gpus = placed.granted.clone();
                record.gpu_wish = placed.wish.clone();
                record.gpu_trouble = None;
                self.forward(record)
            }
            Err(error) => {
                // What cannot be ended is found again by the next attempt, which begins with the same call.
                let _still_there = self.end_tree(record);
                record.init = None;
                record.holder = None;
                Err(error)
            }
        }
    }

    fn restore_tree(
        &self,
        record: &mut Record,
        images: &Path,
        file_locks: bool,
        placed: &Placed,
    ) -> Result<Identity> {
        let (criu, kdat) = self.criu()?;
        // What an attempt that was cut short has left.
        self.end_tree(record)?;
        let rewritten = self.own_paths(record, images)?;
        let images = rewritten.as_ref().map_or(images, |staged| staged.path());
        let log_dir = self.inner.place.criu_log(&record.id);
        let (runner, habitat) = if record.attached {
            wait_for_pids(images)?;
            let (_, notes) = self.criu_for_host()?;
            (runner_beside(&self.inner.program, &record.owner, notes), Habitat::Host)
        } else {
            let holder = self.box_for(record, images, placed)?;
            self.criu_in_box(holder, kdat, images, &log_dir)
        };
        let options = RestoreOptions {
            images: images.to_owned(),
            log_dir,
            habitat,
            file_locks,
            unix_sockets: false,
            shell_job: record.attached,
            time_limit: self.inner.config.criu_limit,
            runner,
        };
        let mut hooks = RestoreHooks { engine: self, record, images, pid: None, worker: None, failure: None };
        let restored = criu.restore(&options, &mut hooks);
        if let Some(failure) = hooks.failure {
            return Err(failure);
        }
        let pid = restored?.pid;
        let root = match record.holder {
            Some(holder) => sandbox::root_of(holder)?,
            None => Identity::of(pid)?,
        };
        root.ok_or_else(|| LifecycleError::Bug(format!("process {pid} was restored and was gone at once")))
    }

    /// A new box for the tree in `images`, with what the old one had beside the tree.
    fn box_for(&self, record: &mut Record, images: &Path, placed: &Placed) -> Result<Identity> {
        self.close_network(record);
        // Of the processes that are gone. Those that come must be able to say how they end.
        sandbox::forget_exit(&self.inner.place.box_dir(&record.id))?;
        self.lengthen_log(record, images)?;
        let launched = self.make_box(record, None, placed.nodes.clone(), Some(images))?;
        self.fill_box(launched.holder, images)?;
        Ok(launched.holder)
    }

    /// Images in which the files that the session has private copies of lead to those; `None` if it has none.
    fn own_paths(&self, record: &Record, images: &Path) -> Result<Option<Staged>> {
        if record.outside_copies.is_empty() {
            return Ok(None);
        }
        let mut names = BTreeMap::new();
        for file in Images::open(images)?.files()? {
            if let FileKind::Reg(regular) = &file.kind
                && let Some((_, copy)) = record.outside_copies.iter().find(|(path, _)| path == regular.path())
            {
                names.insert(file.id, copy.clone());
            }
        }
        if names.is_empty() {
            return Ok(None);
        }
        let staged = self.inner.stages.stage(0)?;
        for item in fs::read_dir(images).map_err(io_error("list", images))? {
            let name = item.map_err(io_error("list", images))?.file_name();
            let (from, to) = (images.join(&name), staged.path().join(&name));
            // Pages are large and may lie on another file system; the rest is small.
            if name.as_encoded_bytes().starts_with(b"pages-") {
                symlink(&from, &to).map_err(io_error("link", &to))?;
            } else {
                fs::copy(&from, &to).map_err(io_error("copy", &from))?;
            }
        }
        rewrite::set_paths(staged.path(), &names)?;
        Ok(Some(staged))
    }

    /// The log only grows and is not part of a snapshot; but CRIU refuses a file that is shorter than it was.
    fn lengthen_log(&self, record: &Record, images: &Path) -> Result<()> {
        let inside = Path::new(BOX_DIR).join(LOG);
        let mut wanted = None;
        for file in Images::open(images)?.files()? {
            if let FileKind::Reg(regular) = &file.kind
                && regular.path() == inside
            {
                wanted = wanted.max(regular.size);
            }
        }
        let path = self.inner.place.log(&record.id);
        let wanted = wanted.unwrap_or(0);
        lengthen(&path, wanted).map_err(io_error("lengthen", &path))
    }
}

/// An adopted tree comes back with the machine's process ids, which are free only when the parents of the old processes have
/// taken note of their end. What does not become free is CRIU's to complain about.
fn wait_for_pids(images: &Path) -> Result<()> {
    let deadline = Instant::now() + PIDS_LIMIT;
    let tree = Images::open(images)?.pstree()?;
    let taken = |pid: u32| Path::new("/proc").join(pid.to_string()).exists();
    while tree.iter().any(|process| taken(process.pid)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn lengthen(path: &Path, wanted: u64) -> std::io::Result<()> {
    let log = bounded::open_to_append(path)?;
    if log.metadata()?.len() < wanted { log.set_len(wanted) } else { Ok(()) }
}

/// Connections of the images that are closed by a restore, for people. Those to a kernel, of its clients and of its own (ipykernel 7
/// has one), are left out: they are made again by themselves.
pub(crate) fn closed_connections(images: &Path, record: &Record) -> Result<Vec<String>> {
    let of_kernel = |port: u32| {
        let mut ports = record.kernel.iter().flat_map(|kernel| &kernel.ports);
        ports.any(|(outside, inside)| port == u32::from(*inside) || port == u32::from(*outside))
    };
    let mut closed = Vec::new();
    for file in Images::open(images)?.files()? {
        if let FileKind::Inet(socket) = &file.kind
            && socket.is_established()
            && let Some(address) = socket.destination()
            && !of_kernel(socket.src_port)
            && !(address.is_loopback() && of_kernel(socket.dst_port))
        {
            closed.push(format!("{address}:{}", socket.dst_port));
        }
    }
    closed.sort();
    closed.dedup();
    Ok(closed)
}

/// What is done when CRIU has made the processes and before they run.
///
/// In a box, the numbers of new processes are set to go on where the tree's end. Outside, what was made is looked at: a path may
/// have been exchanged after the images were checked.
struct RestoreHooks<'a> {
    engine: &'a Engine,
    record: &'a Record,
    images: &'a Path,
    pid: Option<i32>,
    worker: Option<i32>,
    failure: Option<LifecycleError>,
}

impl Hooks for RestoreHooks<'_> {
    fn worker(&mut self, pid: i32, _start_time: u64) {
        self.worker = Some(pid);
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let pid = match (event, self.pid) {
            (Event::PostRestore { pid }, _) => {
                self.pid = Some(*pid);
                return Ok(());
            }
            (Event::PreResume, Some(pid)) => pid,
            _ => return Ok(()),
        };
        let settled = match self.record.holder {
            Some(holder) => self.engine.count_on(holder, self.images),
            None => image_trust::check_restored(pid, &self.record.owner).map_err(LifecycleError::from),
        };
        settled.map_err(|error| {
            let text = error.to_string();
            // CRIU would let them run whatever is answered here
            let ended = match self.record.holder {
                Some(_) => self.engine.end_tree(self.record),
                None => image_trust::end_refused(pid, self.worker).map_err(LifecycleError::from),
            };
            self.failure = Some(ended.err().unwrap_or(error));
            text
        })
    }
}
