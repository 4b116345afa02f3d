//! Processes that have no session, the daemon, and the machine.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

/// Make a session of a process tree that runs already.
#[derive(Debug, Args)]
#[command(
    long_about = "Make a session of a process tree that runs already and was not started here. Prints the session's name.",
    after_help = "Example:
  infinijup attach --pid 4711 --name analysis"
)]
pub(crate) struct AttachArgs {
    /// The first process of the tree
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: i32,
    /// The session's name; one is made up without it
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
}

/// Write a process tree to a directory, once, without a session.
#[derive(Debug, Args)]
#[command(
    long_about = "Write a process tree to a directory, once, without a session and without a store, for scripts. Only root may. \
Files are not captured.",
    after_help = "Example:
  infinijup checkpoint --pid 4711 images
  infinijup checkpoint --pid 4711 --end images && infinijup restore images"
)]
pub(crate) struct CheckpointArgs {
    /// The first process of the tree
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: i32,
    /// End the processes when they are written; without it, they go on
    #[arg(long)]
    pub(crate) end: bool,
    /// The directory; it is made, and must not be there yet
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Bring back what `checkpoint` wrote.
#[derive(Debug, Args)]
#[command(
    long_about = "Bring back the process tree that `checkpoint` wrote to a directory. Only root may. Prints the first process's \
number.",
    after_help = "Example:
  infinijup restore images"
)]
pub(crate) struct RestoreArgs {
    /// The directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Show what happened, or what happens.
#[derive(Debug, Args)]
#[command(
    long_about = "Show what happened to your sessions lately, as far as the daemon still knows; with --follow, what happens from \
now on instead. A connection that breaks is taken up again where it broke.",
    after_help = "Example:
  infinijup events --follow
  infinijup events --follow --session analysis --json"
)]
pub(crate) struct EventsArgs {
    /// Show things as they happen, from now on
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only of this session: its name or its id
    #[arg(long, value_name = "SESSION", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// Show the steps of jobs too
    #[arg(long)]
    pub(crate) steps: bool,
}

/// Try on this machine's GPUs everything that is claimed of them.
#[derive(Debug, Args)]
#[command(
    long_about = "Try on this machine's GPUs everything that is claimed of them, through the daemon: detection, a snapshot while \
kernels run, rollback, branch, suspend, resume, resume on another GPU, a container. After each step the bytes and pointers on the GPUs are compared. \
Prints a table, writes a report, and exits with 0 only if nothing failed.

It needs a Python with NVIDIA's cuda-bindings (pip install cuda-bindings); with cuda-core and PyTorch, more is tried. Snapshots that it \
takes stay in your history. A container with all GPUs is tried if root runs this where podman, runc and NVIDIA's CDI specification are.",
    after_help = "Example:
  infinijup selftest
  sudo infinijup selftest --image localhost/train:1
  infinijup selftest --python ~/venv/bin/python --size 4096 --report h100.json"
)]
pub(crate) struct SelftestArgs {
    /// The Python to run in the sessions; /opt/infinijup/gpu-venv or the one in your path without it
    #[arg(long, value_name = "PATH")]
    pub(crate) python: Option<PathBuf>,
    /// An image of podman's with python3 and cuda-bindings, to try a container; none is tried without it. For root only
    #[arg(long, value_name = "NAME")]
    pub(crate) image: Option<String>,
    /// Where to write the report
    #[arg(long, value_name = "FILE", default_value = "infinijup-selftest.json")]
    pub(crate) report: PathBuf,
    /// Use this many GPUs; all without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) gpus: Option<u32>,
    /// How many MiB to fill on each GPU; no more than a fifth of what is free is taken
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    pub(crate) size: u64,
}

/// Install the helper for GPU drivers that want root, or remove it.
#[derive(Debug, Args)]
#[command(
    name = "setup-gpu",
    long_about = "Install the helper for NVIDIA drivers that let nobody but root checkpoint a process. Only root may, and only one \
administrator's decision makes it run: nothing else of infinijup runs as root.

It copies `infinijup-gpu-helper` to /usr/libexec/infinijup, writes two units for systemd and starts the socket /run/infinijup-gpu.sock. \
Each step is printed. Whether your driver needs it, `infinijup selftest` says. docs/gpu-helper.md describes what it does and how \
it is confined.",
    after_help = "Example:
  sudo infinijup setup-gpu
  sudo infinijup setup-gpu --remove"
)]
pub(crate) struct SetupGpuArgs {
    /// Take everything away again
    #[arg(long)]
    pub(crate) remove: bool,
    /// Put the files below this directory, and start nothing: for an image that is being built
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
}
