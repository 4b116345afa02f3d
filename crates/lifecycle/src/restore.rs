//! Processes out of images: what a rollback, a resume and a branch have in common.
//!
//! The order is always the same. Images are laid out, everything about them is checked ([`Engine::aim`]) while
//! whatever runs still runs; only then does the caller end the old tree, put files back and call [`Engine::restore_aimed`].
//!
//! Where the checkpointer can fill processes, images are laid out without most of the memory, and the rest goes from the store straight
//! into the processes before they run. If anything about that fails, whatever it is, nothing has run yet: what is there is ended, all of the
//! images are laid out, and CRIU does it alone. So the quick way can only cost time.

use std::path::Path;
use std::sync::Arc;

use base::explain;
use cas_core::ObjectId;
use checkpoint_criu::{CriuError, Event, Hooks, Missing};
use doctor::Finding;
use history::{UserStore, Using};
use image_store::{MissingPages, Skeleton};
use manifest::Snapshot;
use manifest::snapshot::HostSection;
use sandbox::process::Identity;
use session_record::Record;
use staging::Staged;
use verdict::Asked;
use workspace::Listing;

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::ports::{GpuHeld, Habitat, Hold, Made, Placed, RestoreWanted, Tree};
use crate::steps::{StepProgress, Steps, Watch};
use crate::waiting::Standby;

/// So many restores of one snapshot are quicker if its memory is decompressed once, into images that all of them read.
const MANY: u32 = 3;

/// Stands by, with the record of what does. Says whether it is to go.
pub(crate) type Stand = Box<dyn Fn(Record) -> bool + Send + Sync>;

/// A state to go to: found, laid out, checked.
pub(crate) struct Aim {
    pub(crate) commit: ObjectId,
    pub(crate) files: Arc<Listing>,
    /// Not if processes stand by that were made of them.
    images: Option<LaidOut>,
    pub(crate) standby: Option<Arc<Standby>>,
    /// What it has on GPUs.
    pub(crate) gpu: Option<GpuHeld>,
    /// It cannot be forgotten meanwhile.
    _using: Using,
}

impl Aim {
    /// The images, for whoever has had them laid out.
    pub(crate) fn images(&self) -> Result<&LaidOut> {
        self.images.as_ref().ok_or_else(|| LifecycleError::Bug("images were not laid out".to_owned()))
    }
}

/// Images to restore from, and the pages that are not in them.
pub(crate) struct LaidOut {
    staged: Staged,
    missing: Option<Arc<MissingPages>>,
}

impl LaidOut {
    /// Where the images are.
    pub(crate) fn path(&self) -> &Path {
        self.staged.path()
    }

    /// The pages that are not in them.
    pub(crate) fn missing(&self) -> Option<Arc<dyn Missing>> {
        self.missing.clone().map(|missing| -> Arc<dyn Missing> { missing })
    }

    /// Sees that the pages that are not in them can be read. Those that are have been.
    pub(crate) fn check_missing(&self) -> Result<()> {
        self.missing.as_ref().map_or(Ok(()), |missing| Ok(missing.check()?))
    }
}

impl Engine {
    /// Finds a snapshot and sees whether it may and can be restored into this session, or into so many that are made of it. With 0 images
    /// are not laid out: something stands by.
    pub(crate) fn aim(
        &self,
        record: &Record,
        store: &UserStore,
        commit: ObjectId,
        times: u32,
        force: bool,
        steps: &mut Steps<'_>,
    ) -> Result<Aim> {
        let using = store.using(commit)?;
        let snapshot = store.with_memory(&commit)?;
        // Made elsewhere, it is a foreign program: its owner may want it all the same, but nobody gives it to root's daemon.
        if !force || self.inner.user.uid == 0 {
            self.inner.sealer.check(&commit.to_string())?;
        }
        let files = self.inner.listings.at(store, commit)?;
        let (name, objects) = (commit.short(), store.store());
        let asked = Asked { store: objects, commit: &name, snapshot: &snapshot, files: &files, record };
        let reasons = verdict::stand_in_the_way(&self.findings(&asked)?, force);
        if !reasons.is_empty() {
            return Err(LifecycleError::Incompatible { commit: commit.short(), reasons });
        }
        let images = match times {
            0 => None,
            times => Some(self.lay_out(record, store, &commit, &snapshot, times < MANY, steps)?),
        };
        let held =
            |images: &LaidOut| GpuHeld::of(store.store(), &commit.short(), &snapshot, images.staged.device());
        // What has something on GPUs never stands by.
        let gpu = images.as_ref().map(held).transpose()?.flatten();
        Ok(Aim { commit, files, images, standby: None, gpu, _using: using })
    }

    /// Images, laid out and checked.
    fn lay_out(
        &self,
        record: &Record,
        store: &UserStore,
        commit: &ObjectId,
        snapshot: &Snapshot,
        few: bool,
        steps: &mut Steps<'_>,
    ) -> Result<LaidOut> {
        let (watch, fill) = (steps.watch(), few && self.checkpointer().can_fill(record.habitat));
        let images = steps.run("lay out images", || self.images_of(store, commit, snapshot, fill, watch))?;
        steps.run("check images", || self.habitat(record).check_images(record, images.path()))?;
        Ok(images)
    }

