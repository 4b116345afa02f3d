//! The guided notebook.

use std::path::PathBuf;

use clap::Args;

/// Try it in three minutes: opens JupyterLab with a guided notebook.
#[derive(Debug, Args)]
#[command(
    long_about = "Show in three minutes what a notebook can do now. Makes a folder with a guided notebook and a little data, starts \
JupyterLab there and opens it in your browser. Needs no GPU. Goes on until Ctrl-C; kernels that are awake then are put to sleep, and wake up \
when the notebook is opened again.

Nothing is ever overwritten: if you have been there before, your notebook opens as you left it. With --fresh, or if the folder \
holds something else, a new folder is made beside it, with a number at the end of its name.

Exits with 3 if something is missing, and says what to do about it.",
    after_help = "Example:
  infinijup demo
  infinijup demo --no-browser --dir ~/try"
)]
pub(crate) struct DemoArgs {
    /// The folder; ~/infinijup-demo without it
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Begin anew, in another folder beside it
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Open no browser; the address is printed in any case
    #[arg(long)]
    pub(crate) no_browser: bool,
}
