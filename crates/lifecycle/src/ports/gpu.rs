//! What the pipelines ask of GPUs.
//!
//! Process state and GPU state are taken in two stages, always in this order, and in the reverse order brought back:
//!
//! 1. *look* ([`Gpu::look`], then [`GpuLook::plan`]): who in the tree uses a GPU, and is there anything that its driver cannot take?
//!    Everything that could refuse is asked here, with nothing touched. A tree that uses no GPU pays for a look and no more.
//! 2. *off the GPU* ([`Gpu::take_off`]): all processes of the plan are locked, then all are taken off, while the tree runs. Their
//!    device memory is then ordinary memory of theirs, or in files beside them, and nothing of a device is open in the tree.
//! 3. The checkpointer freezes and dumps what are ordinary processes now.
//! 4. *back* ([`OffGpu`]) in place, or *onto* the GPUs ([`Gpu::place`], then [`Placed::put`]) that a restore was promised.
//!
//! A frozen process can never be locked, so nothing may freeze the tree before 2 is done.
//!
//! Whoever answers for a GPU keeps two promises, so that neither a panic nor a kill leaves a process locked. [`OffGpu`] is a guard:
//! dropped, it brings its processes back. And before a process is touched, it and whoever touches it are in the [`GpuJournal`], which is
//! on disk; after a crash the pipelines hand what is noted there to [`Gpu::bring_back`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use image_store::Storing;
use manifest::host::Gpu as GpuOfHost;
use manifest::snapshot::{GpuProcess, GpuSection};
use preflight::Problem;
use sandbox::process::Identity;
use sandbox::{DeviceNode, User};
use session_record::GpuWish;
use session_record::journal::GpuJournal;

use crate::error::{LifecycleError, Result};
use crate::steps::Steps;

/// The GPUs of the machine, and the way to their driver.
pub trait Gpu: Send + Sync {
    // ---- what there is ----

    /// The GPUs and their driver, as they are now.
    fn host(&self) -> Result<GpuHost>;

    /// How much the tree below this process has on GPUs, as of a moment ago: for listings. `None` if that cannot be told.
    fn held_by(&self, init: i32) -> Option<u64>;

    /// The GPUs that a session with this wish gets, and that this user may open. A machine without GPUs has none to give, which is
    /// fine unless some were named.
    fn grant(&self, wish: &GpuWish, user: &User) -> Result<Granted>;

    // ---- off the GPU ----

    /// Who in the tree below this process uses a GPU, as far as it can be told without asking anybody who could hang; `None` if nobody
    /// does.
    fn look(&self, init: i32) -> Result<Option<GpuLook>>;

    /// Takes what is planned off the GPU; `init` is the first process of the tree. On an error all of it runs, or the error is
    /// [`LifecycleError::GpuStuck`]. Device memory goes to `beside`, if that can be done; its files are removed when all of it is back.
    fn take_off(
        &self,
        plan: &GpuPlan,
        init: i32,
        beside: Option<&Storing>,
        journal: &dyn GpuJournal,
        steps: &mut Steps<'_>,
    ) -> Result<Box<dyn OffGpu>>;

    // ---- onto the GPU ----

    /// Finds GPUs for a restore. Nothing is touched; everything that can be told beforehand refuses here.
    fn place(&self, held: &GpuHeld, wanted: &GpuWanted<'_>) -> Result<Placed>;

    /// The same for processes that go where they were, without a promise: [`crate::Engine::restore_directory`]. Refuses where there is
    /// no driver.
    fn place_as_before(&self, section: GpuSection) -> Result<Placed>;

    // ---- after trouble ----

    /// Waits for a process that works on GPUs for an earlier daemon. It ends by itself and is never killed.
    fn wait_for_worker(&self, worker: Identity);

    /// Makes these run on the GPU, whatever was done to them. Those that have ended need nothing. Their device memory may be in `beside`.
    fn bring_back(&self, processes: &[Identity], beside: &Path) -> Result<()>;

    /// The same for all of a tree, of which nobody knows what was done to it.
    fn bring_back_tree(&self, init: Identity, beside: &Path) -> Result<()>;

    /// Whether it is no use to bring these back now, and may be later: a call to the driver hangs, or somebody has stopped one of them.
    fn must_wait(&self, processes: &[Identity]) -> bool;
}

/// What a machine has.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GpuHost {
    /// Its GPUs, as a snapshot names them.
    pub gpus: Vec<GpuOfHost>,
    /// Of the one driver that they have.
    pub driver_version: String,
}

/// GPUs of a session.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Granted {
    /// Their UUIDs.
    pub gpus: Vec<String>,
    /// The device nodes by which they are opened.
    pub nodes: Vec<DeviceNode>,
}

