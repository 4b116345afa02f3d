//! Carrying snapshots from store to store: `export`, `import`; and showing all of one as a folder: `mount`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::history::REVISIONS;
use super::remote::amount;

/// Write a snapshot and all it needs to one file.
#[derive(Debug, Args)]
#[command(
    long_about = format!(
        "Write a snapshot and all it needs to one file.\n\nThe file is not encrypted, even if the store is. A file that exists \
is not overwritten.\n\nWith --criu-images it is a new directory with the processes as CRIU writes them, for `criu restore` or `crit`. Files \
of the snapshot are not in it.\n\nWith --checkpoint-image it is a checkpoint archive of a container, which `podman container restore --import` and \
`checkpointctl` read; with --checkpoint-image=image the same as an OCI image, for `podman load` and registries. A file that is called .gz or .zst is \
compressed like that.\n\n{REVISIONS}"
    ),
    after_help = "Example:
  infinijup export analysis snapshot.ijx
  infinijup export analysis~2 - | ssh other infinijup import - --tag from-here
  infinijup export analysis images --criu-images
  infinijup export web web.tar.zst --checkpoint-image"
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
    /// A checkpoint archive for podman and checkpointctl
    #[arg(
        long,
        value_enum,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "archive",
        conflicts_with_all = ["history", "criu_images"]
    )]
    pub(crate) checkpoint_image: Option<CheckpointForm>,
}

/// Which form a checkpoint archive has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckpointForm {
    /// A tar file
    Archive,
    /// An OCI image with that as its one layer
    Image,
}

/// Read a file that `export` has written, or a checkpoint archive.
#[derive(Debug, Args)]
#[command(
    long_about = "Read a file that `export` has written, or a checkpoint archive of podman, CRI-O or containerd, in either of its forms.

An archive of others is not believed: it is read strictly, its processes are checked, and what it asks for of mounts, devices, users, hooks \
and the like is kept to be looked at and never applied. What it may become is bounded: 1 GiB and 200 times its size, unless --at-most says \
otherwise.

A new thread or tag can be named to lead to it. A thread that exists moves only forward: if what it has now came before the \
imported snapshot. Without a name, the next `infinijup gc` deletes what was imported.",
    after_help = "Example:
  infinijup import snapshot.ijx --tag from-ada
  infinijup import snapshot.ijx --thread main --store /data/.infinijup
  infinijup import checkpoint.tar.zst --tag from-podman"
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
    /// Bytes that a checkpoint archive may become (20G)
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    pub(crate) at_most: Option<u64>,
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
