//! The stories: a situation, an operation, and what may come of it.
//!
//! A state is told in words, a line for each session: its name, its state, the number that its process has in memory (or, asleep, its
//! newest snapshot), and the text in its file. The session `s` has a snapshot with the number 1 and the text `one`; by now it has the number
//! 2 and the text `two`, which are in no snapshot.

use super::ground::Ground;
use super::machine::wait_until;
use crate::engine::Engine;
use crate::error::Result;
use crate::steps::NoWatch;
use api::{
    BranchRequest, RestartRequest, ResumeRequest, RollbackRequest, SnapshotRequest, StopRequest,
    SuspendRequest,
};

/// A story.
pub(super) struct Story {
    pub(super) name: &'static str,
    /// Makes the situation.
    pub(super) before: fn(&Ground, &Engine),
    /// The operation.
    pub(super) act: fn(&Ground, &Engine) -> Result<()>,
    /// States, as if nothing had been asked.
    pub(super) untouched: &'static [&'static str],
    /// States, as if nothing had happened to it.
    pub(super) after: &'static [&'static str],
    /// States that a daemon killed in the middle may also leave.
    pub(super) between: &'static [&'static str],
    /// States that a failure of the machine may also leave.
    pub(super) failed: &'static [&'static str],
    /// Numbers that must not be lost: in memory, or in a snapshot.
    pub(super) kept: &'static [u8],
    /// It passes at least so many moments, or nothing is tried.
    pub(super) moments: usize,
}

const GRACE: StopRequest = StopRequest { grace_ms: Some(5000) };

fn awake(ground: &Ground, engine: &Engine) {
    ground.session_with_a_past(engine);
}

/// It is awake, and its snapshot stands by.
fn with_standby(ground: &Ground, engine: &Engine) {
    ground.session_with_a_past(engine);
    let record = engine.find("s").unwrap();
    engine.stand_by(&record, record.head_id().unwrap().unwrap()).unwrap();
    wait_until("nothing stands by", || engine.inner.standbys.ready(&record.id).is_some());
}

fn asleep(ground: &Ground, engine: &Engine) {
    ground.session_with_a_past(engine);
    engine.suspend("s", &SuspendRequest::default(), &NoWatch).unwrap();
}

fn ended(ground: &Ground, engine: &Engine) {
    ground.session_with_a_past(engine);
    engine.stop("s", GRACE).unwrap();
}

fn back(_: &Ground, engine: &Engine) -> Result<()> {
    let request = RollbackRequest { force: true, ..RollbackRequest::to("first") };
    engine.rollback("s", &request, &NoWatch).map(drop)
}

fn branched(_: &Ground, engine: &Engine) -> Result<()> {
    let request = BranchRequest { name: Some("t".to_owned()), ..BranchRequest::default() };
    engine.branch(Some("s"), &request, &NoWatch).map(drop)
}

fn restarted(engine: &Engine, snapshot: bool) -> Result<()> {
    let request = RestartRequest {
        start: Ground::command(),
        env: Vec::new(),
        cwd: None,
        grace_ms: Some(5000),
        snapshot,
    };
    engine.restart("s", &request, &NoWatch).map(drop)
}

/// All of them.
pub(super) const STORIES: &[Story] = &[
    Story {
        name: "start",
        before: |_, _| (),
        act: |ground, engine| ground.start(engine, "s").map(drop),
        untouched: &[""],
        after: &["s running 100 -"],
        between: &[],
        failed: &[],
        kept: &[],
        moments: 8,
    },
    Story {
        name: "snapshot",
        before: awake,
        act: |_, engine| engine.snapshot("s", &SnapshotRequest::default(), &NoWatch).map(drop),
        untouched: &["s running 2 two"],
        after: &["s running 2 two"],
        between: &[],
        failed: &[],
        kept: &[1, 2],
        moments: 15,
    },
    Story {
        name: "suspend",
        before: awake,
        act: |_, engine| engine.suspend("s", &SuspendRequest::default(), &NoWatch).map(drop),
        untouched: &["s running 2 two"],
        after: &["s suspended 2 two"],
        between: &[],
        failed: &[],
        kept: &[1, 2],
        moments: 20,
    },
    Story {
        name: "resume",
        before: asleep,
        act: |_, engine| engine.resume("s", &ResumeRequest::default(), &NoWatch).map(drop),
        untouched: &["s suspended 2 two"],
        after: &["s running 2 two"],
        between: &[],
        failed: &[],
        kept: &[1, 2],
        moments: 10,
    },
    Story {
        name: "rollback",
        before: awake,
        act: back,
        untouched: &["s running 2 two"],
        after: &["s running 1 one"],
        between: &[],
        // Neither the one state nor the other could be made: it sleeps at the one that it had.
        failed: &["s suspended 2 two", "s suspended 2 one"],
        kept: &[1, 2],
        moments: 30,
    },
    Story {
        name: "rollback_to_standby",
        before: with_standby,
        act: back,
        untouched: &["s running 2 two"],
        after: &["s running 1 one"],
        between: &[],
        failed: &["s suspended 2 two", "s suspended 2 one"],
        kept: &[1, 2],
        moments: 30,
    },
    Story {
        name: "rollback_of_a_sleeper",
        before: asleep,
        act: back,
        untouched: &["s suspended 2 two"],
        after: &["s running 1 one"],
        between: &[],
        // It is put back to where it was, and that is awake.
        failed: &["s running 2 two", "s suspended 2 one"],
        kept: &[1, 2],
        moments: 15,
    },
    Story {
        name: "branch",
        before: awake,
        act: branched,
        untouched: &["s running 2 two"],
        after: &["s running 2 two, t running 2 two"],
        between: &[],
        failed: &[],
        kept: &[1, 2],
        moments: 25,
    },
    Story {
        name: "branch_of_a_sleeper",
        before: asleep,
        act: branched,
        untouched: &["s suspended 2 two"],
        after: &["s suspended 2 two, t running 2 two"],
        between: &[],
        failed: &[],
        kept: &[1, 2],
        moments: 12,
    },
    Story {
        name: "restart",
        before: awake,
        act: |_, engine| restarted(engine, false),
        untouched: &["s running 2 two"],
        after: &["s running 100 two"],
        // The old processes are gone and the new ones never came: its snapshots are there.
        between: &["s failed 1 two"],
        failed: &["s failed 1 two"],
        kept: &[1],
        moments: 10,
    },
    Story {
        name: "restart_with_snapshot",
        before: awake,
        act: |_, engine| restarted(engine, true),
        untouched: &["s running 2 two"],
        after: &["s running 100 two"],
        between: &["s failed 2 two"],
        failed: &["s failed 2 two"],
        kept: &[1, 2],
        moments: 25,
    },
    Story {
        name: "stop",
        before: awake,
        act: |_, engine| engine.stop("s", GRACE).map(drop),
        untouched: &["s running 2 two"],
        // Killed before its end was written down, it ended by itself as far as anyone knows.
        after: &["s ended 1 two"],
        between: &[],
        failed: &["s failed 1 two"],
        kept: &[1],
        moments: 5,
    },
    Story {
        name: "remove",
        before: ended,
        act: |_, engine| engine.remove("s", false).map(drop),
        untouched: &["s ended 1 two"],
        after: &[""],
        between: &[],
        failed: &[],
        kept: &[],
        moments: 4,
    },
];
