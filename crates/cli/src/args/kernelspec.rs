//! Kernelspecs for Jupyter: `kernelspec`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum KernelspecCommand {
    Install(KernelspecInstallArgs),
    /// List the kernelspecs that were installed so
    #[command(after_help = "Example:
  infinijup kernelspec list
  infinijup kernelspec list --json | jq -r '.kernelspecs[].name'")]
    List,
    Remove(KernelspecRemoveArgs),
}

/// Install a kernelspec whose kernels are sessions with a history.
#[derive(Debug, Args)]
#[command(
    long_about = "Install a kernelspec whose kernels are sessions with a history, out of one that is there.

The new one runs the same command; Jupyter starts it through the provisioner of the Python package `infinijup`, which must be \
installed where the Jupyter server runs. The old one stays as it is. Where the package's server extension is enabled this is not \
needed: it starts every kernel so.

Programs that know no provisioners (VS Code and others) run a kernelspec's command themselves. With `--standalone` that is this \
program, which starts the session and stands in for the kernel.",
    after_help = "Example:
  infinijup kernelspec install
  infinijup kernelspec install --kernel python3 --kernel bash
  infinijup kernelspec install --standalone
  infinijup kernelspec install --all --prefix \"$VIRTUAL_ENV\"
  infinijup kernelspec install --kernel ir --name r-history --display-name 'R with history'"
)]
pub(crate) struct KernelspecInstallArgs {
    /// The kernelspec to begin with, as `kernel list` shows them; without it `python3`, or the only one
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) kernel: Vec<String>,
    /// Every kernelspec that there is
    #[arg(long, conflicts_with_all = ["kernel", "name", "display_name"])]
    pub(crate) all: bool,
    /// For programs that start kernels themselves, such as VS Code: the command in it starts the session, no Python package is needed
    #[arg(long)]
    pub(crate) standalone: bool,
    /// For you alone, in your own Jupyter directory; this is also what happens without it
    #[arg(long, conflicts_with = "prefix")]
    pub(crate) user: bool,
    /// For everybody who uses the installation in this directory: a virtual environment, /usr/local …
    #[arg(long, value_name = "DIR")]
    pub(crate) prefix: Option<PathBuf>,
    /// What it is called; without it `infinijup-` and the old name
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// What people see; without it the old one's with `(infinijup)` behind it
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) display_name: Option<String>,
}

/// Remove kernelspecs that were installed so; no other is touched.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  infinijup kernelspec remove infinijup-python3
  infinijup kernelspec remove --all")]
pub(crate) struct KernelspecRemoveArgs {
    /// The kernelspecs, by name
    #[arg(value_name = "NAME", required_unless_present = "all", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) names: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "names")]
    pub(crate) all: bool,
}
