//! The end of snapshots: `forget`, `gc`.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// Forget snapshots: they leave the history, and `gc` frees their room.
#[derive(Debug, Args)]
#[command(
    long_about = "Forget snapshots: they leave the history, and `gc` frees their room. Snapshots that came from them stay, and \
what those came from is the nearest that is left. The newest snapshot of a session cannot be forgotten.

A snapshot is named by its id or the first digits of it (four or more), by a tag, or by a session's thread; `NAME~2` is the second \
before it.",
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
