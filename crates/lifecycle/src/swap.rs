//! What a snapshot, a suspend, a resume and a rollback know while they run.
//!
//! All four are parts of one way: what runs is taken ([`Taking`]) and kept as a snapshot ([`Safe`]), its processes are ended, and others
//! come in their place ([`Going`]). A snapshot stops after the first part, a suspend after the second; a resume is the last one alone.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::{SnapshotOutcome, SnapshotRequest, Variable};
use cas_core::ObjectId;
use checkpoint_criu::{Dumped, Leave};
use image_store::Storing;
use manifest::CommitReason;
use sandbox::process::Identity;
use session_record::journal::Phase;
use staging::Staged;
use workspace::{FilePolicy, Listing, Pending, Plan};

use crate::error::{LifecycleError, Result};
use crate::ports::{Checkpointer, GpuPlan, HoldAgain, OffGpu, Placed};
use crate::restore::Aim;

/// What is known so far.
#[derive(Default)]
pub(crate) struct Swap {
    /// What is taken of the processes that run.
    pub(crate) taking: Option<Taking>,
    /// The snapshot that holds what the session was: durable.
    pub(crate) safe: Option<Safe>,
    /// What the session becomes.
    pub(crate) going: Option<Going>,
}

impl Swap {
    pub(crate) fn taking(&mut self) -> Result<&mut Taking> {
        self.taking.as_mut().ok_or_else(|| too_early("what is taken"))
    }

    pub(crate) fn safe(&self) -> Result<&Safe> {
        self.safe.as_ref().ok_or_else(|| too_early("a durable snapshot"))
    }

    pub(crate) fn going(&mut self) -> Result<&mut Going> {
        self.going.as_mut().ok_or_else(|| too_early("where it goes"))
    }

    /// The line of a stage that ends the old processes.
    pub(crate) fn ending(&self) -> Phase {
        Phase::Ending {
            safe: self.safe_commit(),
            then: self.going.as_ref().map(|going| going.commit.to_string()),
            files: self.with_files(),
        }
    }

    /// The line of a stage that makes the new ones.
    pub(crate) fn restoring(&self) -> Phase {
        Phase::Restoring {
            commit: self.going.as_ref().map(|going| going.commit.to_string()).unwrap_or_default(),
            safe: self.safe_commit(),
            files: self.with_files(),
        }
    }

    fn safe_commit(&self) -> String {
        self.safe.as_ref().map(|safe| safe.commit.to_string()).unwrap_or_default()
    }

    fn with_files(&self) -> bool {
        self.going.as_ref().is_none_or(|going| going.files)
    }
}

pub(crate) fn too_early(what: &str) -> LifecycleError {
    LifecycleError::Bug(format!("a step came before {what} was known"))
}

/// The state of a tree that runs, on its way into the store.
pub(crate) struct Taking {
    pub(crate) leave: Leave,
    pub(crate) policy: FilePolicy,
    /// Files that are captured whatever the policy says.
    pub(crate) named: Vec<PathBuf>,
    /// What the snapshot before knows of files.
    pub(crate) parent: Arc<Listing>,
    pub(crate) why: Why,
    pub(crate) checked: Option<Checked>,
    /// Somebody held it still, and it was let go.
    pub(crate) hold_again: Option<HoldAgain>,
    /// It stands still, and goes on when this is dropped.
    pub(crate) stopped: Option<StoppedTree>,
    /// Processes that are off the GPU. Dropped after the tree goes on: the driver cannot bring back what is stopped.
    pub(crate) off: Option<Box<dyn OffGpu>>,
    /// Their device memory on its way into the store, if it is not in their own.
    pub(crate) beside: Option<Storing>,
    /// Why the driver would not bring them back.
    pub(crate) gpu_failure: Option<LifecycleError>,
    pub(crate) taken: Option<Taken>,
    pub(crate) kept: Option<Kept>,
}

impl Taking {
    pub(crate) fn new(leave: Leave, policy: FilePolicy, parent: Arc<Listing>, why: Why) -> Self {
        Self {
            leave,
            policy,
            named: Vec::new(),
            parent,
            why,
            checked: None,
            hold_again: None,
            stopped: None,
            off: None,
            beside: None,
            gpu_failure: None,
            taken: None,
            kept: None,
        }
    }

