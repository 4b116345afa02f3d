//! Starting something: `run`, `kernel`.

use std::ffi::OsString;
use std::path::PathBuf;

use api::GpuWish;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

/// Start a command in a session of its own.
#[derive(Debug, Args)]
#[command(
    long_about = "Start a command in a session of its own.

It runs as you, in this directory, with your environment, but with processes, a network and a /dev of its own, so that all of \
it can be captured. Prints the session's name and returns while the command runs; its output goes to the session's log.",
    after_help = "Example:
  infinijup run -- python3 train.py
  infinijup run --name train --files tree --memory 8G -- python3 train.py --epochs 50
  infinijup run --gpus 0,1 -- python3 train.py
  infinijup run --wait -- make test"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) options: StartOptions,
    /// Show its log until it ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Wait until it ends, and exit with its status
    #[arg(long)]
    pub(crate) wait: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KernelCommand {
    Start(Box<KernelStartArgs>),
    Run(KernelRunArgs),
    /// List the kernelspecs that can be started
    #[command(after_help = "Example:
  infinijup kernel list")]
    List,
}

/// Start a Jupyter kernel in a session of its own.
#[derive(Debug, Args)]
#[command(
    long_about = "Start a Jupyter kernel in a session of its own.

Prints the session's name. A client connects by the connection file, which stays the same through snapshots and rollbacks.",
    after_help = "Example:
  infinijup kernel start
  infinijup kernel start --spec python3 --name analysis
  jupyter console --existing \"$(infinijup ps analysis --json | jq -r .session.kernel.connection_file)\""
)]
pub(crate) struct KernelStartArgs {
    /// The kernelspec, as `kernel list` shows them; without it `python3`, or the only one
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) spec: Option<String>,
    #[command(flatten)]
    pub(crate) options: StartOptions,
}

/// Stand in for a kernel that another program starts.
#[derive(Debug, Args)]
#[command(
    long_about = "Stand in for a kernel that another program starts.

Kernelspecs that were installed with `kernelspec install --standalone` run this. It starts a session that is reached by the given \
connection file, passes interrupts on, ends the session's processes when it is told to end or is killed, and exits with the kernel's \
status. The session stays, with its history; the same connection file again goes on in it.",
    after_help = "Example:
  infinijup kernel run -f kernel-1.json --spec python3 -- python3 -m ipykernel_launcher -f kernel-1.json"
)]
pub(crate) struct KernelRunArgs {
    /// The connection file, written by whoever starts the kernel
    #[arg(short = 'f', long, value_name = "FILE", required_unless_present = "guard")]
    pub(crate) connection_file: Option<PathBuf>,
    /// What the kernelspec is called
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) spec: Option<String>,
    /// The language of its cells
    #[arg(long, value_name = "LANGUAGE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) language: Option<String>,
    /// The kernel's command; the connection file in it becomes the session's own
    #[arg(last = true, required_unless_present = "guard", value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
    /// Wait for the end of stdin instead, and end the session that this one has begun
    #[arg(long, value_name = "LIFE", hide = true)]
    pub(crate) guard: Option<String>,
    /// With `--guard`: leave another one behind that does it
    #[arg(long, hide = true)]
    pub(crate) leave: bool,
}

/// What both have in common.
#[derive(Debug, Args)]
pub(crate) struct StartOptions {
    /// The session's name; one is made up without it
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) name: Option<String>,
    /// The working directory; this one without it
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The directory that a branch gets a copy of; the working directory without it
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Which network it sees
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = NetworkChoice::Private)]
    pub(crate) network: NetworkChoice,
    /// Give its private network a way out, and to what listens on the machine's loopback
    #[arg(long)]
    pub(crate) outside: bool,
    /// The most memory that it may take: bytes, or with K, M, G or T
    #[arg(long, value_name = "SIZE", value_parser = api::parse_size)]
    pub(crate) memory: Option<u64>,
    /// The most processes and threads that it may have
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) pids: Option<u64>,
    /// A shell command that lives, is captured and comes back with the first; may be given several times
    #[arg(long, value_name = "COMMAND")]
    pub(crate) sidecar: Vec<OsString>,
    /// Which GPUs it may use: `all`, `none`, or some by index or UUID with commas between
    #[arg(long, value_name = "GPUS", value_parser = gpus)]
    pub(crate) gpus: Option<GpuWish>,
    #[command(flatten)]
    pub(crate) files: FileOptions,
}

/// Which files belong to a snapshot.
#[derive(Debug, Args)]
pub(crate) struct FileOptions {
    /// Which files belong to a snapshot: those open for writing (`open`), the workspace too (`workspace`; `tree` for all of it), or `none`
    #[arg(long, value_enum, value_name = "POLICY")]
    pub(crate) files: Option<FilesChoice>,
    /// With `--files tree`: only paths that fit this pattern; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// With `--files tree`: no path that fits this pattern; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// With `--files tree`: the most that may be taken
    #[arg(long, value_name = "SIZE", value_parser = api::parse_size)]
    pub(crate) max_files: Option<u64>,
    /// With `--files tree`, of a container: all of this volume, too, by its path in the container; may be given several times
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) volume: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NetworkChoice {
    /// Its own; the ports of a kernel are forwarded from 127.0.0.1
    Private,
    /// That of the machine
    Host,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FilesChoice {
    /// What a process has open for writing
    Open,
    /// The workspace too, as far as people work on it
    Workspace,
    /// All of the workspace
    Tree,
    /// No files
    None,
}

/// `all`, `none`, `0,1`, `GPU-5f…,GPU-91…`. What there is, only the daemon knows.
pub(crate) fn gpus(text: &str) -> Result<GpuWish, String> {
    match text {
        "all" => return Ok(GpuWish::All),
        "none" => return Ok(GpuWish::None),
        _ => {}
    }
    let gpus: Vec<String> = text.split(',').map(|gpu| gpu.trim().to_owned()).collect();
    let is_one = |gpu: &String| {
        let index = !gpu.is_empty() && gpu.bytes().all(|byte| byte.is_ascii_digit());
        let uuid = gpu.strip_prefix("GPU-");
        index || uuid.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-'))
    };
    match gpus.iter().find(|gpu| !is_one(gpu)) {
        Some(gpu) => Err(format!("`{gpu}` is neither an index nor a UUID like GPU-…")),
        None => Ok(GpuWish::List { gpus }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_by_index_and_uuid() {
        assert_eq!((gpus("all"), gpus("none")), (Ok(GpuWish::All), Ok(GpuWish::None)));
        let list = vec!["0".to_owned(), "GPU-5f-a".to_owned()];
        assert_eq!(gpus("0, GPU-5f-a"), Ok(GpuWish::List { gpus: list }));
        for text in ["", "0,", "gpu0", "GPU-xyz", "-1", "All", "MIG-1"] {
            assert!(gpus(text).is_err(), "{text}");
        }
    }
}
