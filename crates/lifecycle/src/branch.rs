//! A new session out of a snapshot of another, alive beside it.
//!
//! The branch has the same process ids, the same ports and the same paths as the original, in namespaces of its own, and its
//! own files at those paths: its workspace is a private copy, mounted where the original's was.

use std::sync::Arc;
use std::time::SystemTime;

use api::{BranchOutcome, BranchRequest, ContainerName, SessionState, SnapshotRequest};
use base::names::for_branches;
use base::several;
use cas_core::ObjectId;
use checkpoint_criu::images::Images;
use history::UserStore;
use jiff::Timestamp;
use jupyter_bridge::ConnectionFile;
use manifest::CommitReason;
use sandbox::bounded;
use session_record::files::write_for;
use session_record::place::{CONNECTION, LOG, make, make_for, outside_directory};
use session_record::words::gpu_wish;
use session_record::{
    GpuWish, KernelRecord, Record, SessionId, SessionSection, bring_programs, gone_session,
};
use workspace::{BranchFiles, FilePolicy};

use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::gpu::Wanted;
use crate::making::{
    IT_RUNS, LEAD_CLIENTS, New, Source, end_processes, remove_files, remove_place, starting,
};
use crate::pipeline::{Pipeline, Stage, Step, WayOut, Work};
use crate::prepare::new_ports;
use crate::restore::Aim;
use crate::steps::{Steps, Watch};
use session_record::locks::{Doing, Held};

/// How large a workspace a branch gets a copy of, unless the session's policy says otherwise.
const WORKSPACE_LIMIT: u64 = 20 << 30;
/// How much of a log a branch begins with: the session can make its own as long as it likes.
const LOG_COPIED: u64 = 1 << 20;

/// Nobody was told of a branch that is not there yet: if it fails, or is cut short, nothing of it is left.
pub(crate) const BRANCH: Pipeline<New> = &[Stage::new(
    "starting",
    starting,
    WayOut::Back,
    &[
        Step::quiet("make its place", make_place).undo(remove_place),
        Step::shown("copy files", copy_files).undo(remove_files),
        Step::shown("restore", |work, new: &mut New| {
            let Source { aim, placed, .. } = new.source()?;
            // A lock of the original's would make CRIU wait for ever; the branch has its own files and no locks.
            work.engine.restore_aimed(work.record, aim, false, placed, &mut work.steps)
        })
        .undo(end_processes),
        Step::parts("onto the GPU", &["restore the GPU", "unlock the GPU"], |work, new: &mut New| {
            let (init, placed) = (work.record.init, &new.source()?.placed);
            let (entry, steps) = work.noted()?;
            init.map_or(Ok(()), |init| placed.put(init, entry, steps))?;
            placed.grant_to(work.record);
            Ok(())
        }),
        LEAD_CLIENTS,
        Step::quiet("begin its thread", |work, new: &mut New| {
            let store = work.engine.inner.store.open()?;
            Ok(store.start_thread(&work.record.thread, &new.source()?.aim.commit)?)
        }),
        IT_RUNS,
    ],
)];

/// From here on a crash finds a record, and with it everything that has to be cleared away.
fn make_place(work: &mut Work<'_>, new: &mut New) -> Result<()> {
    let (engine, record) = (work.engine, &mut *work.record);
    let place = &engine.inner.place;
    make(&place.session(&record.id))?;
    make(&place.criu_log(&record.id))?;
    record.files_at = place.branch_files(&record.id, &record.name);
    engine.save(record)?;
    engine.fill_box_dir(record, new.source()?)
}

