//! Processes out of images: what a rollback, a resume and a branch have in common.
//!
//! The order is always the same. Images are found or laid out, everything about them is checked ([`Engine::aim`]) while
//! whatever runs still runs; only then does the caller end the old tree, put files back and call
//! [`Engine::restore_tree`].

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use cas_core::ObjectId;
use checkpoint_criu::images::{FileKind, Images, rewrite};
use checkpoint_criu::{Event, Hooks};
use history::{UserStore, Using};
use manifest::host::{Verdict, compare};
use manifest::snapshot::HostSection;
use manifest::{Commit, Snapshot};
use staging::{PlainImages, Staged};
use workspace::Listing;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result, io_error};
use crate::ports::{GpuHeld, Habitat, Made, Placed, RestoreWanted, Tree};
use crate::record::Record;
use crate::steps::{StepProgress, Steps, Watch};

/// A state to go to: found, laid out, checked.
pub(crate) struct Aim {
    pub(crate) commit: ObjectId,
    pub(crate) files: Listing,
    pub(crate) images: PlainImages,
    /// What it has on GPUs.
    pub(crate) gpu: Option<GpuHeld>,
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
        let gpu = GpuHeld::of(&snapshot)?;
        self.check_host(&commit, &snapshot, force)?;
        let watch = steps.watch();
        let images =
            steps.run("lay out images", || self.images_of(store, &head, &commit, &snapshot, watch))?;
        steps.run("check images", || self.habitat(record).check_images(record, images.path()))?;
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
        let gpus = match taken.fingerprint.gpus.is_empty() {
            true => None,
            false => Some(self.gpu().host()?),
        };
        let here = self.fingerprint(gpus.as_ref())?;
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

    /// Makes the processes, as they were but for their GPUs. On an error some may be left: see [`Engine::end_restored`].
    pub(crate) fn restore_tree(
        &self,
        record: &mut Record,
        images: &Path,
        file_locks: bool,
        placed: &Placed,
    ) -> Result<()> {
        self.checkpointer().ready()?;
        let rewritten = self.own_paths(record, images)?;
        let images = rewritten.as_ref().map_or(images, |staged| staged.path());
        let log_dir = self.inner.place.criu_log(&record.id);
        let habitat = self.habitat(record);
        habitat.make_ready(record, images, placed.granted.nodes.clone())?;
        let wanted = RestoreWanted { images, log_dir: &log_dir, file_locks };
        let mut hooks = RestoreHooks { habitat, record, images, pid: None, worker: None, failure: None };
        let restored = self.checkpointer().restore(&Tree::of(record), &wanted, &mut hooks);
        if let Some(failure) = hooks.failure {
            return Err(failure);
        }
        let pid = restored?;
        let Some(init) = habitat.restored_root(record, pid)? else {
            return Err(LifecycleError::Bug(format!("process {pid} was restored and was gone at once")));
        };
        record.init = Some(init);
        Ok(())
    }

    /// Ends what a restore has made, or half of it.
    pub(crate) fn end_restored(&self, record: &mut Record) -> Result<()> {
        self.end_tree(record)?;
        record.init = None;
        record.holder = None;
        Ok(())
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
struct RestoreHooks<'a> {
    habitat: &'a dyn Habitat,
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
        let made = Made { pid, worker: self.worker };
        self.habitat.before_they_run(self.record, self.images, made).map_err(|error| {
            let text = error.to_string();
            self.failure = Some(error);
            text
        })
    }
}
