//! What can be done with a session that is there.

use std::ffi::OsString;
use std::path::PathBuf;

use api::{GpuWish, MappedDirectory};
use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::container::WhichOrContainer;
use super::start::{FileOptions, gpus};

/// How snapshots are named, for the help of commands that the daemon answers.
const SNAPSHOTS: &str = "A snapshot is named by its id or the first digits of it (four or more), by a tag, or by a session's \
thread; `NAME~2` is the second one before NAME.";

/// Which session.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The session: its name, its id or the first digits of it
    #[arg(value_name = "SESSION", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: String,
}

/// List sessions, or show one.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  infinijup ps
  infinijup ps analysis
  infinijup ps --json | jq -r '.sessions[].name'")]
pub(crate) struct PsArgs {
    /// Show all about this one
    #[arg(value_name = "SESSION", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// Only those that run
    #[arg(long, conflicts_with = "session")]
    pub(crate) running: bool,
}

/// Capture a session as it is now; it goes on.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  infinijup snapshot analysis -m 'before the cleaning'
  infinijup snapshot analysis --tag good --files tree
  sudo infinijup snapshot --container train
  sudo infinijup snapshot --container train --files tree --volume /data
  sudo infinijup snapshot --container train --thaw")]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    pub(crate) which: WhichOrContainer,
    /// What it is, for the history
    #[arg(short, long, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// Give it a name that stays
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) tag: Option<String>,
    /// A shell command that runs in the session before it is frozen; if it fails, there is no snapshot
    #[arg(long, value_name = "COMMAND")]
    pub(crate) quiesce: Option<OsString>,
    /// Let a container go that somebody has paused or frozen, and hold it again as it was
    #[arg(long)]
    pub(crate) thaw: bool,
    #[command(flatten)]
    pub(crate) files: FileOptions,
}

/// Put a session back to a snapshot.
#[derive(Debug, Args)]
#[command(
    long_about = format!("Put a session back to a snapshot: its memory, its processes and its files.

How it is now is kept as an automatic snapshot first. Files that somebody else changed stay as they are, unless the processes need them as \
they were; with --force all of them go back.\n\n{SNAPSHOTS}"),
    after_help = "Example:
  infinijup rollback analysis good
  infinijup rollback analysis analysis~1 --force
  sudo infinijup rollback --container train good",
    allow_missing_positional = true
)]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    pub(crate) which: WhichOrContainer,
    /// The snapshot
    #[arg(value_name = "SNAPSHOT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) to: String,
    /// Overwrite files that somebody else changed, without asking
    #[arg(long)]
    pub(crate) force: bool,
    /// Leave the files as they are
    #[arg(long)]
    pub(crate) no_files: bool,
}

/// Make a second session that goes on from a snapshot of the first.
#[derive(Debug, Args)]
#[command(
    long_about = format!("Make a second session that goes on from a snapshot of the first; both are alive together, and each \
has files of its own in the workspace.

A snapshot in the place of the session makes a new session of it, also if the one that it was taken of is gone, or was on another machine. One \
from elsewhere is a foreign program, which runs with all your rights: --force says that you trust it.

With --container and --from, a snapshot of another container, also of one on another machine, becomes a container that is made as this one is, of the same \
image; none of its files are touched. Root's daemon wants a snapshot from elsewhere to be trusted first (`infinijup trust`).\n\n{SNAPSHOTS}"),
    after_help = "Example:
  infinijup branch analysis --name idea
  infinijup branch analysis --from good --count 8 --name try
  infinijup import snapshot.ijx --tag from-ada; infinijup branch from-ada --force
  infinijup branch from-ada --force --map /data=/mnt/nfs/data
  sudo infinijup branch --container train --name idea
  sudo infinijup branch --container train-here --from train@node-1"
)]
pub(crate) struct BranchArgs {
    #[command(flatten)]
    pub(crate) which: WhichOrContainer,
    /// The snapshot to begin with; without it, one is taken now
    #[arg(long, value_name = "SNAPSHOT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) from: Option<String>,
    /// The branch's name; NAME-1, NAME-2 … if there are several
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// How many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    /// Onto which GPUs: `all`, `none`, or some by index or UUID with commas between; without it, those of the original or
    /// free ones like them
    #[arg(long, value_name = "GPUS", value_parser = gpus)]
    pub(crate) gpus: Option<GpuWish>,
    /// A directory that lies at another place on this machine: the processes find NEW where they look for OLD. Can be given several times
    #[arg(long, value_name = "OLD=NEW", value_parser = mapped)]
    pub(crate) map: Vec<MappedDirectory>,
    /// Also from a snapshot that was made elsewhere
    #[arg(long)]
    pub(crate) force: bool,
}