fn copy_files(work: &mut Work<'_>, new: &mut New) -> Result<()> {
    let (engine, record) = (work.engine, &mut *work.record);
    let Source { original, aim, files, .. } = new.source()?;
    let store = engine.inner.store.open()?;
    let (exclude, max_bytes) = match &record.files {
        FilePolicy::Tree { exclude, max_bytes, .. } => (exclude.clone(), *max_bytes),
        FilePolicy::Open | FilePolicy::Workspace | FilePolicy::None => (Vec::new(), WORKSPACE_LIMIT),
    };
    let wanted = BranchFiles {
        store: store.store(),
        user: &record.owner,
        from: &aim.files,
        source: &engine.habitat(original).places(original),
        taken: SystemTime::from(store.load(&aim.commit)?.0.time),
        workspace: &record.files_at,
        outside: &outside_directory(&record.files_at),
        exclude: &exclude,
        max_bytes,
        open: &Images::open(aim.images()?.path())?.open_regular_files()?,
    };
    let made = match engine.habitat(record).make_branch(record, original, &wanted)? {
        Some((branch, made)) => {
            *record = branch;
            made
        }
        None => wanted.make()?,
    };
    record.outside_copies.clone_from(&made.moved);
    let programs = engine.inner.place.session(&record.id).join("programs");
    record.outside_copies.extend(bring_programs(&store, &aim.commit, &programs)?);
    if let Some(origin) = &mut record.origin {
        origin.files_made = Some(Timestamp::now());
    }
    *files = Some(made);
    engine.save(record)
}

impl Engine {
    /// Makes one or several new sessions from a snapshot, or from a running session as it is now. Without a session the snapshot is enough.
    pub fn branch(
        &self,
        which: Option<&str>,
        request: &BranchRequest,
        watch: &dyn Watch,
    ) -> Result<Vec<BranchOutcome>> {
        let count = request.count.unwrap_or(1).max(1);
        let store = self.inner.store.open()?;
        let (held, from) = self.asked_for(&store, which, request, watch)?;
        let asked = held.as_ref().map(|(_, record)| record);
        let (mut record, connection) = self.taken_of(&store, &from, asked)?;
        if let Some(which) = &request.container {
            record = self.as_container(&store, &from, record, which)?;
        }
        record.map(&request.map)?;
        if let Some(detail) = self.habitat(&record).why_no_branch(&record) {
            return Err(LifecycleError::BadRequest {
                detail: format!("session {} cannot be branched: {detail}", record.name),
            });
        }
        let steps = &mut Steps::new(watch);
        let aim = Arc::new(self.aim(&record, &store, from, count, request.force, steps)?);
        let is_taken = |name: &str| self.records().values().any(|record| record.name == name);
        let names = for_branches(request.name.as_deref(), &record.name, count, is_taken);
        let name = |number: u32| names.get(number as usize - 1).map(String::as_str);
        let wish = request.gpus.clone().map(gpu_wish);
        let of = (&record, connection.as_ref());
        several(count, |number| {
            self.branch_one(of, &store, &aim, name(number), wish.as_ref(), Steps::new(watch))
        })
    }

    /// The session, if one was named, and the snapshot to begin with; of a session one is taken if none was named.
    fn asked_for(
        &self,
        store: &UserStore,
        which: Option<&str>,
        request: &BranchRequest,
        watch: &dyn Watch,
    ) -> Result<(Option<(Held, Record)>, ObjectId)> {
        let Some(which) = which else {
            return Ok((None, store.resolve(request.from.as_deref().unwrap_or_default())?));
        };
        let (held, mut record) = self.hold(which, Doing::Branch)?;
        self.mend(&mut record)?;
        let from = match &request.from {
            Some(from) => store.resolve(from)?,
            None => {
                if record.state == SessionState::Running {
                    let notebook = request.notebook.clone();
                    let now = SnapshotRequest { notebook, ..SnapshotRequest::default() };
                    self.snapshot_held(&mut record, &now, CommitReason::Branch, Steps::new(watch))?;
                }
                record.head_id()?.ok_or_else(|| LifecycleError::WrongState {
                    session: record.name.clone(),
                    state: record.state.as_str(),
                    action: "be branched: it was never snapshotted",
                })?
            }
        };
        Ok((Some((held, record)), from))
    }

