//! What can go wrong in the command line itself. The rules are those of `cas_core::error`: a stable code with a page under
//! `docs/errors/`, a hint where there is a way out, and the cause as `source`, not in the text.

use std::io;
use std::path::PathBuf;

/// An error of the command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The arguments do not make sense together.
    #[error("{what}")]
    Usage { what: String },
    /// Nothing has this name.
    #[error("no thread, tag or commit is called `{revision}`")]
    RevisionNotFound { revision: String },
    /// Several things have this name.
    #[error("`{revision}` may mean {}", candidates.join(" or "))]
    RevisionAmbiguous { revision: String, candidates: Vec<String> },
    /// It was forgotten.
    #[error("`{revision}` was forgotten")]
    RevisionForgotten { revision: String },
    /// The history ends before that.
    #[error("`{revision}` goes back further than the history of this store")]
    HistoryEnds { revision: String },
    /// The snapshot has no such part.
    #[error("`{what}` is not in snapshot {revision}")]
    NotInSnapshot { what: String, revision: String },
    /// The store has no such object.
    #[error("no object has the id `{id}`")]
    ObjectNotFound { id: String },
    /// `verify` found something.
    #[error("the store has {count} {}", if *count == 1 { "problem" } else { "problems" })]
    ProblemsFound { count: usize },
    /// gc met something that it cannot read.
    #[error("{count} {} cannot be read, so what they lead to was kept", if *count == 1 { "object or pack" } else { "objects or packs" })]
    GcIncomplete { count: usize },
    /// Writers did not end in time.
    #[error("nothing was deleted: {sessions} {} still writing", if *sessions == 1 { "program is" } else { "programs are" })]
    WritersBusy { sessions: u64 },
    /// Some packs were damaged.
    #[error("{count} {} damaged; what could be read was kept", if *count == 1 { "pack is" } else { "packs are" })]
    RebuildIncomplete { count: usize },
    /// The daemon's store is made with its first snapshot.
    #[error("your daemon has no store yet: there is none at `{}`", path.display())]
    NothingYet { path: PathBuf },
    /// What is to be done to its store can only be done while no daemon runs.
    #[error("a daemon runs that uses the store in `{}`", path.display())]
    StoreInUse { path: PathBuf },
    /// What is in a snapshot makes no sense.
    #[error(transparent)]
    BadSnapshot(history::HistoryError),
    /// The past cannot be mounted as a folder.
    #[error(transparent)]
    Mount(past::PastError),
    /// The settings of the daemon cannot be read, which may name the store's key.
    #[error(transparent)]
    Settings(#[from] api::SettingsError),
    /// Nobody answers at the daemon's socket.
    #[error("cannot reach the daemon at `{}`", socket.display())]
    NoDaemon { socket: PathBuf, source: io::Error },
    /// It could not be started.
    #[error("the daemon could not be started: {why}")]
    NotStarted { why: String, log: PathBuf, lines: Vec<String> },
    /// There is no program to start.
    #[error("the daemon's program, infinijupd, is not installed: there is no `{}`, and none in the path", looked.display())]
    NoDaemonProgram { looked: PathBuf },
    /// It has been told to end and has not.
    #[error("the daemon, process {pid}, is still stopping: {jobs} operations were under way")]
    StillStopping { pid: u32, jobs: usize },
    /// systemd does not run for this user.
    #[error("systemd does not do it: {why}")]
    NoServiceManager { why: String },
    /// The daemon has no place to be.
    #[error(transparent)]
    Place(#[from] api::PlaceError),
    /// The daemon said something that makes no sense.
    #[error("the daemon's answer to {request} makes no sense: {detail}")]
    Answer { request: String, detail: String },
    /// The connection broke before there was an answer.
    #[error("the daemon went away before it answered {request}")]
    DaemonLeft { request: String },
    /// The daemon does not know the job any more.
    #[error("the daemon does not know any more how the {kind} ended")]
    JobLost { kind: &'static str },
    /// The user pressed Ctrl-C while the daemon was at work.
    #[error("interrupted; the {kind} goes on in the daemon")]
    JobGoesOn { kind: &'static str },
    /// `doctor` found that snapshots do not work.
    #[error("snapshots do not work here: {}", items.join(", "))]
    MachineUnfit { items: Vec<String> },
    /// `check` found that a snapshot would not come up.
    #[error("snapshot {commit} would not come up here: {}", items.join(", "))]
    SnapshotUnfit { commit: String, items: Vec<String> },
    /// Something that is claimed of GPUs is not so here.
    #[error("not everything works on these GPUs: {}", checks.join(", "))]
    SelftestFailed { checks: Vec<String> },
    /// Somebody else's kernelspec is where ours should be.
    #[error("`{}` is there already, and was not installed by infinijup", path.display())]
    KernelspecTaken { path: PathBuf },
    /// There is nothing to show the demo in.
    #[error("{why}")]
    NoLab { why: String },
    /// JupyterLab did not start, or ended by itself.
    #[error("JupyterLab does not run: {why}; its log is `{}`", log.display())]
    LabFailed { why: String, log: PathBuf, lines: Vec<String> },
    /// The user pressed Ctrl-C.
    #[error("interrupted")]
    Interrupted,
    /// Our own output could not be written.
    #[error("cannot write to stdout")]
    Output(#[source] io::Error),
}

impl CliError {
    /// The stable code, the name of a page under `docs/errors/`.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::Usage { .. } => "IJ-C001",
            Self::RevisionNotFound { .. } => "IJ-C002",
            Self::RevisionAmbiguous { .. } => "IJ-C003",
            Self::HistoryEnds { .. } => "IJ-C004",
            Self::NotInSnapshot { .. } => "IJ-C005",
            Self::ObjectNotFound { .. } => "IJ-C006",
            Self::RevisionForgotten { .. } => "IJ-C007",
            Self::ProblemsFound { .. } => "IJ-C010",
            Self::GcIncomplete { .. } => "IJ-C011",
            Self::WritersBusy { .. } => "IJ-C012",
            Self::RebuildIncomplete { .. } => "IJ-C013",
            Self::Interrupted => "IJ-C020",
            Self::Output(_) => "IJ-C021",
            Self::NoDaemon { .. } => "IJ-C030",
            Self::Answer { .. } => "IJ-C031",
            Self::DaemonLeft { .. } => "IJ-C032",
            Self::JobLost { .. } => "IJ-C033",
            Self::JobGoesOn { .. } => "IJ-C034",
            Self::MachineUnfit { .. } => "IJ-C035",
            Self::SelftestFailed { .. } => "IJ-C036",
            Self::SnapshotUnfit { .. } => "IJ-C048",
            Self::KernelspecTaken { .. } => "IJ-C037",
            Self::NotStarted { .. } => "IJ-C038",
            Self::NoDaemonProgram { .. } => "IJ-C039",
            Self::StillStopping { .. } => "IJ-C040",
            Self::NoServiceManager { .. } => "IJ-C041",
            Self::NothingYet { .. } => "IJ-C042",
            Self::StoreInUse { .. } => "IJ-C043",
            Self::BadSnapshot(_) => "IJ-C044",
            Self::Settings(_) => "IJ-C045",
            Self::NoLab { .. } => "IJ-C046",
            Self::LabFailed { .. } => "IJ-C047",
            Self::Mount(_) => "IJ-C050",
            Self::Place(error) => error.code(),
        }
    }

    /// What to do next, where there is something to do.
    pub(crate) const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Mount(_) => Some(
                "it needs fusermount3 (package fuse3), a /dev/fuse that is open to you, and an empty directory of your own",
            ),
            Self::RevisionNotFound { .. } | Self::HistoryEnds { .. } | Self::RevisionForgotten { .. } => {
                Some("`infinijup log --all` lists what there is")
            }
            Self::RevisionAmbiguous { .. } => {
                Some("write more digits of an id, or `threads/NAME` or `tags/NAME`")
            }
            Self::NotInSnapshot { .. } => {
                Some("`infinijup show REV` lists its parts, `infinijup show REV --files` its files")
            }
            Self::ProblemsFound { .. } => {
                Some("docs/errors/IJ-C010.md says what to do about each sort of problem")
            }
            Self::GcIncomplete { .. } => Some("run `infinijup store verify` to see what is affected"),
            Self::WritersBusy { .. } => Some("run it again later, or with a longer --wait"),
            Self::RebuildIncomplete { .. } => Some("run `infinijup store verify` to see what is affected"),
            Self::NoDaemon { .. } => Some(
                "start it with `infinijup daemon start`, or name its socket with --socket, or a store in a folder with --store",
            ),
            Self::Answer { .. } => Some("use the infinijup and infinijupd of the same version"),
            Self::DaemonLeft { .. } | Self::JobLost { .. } => Some(
                "it may have been done or not: `infinijup ps` and `infinijup history` show how things are",
            ),
            Self::JobGoesOn { .. } => Some("`infinijup ps` and `infinijup events` show what becomes of it"),
            Self::SnapshotUnfit { .. } => Some("what to do stands beside each finding"),
            Self::MachineUnfit { .. } => Some("mend what is marked `fail`; the fix stands beside each"),
            Self::SelftestFailed { .. } => {
                Some("the report says what was seen; please send it with an issue")
            }
            Self::KernelspecTaken { .. } => Some("choose another name with --name"),
            Self::NotStarted { .. } => Some("its log, daemon.log in its state directory, says more"),
            Self::NoDaemonProgram { .. } => {
                Some("install infinijupd beside infinijup, or name it with INFINIJUP_DAEMON")
            }
            Self::StillStopping { .. } => {
                Some("it ends when they are done, and nothing new is begun; `infinijup daemon status` tells")
            }
            Self::NoServiceManager { .. } => {
                Some("nothing has to be installed: commands start the daemon when they need it")
            }
            Self::NothingYet { .. } => Some(
                "`infinijup kernel start` or `infinijup run` starts a session and `infinijup snapshot` captures it; a store in a \
folder is named with --store",
            ),
            Self::StoreInUse { .. } => {
                Some("`infinijup daemon stop`, then try again; sessions go on without the daemon")
            }
            Self::BadSnapshot(_) => Some("run `infinijup store verify` to see whether the store is damaged"),
            Self::Settings(_) => Some("mend the settings file; `infinijup daemon status` shows where it is"),
            Self::NoLab { .. } => Some(
                "install both in one environment: `pip install \"infinijup[criu]\" jupyterlab`, and run `infinijup demo` from there",
            ),
            Self::LabFailed { .. } => Some("the last lines of its log say why"),
            Self::Place(error) => Some(error.hint()),
            Self::Usage { .. } | Self::ObjectNotFound { .. } | Self::Interrupted | Self::Output(_) => None,
        }
    }
}

impl CliError {
    /// What was seen, beside the chain of causes.
    pub(crate) fn evidence(&self) -> Vec<String> {
        match self {
            Self::NotStarted { lines, .. } | Self::LabFailed { lines, .. } => lines.clone(),
            _ => Vec::new(),
        }
    }
}

/// A refusal or failure that the daemon reports; it has a code, causes, a hint and an exit code of its own.
#[derive(Debug, thiserror::Error)]
#[error("{}", _0.message)]
pub(crate) struct DaemonError(pub(crate) api::ErrorBody);
