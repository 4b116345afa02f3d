//! A snapshot: everything that a session is, into the store, while it works on.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{SnapshotOutcome, SnapshotRequest};
use cas_core::ObjectId;
use checkpoint_criu::Leave;
use history::along::{self, cell_note, uncaptured};
use history::{NewCommit, UserStore, variables_section};
use image_store::{Stored, Storing, ingest_images};
use manifest::snapshot::HostSection;
use manifest::{CommitReason, Figures, Snapshot, TypedSection};
use policy::plan::Spared;
use sandbox::process::as_shell;
use session_record::words::skipped;
use session_record::{Record, session_section};
use workspace::Listing;

use crate::dump::{
    BACK_ONTO_THE_GPU, FREEZE_AND_DUMP, HOLD_AGAIN, LET_GO, OFF_THE_GPU, ONCE_MORE, PREFLIGHT, dumping,
    is_off_the_gpu,
};
use crate::effects::happened;
use crate::ending::TO_SLEEP;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::pipeline::{Pipeline, Stage, Step, WayOut, Work};
use crate::ports::{GpuHost, GpuPlan};
use crate::steps::{StepProgress, Steps, Watch};
use crate::swap::{Kept, Safe, Swap, Taken, Taking, Why};
use crate::words::{self, micros};
use session_record::events::EventKind;
use session_record::locks::Doing;

/// How long a quiesce command may take.
const QUIESCE_SECONDS: &str = "60";

/// Puts what was taken into the store, durably, as the session's newest snapshot.
pub(crate) const KEEP: Step<Swap> =
    Step::parts("keep", &["store memory", "store files", "commit"], |work, swap: &mut Swap| {
        let taking = swap.taking()?;
        let Some(taken) = taking.taken.take() else {
            return Err(LifecycleError::Bug("nothing was taken that could be kept".to_owned()));
        };
        let beside = taking.beside.take();
        let (kept, files) = work.engine.keep(work.record, taken, beside, &taking.why, &mut work.steps)?;
        work.engine.at_head(work.record, &kept)?;
        let commit = kept.commit;
        taking.kept = Some(kept);
        swap.safe = Some(Safe { commit, files: Some(files) });
        Ok(())
    })
    .when(|_, swap| swap.safe.is_none());

/// Everything that a session is, into the store, while it works on. When the tree runs again, a crash costs the snapshot and nothing
/// else. If the driver will not bring its work back onto the GPU, the state is whole, in its memory and in the staged images: it is made durable
/// first, and then that is tried again. If it still does not come back, the session is suspended at this snapshot, where nothing of it is
/// lost and no GPU is held.
pub(crate) const SNAPSHOT: Pipeline<Swap> = &[
    Stage::new(
        "dumping",
        dumping,
        WayOut::Back,
        &[
            LET_GO,
            PREFLIGHT,
            OFF_THE_GPU,
            FREEZE_AND_DUMP,
            BACK_ONTO_THE_GPU,
            KEEP_IN_TROUBLE,
            ONCE_MORE,
            HOLD_AGAIN,
        ],
    ),
    TO_SLEEP.when(is_off_the_gpu),
    Stage::unwritten(&[KEEP]),
];

/// The first stage of whatever ends what runs: it stands still until its state is durable, and goes on if that fails.
pub(crate) const STOP_AND_KEEP: Stage<Swap> =
    Stage::new("dumping", dumping, WayOut::Back, &[LET_GO, PREFLIGHT, OFF_THE_GPU, FREEZE_AND_DUMP, KEEP]);

const KEEP_IN_TROUBLE: Step<Swap> = KEEP.when(|_, swap| is_off_the_gpu(swap));

impl Engine {
    /// Takes a snapshot of a running session, which goes on.
    pub fn snapshot(
        &self,
        which: &str,
        request: &SnapshotRequest,
        watch: &dyn Watch,
    ) -> Result<SnapshotOutcome> {
        along::check(request)?;
        let reason = along::reason(request.reason.as_deref())?;
        let doing = if reason.is_automatic() { Doing::Automatic } else { Doing::Snapshot };
        let (_held, mut record) = match self.hold(which, doing) {
            Err(LifecycleError::Busy { .. }) if request.within_ms.is_some() => {
                return Err(LifecycleError::Skipped(skipped(self.find(which)?.head, Spared::Busy)));
            }
            held => held?,
        };
        if let Some(within) = request.within_ms {
            self.spare(&record, &reason, Duration::from_millis(within))?;
        }
        self.snapshot_held(&mut record, request, reason, Steps::new(watch))
    }