    /// Whose branch it becomes: of the session that the snapshot was taken of, whose kernel has another key than any other. If that one is
    /// gone, of one of its family, which has the same; or of what the snapshot remembers of it.
    pub(crate) fn taken_of(
        &self,
        store: &UserStore,
        from: &ObjectId,
        asked: Option<&Record>,
    ) -> Result<(Record, Option<ConnectionFile>)> {
        let (family, gone) = (self.family_of(store, from)?, gone_session(store, from, &self.inner.user)?);
        let fits = |asked: &&Record| {
            family.iter().any(|record| record.id == asked.id) || (gone.is_none() && asked.kernel.is_none())
        };
        let taken = store.commit_of(from)?.session.and_then(|id| self.find(&id).ok());
        if let Some(known) = taken.or_else(|| asked.filter(fits).cloned()) {
            let connection = known.kernel.as_ref().map(|_| self.connection_inside(&known)).transpose()?;
            return Ok((known, connection));
        }
        let mut gone = gone.ok_or_else(|| LifecycleError::BadRequest {
            detail: format!(
                "the session that snapshot {} was taken of is gone; branch a session of its family",
                from.short()
            ),
        })?;
        if self.inner.listings.at(store, *from)?.whole_tree {
            // Whatever is there now is somebody else's.
            gone.record.files_at = self.inner.place.session(&gone.record.id);
        }
        let connection = gone.connection.as_deref().map(ConnectionFile::of_snapshot).transpose()?;
        Ok((gone.record, connection))
    }

    /// What a snapshot becomes beside a container: a branch of the session that it was taken of, if that is meant; or else one made as this one is.
    fn as_container(
        &self,
        store: &UserStore,
        from: &ObjectId,
        taken: Record,
        which: &ContainerName,
    ) -> Result<Record> {
        if taken.container.is_some() && self.family_of(store, from)?.iter().any(|one| one.is_container(which))
        {
            return Ok(taken);
        }
        let section: Option<SessionSection> = store.load(from)?.1.get()?;
        let image = section.and_then(|section| section.container?.image);
        self.habitat(&taken).like(&taken, which, image.as_ref())
    }

    fn branch_one(
        &self,
        (original, connection): (&Record, Option<&ConnectionFile>),
        store: &UserStore,
        aim: &Arc<Aim>,
        name: Option<&str>,
        wish: Option<&GpuWish>,
        steps: Steps<'_>,
    ) -> Result<BranchOutcome> {
        // Each branch has a place of its own: what one is promised, the next does not find free.
        let wanted = Wanted { wish, ..Wanted::default() };
        let placed = self.place_gpus(original, &aim.commit.short(), aim.gpu.as_ref(), wanted)?;
        let id = SessionId::random()?;
        let name = self.free_name(name, &id)?;
        let _held = self.inner.locks.take(&id, &name, Doing::Start)?;
        let thread = store.free_thread(&name, id.as_str())?;
        let mut record = original.branched(id, name, thread, &aim.commit);
        let (original, connection) = (original.clone(), connection.cloned());
        let source = Source { original, connection, aim: Arc::clone(aim), placed, files: None };
        let mut new = New { source: Some(source), ..New::default() };
        let mut work = Work::new(self, &mut record, steps);
        work.run(BRANCH, &mut new)?;
        let (more, steps) = (work.steps.take_warnings(), work.steps.timings());
        self.kernel_restored(&record, &aim.commit.to_string(), None);
        let files = new.source()?.files.take().unwrap_or_default();
        let warnings = [files.told(), more].concat();
        let (session, commit) = (self.view(&record), aim.commit.to_string());
        let shared = files.shared.into_iter().map(Into::into).collect();
        Ok(BranchOutcome { session, commit, shared, warnings, steps })
    }

    /// The branch's own log and connection file, and new ports outside for its clients.
    fn fill_box_dir(&self, record: &mut Record, source: &Source) -> Result<()> {
        let Source { original, connection, .. } = source;
        let place = &self.inner.place;
        let (from, to) = (place.box_dir(&original.id), place.box_dir(&record.id));
        let log = bounded::tail(&from.join(LOG), LOG_COPIED);
        make_for(&to, record.owner.uid, record.owner.gid)?;
        // Still empty and without processes, so these paths are what they seem.
        write_for(&to.join(LOG), &record.owner, &log.unwrap_or_default())?;
        let (Some(kernel), Some(inside)) = (&original.kernel, connection) else { return Ok(()) };
        write_for(&to.join(CONNECTION), &record.owner, inside.to_json().as_bytes())?;
        let outside = ConnectionFile { ports: new_ports()?, ..inside.clone() };
        let connection_file = place.connection_file(&record.id);
        write_for(&connection_file, &record.owner, outside.to_json().as_bytes())?;
        record.kernel = Some(KernelRecord {
            connection_file,
            ports: outside.ports.to_array().into_iter().zip(inside.ports.to_array()).collect(),
            ..kernel.clone()
        });
        Ok(())
    }
}
