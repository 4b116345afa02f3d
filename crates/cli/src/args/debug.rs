//! `infinijup debug …`: what snapshots are made with until the daemon makes them.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum DebugCommand {
    Commit(CommitArgs),
}

/// Make a snapshot of given files, for tests and demos.
#[derive(Debug, Args)]
#[command(
    long_about = "Make a snapshot of given files, for tests and demos.

What it makes is a proper snapshot, but of no process: it cannot be restored into a running kernel.",
    after_help = "Example:
  infinijup debug commit --tree . --message 'first results'
  infinijup debug commit --memory pages.bin@0x7f0000000000 --blob core-1.img=core.img --thread test"
)]
pub(crate) struct CommitArgs {
    /// A file as memory of process 1 at an address; filled up with zeros to whole pages
    #[arg(long, value_name = "FILE@ADDRESS")]
    pub(crate) memory: Vec<OsString>,
    /// A file as CRIU image NAME, or as the notebook if NAME ends in `.ipynb`
    #[arg(long, value_name = "NAME=PATH")]
    pub(crate) blob: Vec<OsString>,
    /// A directory as the workspace
    #[arg(long, value_name = "DIR")]
    pub(crate) tree: Option<PathBuf>,
    /// What to say about it
    #[arg(short, long, default_value = "")]
    pub(crate) message: String,
    /// The thread that it goes on
    #[arg(long, default_value = "main")]
    pub(crate) thread: String,
    /// What a new thread starts from; without it, from nothing
    #[arg(long, value_name = "REV")]
    pub(crate) from: Option<String>,
    /// What this moment is called
    #[arg(long)]
    pub(crate) label: Option<String>,
}
