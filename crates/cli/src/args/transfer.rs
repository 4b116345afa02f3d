//! Carrying snapshots from store to store: `export`, `import`; and showing all of one as a folder: `mount`.

use std::path::PathBuf;

use clap::Args;

use super::history::REVISIONS;

/// Write a snapshot and all it needs to one file.
#[derive(Debug, Args)]
#[command(
    long_about = format!(
        "Write a snapshot and all it needs to one file.\n\nThe file is not encrypted, even if the store is. A file that exists \
is not overwritten.\n\nWith --criu-images it is a new directory with the processes as CRIU writes them, for `criu restore` or `crit`. Files \
of the snapshot are not in it.\n\n{REVISIONS}"
    ),
    after_help = "Example:
  infinijup export analysis snapshot.ijx
  infinijup export analysis~2 - | ssh other infinijup import - --tag from-here
  infinijup export analysis images --criu-images"
)]
pub(crate) struct ExportArgs {
    /// Which snapshot
    #[arg(value_name = "REV")]
    pub(crate) revision: String,
    /// Where to; `-` is stdout
    #[arg(value_name = "PATH")]
    pub(crate) file: PathBuf,
    /// Also the snapshots that it came from
    #[arg(long)]
    pub(crate) history: bool,
    /// CRIU's images, in a directory that is made
    #[arg(long, conflicts_with = "history")]
    pub(crate) criu_images: bool,
}

/// Read a file that `export` has written.
#[derive(Debug, Args)]
#[command(
    long_about = "Read a file that `export` has written.

A new thread or tag can be named to lead to it. A thread that exists moves only forward: if what it has now came before the \
imported snapshot. Without a name, the next `infinijup gc` deletes what was imported.",
    after_help = "Example:
  infinijup import snapshot.ijx --tag from-ada
  infinijup import snapshot.ijx --thread main --store /data/.infinijup"
)]
pub(crate) struct ImportArgs {
    /// The file; `-` is stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The thread that shall lead to it
    #[arg(long, value_name = "NAME", conflicts_with = "tag")]
    pub(crate) thread: Option<String>,
    /// The tag that shall lead to it
    #[arg(long, value_name = "NAME")]
    pub(crate) tag: Option<String>,
}

/// Show all snapshots as a folder.
#[derive(Debug, Args)]
#[command(
    long_about = "Show all snapshots as a folder, read-only, to look at, search and copy from with any program: by session, by tag and by time, each \
with its files, its notebook, its processes and their memory. Nothing is copied before it is read.

The command goes on until it is ended by Ctrl-C, or by `fusermount3 -u DIR`. It needs fusermount3 (package fuse3), and no root.",
    after_help = "Example:
  infinijup mount past &
  grep -r learning_rate past/threads/analysis/*/workspace
  cp -a past/tags/good/workspace/data .
  fusermount3 -u past"
)]
pub(crate) struct MountArgs {
    /// An empty directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
