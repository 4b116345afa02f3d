//! A snapshot: everything that a session is, into the store, while it works on.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use api::Variable;
use cas_core::ObjectId;
use checkpoint_criu::Leave;
use history::{About, NewCommit, UserStore, variables_section};
use image_store::ingest_images;
use manifest::snapshot::{HostSection, NotCaptured};
use manifest::{CommitReason, Figures, Snapshot, TypedSection};
use workspace::Listing;

use crate::along;
use crate::dump::{DumpPlan, Taken};
use crate::effects::happened;
use crate::engine::Engine;
use crate::error::{LifecycleError, Result};
use crate::events::EventKind;
use crate::exec::exit_code;
use crate::gpu::{GpuTaken, OffGpu};
use crate::journal::{Entry, Phase};
use crate::locks::Doing;
use crate::record::{Record, SessionState};
use crate::request::{Along, Cell, SnapshotRequest};
use crate::section::SessionSection;
use crate::start::check_policy;
use crate::steps::{StepProgress, Steps, Watch};
use crate::view::{NotCapturedView, SnapshotOutcome};

/// How long a quiesce command may take.
const QUIESCE_SECONDS: &str = "60";

/// A snapshot that is in the store, durable and named.
pub(crate) struct Kept {
    pub(crate) commit: ObjectId,
    pub(crate) files: Listing,
    pub(crate) memory_bytes: u64,
    pub(crate) vram_bytes: u64,
    pub(crate) new_bytes: u64,
    pub(crate) not_captured: Vec<NotCaptured>,
    pub(crate) warnings: Vec<String>,
    /// The session's mark, if it has become the snapshot's label.
    pub(crate) mark: Option<String>,
}

/// Why, and in whose words, a commit is made.
pub(crate) struct Why<'a> {
    pub(crate) reason: CommitReason,
    pub(crate) message: &'a str,
    pub(crate) tag: Option<&'a str>,
    pub(crate) along: &'a Along,
    /// What the kernel said before everything stood still.
    pub(crate) variables: Option<Vec<Variable>>,
}

impl<'a> Why<'a> {
    pub(crate) fn automatic(reason: CommitReason, along: &'a Along) -> Self {
        Self { reason, message: "", tag: None, along, variables: None }
    }
}

impl Engine {
    /// Takes a snapshot of a running session, which goes on.
    pub fn snapshot(
        &self,
        which: &str,
        request: &SnapshotRequest,
        watch: &dyn Watch,
    ) -> Result<SnapshotOutcome> {
        let reason = along::reason(request.reason.as_deref())?;
        let (_held, mut record) = self.hold(which, Doing::Snapshot)?;
        self.snapshot_held(&mut record, request, reason, Steps::new(watch))
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
        along::check_message(&request.message)?;
        request.along.check()?;
        request.files.as_ref().map_or(Ok(()), check_policy)?;
        record.living_init("be snapshotted")?;
        self.mend(record)?;
        let store = self.inner.store.open()?;
        if let Some(tag) = &request.tag {
            store.check_new_tag(tag)?;
        }
        let variables = self.variables_now(record, &request.along);
        let (message, tag) = (request.message.as_str(), request.tag.as_deref());
        let why = &Why { reason, message, tag, along: &request.along, variables };
        if let Some(command) = &request.quiesce {
            steps.run("quiesce", || self.quiesce(record, command))?;
        }
        let parent = steps.run("read the parent", || self.parent_files(&store, record))?;
        let policy = request.files.clone().unwrap_or_else(|| record.files.clone());
        let entry = self.inner.journal.begin(&record.id, &Phase::Dumping { worker: None })?;
        let plan = DumpPlan { record, leave: Leave::Running, policy: &policy, named: &[], parent: &parent };
        let mut taken = match self.dump(&plan, &entry, &mut steps) {
            Ok(taken) => taken,
            Err(error) => return Err(self.conclude(record, entry, error)?),
        };
        let frozen = Duration::from_micros(taken.stats.frozen_us.into());
        let mut warnings = taken.warnings.clone();
        let vram_bytes = taken.gpu.as_ref().map_or(0, |gpu| gpu.vram_bytes);
        let gpu_paused = taken.gpu_paused.unwrap_or_default();
        let kept = match (taken.gpu_failure.take(), taken.off.take()) {
            (Some(failure), Some(off)) => {
                self.keep_in_trouble(record, taken, &store, why, entry, (off, failure), &mut steps)?
            }
            _ => {
                // The tree runs again: from here on a crash costs the snapshot and nothing else.
                entry.done()?;
                self.keep(record, taken, &store, why, &mut steps)?
            }
        };
        warnings.extend(kept.warnings.iter().cloned());
        self.at_head(record, &kept)?;
        self.running(record);
        self.inner.events.tell(record, EventKind::Snapshot { commit: kept.commit.to_string() });
        Ok(SnapshotOutcome {
            commit: kept.commit,
            frozen,
            gpu_paused,
            total: begun.elapsed(),
            memory_bytes: kept.memory_bytes,
            vram_bytes,
            new_bytes: kept.new_bytes,
            not_captured: kept.not_captured.iter().map(not_captured_view).collect(),
            warnings,
            steps: steps.timings(),
        })
    }