/// What a tree that uses GPUs is like, seen from outside.
pub struct GpuLook {
    /// What would make a snapshot fail.
    pub refusals: Vec<Problem>,
    /// What the user should know.
    pub warnings: Vec<Problem>,
    /// Processes whose device descriptors the checkpointer will not see.
    pub on_gpu: BTreeSet<i32>,
    /// Bytes on all GPUs.
    pub vram_bytes: u64,
    /// Asks the driver, once nothing else refuses: one that is asked about a stopped process would hang. Refuses what it will not
    /// take; `None` if there is nothing to take.
    pub plan: AskDriver,
}

/// The second half of a look.
pub type AskDriver = Box<dyn FnOnce() -> Result<Option<GpuPlan>>>;

/// What is to be taken off GPUs. Everything that could refuse it has been asked.
#[derive(Clone, Debug)]
pub struct GpuPlan {
    /// The processes, as the machine numbers them.
    pub processes: Vec<Identity>,
    /// The same ones in the same order, as a snapshot names them.
    pub section: GpuSection,
    /// The GPUs that they can see.
    pub host: GpuHost,
    /// Whether device memory need not go through their own.
    pub beside: bool,
}

impl GpuPlan {
    /// What all of them have on GPUs.
    pub(crate) fn vram_bytes(&self) -> u64 {
        self.section.processes.iter().fold(0, |all, process| all.saturating_add(process.vram_bytes))
    }

    /// Processes that were granted some GPUs see no others but those that they have open all the same.
    pub(crate) fn seen_with(mut self, granted: &[String]) -> Self {
        let has_open =
            |uuid: &String| self.section.processes.iter().any(|process| process.devices.contains(uuid));
        self.host.gpus.retain(|gpu| granted.contains(&gpu.uuid) || has_open(&gpu.uuid));
        self
    }
}

/// Processes of a tree that are off the GPU: their calls wait, the rest of them runs. Dropped, it brings them back.
pub trait OffGpu {
    /// How long work on the GPU stood still.
    fn paused(&self) -> Duration;

    /// Brings them back in place. If that fails, they are as they were, and it may be tried again.
    fn bring_back(&mut self, journal: &dyn GpuJournal, steps: &mut Steps<'_>) -> Result<()>;

    /// The second attempt, from whatever state they are in, after the first has failed. What cannot be brought back stays off, and the
    /// error is [`LifecycleError::GpuStuck`].
    fn again(&mut self, first: LifecycleError) -> Result<()>;

    /// Both attempts.
    fn back_for_good(&mut self, journal: &dyn GpuJournal, steps: &mut Steps<'_>) -> Result<()> {
        let Err(first) = self.bring_back(journal, steps) else { return Ok(()) };
        self.again(first)
    }

    /// The processes are ended as they are.
    fn ended(self: Box<Self>);
}

/// What a snapshot has on GPUs.
#[derive(Clone, Debug)]
pub struct GpuHeld {
    /// Its processes with work on GPUs.
    pub processes: Vec<GpuProcess>,
    /// The GPUs that they could see.
    pub gpus: Vec<GpuOfHost>,
    /// Where their device memory is laid out, if it is not in their own.
    pub beside: Option<PathBuf>,
}

/// What a restore of it is to have.
#[derive(Clone, Copy, Debug)]
pub struct GpuWanted<'a> {
    /// The snapshot, for people.
    pub commit: &'a str,
    /// GPUs that the session has now: the first choice.
    pub own: &'a [String],
    /// Whether it lives in a box, and so has the nodes that it is given and no others.
    pub boxed: bool,
    /// Only these will do, as people write them.
    pub among: Option<&'a [String]>,
    /// Try also GPUs of another kind.
    pub force: bool,
    /// A tree that is ended before the restore: what it holds counts as free.
    pub ends: Option<i32>,
}

/// GPUs for a restore. Nobody else is promised their bytes while this lives.
#[derive(Default)]
pub struct Placed {
    /// What the session has then.
    pub granted: Granted,
    /// What the session was to have.
    pub wish: GpuWish,
    /// What has to be put onto them.
    pub work: Option<Box<dyn OntoGpu>>,
}

impl Placed {
    /// Puts the processes of the restored tree onto their GPUs, and lets them run there. The tree runs already, with its calls waiting.
    /// On an error the caller ends it.
    pub(crate) fn put(&self, init: Identity, journal: &dyn GpuJournal, steps: &mut Steps<'_>) -> Result<()> {
        self.work.as_ref().map_or(Ok(()), |work| work.put(init, journal, steps))
    }
}

/// Work that goes onto GPUs when its processes are there.
pub trait OntoGpu {
    /// Puts it there, once `init` and all processes below it run again.
    fn put(&self, init: Identity, journal: &dyn GpuJournal, steps: &mut Steps<'_>) -> Result<()>;
}