    /// What was kept, and why it could not be brought back onto the GPU, if that is so.
    pub(crate) fn end(self) -> Result<(Option<LifecycleError>, Kept)> {
        Ok((self.gpu_failure, self.kept.ok_or_else(|| too_early("a snapshot"))?))
    }
}

/// Why, and in whose words, a commit is made.
pub(crate) struct Why {
    pub(crate) reason: CommitReason,
    pub(crate) request: SnapshotRequest,
    /// What the kernel said before everything stood still.
    pub(crate) variables: Option<Vec<Variable>>,
}

/// What was found out before anything was touched.
pub(crate) struct Checked {
    pub(crate) staged: Staged,
    pub(crate) warnings: Vec<String>,
    pub(crate) gpu: Option<GpuPlan>,
}

/// What a dump has written. Nothing is in the store yet.
pub(crate) struct Taken {
    pub(crate) staged: Staged,
    pub(crate) files: Pending,
    /// What CRIU says about it, and the pages that are not among the images.
    pub(crate) dumped: Dumped,
    pub(crate) warnings: Vec<String>,
    /// What it has on GPUs.
    pub(crate) gpu: Option<GpuPlan>,
    /// How long work on the GPU stood still; `None` if it still does.
    pub(crate) gpu_paused: Option<Duration>,
}

/// A snapshot that is in the store, durable and named.
pub(crate) struct Kept {
    pub(crate) commit: ObjectId,
    /// What is told of it, but for the time that all of it took.
    pub(crate) outcome: SnapshotOutcome,
    /// The session's mark, if it has become the snapshot's label.
    pub(crate) mark: Option<String>,
}

/// A tree that stands still. It goes on when this is dropped, while a panic unwinds, unless it was ended.
pub(crate) struct StoppedTree {
    checkpointer: Arc<dyn Checkpointer>,
    init: Identity,
    may_go_on: bool,
}

impl StoppedTree {
    pub(crate) fn new(checkpointer: &Arc<dyn Checkpointer>, init: Identity) -> Self {
        Self { checkpointer: Arc::clone(checkpointer), init, may_go_on: true }
    }

    /// It goes on, or it is ended with its state durable.
    pub(crate) fn let_go(mut self) {
        self.may_go_on = false;
    }
}

impl Drop for StoppedTree {
    fn drop(&mut self) {
        if self.may_go_on {
            self.checkpointer.release(self.init);
        }
    }
}

/// What a session goes back to if a restore fails.
pub(crate) struct Safe {
    pub(crate) commit: ObjectId,
    /// Its files; read from the store if nobody has yet.
    pub(crate) files: Option<Arc<Listing>>,
}

impl Safe {
    /// As the journal names it.
    pub(crate) fn found(commit: &str) -> Result<Self> {
        Ok(Self { commit: named(commit)?, files: None })
    }
}

fn named(commit: &str) -> Result<ObjectId> {
    commit.parse().map_err(|_| LifecycleError::Bug(format!("the journal names `{commit}` as a snapshot")))
}

/// What a session becomes.
pub(crate) struct Going {
    pub(crate) commit: ObjectId,
    /// Whether files are put back with it.
    pub(crate) files: bool,
    /// Files that stay as they are. After a crash nobody knows of them any more; they are in the snapshot of what was left.
    pub(crate) spared: BTreeSet<PathBuf>,
    /// Found, laid out and checked beforehand; done again when it is missing.
    pub(crate) ready: Option<(Aim, Placed)>,
    /// The session's newest snapshot then.
    pub(crate) head: Option<ObjectId>,
}

impl Going {
    /// To a state that was checked with the old processes running.
    pub(crate) fn to(aim: Aim, placed: Placed, files: bool, plan: &Plan) -> Self {
        let spared = plan.spared.iter().cloned().collect();
        Self { commit: aim.commit, files, spared, ready: Some((aim, placed)), head: None }
    }

    /// As the journal names it.
    pub(crate) fn found(commit: &str, files: bool) -> Result<Self> {
        Ok(Self { commit: named(commit)?, files, spared: BTreeSet::new(), ready: None, head: None })
    }

    pub(crate) fn ready(&self) -> Result<&(Aim, Placed)> {
        self.ready.as_ref().ok_or_else(|| too_early("a state to go to"))
    }
}