    /// Keeps a snapshot whose processes the driver would not bring back onto the GPU. Their state is whole, in their memory and
    /// in the staged images; so it is made durable first, and then they are tried again. If they still do not come back, the
    /// session is suspended at this snapshot, where nothing of it is lost and no GPU is held.
    #[expect(clippy::too_many_arguments, reason = "what a snapshot needs, and what went wrong")]
    fn keep_in_trouble(
        &self,
        record: &mut Record,
        taken: Taken,
        store: &UserStore,
        why: &Why<'_>,
        entry: Entry,
        (mut off, failure): (OffGpu, LifecycleError),
        steps: &mut Steps<'_>,
    ) -> Result<Kept> {
        let kept = self.keep(record, taken, store, why, steps);
        if let Ok(kept) = &kept {
            self.at_head(record, kept)?;
        }
        match (kept, off.again(failure)) {
            (Ok(kept), Ok(())) => {
                entry.done()?;
                Ok(kept)
            }
            (Err(error), Ok(())) => {
                entry.done()?;
                Err(error)
            }
            (Ok(kept), Err(failure)) => {
                entry.enter(&Phase::Ending { safe: kept.commit.to_string(), then: None, files: true })?;
                off.ended();
                self.end_tree(record)?;
                self.set_down(record, SessionState::Suspended)?;
                entry.done()?;
                let (session, commit) = (record.name.clone(), kept.commit.short());
                Err(LifecycleError::SuspendedByGpu { session, commit, source: Box::new(failure) })
            }
            (Err(_), Err(failure)) => {
                off.ended();
                Err(self.conclude(record, entry, failure)?)
            }
        }
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
    pub(crate) fn parent_files(&self, store: &UserStore, record: &Record) -> Result<Listing> {
        match record.head_id()? {
            Some(head) => Ok(Listing::of_snapshot(store.store(), &store.load(&head)?.1)?),
            None => Ok(Listing::default()),
        }
    }

    /// Puts what was taken into the store, commits it durably, and keeps the plain images for a quick way back.
    pub(crate) fn keep(
        &self,
        record: &Record,
        taken: Taken,
        store: &UserStore,
        why: &Why<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<Kept> {
        let head = record.head_id()?;
        let parent = head.map(|head| store.load(&head)).transpose()?.map(|(_, snapshot)| snapshot);
        let Taken { staged, files, gpu, stats, gpu_paused, .. } = taken;
        let pins: Vec<ObjectId> = head.into_iter().collect();
        let session = store.write(&pins)?;
        let watch = steps.watch();
        let ingested = steps.run("store memory", || {
            let progress = StepProgress::new(watch, "store memory");
            Ok(ingest_images(&session, staged.path(), parent.as_ref(), &progress)?)
        })?;
        let captured = steps
            .run("store files", || Ok(files.finish(&session, &StepProgress::new(watch, "store files"))?))?;
        let mut sections = vec![
            ingested.memory.to_section()?,
            ingested.criu.to_section()?,
            captured.workspace.to_section()?,
            captured.outside.to_section()?,
            HostSection { fingerprint: self.fingerprint(gpu.as_ref())? }.to_section()?,
            SessionSection::of(record).to_section()?,
        ];
        if let Some(gpu) = &gpu {
            sections.push(gpu.section.to_section()?);
        }
        let mut warnings = Vec::new();
        sections.extend(along::notebook_section(record, why.along, &session, &mut warnings)?);
        if let Some(variables) = &why.variables {
            sections.push(variables_section(variables, &session)?);
        }
        let vram_bytes = gpu.as_ref().map_or(0, |gpu| gpu.vram_bytes);
        // As it was when the operation began: one that came later is for the next snapshot.
        let mark = record.notes.mark.clone().filter(|_| why.along.label.is_none());
        let about = About {
            session: Some(record.id.to_string()),
            label: why.along.label.clone().or_else(|| mark.clone()),
            cell: why.along.cell.as_ref().map(Cell::note),
            figures: Figures {
                new_bytes: Some(ingested.stats.new_bytes),
                memory_bytes: Some(ingested.stats.memory_bytes),
                vram_bytes: Some(vram_bytes),
                frozen_us: Some(stats.frozen_us.into()),
                gpu_paused_us: gpu_paused.map(micros),
                ..Figures::default()
            },
        };
        let snapshot = Snapshot::new(sections)?;
        let (commit, snapshot_id) = steps.run("commit", || {
            Ok(store.commit_snapshot(
                session,
                NewCommit {
                    snapshot: &snapshot,
                    parents: head.into_iter().collect(),
                    thread: &record.thread,
                    expected: head,
                    author: &record.owner,
                    message: why.message,
                    reason: why.reason.clone(),
                    tag: why.tag,
                    about,
                    seal: Some(&self.inner.sealer),
                },
            )?)
        })?;
        happened("the snapshot is committed");
        self.inner.stages.adopt(staged, &snapshot_id.to_string());
        Ok(Kept {
            commit,
            files: Listing::of_snapshot(store.store(), &snapshot)?,
            memory_bytes: ingested.stats.memory_bytes,
            vram_bytes,
            new_bytes: ingested.stats.new_bytes,
            not_captured: captured.not_captured,
            warnings,
            mark,
        })
    }

    /// What this machine is, for the comparison at a restore. GPUs are part of it for what uses some.
    pub(crate) fn fingerprint(&self, gpu: Option<&GpuTaken>) -> Result<manifest::host::HostFingerprint> {
        Ok(manifest::host::probe::probe(manifest::host::probe::Given {
            criu_version: self.criu_version(),
            driver_version: gpu.map(|gpu| gpu.driver_version.clone()),
            gpus: gpu.map(|gpu| gpu.gpus.clone()).unwrap_or_default(),
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
            status: exit_code(&output.status),
            output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}

fn not_captured_view(item: &NotCaptured) -> NotCapturedView {
    NotCapturedView { path: item.path.to_string_lossy().into_owned(), reason: item.reason.clone() }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