/// Two directories.
pub(super) fn mapped(text: &str) -> Result<MappedDirectory, String> {
    let (from, to) = text.split_once('=').ok_or("write it as OLD=NEW, two absolute paths")?;
    Ok(MappedDirectory { from: from.into(), to: to.into() })
}

/// Capture a session, then end its processes and give their memory back.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  infinijup suspend analysis
  infinijup resume analysis
  sudo infinijup suspend --container train
  sudo infinijup suspend --container train --thaw")]
pub(crate) struct SuspendArgs {
    #[command(flatten)]
    pub(crate) which: WhichOrContainer,
    /// Let a container go that somebody has paused or frozen: only what runs can be captured
    #[arg(long)]
    pub(crate) thaw: bool,
    #[command(flatten)]
    pub(crate) files: FileOptions,
}

/// Bring a suspended session back.
#[derive(Debug, Args)]
#[command(
    long_about = "Bring a suspended session back, as it was, with its files. What somebody else changed meanwhile stays, unless the \
processes need it as it was; then it is kept in a snapshot of its own first.",
    after_help = "Example:
  infinijup resume analysis
  infinijup resume analysis --gpus 1
  sudo infinijup resume --container train"
)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    pub(crate) which: WhichOrContainer,
    /// Overwrite files that somebody else changed, without asking
    #[arg(long)]
    pub(crate) force: bool,
    /// Onto which GPUs: `all`, `none`, or some by index or UUID with commas between; without it, as it was started
    #[arg(long, value_name = "GPUS", value_parser = gpus)]
    pub(crate) gpus: Option<GpuWish>,
}

/// End the processes of sessions.
#[derive(Debug, Args)]
#[command(
    long_about = "End the processes of sessions, one session after the other: SIGTERM first, SIGKILL to those that are still there after the grace. \
There is no snapshot; see `suspend` for that.",
    after_help = "Example:
  infinijup stop analysis
  infinijup stop try-1 try-2 try-3 --grace 60"
)]
pub(crate) struct StopArgs {
    /// The sessions
    #[arg(value_name = "SESSION", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) sessions: Vec<String>,
    /// How many seconds they have to end by themselves
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=86_400))]
    pub(crate) grace: u64,
}

/// Forget sessions that have ended; their snapshots stay.
///
/// A branch has files of its own. Those that no snapshot has are kept in a last one, from which `infinijup files` copies them.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  infinijup rm analysis
  infinijup rm try-1 try-2 try-3")]
pub(crate) struct RmArgs {
    /// The sessions
    #[arg(value_name = "SESSION", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) sessions: Vec<String>,
    /// Do not keep files that no snapshot has
    #[arg(long)]
    pub(crate) discard_files: bool,
}

/// Say where a session's files are, or copy files out of a snapshot.
///
/// Of a branch, whose files are its own, those that no snapshot has are listed. With --at it is about the files of a snapshot instead: they are
/// listed, or copied with --to. Nothing is overwritten by that: a file whose name is taken gets a number.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  infinijup files idea
  infinijup files --at idea~1
  infinijup files --at idea~1 --to ~/found results.csv")]
pub(crate) struct FilesArgs {
    /// The session; with --at, the files that are wanted: full paths, or the last part of one
    #[arg(value_name = "NAME", required_unless_present = "at", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) names: Vec<String>,
    /// A snapshot: an id or the beginning of one, a tag, a session; ~N for the Nth before it
    #[arg(long, value_name = "SNAPSHOT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) at: Option<String>,
    /// A directory to copy them into
    #[arg(long, value_name = "DIR", requires = "at")]
    pub(crate) to: Option<PathBuf>,
}

/// List the servers that a session runs, and where they are reached.
///
/// A server that a cell or a command has started listens in the session's own network. It is reached, by you only, at the address that is listed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  infinijup servers analysis
  curl http://127.0.0.1:$(infinijup servers analysis --json | jq '.servers[0].outside_port')/")]
pub(crate) struct ServersArgs {
    #[command(flatten)]
    pub(crate) which: Which,
}

/// Print what a session's processes wrote.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  infinijup logs analysis
  infinijup logs -f analysis")]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// Go on until the session ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Begin at this byte
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    pub(crate) from: u64,
}

/// Run a command inside a session.
#[derive(Debug, Args)]
#[command(
    long_about = "Run a command inside a session, beside what runs there, and exit with its status (128 and the signal's number \
if a signal ended it). Its output is printed as it is, when it has ended. It gets no input.",
    after_help = "Example:
  infinijup exec analysis -- ps aux
  infinijup exec analysis -- sh -c 'df -h .'"
)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) which: Which,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
