//! Looking at history: `log`, `show`, `cat`, `diff`, `tag`.

use std::ffi::OsString;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// How commits are named, for the help of every command that takes one.
pub(super) const REVISIONS: &str = "REV is a thread, a tag, a commit id or its first digits (four or more). \
`NAME~2` is the second commit before NAME. Where a thread and a tag have the same name, write `threads/NAME` or `tags/NAME`.";

/// List snapshots, newest first.
#[derive(Debug, Args)]
#[command(
    long_about = format!(
        "List snapshots, newest first: of all threads, or what led to one snapshot. A session is named by its name, its id or \
the first digits of it.\n\n{REVISIONS}\n\n`infinijup history` is another name for this."
    ),
    after_help = "Example:
  infinijup log analysis
  infinijup log --graph -n 20
  infinijup log --store /data/.infinijup --all --json
  infinijup history analysis --json | jq '.commits[0].id'"
)]
pub(crate) struct LogArgs {
    /// Only what led to this: a session or a snapshot
    #[arg(value_name = "SESSION|REV", conflicts_with_all = ["thread", "all"], value_parser = NonEmptyStringValueParser::new())]
    pub(crate) of: Option<String>,
    /// Draw which snapshot came from which
    #[arg(long)]
    pub(crate) graph: bool,
    /// Only what led to this thread
    #[arg(long, value_name = "THREAD", conflicts_with = "all")]
    pub(crate) thread: Option<String>,
    /// Also what only tags lead to
    #[arg(long)]
    pub(crate) all: bool,
    /// At most this many
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    pub(crate) max_count: Option<usize>,
}

/// Show one snapshot: who, when, why and what is in it.
#[derive(Debug, Args)]
#[command(
    long_about = format!("Show one snapshot: who, when, why and what is in it.\n\n{REVISIONS}"),
    after_help = "Example:
  infinijup show analysis
  infinijup show analysis~1 --verdict
  infinijup show main --files --store /data/.infinijup"
)]
pub(crate) struct ShowArgs {
    /// Which snapshot; without it, the last one of `main` or of the only thread
    #[arg(value_name = "REV")]
    pub(crate) revision: Option<String>,
    /// Say whether it could be restored on this machine
    #[arg(long)]
    pub(crate) verdict: bool,
    /// List the files of its workspace
    #[arg(long)]
    pub(crate) files: bool,
}

/// Write stored bytes to stdout.
#[derive(Debug, Args)]
#[command(
    long_about = format!(
        "Write stored bytes to stdout.\n\nREV:SECTION/NAME is a part of a snapshot, as `show` lists them; REV:workspace/PATH is \
a file. An id is any object: the content of a file, or the JSON of a commit, snapshot or directory.\n\n{REVISIONS}"
    ),
    after_help = "Example:
  infinijup cat analysis~1:workspace/results.csv > results.csv
  infinijup cat main:memory/pid:1 --address 0x7f0000000000 --length 4096 | xxd"
)]
pub(crate) struct CatArgs {
    /// REV:SECTION/NAME, or the id of an object
    #[arg(value_name = "WHAT")]
    pub(crate) what: OsString,
    /// First address, for memory
    #[arg(long, value_name = "ADDRESS", value_parser = number, requires = "length")]
    pub(crate) address: Option<u64>,
    /// How many bytes, for memory
    #[arg(long, value_name = "N", value_parser = number, requires = "address")]
    pub(crate) length: Option<u64>,
    /// The object's own bytes, whatever it is
    #[arg(long, conflicts_with = "address")]
    pub(crate) raw: bool,
}

/// Show what changed between two snapshots: processes, memory and files.
#[derive(Debug, Args)]
#[command(
    long_about = format!("Show what changed between two snapshots: processes, memory by mapping, and files.\n\n{REVISIONS}"),
    after_help = "Example:
  infinijup diff analysis~1 analysis
  infinijup diff analysis~1 analysis --text
  infinijup diff main~1 main --store /data/.infinijup --json"
)]
pub(crate) struct DiffArgs {
    /// The first snapshot
    #[arg(value_name = "A", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) a: String,
    /// The second snapshot
    #[arg(value_name = "B", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) b: String,
    /// Show which lines of the files changed
    #[arg(long)]
    pub(crate) text: bool,
}

/// Give a snapshot a name that stays, or list such names.
#[derive(Debug, Args)]
#[command(
    long_about = format!(
        "Give a snapshot a name that stays, or list such names.\n\nA tag never moves by itself, and keeps its snapshot from \
being deleted.\n\n{REVISIONS}"
    ),
    after_help = "Example:
  infinijup tag before-cleanup analysis~1
  infinijup tag --list
  infinijup tag before-cleanup --delete"
)]
pub(crate) struct TagArgs {
    /// The tag
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub(crate) name: Option<String>,
    /// Which snapshot; without it, the last one of `main` or of the only thread
    #[arg(value_name = "REV", conflicts_with = "delete")]
    pub(crate) revision: Option<String>,
    /// Delete the tag
    #[arg(long)]
    pub(crate) delete: bool,
    /// List all tags
    #[arg(long, conflicts_with_all = ["name", "delete"])]
    pub(crate) list: bool,
}

/// A number, hexadecimal after `0x`.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}
