//! The end of snapshots: `forget`, `gc`.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::history::REVISIONS;

/// Forget snapshots: they leave the history, and `gc` frees their room.
#[derive(Debug, Args)]
#[command(
    long_about = format!("Forget snapshots: they leave the history, and `gc` frees their room. Snapshots that came from them stay, and \
what those came from is the nearest that is left. The newest snapshot of a session cannot be forgotten.\n\n{REVISIONS}"),
    after_help = "Example:
  infinijup forget 3f9a01c2
  infinijup forget analysis~4 analysis~5 && infinijup gc"
)]
pub(crate) struct ForgetArgs {
    /// The snapshots
    #[arg(value_name = "SNAPSHOT", required = true, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) snapshots: Vec<String>,
    /// Also those that have tags; the tags go with them
    #[arg(long)]
    pub(crate) force: bool,
}

/// Delete what no thread or tag leads to.
#[derive(Debug, Args)]
#[command(
    long_about = "Delete what no thread or tag leads to.

Snapshots that were forgotten are among it. Others may read and write meanwhile. Nothing is deleted while something that is needed cannot be read.",
    after_help = "Example:
  infinijup gc
  infinijup gc --dry-run --store /data/.infinijup
  infinijup gc --erase"
)]
pub(crate) struct GcArgs {
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Leave nothing of what is deleted: rewrite every pack that has some of it, and destroy the old keys
    #[arg(long)]
    pub(crate) erase: bool,
    /// Rewrite a pack when less than this part of it is needed
    #[arg(long, value_name = "PERCENT", default_value_t = 60, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) repack_below: u8,
    /// How long to wait for programs that are writing
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) wait: u32,
}