    /// Images, laid out from the store; if processes can be filled, without the pages that can go straight from there into them.
    fn images_of(
        &self,
        store: &UserStore,
        commit: &ObjectId,
        snapshot: &Snapshot,
        fill: bool,
        watch: &dyn Watch,
    ) -> Result<LaidOut> {
        let skeleton = match fill {
            true => Skeleton::of(store.store(), &commit.short(), snapshot)?,
            false => None,
        };
        let Some(skeleton) = skeleton else {
            return self.lay_out_whole(store, commit, snapshot, watch);
        };
        let staged = self.inner.stages.stage(snapshot.bytes().saturating_sub(skeleton.missing_bytes()))?;
        let progress = StepProgress::new(watch, "lay out images");
        let missing = skeleton.lay_out(&commit.short(), snapshot, staged.path(), &progress)?;
        Ok(LaidOut { staged, missing: Some(Arc::new(missing)) })
    }

    /// Images with everything in them.
    fn lay_out_whole(
        &self,
        store: &UserStore,
        commit: &ObjectId,
        snapshot: &Snapshot,
        watch: &dyn Watch,
    ) -> Result<LaidOut> {
        let staged = self.inner.stages.stage(snapshot.bytes())?;
        let progress = StepProgress::new(watch, "lay out images");
        image_store::lay_out(store.store(), &commit.short(), snapshot, staged.path(), &progress)?;
        Ok(LaidOut { staged, missing: None })
    }

    /// What this machine lacks of what a snapshot needs. What is said against the GPUs alone can be overridden: the driver has the last word on
    /// them, and when it says no, the session goes back to where it was.
    pub(crate) fn findings(&self, asked: &Asked<'_>) -> Result<Vec<Finding>> {
        let Some(taken) = asked.snapshot.get::<HostSection>()? else {
            let detail = "it does not say which machine it was taken on".to_owned();
            return Err(LifecycleError::BadSnapshot { commit: asked.commit.to_owned(), detail });
        };
        let uses_gpus = !taken.fingerprint.gpus.is_empty();
        let gpus = uses_gpus.then(|| self.gpu().host()).transpose()?;
        Ok(asked.before_a_restore(&taken.fingerprint, &self.fingerprint(gpus.as_ref())?)?)
    }

    /// Makes the processes, as they were but for their GPUs. On an error some may be left: see [`Engine::end_restored`].
    pub(crate) fn restore_aimed(
        &self,
        record: &mut Record,
        aim: &Aim,
        file_locks: bool,
        placed: &Placed,
        steps: &mut Steps<'_>,
    ) -> Result<()> {
        if let Some(standby) = &aim.standby {
            match self.take_standby(record, standby) {
                Ok(()) => return Ok(()),
                // It was an offer. None of it is used.
                Err(_) => {
                    self.inner.standbys.end(&record.id, false);
                    self.end_restored(record)?;
                }
            }
        }
        let laid_out;
        let images = match &aim.images {
            Some(images) => images,
            None => {
                let store = self.inner.store.open()?;
                let (_, snapshot) = store.load(&aim.commit)?;
                laid_out = self.lay_out(record, &store, &aim.commit, &snapshot, true, steps)?;
                &laid_out
            }
        };
        let make = |record: &mut Record, images: &LaidOut| {
            self.make_processes(record, images.path(), images.missing(), file_locks, placed, None)
        };
        let made = match make(record, images) {
            // These are whole, and some of them run.
            Err(error @ LifecycleError::Criu(CriuError::Stopped { .. })) => return Err(error),
            Err(error) if images.missing.is_some() => {
                self.end_restored(record)?;
                let why = explain(&error);
                steps.warn(format!(
                    "memory could not come straight from the store, and came through images: {why}"
                ));
                let store = self.inner.store.open()?;
                let (_, snapshot) = store.load(&aim.commit)?;
                let whole = self.lay_out_whole(&store, &aim.commit, &snapshot, steps.watch())?;
                make(record, &whole)
            }
            made => made,
        };
        let pid = made?;
        let Some(init) = self.habitat(record).restored_root(record, pid)? else {
            return Err(LifecycleError::Bug(format!("process {pid} was restored and was gone at once")));
        };
        record.init = Some(init);
        Ok(())
    }

    /// Has CRIU make the processes in a habitat of their own, or in one beside it where they stand by. Says the number of the first one
    /// as CRIU sees it.
    pub(crate) fn make_processes(
        &self,
        record: &mut Record,
        images: &Path,
        missing: Option<Arc<dyn Missing>>,
        file_locks: bool,
        placed: &Placed,
        stand: Option<Stand>,
    ) -> Result<i32> {
        self.checkpointer().ready()?;
        let rewritten = self.own_paths(record, images)?;
        let images = rewritten.as_ref().map_or(images, |staged| staged.path());
        let habitat = self.habitat(record);
        let log_dir = match &stand {
            Some(_) => self.inner.place.standby_log(&record.id),
            None => self.inner.place.criu_log(&record.id),
        };
        match &stand {
            Some(_) => habitat.make_beside(record, images, &log_dir)?,
            None => habitat.make_ready(record, images, placed.granted.nodes.clone())?,
        }
        let hold = stand.map(|stand| {
            let record = record.clone();
            Arc::new(move |root| {
                let init = Identity::of(root).ok().flatten();
                init.is_some() && stand(Record { init, ..record.clone() })
            }) as Hold
        });
        let follow = record.gpus.is_empty() && placed.granted.nodes.is_empty();
        let wanted = RestoreWanted { images, missing, follow, log_dir: &log_dir, file_locks, hold };
        let mut hooks = RestoreHooks { habitat, record, images, pid: None, worker: None, failure: None };
        let restored = self.checkpointer().restore(&Tree::of(record), &wanted, &mut hooks);
        hooks.failure.map_or(restored, Err)
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
        let names = image_store::moved_files(images, &record.outside_copies)?;
        if names.is_empty() {
            return Ok(None);
        }
        let staged = self.inner.stages.stage(0)?;
        image_store::lay_out_moved(images, &names, staged.path())?;
        Ok(Some(staged))
    }
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