    /// Gives up a snapshot of a session that nobody asked for, if nothing stands still for it yet; says whether there was one.
    pub fn give_up(&self, which: &str) -> Result<bool> {
        Ok(self.inner.locks.give_up(&self.find(which)?.id))
    }

    /// The same, for an operation that already has hold of the session.
    pub(crate) fn snapshot_held(
        &self,
        record: &mut Record,
        request: &SnapshotRequest,
        reason: CommitReason,
        mut steps: Steps<'_>,
    ) -> Result<SnapshotOutcome> {
        let begun = Instant::now();
        along::check(request)?;
        let policy = record.files_wanted(request.files.as_ref(), &self.habitat(record).places(record))?;
        record.living_init("be snapshotted")?;
        self.mend(record)?;
        let store = self.inner.store.open()?;
        if let Some(tag) = &request.tag {
            store.check_new_tag(tag)?;
        }
        let variables = self.variables_now(record, request);
        let why = Why { reason, request: request.clone(), variables };
        if let Some(command) = &request.quiesce {
            steps.run("quiesce", || self.quiesce(record, &words::argv(command)))?;
        }
        let parent = steps.run("read the parent", || self.parent_files(&store, record))?;
        let taking = Taking::new(Leave::Running, policy, parent, why);
        let mut swap = Swap { taking: Some(taking), ..Swap::default() };
        let mut work = Work::new(self, record, steps);
        work.run(SNAPSHOT, &mut swap)?;
        let steps = work.steps.timings();
        let Some(taking) = swap.taking else {
            return Err(LifecycleError::Bug("a snapshot was taken of nothing".to_owned()));
        };
        let (failure, kept) = taking.end()?;
        if let Some(failure) = failure {
            let (session, commit) = (record.name.clone(), kept.commit.short());
            return Err(LifecycleError::SuspendedByGpu { session, commit, source: Box::new(failure) });
        }
        self.running(record);
        self.snapshot_kept(record, &kept.outcome);
        self.inner.events.tell(record, EventKind::Snapshot { commit: kept.commit.to_string() });
        Ok(SnapshotOutcome { total_us: micros(begun.elapsed()), steps, ..kept.outcome })
    }

    /// Writes down that a snapshot is the session's newest, and that the mark is used if it has become its label.
    pub(crate) fn at_head(&self, record: &mut Record, kept: &Kept) -> Result<()> {
        record.head = Some(kept.commit.to_string());
        self.save(record)?;
        match &kept.mark {
            Some(mark) => self.mark_used(&record.id, mark),
            None => Ok(()),
        }
    }

    /// What the session's newest snapshot knows of files.
    pub(crate) fn parent_files(&self, store: &UserStore, record: &Record) -> Result<Arc<Listing>> {
        Ok(self.inner.listings.of(store, record)?)
    }

    /// Puts what was taken into the store, and commits it durably. Says what the
    /// snapshot knows of files, too.
    fn keep(
        &self,
        record: &Record,
        taken: Taken,
        beside: Option<Storing>,
        why: &Why,
        steps: &mut Steps<'_>,
    ) -> Result<(Kept, Arc<Listing>)> {
        let store = self.inner.store.open()?;
        let head = record.head_id()?;
        let parent = head.map(|head| store.load(&head)).transpose()?.map(|(_, snapshot)| snapshot);
        let Taken { staged, files, gpu, dumped, mut warnings, gpu_paused } = taken;
        warnings.extend(steps.take_warnings());
        let is_beside = beside.is_some();
        let pins: Vec<ObjectId> = head.into_iter().collect();
        let watch = steps.watch();
        let (session, ingested) = steps.run("store memory", || {
            let progress = StepProgress::new(watch, "store memory");
            let Stored { session, spaces, stats } = match beside {
                Some(beside) => beside.finish()?,
                None => Stored::nothing(store.write(&pins)?),
            };
            let (parent, left_out) = (parent.as_ref(), dumped.left_out.as_ref());
            let images = ingest_images(&session, staged.path(), parent, left_out, &progress)?;
            Ok((session, images.with_device_memory(spaces, &stats)))
        })?;
        let captured = steps
            .run("store files", || Ok(files.finish(&session, &StepProgress::new(watch, "store files"))?))?;
        let connection = self.connection_inside(record).ok().map(|file| file.to_json());
        let mut sections = vec![
            ingested.memory.to_section()?,
            ingested.criu.to_section()?,
            captured.workspace.to_section()?,
            captured.outside.to_section()?,
            HostSection { fingerprint: self.fingerprint(gpu.as_ref().map(|gpu| &gpu.host))? }.to_section()?,
            session_section(record, connection, parent.as_ref(), &session)?,
        ];
        if let Some(gpu) = &gpu {
            let section = gpu.section.clone();
            sections.push(if is_beside { section.beside() } else { section }.to_section()?);
        }
        sections.extend(record.document().section(&why.request, &session, &mut warnings)?);
        if let Some(variables) = &why.variables {
            sections.push(variables_section(variables, &session)?);
        }
        let vram_bytes = gpu.as_ref().map_or(0, GpuPlan::vram_bytes);
        // As it was when the operation began: one that came later is for the next snapshot.
        let mark = record.notes.mark.clone().filter(|_| why.request.label.is_none());
        let figures = Figures {
            new_bytes: Some(ingested.stats.new_bytes),
            memory_bytes: Some(ingested.stats.memory_bytes),
            vram_bytes: Some(vram_bytes),
            frozen_us: Some(dumped.stats.frozen_us.into()),
            gpu_paused_us: gpu_paused.map(micros),
            ..Figures::default()
        };
        let snapshot = Snapshot::new(sections)?;
        let (commit, _) = steps.run("commit", || {
            Ok(store.commit_snapshot(
                session,
                NewCommit {
                    snapshot: &snapshot,
                    parents: head.into_iter().collect(),
                    thread: &record.thread,
                    expected: head,
                    author: &record.owner,
                    message: why.request.message.as_deref().unwrap_or_default(),
                    reason: why.reason.clone(),
                    tag: why.request.tag.as_deref(),
                    session: Some(record.id.as_str()),
                    label: why.request.label.clone().or_else(|| mark.clone()),
                    cell: why.request.cell.as_ref().map(cell_note),
                    figures,
                    seal: Some(&self.inner.sealer),
                },
            )?)
        })?;
        happened("the snapshot is committed");
        let files = Arc::new(captured.listing);
        self.inner.listings.keep(commit, Arc::clone(&files));
        let outcome = SnapshotOutcome {
            commit: commit.to_string(),
            frozen_us: dumped.stats.frozen_us.into(),
            gpu_paused_us: micros(gpu_paused.unwrap_or_default()),
            memory_bytes: ingested.stats.memory_bytes,
            vram_bytes,
            frozen_bytes: dumped.left_out.as_ref().map(|left_out| left_out.copied_frozen()),
            new_bytes: ingested.stats.new_bytes,
            not_captured: captured.not_captured.iter().map(uncaptured).collect(),
            warnings,
            total_us: 0,
            steps: Vec::new(),
        };
        Ok((Kept { commit, outcome, mark }, files))
    }

    /// What this machine is, for the comparison at a restore. GPUs are part of it for what uses some.
    pub(crate) fn fingerprint(&self, gpus: Option<&GpuHost>) -> Result<manifest::host::HostFingerprint> {
        Ok(manifest::host::probe::probe(manifest::host::probe::Given {
            criu_version: self.criu_version(),
            driver_version: gpus.map(|host| host.driver_version.clone()),
            gpus: gpus.map(|host| host.gpus.clone()).unwrap_or_default(),
        })?)
    }

    fn quiesce(&self, record: &Record, command: &[OsString]) -> Result<()> {
        let mut limited: Vec<OsString> = vec!["timeout".into(), QUIESCE_SECONDS.into()];
        limited.extend_from_slice(command);
        let path = [("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())];
        let output = self.habitat(record).exec(record, &limited, &path, "be quiesced")?;
        if output.status.success() {
            return Ok(());
        }
        Err(LifecycleError::Quiesce {
            status: as_shell(output.status),
            output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}
